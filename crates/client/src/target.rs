//! Targets: where a webhook may be, by its URL and by the address behind it.
//!
//! Whoever makes a subscription chooses a URL that this process then calls, from inside the
//! operator's network. So a URL is judged by its text when it is given, and every address that its
//! name resolves to is judged again for each call: what a name meant yesterday proves nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{Uri, uri::Scheme};

/// How a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Over TLS, to addresses that everybody can reach.
    Public,
    /// In the clear, to this very machine: for development.
    Local,
}

/// The way to a webhook, or why there is none.
pub(crate) fn judge(url: &str) -> Result<(Uri, Way), &'static str> {
    if url.len() > wake::caps::URL_BYTES_MAX {
        return Err("it is too long");
    }
    let uri: Uri = url.parse().map_err(|_| "it is no URL")?;
    let authority = uri.authority().ok_or("it has no host")?;
    if authority.as_str().contains('@') {
        return Err("it has a user name or a password");
    }
    let way = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => Way::Public,
        Some(scheme) if *scheme == Scheme::HTTP => Way::Local,
        _ => return Err("it must begin with https://"),
    };
    let host = authority.host();
    match (literal(host)?, way) {
        (Some(address), way) if allows(way, address) => {}
        (Some(_), Way::Public) => return Err("its address is not a public one"),
        (None, Way::Local) if host.eq_ignore_ascii_case("localhost") => {}
        (None, Way::Public) if !is_local_name(host) => {}
        (None, Way::Public) => return Err("its name is a local one"),
        (_, Way::Local) => return Err("only localhost may be called without TLS; use https://"),
    }
    Ok((uri, way))
}

/// The address that stands in a URL in place of a name.
fn literal(host: &str) -> Result<Option<IpAddr>, &'static str> {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or("its host is malformed")?;
        return inner
            .parse()
            .map(|address| Some(IpAddr::V6(address)))
            .map_err(|_| "its host is malformed");
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok(Some(address.into()));
    }
    // Resolvers read 0x7f.1, 017700000001 and 2130706433 as addresses, too.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let is_hex = last.len() > 2 && last[..2].eq_ignore_ascii_case("0x");
    if last.is_empty() || is_hex || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("its host is a number; write the address as four numbers with dots");
    }
    Ok(None)
}

fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost"
        || [".localhost", ".local", ".internal", ".home.arpa"].iter().any(|end| host.ends_with(end))
}

/// Whether an address may be called this way.
pub(crate) fn allows(way: Way, address: IpAddr) -> bool {
    match (way, address) {
        (Way::Public, IpAddr::V4(address)) => is_public_v4(address),
        (Way::Public, IpAddr::V6(address)) => is_public_v6(address),
        (Way::Local, address) => address.is_loopback(),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_protocol = (a, b, c) == (192, 0, 0) || (a, b, c) == (192, 88, 99);
    let is_benchmark = a == 198 && (b == 18 || b == 19);
    !(a == 0
        || a >= 224
        || is_shared
        || is_protocol
        || is_benchmark
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Addresses of version 4 in disguise: mapped, translated, 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0x2002, high, low, ..] => embedded(high, low),
        // Of what is left, only this eighth is given out; parts of it are for other ends.
        [first, second, ..] => {
            let is_given_out = first & 0xe000 == 0x2000;
            let is_special = first == 0x2001 && (second < 0x200 || second == 0xdb8);
            let is_documentation = first == 0x3fff && second < 0x1000;
            is_given_out && !is_special && !is_documentation
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_places_and_this_machine_may_be_called() {
        for (url, way) in [
            ("https://worker.example/hooks", Way::Public),
            ("https://worker.example:8443/hooks?x=y", Way::Public),
            ("https://93.184.216.34/", Way::Public),
            ("https://[2606:2800:220:1::1]/", Way::Public),
            ("http://localhost:3000/hook", Way::Local),
            ("http://127.0.0.1:3000/hook", Way::Local),
            ("http://127.1.2.3/", Way::Local),
            ("http://[::1]:3000/", Way::Local),
        ] {
            assert_eq!(judge(url).map(|(_, way)| way), Ok(way), "{url}");
        }
    }

    #[test]
    fn no_other_place_may_be_called() {
        for url in [
            "",
            "worker.example",
            "/hook",
            "ftp://worker.example/",
            "http://worker.example/",
            "https://user:pass@worker.example/",
            "https://localhost/",
            "https://LOCALHOST./",
            "https://a.localhost/",
            "https://metadata.google.internal/",
            "https://127.0.0.1/",
            "https://10.0.0.1/",
            "http://10.0.0.1/hook",
            "https://172.16.0.1/",
            "https://192.168.1.1/",
            "https://169.254.169.254/latest/meta-data/",
            "https://100.64.0.1/",
            "https://0.0.0.0/",
            "http://0.0.0.0/",
            "https://198.18.0.1/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "https://2130706433/",
            "http://2130706433/",
            "https://0x7f000001/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:7f00:1::]/",
            "https://[2001::1]/",
            "https://[fe80::1]/",
            "https://[fc00::1]/",
            "https://[2001:db8::1]/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert!(judge(url).is_err(), "{url}");
        }
        assert!(judge(&format!("https://a.example/{}", "x".repeat(3000))).is_err());
    }
}
