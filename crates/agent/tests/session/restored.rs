//! A log of which an earlier copy was restored, so that streams end before what was read of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use log::{Answer, Chunk, Incarnation, Layer, Log, ReadError};
use wire::{Address, ReadFrom};

use crate::support::{World, key};

/// A log, and the one that is found in its place later.
#[derive(Debug)]
struct Restored {
    before: Arc<dyn Log>,
    after: Arc<dyn Log>,
    is_restored: AtomicBool,
    /// The session is the same one.
    life: Incarnation,
}

impl Layer for Restored {
    fn behind(&self) -> &dyn Log {
        match self.is_restored.load(Ordering::Relaxed) {
            true => &*self.after,
            false => &*self.before,
        }
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            let chunk = self.behind().read(address, from, bytes_max).await?;
            Ok(Chunk { incarnation: self.life, ..chunk })
        })
    }
}

#[tokio::test]
async fn a_session_that_was_restored_to_an_earlier_state_is_read_anew() {
    let (newer, older) = (World::new().await, World::new().await);
    for number in 0..50 {
        newer.say(&format!("m{number}"), 100).await;
        if number < 20 {
            older.say(&format!("m{number}"), 100).await;
        }
    }
    let life = newer.log.head(&newer.address()).await.unwrap().incarnation;
    let log = Arc::new(Restored {
        before: newer.log.clone(),
        after: older.log.clone(),
        is_restored: AtomicBool::new(false),
        life,
    });
    let world = World { sys: newer.sys.clone(), log: log.clone(), path: newer.path.clone() };
    let mut session = world.session();
    assert_eq!(session.catch_up().await.unwrap().messages(), 50);
    log.is_restored.store(true, Ordering::Relaxed);
    assert_eq!(session.catch_up().await.unwrap().messages(), 20, "what is not there is not told");
    assert!(session.entered(key("m19")).await.unwrap().is_some());
    assert!(session.entered(key("m20")).await.unwrap().is_none());
}
