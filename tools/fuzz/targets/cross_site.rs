//! No Host, Origin or Sec-Fetch-Site of another site passes for a program's, or for the server's
//! own.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], Option<&str>, Option<&str>)| {
    let (host, origin, site) = input;
    server::fuzzing::cross_site(host, origin, site);
    // Pages of the server itself, and what is nearly one.
    if let Ok(host) = std::str::from_utf8(host) {
        let own = format!("http://{host}");
        server::fuzzing::cross_site(host.as_bytes(), Some(&own), site);
        server::fuzzing::cross_site(b"localhost:4437", Some(&own), site);
    }
});
