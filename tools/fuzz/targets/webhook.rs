//! Whatever passes for a webhook's URL leads to a public name over TLS, or to this machine.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|url: &str| {
    if let Some((host, is_local)) = client::fuzzing::judge(url) {
        assert!(is_local || !host.is_empty());
        let address: Option<std::net::IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        assert!(address.is_none_or(|address| address.is_loopback() == is_local), "{url}");
    }
});
