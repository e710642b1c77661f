//! Keys: what webhooks are signed with, and what tokens are made with.
//!
//! They are no log data: whoever opens an engine brings them, from a file or from a vault.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sys::{Chance, UnixMs};
use thiserror::Error;

use crate::{
    Secret,
    caps::{KEYS_MAX, RETIRED_KEY_LIFE},
};

/// The keys of one engine. The newest signs; those before it are still published for a while.
pub struct Keys {
    stored: Stored,
    signing: Vec<SigningKey>,
    secret: Secret,
}

/// A public key, as a JSON Web Key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKey {
    pub(crate) kty: String,
    pub(crate) crv: String,
    /// Names the key.
    pub kid: String,
    r#use: String,
    alg: String,
    pub(crate) x: String,
}

/// Text that holds no keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the keys cannot be read: {0}")]
pub struct BadKeys(String);

/// Keys are replaced faster than they can be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{KEYS_MAX} keys are published already; wait until receivers need the oldest no more")]
pub struct TooManyKeys;

/// As they stand in a file.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    /// 32 bytes in base64url.
    token_secret: String,
    /// Newest first.
    signing: Vec<StoredKey>,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredKey {
    /// 32 bytes in base64url.
    seed: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retired_at: Option<u64>,
}

struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
    retired_at: Option<UnixMs>,
}

impl Keys {
    /// New ones.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn generate(chance: &Chance) -> Self {
        let signing = vec![StoredKey { seed: random(chance), retired_at: None }];
        let stored = Stored { token_secret: random(chance), signing };
        Self::load(stored).expect("32 random bytes make a key")
    }

    /// Those that [`Keys::to_text`] wrote.
    ///
    /// # Errors
    /// [`BadKeys`] if the text holds none.
    pub fn from_text(text: &str) -> Result<Self, BadKeys> {
        let stored = serde_json::from_str(text).map_err(|error| BadKeys(error.to_string()))?;
        Self::load(stored)
    }

    /// Secret text for a file that nobody else can read.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(&self.stored).unwrap_or_default()
    }

    /// The same keys with another one that signs from now on. The last one is published until
    /// whatever it signed is too old to be believed.
    ///
    /// # Errors
    /// [`TooManyKeys`] if too many of the last ones are still published.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn rotated(&self, chance: &Chance, now: UnixMs) -> Result<Self, TooManyKeys> {
        let mut stored = self.stored.clone();
        stored.signing.retain(|key| is_published(key.retired_at.map(UnixMs::new), now));
        if stored.signing.len() >= KEYS_MAX {
            return Err(TooManyKeys);
        }
        if let Some(last) = stored.signing.first_mut() {
            last.retired_at = Some(now.get());
        }
        stored.signing.insert(0, StoredKey { seed: random(chance), retired_at: None });
        Ok(Self::load(stored).expect("32 random bytes make a key"))
    }

    /// The keys that receivers may verify with; the one that signs stands first.
    pub fn published(&self, now: UnixMs) -> impl Iterator<Item = &PublicKey> {
        self.terms(now).map(|(key, _)| key)
    }

    /// The same, and until when each is published; none for the one that signs.
    pub fn terms(&self, now: UnixMs) -> impl Iterator<Item = (&PublicKey, Option<UnixMs>)> {
        let published = self.signing.iter().filter(move |key| is_published(key.retired_at, now));
        published.map(|key| (&key.public, key.retired_at.map(|at| at.plus(RETIRED_KEY_LIFE))))
    }

    /// The name of the key that signs.
    #[must_use]
    pub fn active_kid(&self) -> &str {
        &self.signing[0].public.kid
    }

    /// The `Webhook-Signature` of a body that is sent now.
    #[must_use]
    pub fn sign(&self, body: &[u8], now: UnixMs) -> String {
        let key = &self.signing[0];
        let seconds = now.get() / 1000;
        let signed = [format!("{seconds}.").as_bytes(), body].concat();
        let signature = URL_SAFE_NO_PAD.encode(key.pair.sign(&signed));
        format!("t={seconds},kid={},ed25519={signature}", key.public.kid)
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    fn load(stored: Stored) -> Result<Self, BadKeys> {
        let signing: Vec<_> =
            stored.signing.iter().map(SigningKey::load).collect::<Result<_, _>>()?;
        if signing.is_empty() {
            return Err(BadKeys("there is no signing key".to_owned()));
        }
        let secret = Secret::new(&bytes(&stored.token_secret)?);
        Ok(Self { stored, signing, secret })
    }
}

