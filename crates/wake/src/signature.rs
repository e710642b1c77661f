//! Signatures: how a webhook tells that a wake comes from whom it trusts. The inverse of
//! [`crate::Keys::sign`].

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ED25519, UnparsedPublicKey};
use sys::UnixMs;
use thiserror::Error;

use crate::{
    PublicKey,
    caps::{KID_BYTES_MAX, SIGNATURE_BYTES_MAX},
};

/// Whether the body is what one of `keys` signed, within `tolerance` of now. Look at nothing in
/// the body before this says so.
///
/// ```
/// use sys::{Chance, Clock};
/// use wake::{BadSignature, Keys, caps::SIGNATURE_TOLERANCE, verify};
///
/// let (keys, now) = (Keys::generate(&Chance::real()), Clock::real().unix_ms());
/// let signature = keys.sign(b"body", now);
/// let published: Vec<_> = keys.published(now).cloned().collect();
/// assert_eq!(verify(&signature, b"body", &published, now, SIGNATURE_TOLERANCE), Ok(()));
/// let forged = verify(&signature, b"other", &published, now, SIGNATURE_TOLERANCE);
/// assert_eq!(forged, Err(BadSignature::Wrong));
/// ```
///
/// # Errors
/// [`BadSignature`] says what was wrong.
pub fn verify(
    header: &str,
    body: &[u8],
    keys: &[PublicKey],
    now: UnixMs,
    tolerance: Duration,
) -> Result<(), BadSignature> {
    let signature = Signature::parse(header)?;
    signature.check_time(now, tolerance)?;
    signature.check_body(body, keys)
}

/// A `Webhook-Signature` that was read, and not believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature<'a> {
    /// As it stands in the header: these very digits are signed.
    time: &'a str,
    seconds: u64,
    kid: &'a str,
    seal: Vec<u8>,
}

/// Why a signature proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadSignature {
    /// The header cannot be read.
    #[error("Webhook-Signature must be t=…,kid=…,ed25519=…, but {0}")]
    Malformed(&'static str),
    /// It was made too long ago; whoever sends it may have overheard it.
    #[error("the signature is too old; sign again, or set the clock")]
    TooOld,
    /// It will be made one day.
    #[error("the signature is from the future; set the clock")]
    FromTheFuture,
    /// The key is not one of those published.
    #[error("no published key is called {0}")]
    UnknownKey(String),
    /// Another key signed, or another body was signed.
    #[error("the signature is not one of this body by this key")]
    Wrong,
}

impl<'a> Signature<'a> {
    /// Reads a header. Parts may stand in any order; those it does not know are passed over.
    ///
    /// # Errors
    /// [`BadSignature::Malformed`].
    pub fn parse(header: &'a str) -> Result<Self, BadSignature> {
        use BadSignature::Malformed;
        if header.len() > SIGNATURE_BYTES_MAX {
            return Err(Malformed("it is too long"));
        }
        let (mut time, mut kid, mut seal) = (None, None, None);
        for part in header.split(',') {
            let (name, value) = part.trim().split_once('=').ok_or(Malformed("a part has no ="))?;
            let place = match name {
                "t" => &mut time,
                "kid" => &mut kid,
                "ed25519" => &mut seal,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(Malformed("a part stands twice"));
            }
        }
        let time = time.ok_or(Malformed("t is missing"))?;
        let kid = kid.ok_or(Malformed("kid is missing"))?;
        let seal = seal.ok_or(Malformed("ed25519 is missing"))?;
        let is_number = !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = time.parse().ok().filter(|_| is_number);
        let seconds = seconds.ok_or(Malformed("t is no number of seconds"))?;
        let is_name =
            (1..=KID_BYTES_MAX).contains(&kid.len()) && kid.bytes().all(|b| b.is_ascii_graphic());
        if !is_name {
            return Err(Malformed("kid is no name of a key"));
        }
        let seal = URL_SAFE_NO_PAD.decode(seal);
        let seal = seal.map_err(|_| Malformed("ed25519 is not base64url without padding"))?;
        Ok(Self { time, seconds, kid, seal })
    }

