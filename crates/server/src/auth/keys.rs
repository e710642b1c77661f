//! Static keys: tokens that a file knows by their digests.

use std::fmt;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::auth::{Client, guard::BadAuth, scope::Scope};

/// The shortest token that nobody can guess.
const TOKEN_BYTES_MIN: usize = 16;

/// All static keys.
#[derive(Debug, Default)]
pub(crate) struct Keys(Vec<Key>);

/// One key. The token itself is forgotten once its digest is known.
struct Key {
    digest: [u8; 32],
    client: Client,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    token: Option<String>,
    token_sha256: Option<String>,
    scopes: Vec<Scope>,
}

impl Keys {
    pub(crate) fn parse(text: &str) -> Result<Self, BadAuth> {
        // The parser would quote the line it stumbles over, and a token may stand in it.
        let file: File = toml::from_str(text)
            .map_err(|error| BadAuth::Keys(error.message().lines().next().unwrap_or("").into()))?;
        file.key.into_iter().map(Key::try_from).collect::<Result<_, _>>().map(Self)
    }

    /// The bearer of a token. Every key is compared, in the same time whether it fits or not.
    pub(crate) fn find(&self, token: &str) -> Option<Client> {
        let digest = Sha256::digest(token);
        let mut found = None;
        for key in &self.0 {
            if bool::from(key.digest.ct_eq(&digest)) {
                found = Some(&key.client);
            }
        }
        found.cloned()
    }
}

impl TryFrom<Entry> for Key {
    type Error = BadAuth;

    fn try_from(entry: Entry) -> Result<Self, BadAuth> {
        let bad = |why: &str| BadAuth::Keys(format!("key {:?} {why}", entry.name));
        let digest = match (&entry.token, &entry.token_sha256) {
            (Some(token), None) if token.len() < TOKEN_BYTES_MIN => {
                return Err(bad("has a token of fewer than 16 bytes; make a longer one"));
            }
            (Some(token), None) => Sha256::digest(token).into(),
            (None, Some(hex)) => {
                from_hex(hex).ok_or_else(|| bad("has a token_sha256 that is not 64 hex digits"))?
            }
            _ => return Err(bad("needs either token or token_sha256")),
        };
        Ok(Self { digest, client: Client::named(entry.name, entry.scopes) })
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

impl fmt::Debug for Key {
    /// Hides the digest: a weak token could be guessed from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPES: &str = r#"scopes = [{ glob = "**", allow = ["read"] }]"#;

    #[track_caller]
    fn check(key: &str, token: &str, expected: bool) {
        let keys = Keys::parse(&format!("[[key]]\nname = \"k\"\n{key}\n{SCOPES}")).unwrap();
        assert_eq!(keys.find(token).is_some(), expected);
        assert!(!format!("{keys:?}").contains("sesame"));
    }

    #[test]
    fn a_token_is_known_by_itself_or_by_its_digest() {
        check(r#"token = "open sesame, please""#, "open sesame, please", true);
        check(r#"token = "open sesame, please""#, "open sesame, pleasE", false);
        let digest: String =
            Sha256::digest("sesame").iter().map(|byte| format!("{byte:02x}")).collect();
        check(&format!("token_sha256 = {digest:?}"), "sesame", true);
        check(&format!("token_sha256 = {digest:?}"), &digest, false);
    }

    #[test]
    fn a_bad_file_is_refused_without_quoting_it() {
        for key in [
            "",
            r#"token = "short sesame""#,
            r#"token_sha256 = "sesame""#,
            r#"tokn = "open sesame, please""#,
            "token = \"open sesame, please\"\ntoken_sha256 = \"00\"",
            "token = open sesame, please",
        ] {
            let error = Keys::parse(&format!("[[key]]\nname = \"k\"\n{key}\n{SCOPES}"));
            let error = error.unwrap_err().to_string();
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
