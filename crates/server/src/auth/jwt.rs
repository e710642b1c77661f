//! Signed tokens: JWTs that say themselves what their bearer may do.

use std::{fmt, path::PathBuf, time::Duration};

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use crate::auth::{Client, guard::BadAuth, scope::Scope};

/// The shortest secret that nobody can guess.
const SECRET_BYTES_MIN: usize = 32;

/// What a signed token must satisfy. It must also carry `exp`, and `scopes` in the shape of a
/// keys file: `[{"glob": "chats/**", "allow": ["read"]}]`. Its `sub` names the client.
#[derive(Clone, Debug)]
pub struct Jwt {
    /// How it is signed.
    pub algorithm: JwtAlgorithm,
    /// The secret of HS256, or the public key as PEM.
    pub key: PathBuf,
    /// What its `aud` must be, if said.
    pub audience: Option<String>,
    /// What its `iss` must be, if said.
    pub issuer: Option<String>,
    /// How far the clock of its signer may be off: a token is good for this long before its
    /// `nbf` and after its `exp`. In whole seconds; see [`Jwt::LEEWAY_DEFAULT`].
    pub leeway: Duration,
}

impl Jwt {
    /// Enough for clocks that a time server keeps.
    pub const LEEWAY_DEFAULT: Duration = Duration::from_secs(30);
}

/// How a token is signed. A token that says otherwise is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSA PKCS#1 1.5 with SHA-256.
    Rs256,
    /// ECDSA on P-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// A key, and what must hold besides the signature.
pub(crate) struct Verifier {
    key: DecodingKey,
    validation: Validation,
}

#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) sub: Option<String>,
    pub(super) scopes: Vec<Scope>,
}

impl Verifier {
    pub(crate) fn new(settings: &Jwt, key: &[u8]) -> Result<Self, BadAuth> {
        let (algorithm, key) = match settings.algorithm {
            JwtAlgorithm::Hs256 => (Algorithm::HS256, secret(key)?),
            JwtAlgorithm::Rs256 => (Algorithm::RS256, pem(DecodingKey::from_rsa_pem(key))?),
            JwtAlgorithm::Es256 => (Algorithm::ES256, pem(DecodingKey::from_ec_pem(key))?),
            JwtAlgorithm::EdDsa => (Algorithm::EdDSA, pem(DecodingKey::from_ed_pem(key))?),
        };
        let mut validation = Validation::new(algorithm);
        let mut required = vec!["exp"];
        validation.validate_nbf = true;
        validation.leeway = settings.leeway.as_secs();
        validation.validate_aud = settings.audience.is_some();
        if let Some(audience) = &settings.audience {
            validation.set_audience(&[audience]);
            required.push("aud");
        }
        if let Some(issuer) = &settings.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        Ok(Self { key, validation })
    }

    /// The bearer of a token, if it is good now.
    pub(crate) fn verify(&self, token: &str) -> Option<Client> {
        let claims: Claims = jsonwebtoken::decode(token, &self.key, &self.validation).ok()?.claims;
        Some(Client::named(claims.sub.unwrap_or_else(|| "jwt".to_owned()), claims.scopes))
    }
}

fn secret(file: &[u8]) -> Result<DecodingKey, BadAuth> {
    match file.trim_ascii_end() {
        short if short.len() < SECRET_BYTES_MIN => {
            Err(BadAuth::Jwt("the HS256 secret has fewer than 32 bytes; make a longer one".into()))
        }
        secret => Ok(DecodingKey::from_secret(secret)),
    }
}

fn pem(key: Result<DecodingKey, jsonwebtoken::errors::Error>) -> Result<DecodingKey, BadAuth> {
    key.map_err(|error| BadAuth::Jwt(format!("the key file holds no such public key: {error}")))
}

impl fmt::Debug for Verifier {
    /// Hides the key, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({:?})", self.validation.algorithms)
    }
}