    /// The name of the key that signed, as it says.
    #[must_use]
    pub fn kid(&self) -> &str {
        self.kid
    }

    /// Whether it says that it was made within `tolerance` of now.
    ///
    /// # Errors
    /// [`BadSignature::TooOld`] or [`BadSignature::FromTheFuture`].
    pub fn check_time(&self, now: UnixMs, tolerance: Duration) -> Result<(), BadSignature> {
        // The header has whole seconds: what was made in this second is not from the future.
        let now = now.get() / 1000;
        if now.saturating_sub(self.seconds) > tolerance.as_secs() {
            return Err(BadSignature::TooOld);
        }
        if self.seconds.saturating_sub(now) > tolerance.as_secs() {
            return Err(BadSignature::FromTheFuture);
        }
        Ok(())
    }

    /// Whether the key of its name, one of `keys`, signed this time and body.
    ///
    /// # Errors
    /// [`BadSignature::UnknownKey`] or [`BadSignature::Wrong`].
    pub fn check_body(&self, body: &[u8], keys: &[PublicKey]) -> Result<(), BadSignature> {
        let is_it = |key: &&PublicKey| key.kid == self.kid && key.is_ed25519();
        let Some(key) = keys.iter().find(is_it) else {
            return Err(BadSignature::UnknownKey(self.kid.to_owned()));
        };
        let signed = [self.time.as_bytes(), b".", body].concat();
        let public = URL_SAFE_NO_PAD.decode(&key.x).map_err(|_| BadSignature::Wrong)?;
        let public = UnparsedPublicKey::new(&ED25519, public);
        public.verify(&signed, &self.seal).map_err(|_| BadSignature::Wrong)
    }
}

