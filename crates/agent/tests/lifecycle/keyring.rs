//! Keys that are published, remembered and replaced.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use agent::lifecycle::{KeyRing, KeySource, NotVerified};
use log::Unavailable;
use parking_lot::Mutex;
use sys::{Chance, Clock};
use wake::{Answer, BadSignature, Keys, PublicKey};

use crate::support::{World, simulate};

const BODY: &str = r#"{"subscription_id":"s","wake_id":"w","generation":1,"streams":[],
    "callback_url":"https://a.example","callback_token":"t"}"#;

/// Publishes keys, or cannot; counts who looks.
#[derive(Clone, Debug)]
struct Board {
    clock: Clock,
    keys: Arc<Mutex<Option<Arc<Keys>>>>,
    looks: Arc<AtomicU32>,
}

impl KeySource for Board {
    fn published(&self) -> Answer<'_, Result<Vec<PublicKey>, Unavailable>> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            self.clock.sleep(Duration::from_millis(100)).await;
            let keys = self.keys.lock().clone().ok_or(Unavailable::Overloaded)?;
            Ok(keys.published(self.clock.unix_ms()).cloned().collect())
        })
    }
}

impl Board {
    fn new(world: &World, keys: Keys) -> (Self, KeyRing) {
        let keys = Arc::new(Mutex::new(Some(Arc::new(keys))));
        let board = Self { clock: world.sys.clock.clone(), keys, looks: Arc::default() };
        let ring = KeyRing::new(&world.sys, board.clone());
        (board, ring)
    }

    fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }
}

#[test]
fn keys_are_looked_at_once_in_five_minutes() {
    simulate(|world| async move {
        let signer = Keys::generate(&Chance::seeded(1));
        let (board, ring) = Board::new(&world, Keys::from_text(&signer.to_text()).unwrap());
        let sign = || signer.sign(BODY.as_bytes(), world.sys.clock.unix_ms());
        let header = sign();
        let opened =
            futures_util::future::join_all((0..20).map(|_| ring.open(&header, BODY.as_bytes())));
        assert!(opened.await.iter().all(Result::is_ok));
        assert_eq!(board.looks(), 1, "those who come together look together");
        world.pass(Duration::from_secs(250)).await;
        ring.open(&sign(), BODY.as_bytes()).await.unwrap();
        assert_eq!(board.looks(), 1);
        world.pass(Duration::from_secs(60)).await;
        ring.open(&sign(), BODY.as_bytes()).await.unwrap();
        assert_eq!(board.looks(), 2);
    });
}

#[test]
fn a_new_key_is_looked_for_and_made_up_ones_do_not_hurry_us() {
    simulate(|world| async move {
        let chance = Chance::seeded(1);
        let old = Keys::generate(&chance);
        let new = old.rotated(&chance, world.sys.clock.unix_ms()).unwrap();
        let stranger = Keys::generate(&chance);
        let old_signer = Keys::from_text(&old.to_text()).unwrap();
        let (board, ring) = Board::new(&world, old);
        let forged = || stranger.sign(BODY.as_bytes(), world.sys.clock.unix_ms());
        for _ in 0..1000 {
            let refused = ring.open(&forged(), BODY.as_bytes()).await.unwrap_err();
            assert!(matches!(refused, NotVerified::Signature(BadSignature::UnknownKey(_))));
        }
        assert_eq!(board.looks(), 1);

        let fresh = new.sign(BODY.as_bytes(), world.sys.clock.unix_ms());
        *board.keys.lock() = Some(Arc::new(new));
        let known = old_signer.sign(BODY.as_bytes(), world.sys.clock.unix_ms());
        ring.open(&known, BODY.as_bytes()).await.unwrap();
        ring.open(&fresh, BODY.as_bytes()).await.unwrap_err();
        world.pass(Duration::from_secs(10)).await;
        ring.open(&fresh, BODY.as_bytes()).await.unwrap();
        assert_eq!(board.looks(), 2);
    });
}

#[test]
fn what_proves_nothing_is_refused_without_a_look() {
    simulate(|world| async move {
        let keys = Keys::generate(&Chance::seeded(1));
        let old = keys.sign(BODY.as_bytes(), world.sys.clock.unix_ms());
        let (board, ring) = Board::new(&world, Keys::from_text(&keys.to_text()).unwrap());
        world.pass(Duration::from_secs(301)).await;
        let replayed = ring.open(&old, BODY.as_bytes()).await.unwrap_err();
        assert_eq!(replayed, NotVerified::Signature(BadSignature::TooOld));
        let malformed = ring.open("hello", BODY.as_bytes()).await.unwrap_err();
        assert!(matches!(malformed, NotVerified::Signature(BadSignature::Malformed(_))));
        assert_eq!(board.looks(), 0);
        let no_wake = keys.sign(b"{}", world.sys.clock.unix_ms());
        let refused = ring.open(&no_wake, b"{}").await.unwrap_err();
        assert!(matches!(refused, NotVerified::Notice(_)));
        let tampered = ring.open(&no_wake, BODY.as_bytes()).await.unwrap_err();
        assert_eq!(tampered, NotVerified::Signature(BadSignature::Wrong));
    });
}

#[test]
fn without_keys_nothing_is_believed() {
    simulate(|world| async move {
        let signer = Keys::generate(&Chance::seeded(1));
        let (board, ring) = Board::new(&world, Keys::from_text(&signer.to_text()).unwrap());
        let keys = board.keys.lock().take();
        let sign = || signer.sign(BODY.as_bytes(), world.sys.clock.unix_ms());
        for _ in 0..10 {
            let refused = ring.open(&sign(), BODY.as_bytes()).await.unwrap_err();
            assert_eq!(refused, NotVerified::NoKeys);
        }
        assert_eq!(board.looks(), 1);
        *board.keys.lock() = keys;
        world.pass(Duration::from_secs(10)).await;
        ring.open(&sign(), BODY.as_bytes()).await.unwrap();
        board.keys.lock().take();
        world.pass(Duration::from_secs(300)).await;
        let refused = ring.open(&sign(), BODY.as_bytes()).await.unwrap_err();
        assert_eq!(refused, NotVerified::NoKeys, "keys are not believed for ever");
    });
}