/// The keys that count now. Others may take their place while an engine runs: what is under way
/// goes on with those it began with.
#[derive(Debug)]
pub(crate) struct Keyring {
    /// Held for the moment of a look, never across an await.
    keys: Mutex<Arc<Keys>>,
}

impl Keyring {
    pub(crate) fn new(keys: Arc<Keys>) -> Self {
        Self { keys: Mutex::new(keys) }
    }

    pub(crate) fn current(&self) -> Arc<Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, keys: Arc<Keys>) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}

impl SigningKey {
    fn load(stored: &StoredKey) -> Result<Self, BadKeys> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&bytes(&stored.seed)?)
            .map_err(|error| BadKeys(error.to_string()))?;
        let public = PublicKey::new(pair.public_key().as_ref());
        Ok(Self { pair, public, retired_at: stored.retired_at.map(UnixMs::new) })
    }
}

impl PublicKey {
    fn new(bytes: &[u8]) -> Self {
        let x = URL_SAFE_NO_PAD.encode(bytes);
        // The thumbprint of RFC 7638: the members in this order, and nothing else.
        let thumbprint = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        let kid = format!("ds_{}", URL_SAFE_NO_PAD.encode(Sha256::digest(thumbprint)));
        let [kty, crv, r#use, alg] = ["OKP", "Ed25519", "sig", "EdDSA"].map(str::to_owned);
        Self { kty, crv, kid, r#use, alg, x }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("active", &self.active_kid()).finish_non_exhaustive()
    }
}

fn is_published(retired_at: Option<UnixMs>, now: UnixMs) -> bool {
    retired_at.is_none_or(|at| now.since(at) < RETIRED_KEY_LIFE)
}

fn random(chance: &Chance) -> String {
    let mut bytes = [0; 32];
    chance.fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn bytes(text: &str) -> Result<[u8; 32], BadKeys> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| BadKeys(error.to_string()))?;
    bytes.try_into().map_err(|_| BadKeys("a key has not 32 bytes".to_owned()))
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    const NOW: UnixMs = UnixMs::new(1_700_000_000_000);

    fn verifies(keys: &Keys, signature: &str, body: &[u8], now: UnixMs) -> bool {
        let mut parts = signature.split(',').map(|part| part.split_once('=').unwrap().1);
        let [t, kid, seal] = std::array::from_fn(|_| parts.next().unwrap());
        let Some(key) = keys.published(now).find(|key| key.kid == kid) else { return false };
        let public = UnparsedPublicKey::new(&ED25519, URL_SAFE_NO_PAD.decode(&key.x).unwrap());
        let signed = [t.as_bytes(), b".", body].concat();
        public.verify(&signed, &URL_SAFE_NO_PAD.decode(seal).unwrap()).is_ok()
    }

    #[test]
    fn what_was_signed_is_believed_through_a_rotation_and_a_restart() {
        let chance = Chance::seeded(1);
        let old = Keys::generate(&chance);
        let signature = old.sign(b"body", NOW);
        assert!(signature.starts_with("t=1700000000,kid=ds_"));
        let new = Keys::from_text(&old.rotated(&chance, NOW).unwrap().to_text()).unwrap();
        assert_ne!(new.active_kid(), old.active_kid());
        assert!(verifies(&new, &signature, b"body", NOW));
        assert!(!verifies(&new, &signature, b"other", NOW));
        let later = NOW.plus(RETIRED_KEY_LIFE);
        assert!(!verifies(&new, &signature, b"body", later));
        assert_eq!(new.rotated(&chance, later).unwrap().published(later).count(), 2);
        let until: Vec<_> = new.terms(NOW).map(|(_, until)| until).collect();
        assert_eq!(until, [None, Some(later)]);
    }

    #[test]
    fn keys_are_not_replaced_faster_than_forgotten() {
        let chance = Chance::seeded(1);
        let mut keys = Keys::generate(&chance);
        for _ in 1..KEYS_MAX {
            keys = keys.rotated(&chance, NOW).unwrap();
        }
        assert_eq!(keys.rotated(&chance, NOW).unwrap_err(), TooManyKeys);
        let later = NOW.plus(RETIRED_KEY_LIFE);
        assert_eq!(keys.rotated(&chance, later).unwrap().published(later).count(), 2);
    }

    #[test]
    fn bad_text_is_refused_and_secrets_are_not_shown() {
        let keys = Keys::generate(&Chance::seeded(1));
        assert!(!format!("{keys:?}").contains(&keys.stored.token_secret));
        for text in ["", "{}", r#"{"token_secret":"AA","signing":[]}"#] {
            assert!(Keys::from_text(text).is_err(), "{text}");
        }
    }
}
