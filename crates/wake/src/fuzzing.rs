//! What the fuzz target may reach.

use crate::{Secret, SubscriptionId, book::Book, subscription::Subscription};

/// A token that was made here.
pub fn token(generation: u64) -> String {
    secret().token(&id(), generation, "w")
}

/// The generation that a token opens.
pub fn open(token: &str) -> Option<u64> {
    secret().open(&id(), token).ok().map(|(generation, _)| generation)
}

/// Reads bytes as an entry of the diary, and writes and reads what it comes to once more.
///
/// # Panics
/// If it is not the same then.
pub fn diary(bytes: &[u8]) {
    let Ok(entry) = serde_json::from_slice(bytes) else { return };
    let mut book = Book::default();
    book.apply(&entry);
    for (_, subscription) in book.iter() {
        let text = serde_json::to_string(subscription).expect("it was read from such text");
        let again: Subscription = serde_json::from_str(&text).expect("what was written is read");
        // Tails are not stored, so that only the texts can be compared.
        assert_eq!(serde_json::to_string(&again).ok().as_deref(), Some(&*text));
    }
}

fn secret() -> Secret {
    Secret::new(&[7; 32])
}

fn id() -> SubscriptionId {
    "s".parse().expect("a plain id")
}
