//! Tokens: what proves that a report comes from whoever got the wake.
//!
//! A token is made from the wake and a secret, never stored: it is the same again after a restart,
//! and there is nothing to steal from the log. It names the wake by its id, which is never used
//! twice: generations are, if a subscription is deleted and made anew.

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

    /// The token for this wake.
    pub(crate) fn token(&self, id: &SubscriptionId, generation: u64, wake_id: &str) -> String {
        let seal = hmac::sign(&self.0, &message(id, generation, wake_id));
        format!("v2.{generation}.{wake_id}.{}", URL_SAFE_NO_PAD.encode(seal))
    }

    /// The generation and the id of the wake that the token is for, if it was made here for this
    /// subscription.
    pub(crate) fn open<'a>(
        &self,
        id: &SubscriptionId,
        token: &'a str,
    ) -> Result<(u64, &'a str), TokenInvalid> {
        let rest = token.strip_prefix("v2.").ok_or(TokenInvalid)?;
        let (generation, rest) = rest.split_once('.').ok_or(TokenInvalid)?;
        let (wake_id, seal) = rest.rsplit_once('.').ok_or(TokenInvalid)?;
        let generation = generation.parse().map_err(|_| TokenInvalid)?;
        let seal = URL_SAFE_NO_PAD.decode(seal).map_err(|_| TokenInvalid)?;
        // In constant time.
        let message = message(id, generation, wake_id);
        hmac::verify(&self.0, &message, &seal).map_err(|_| TokenInvalid)?;
        Ok((generation, wake_id))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

fn message(id: &SubscriptionId, generation: u64, wake_id: &str) -> Vec<u8> {
    format!("wake token\n{id}\n{generation}\n{wake_id}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_wake_of_one_subscription() {
        let (secret, other) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
        let [a, b] = ["a", "b"].map(|id| id.parse::<SubscriptionId>().unwrap());
        let token = secret.token(&a, 7, "w_1");
        assert_eq!(secret.open(&a, &token), Ok((7, "w_1")));
        assert_ne!(secret.token(&a, 7, "w_2"), token);
        assert_eq!(secret.open(&b, &token), Err(TokenInvalid));
        assert_eq!(other.open(&a, &token), Err(TokenInvalid));
        let forged = [token.replacen('7', "8", 1), token.replacen("w_1", "w_2", 1)];
        let [next, other_wake] = &forged;
        let longer = format!("{token}.x");
        for bad in ["", "v2.7", "v2.7.", "v1.7.x", "v2.x.w_1.y", next, other_wake, &longer] {
            assert_eq!(secret.open(&a, bad), Err(TokenInvalid), "{bad}");
        }
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