impl PublicKey {
    /// Lists of other servers may hold keys for other ends.
    fn is_ed25519(&self) -> bool {
        self.kty == "OKP" && self.crv == "Ed25519"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sys::Chance;

    use super::*;
    use crate::{
        Keys,
        caps::{RETIRED_KEY_LIFE, SIGNATURE_TOLERANCE},
    };

    const NOW: UnixMs = UnixMs::new(1_700_000_000_500);

    fn check(keys: &Keys, header: &str, body: &[u8], now: UnixMs) -> Result<(), BadSignature> {
        let published: Vec<_> = keys.published(now).cloned().collect();
        verify(header, body, &published, now, SIGNATURE_TOLERANCE)
    }

    fn ago(seconds: u64) -> UnixMs {
        UnixMs::new(NOW.get() - seconds * 1000)
    }

    #[test]
    fn what_was_signed_is_believed_and_nothing_else() {
        let keys = Keys::generate(&Chance::seeded(1));
        let header = keys.sign(b"body", NOW);
        assert_eq!(check(&keys, &header, b"body", NOW), Ok(()));
        assert_eq!(check(&keys, &header, b"bodY", NOW), Err(BadSignature::Wrong));
        assert_eq!(check(&keys, &header, b"", NOW), Err(BadSignature::Wrong));
        let later = header.replacen("t=1700000000", "t=1700000001", 1);
        assert_eq!(check(&keys, &later, b"body", NOW), Err(BadSignature::Wrong));
        let padded = header.replacen("t=1", "t=01", 1);
        assert_eq!(check(&keys, &padded, b"body", NOW), Err(BadSignature::Wrong));
        let (rest, seal) = header.split_once(",ed25519=").unwrap();
        assert_eq!(check(&keys, &format!("ed25519={seal},v=2, {rest}"), b"body", NOW), Ok(()));
        let short = format!("{rest},ed25519={}", &seal[..64]);
        assert_eq!(check(&keys, &short, b"body", NOW), Err(BadSignature::Wrong));
    }

    #[test]
    fn a_signature_is_believed_for_five_minutes() {
        let keys = Keys::generate(&Chance::seeded(1));
        for (seconds, expect) in [(0, Ok(())), (300, Ok(())), (301, Err(BadSignature::TooOld))] {
            assert_eq!(check(&keys, &keys.sign(b"body", ago(seconds)), b"body", NOW), expect);
        }
        let ahead = |seconds| NOW.plus(Duration::from_secs(seconds));
        assert_eq!(check(&keys, &keys.sign(b"body", ahead(300)), b"body", NOW), Ok(()));
        let header = keys.sign(b"body", ahead(301));
        assert_eq!(check(&keys, &header, b"body", NOW), Err(BadSignature::FromTheFuture));
        let forever = header.replacen("t=1700000301", &format!("t={}", u64::MAX), 1);
        assert_eq!(check(&keys, &forever, b"body", NOW), Err(BadSignature::FromTheFuture));
    }

    #[test]
    fn a_key_that_was_replaced_is_believed_while_it_is_published() {
        let chance = Chance::seeded(1);
        let old = Keys::generate(&chance);
        let new = old.rotated(&chance, NOW).unwrap();
        assert_eq!(check(&new, &old.sign(b"body", NOW), b"body", NOW), Ok(()));
        assert_eq!(check(&new, &new.sign(b"body", NOW), b"body", NOW), Ok(()));
        let unknown = |keys: &Keys| Err(BadSignature::UnknownKey(keys.active_kid().to_owned()));
        assert_eq!(check(&old, &new.sign(b"body", NOW), b"body", NOW), unknown(&new));
        let later = NOW.plus(RETIRED_KEY_LIFE);
        assert_eq!(check(&new, &old.sign(b"body", later), b"body", later), unknown(&old));
        let mut foreign: Vec<_> = new.published(NOW).cloned().collect();
        foreign[0].crv = "X25519".to_owned();
        let header = new.sign(b"body", NOW);
        let verified = verify(&header, b"body", &foreign, NOW, SIGNATURE_TOLERANCE);
        assert_eq!(verified, unknown(&new));
    }

    #[test]
    fn what_is_no_signature_is_told_so() {
        for header in [
            "",
            "t",
            "t=1",
            "t=1,kid=a",
            "t=1,kid=a,ed25519",
            "t=1,kid=a,ed25519=*",
            "t=1,kid=a,ed25519=AA==",
            "t=1,t=1,kid=a,ed25519=AA",
            "t=,kid=a,ed25519=AA",
            "t=+1,kid=a,ed25519=AA",
            "t=-1,kid=a,ed25519=AA",
            "t=18446744073709551616,kid=a,ed25519=AA",
            "t=1,kid=,ed25519=AA",
            "t=1,kid=a b,ed25519=AA",
            "T=1,kid=a,ed25519=AA",
            "t=1;kid=a;ed25519=AA",
            &format!("t=1,kid={},ed25519=AA", "k".repeat(257)),
            &format!("t=1,kid=a,ed25519=AA,x={}", "x".repeat(2000)),
        ] {
            let parsed = Signature::parse(header);
            assert!(matches!(parsed, Err(BadSignature::Malformed(_))), "{header:?}: {parsed:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_is_believed_by_chance(
            header in prop_oneof![
                any::<String>(),
                "t=[0-9]{0,21},kid=[a-z,=]{0,4},ed25519=[A-Za-z0-9_=-]{0,90}",
            ],
            body in any::<Vec<u8>>(),
        ) {
            let keys = Keys::generate(&Chance::seeded(1));
            let published: Vec<_> = keys.published(NOW).cloned().collect();
            prop_assert!(verify(&header, &body, &published, NOW, SIGNATURE_TOLERANCE).is_err());
        }

        #[test]
        fn every_body_can_be_signed_and_verified(body in any::<Vec<u8>>(), seed in any::<u64>()) {
            let keys = Keys::generate(&Chance::seeded(seed));
            assert_eq!(check(&keys, &keys.sign(&body, NOW), &body, NOW), Ok(()));
        }
    }
}
