//! Crews: threads that keep the tasks they are given.

use std::{
    future::Future,
    io,
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::runtime::{Builder, Runtime};

/// Calls of one member that may block at a time; more wait.
const BLOCKING_MAX: usize = 128;

/// Threads that share work by turns: a task stays with the thread it was started on, with the
/// sockets and timers it makes there. For many tasks that are all alike this costs less than
/// threads that take work from each other, since nobody is woken to look for some.
///
/// Work that is under way when the crew is dropped is dropped where it stands.
#[derive(Debug)]
pub struct Crew {
    /// Nobody in a simulation: there the one runtime does everything.
    members: Vec<Runtime>,
    next: AtomicUsize,
}

impl Crew {
    pub(crate) fn real(name: &'static str, threads: NonZeroUsize) -> io::Result<Self> {
        let member = |_| {
            Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(BLOCKING_MAX)
                .thread_name(name)
                .enable_all()
                .build()
        };
        let members = (0..threads.get()).map(member).collect::<io::Result<_>>()?;
        Ok(Self { members, next: AtomicUsize::new(0) })
    }

    #[cfg(feature = "sim")]
    pub(crate) fn simulated() -> Self {
        Self { members: Vec::new(), next: AtomicUsize::new(0) }
    }

    /// Runs `future` on the thread whose turn it is.
    ///
    /// # Panics
    /// In a simulation outside a runtime.
    pub fn task(&self, future: impl Future<Output = ()> + Send + 'static) {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        match turn.checked_rem(self.members.len()) {
            Some(index) => drop(self.members[index].spawn(future)),
            None => drop(tokio::spawn(future)),
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // To wait for threads is not allowed inside a runtime, and nobody needs to.
        self.members.drain(..).for_each(Runtime::shutdown_background);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, thread};

    use tokio::sync::mpsc;

    use super::*;
    use crate::Spawn;

    #[test]
    fn members_take_turns() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let crew = Spawn::real().crew("crew", NonZeroUsize::new(3).unwrap()).unwrap();
            let (send, mut receive) = mpsc::channel(30);
            for _ in 0..30 {
                let send = send.clone();
                crew.task(async move { send.send(thread::current().id()).await.unwrap() });
            }
            drop(send);
            let mut seen = Vec::new();
            while let Some(id) = receive.recv().await {
                seen.push(format!("{id:?}"));
            }
            assert_eq!(seen.len(), 30);
            assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 3);
        });
    }
}
