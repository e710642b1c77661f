//! Signals: the first one asks for an orderly end, the second one for an end now. A hangup asks for
//! something to be looked at again.

use std::{io, process, sync::Arc};

use sys::Sys;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
};

/// Ends the process at the second signal; tells of the first.
#[derive(Debug)]
pub(super) struct Signals {
    first: Arc<Notify>,
}

/// Signals that ask a server to end.
struct Listening {
    terminate: Signal,
    interrupt: Signal,
}

/// Tells of every `SIGHUP`.
#[derive(Debug)]
pub(super) struct Hangups(Signal);

impl Hangups {
    /// Takes `SIGHUP` from now on.
    pub(super) fn listen() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Waits for the next one; false if there will be none.
    pub(super) async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

impl Signals {
    /// Takes `SIGTERM` and `SIGINT` from now on.
    pub(super) fn listen(sys: &Sys) -> io::Result<Self> {
        let mut listening = Listening {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        let first = Arc::new(Notify::new());
        let told = first.clone();
        sys.spawn.task("signals", async move {
            listening.next().await;
            told.notify_one();
            listening.next().await;
            process::exit(1);
        });
        Ok(Self { first })
    }

    /// Waits for the first signal.
    pub(super) async fn first(self) {
        self.first.notified().await;
    }
}

impl Listening {
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
