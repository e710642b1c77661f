//! What an attacker holds, and what it is answered.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{io::AsyncReadExt as _, net::TcpStream, task::JoinSet};

/// Bytes of the shortest answer that tells its status.
const STATUS_LINE: usize = "HTTP/1.1 200".len();

/// What an attacker holds, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) connections: Vec<TcpStream>,
    /// Those that go on attacking.
    busy: JoinSet<()>,
    answers: Arc<Answers>,
}

/// What those were answered that go on attacking, and whether they are to stop.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    by_status: Mutex<BTreeMap<u16, u64>>,
    is_over: AtomicBool,
}

impl Held {
    /// So many attackers, each at it until this is dropped.
    pub(crate) fn busy<F>(attackers: usize, attack: impl Fn(Arc<Answers>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut held = Self::default();
        for _ in 0..attackers {
            held.busy.spawn(attack(held.answers.clone()));
        }
        held
    }

    pub(crate) fn count(&self) -> usize {
        self.connections.len() + self.busy.len()
    }

    /// How often each status was answered, until now.
    pub(crate) fn answers(&self) -> BTreeMap<u16, u64> {
        self.answers.by_status.lock().unwrap().clone()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answers.is_over.store(true, Ordering::Relaxed);
    }
}

impl Answers {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits for an answer, and counts it. What follows its status is not read.
    pub(crate) async fn note(&self, socket: &mut TcpStream) {
        let mut line = [0; STATUS_LINE];
        if socket.read_exact(&mut line).await.is_ok() {
            let status = std::str::from_utf8(&line).ok().and_then(|line| line.get(9..));
            let status = status.and_then(|status| status.parse().ok()).unwrap_or_default();
            *self.by_status.lock().unwrap().entry(status).or_default() += 1;
        }
    }
}
