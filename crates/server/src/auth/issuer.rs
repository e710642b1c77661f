//! Tokens that a server signs itself: for clients of programs that serve beside it.

use std::{fmt, time::Duration};

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::Serialize;
use sys::{Chance, UnixMs};

use crate::auth::{Access, Client, jwt::Claims, scope::Scope};

/// What tokens of an issuer are for, so that no other token of the same secret is one.
const AUDIENCE: &str = "headwater:issued";

/// Signs tokens, and knows them again. Whoever has the same secret can do both.
pub struct Issuer {
    signing: EncodingKey,
    checking: DecodingKey,
    validation: Validation,
}

#[derive(Serialize)]
struct Issued<'a> {
    sub: &'a str,
    aud: &'a str,
    exp: u64,
    scopes: &'a [Scope],
}

impl Issuer {
    /// Bytes of a secret.
    pub const SECRET_BYTES: usize = 32;

    /// An issuer whose tokens are good for as long as somebody has the secret.
    #[must_use]
    pub fn new(secret: &[u8; Self::SECRET_BYTES]) -> Self {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud"]);
        validation.leeway = 0;
        Self {
            signing: EncodingKey::from_secret(secret),
            checking: DecodingKey::from_secret(secret),
            validation,
        }
    }

    /// One that nobody knows again once it is gone.
    #[must_use]
    pub fn generate(chance: &Chance) -> Self {
        let mut secret = [0; Self::SECRET_BYTES];
        chance.fill(&mut secret);
        Self::new(&secret)
    }

    /// A token for `name`, good for a `life` from `now`, and the second in which it ends.
    ///
    /// # Errors
    /// What cannot be signed, in words.
    pub fn issue(
        &self,
        name: &str,
        scopes: &[Scope],
        now: UnixMs,
        life: Duration,
    ) -> Result<(String, UnixMs), String> {
        let exp = now.plus(life).get() / 1000;
        let claims = Issued { sub: name, aud: AUDIENCE, exp, scopes };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.signing);
        let token = token.map_err(|error| format!("no token can be signed: {error}"))?;
        Ok((token, UnixMs::new(exp.saturating_mul(1000))))
    }

    /// The bearer of a token, if it is one of ours and good now.
    pub(crate) fn verify(&self, token: &str) -> Option<Client> {
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.checking, &self.validation);
        let claims = decoded.ok()?.claims;
        Some(Client::named(claims.sub?, claims.scopes))
    }
}

impl Scope {
    /// A permission to do this to streams of this glob.
    #[must_use]
    pub fn new(glob: wire::Glob, allow: impl Into<Vec<Access>>) -> Self {
        Self { glob, allow: allow.into() }
    }
}

impl fmt::Debug for Issuer {
    /// Hides the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issuer(..)")
    }
}
