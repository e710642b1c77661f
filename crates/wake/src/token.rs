//! Tokens: what proves that a report comes from whoever got the wake.
//!
//! A token is made from the wake and a secret, never stored: it is the same again after a restart,
//! and there is nothing to steal from the log.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::hmac;

use crate::{SubscriptionId, TokenInvalid};

/// Makes tokens and recognises them.
#[derive(Clone)]
pub(crate) struct Secret(hmac::Key);

impl Secret {
    /// From 32 random bytes. Another secret makes all tokens under way worthless.
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The token for the wake of this generation.
    pub(crate) fn token(&self, id: &SubscriptionId, generation: u64) -> String {
        let seal = hmac::sign(&self.0, &message(id, generation));
        format!("v1.{generation}.{}", URL_SAFE_NO_PAD.encode(seal))
    }

    /// The generation that the token is for, if it was made here for this subscription.
    pub(crate) fn open(&self, id: &SubscriptionId, token: &str) -> Result<u64, TokenInvalid> {
        let mut parts = token.split('.');
        let (Some("v1"), Some(generation), Some(seal), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenInvalid);
        };
        let generation = generation.parse().map_err(|_| TokenInvalid)?;
        let seal = URL_SAFE_NO_PAD.decode(seal).map_err(|_| TokenInvalid)?;
        // In constant time.
        hmac::verify(&self.0, &message(id, generation), &seal).map_err(|_| TokenInvalid)?;
        Ok(generation)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

fn message(id: &SubscriptionId, generation: u64) -> Vec<u8> {
    format!("wake token\n{id}\n{generation}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_wake_of_one_subscription() {
        let (secret, other) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
        let [a, b] = ["a", "b"].map(|id| id.parse::<SubscriptionId>().unwrap());
        let token = secret.token(&a, 7);
        assert_eq!(secret.open(&a, &token), Ok(7));
        assert_eq!(secret.open(&b, &token), Err(TokenInvalid));
        assert_eq!(other.open(&a, &token), Err(TokenInvalid));
        let forged = token.replacen('7', "8", 1);
        for bad in ["", "v1.7", "v1.7.", "v2.7.x", "v1.x.y", &forged, &format!("{token}.x")] {
            assert_eq!(secret.open(&a, bad), Err(TokenInvalid), "{bad}");
        }
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
