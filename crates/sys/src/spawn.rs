//! Spawn: tasks, owners on a thread of their own, and blocking calls.

use std::{
    any::Any,
    fmt,
    future::Future,
    io,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::Pin,
    task::{Context, Poll},
    thread,
};

use futures_util::future::{AbortHandle, FutureExt, abortable};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{Crew, owner};

/// Starts work that runs on its own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Spawn {
    mode: Mode,
}

/// Work that was started. Dropping it lets the work go on, unwatched.
#[derive(Debug)]
pub struct Task {
    abort: AbortHandle,
    /// Says how the work ended. A sender dropped without a word means its runtime shut down.
    ended: oneshot::Receiver<Ended>,
    name: &'static str,
}

/// The result of a blocking call, once it returned. A panic of the call goes on where it is
/// awaited.
///
/// It never resolves if the runtime shut down before the call began.
#[must_use = "await the result"]
pub struct Blocking<T> {
    call: Call<T>,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Real,
    #[cfg(feature = "sim")]
    Simulated,
}

enum Call<T> {
    Running(JoinHandle<T>),
    /// The call has not run yet; `None` once it has.
    #[cfg(feature = "sim")]
    Inline(Option<Box<dyn FnOnce() -> T + Send>>),
}

/// How work ended: it returned or was aborted, or it panicked with a payload.
type Ended = Result<(), Box<dyn Any + Send>>;

impl Spawn {
    /// Tasks on the current runtime, owners on threads of their own.
    #[must_use]
    pub const fn real() -> Self {
        Self { mode: Mode::Real }
    }

    /// Everything on the current single-threaded runtime, so that one seed gives one order.
    #[cfg(feature = "sim")]
    #[must_use]
    pub const fn simulated() -> Self {
        Self { mode: Mode::Simulated }
    }

    /// Runs `future` on the current runtime. `name` says what it is for.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn task(
        &self,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        let (task, run) = Task::watch(name, future);
        tokio::spawn(run);
        task
    }

    /// Runs `future` on a thread of its own called `name`, where it may block.
    ///
    /// It may wait for channels, locks and the clock, and goes on after the runtime that it was
    /// started in; it can neither start tasks nor use sockets of one.
    ///
    /// # Panics
    /// If the operating system refuses another thread.
    pub fn owner(
        &self,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> Task {
        match self.mode {
            Mode::Real => spawn_on_thread(name, future),
            #[cfg(feature = "sim")]
            Mode::Simulated => self.task(name, future),
        }
    }

    /// Threads, called `name`, that keep the tasks they are given.
    ///
    /// # Errors
    /// If the operating system refuses the threads.
    pub fn crew(&self, name: &'static str, threads: NonZeroUsize) -> io::Result<Crew> {
        match self.mode {
            Mode::Real => Crew::real(name, threads),
            #[cfg(feature = "sim")]
            Mode::Simulated => Ok(Crew::simulated()),
        }
    }

    /// Runs `call`, which may block, away from the runtime's own threads.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Blocking<T> {
        let call = match self.mode {
            Mode::Real => Call::Running(tokio::task::spawn_blocking(call)),
            #[cfg(feature = "sim")]
            Mode::Simulated => Call::Inline(Some(Box::new(call))),
        };
        Blocking { call }
    }
}

impl Task {
    /// What the work is for.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Stops the work at its next await point and drops it there.
    pub fn abort(&self) {
        self.abort.abort();
    }

    /// Waits until the work returned, was aborted, or died with its runtime.
    ///
    /// # Panics
    /// With the panic of the work, if it panicked.
    pub async fn join(self) {
        if let Ok(Err(payload)) = self.ended.await {
            resume_unwind(payload);
        }
    }

    /// Pairs a task with the future that does its work and reports its end.
    fn watch(
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (future, abort) = abortable(future);
        let (end, ended) = oneshot::channel();
        let run = async move {
            let ending = AssertUnwindSafe(future).catch_unwind().await;
            // A task that was dropped is not watched any more.
            let _ = end.send(ending.map(|_returned_or_aborted| ()));
        };
        (Self { abort, ended, name }, run)
    }
}

impl<T> Future for Blocking<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match &mut self.call {
            Call::Running(handle) => match Pin::new(handle).poll(context) {
                Poll::Ready(Ok(value)) => Poll::Ready(value),
                Poll::Ready(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
                // Nobody is left to hear that the runtime shut down.
                Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
            },
            #[cfg(feature = "sim")]
            Call::Inline(call) => {
                let call = call.take().expect("a future is not polled after it resolved");
                Poll::Ready(call())
            }
        }
    }
}

impl<T> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocking")
    }
}

fn spawn_on_thread(name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
    let (task, run) = Task::watch(name, future);
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || owner::run(run))
        .expect("the system has room for one more thread");
    task
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;
    use crate::Clock;

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    /// Whether joining `task` panics.
    async fn panics(task: Task) -> bool {
        AssertUnwindSafe(task.join()).catch_unwind().await.is_err()
    }

    /// Tells its channel that it was dropped.
    struct Guard(Option<oneshot::Sender<()>>);

    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.take().expect("dropped once").send(());
        }
    }

    #[test]
    fn an_owner_has_a_thread_of_its_own_without_any_runtime() {
        let (send, mut receive) = oneshot::channel();
        let task = Spawn::real().owner("owner", async move {
            let _ = send.send(thread::current().name().map(str::to_owned));
        });
        assert_eq!(task.name(), "owner");
        owner::run(task.join());
        assert_eq!(receive.try_recv().unwrap().as_deref(), Some("owner"));
    }

    #[test]
    fn an_owner_sleeps_on_when_the_runtime_it_was_started_in_is_gone() {
        let (send, receive) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let task = runtime.block_on(async {
            let clock = Clock::real();
            let (nap, hour) = (Duration::from_millis(1), Duration::from_secs(3_600));
            Spawn::real().owner("sleeper", async move {
                clock.sleep(nap).await;
                assert!(clock.timeout(hour, receive).await.is_ok());
                assert!(clock.timeout(nap, clock.sleep(hour)).await.is_err());
            })
        });
        drop(runtime);
        send.send(()).unwrap();
        run(task.join());
    }

    #[test]
    fn a_dropped_task_goes_on() {
        run(async {
            let (send, receive) = oneshot::channel();
            drop(Spawn::real().task("goes on", async move {
                tokio::task::yield_now().await;
                let _ = send.send(7);
            }));
            assert_eq!(receive.await, Ok(7));
        });
    }

    #[test]
    fn abort_drops_the_work_before_join_returns() {
        run(async {
            let start = |on_thread: bool| {
                let (send, receive) = oneshot::channel();
                let guard = Guard(Some(send));
                let work = async move {
                    let _guard = guard;
                    std::future::pending::<()>().await;
                };
                let spawn = Spawn::real();
                let task = if on_thread { spawn.owner("w", work) } else { spawn.task("w", work) };
                (task, receive)
            };
            for on_thread in [true, false] {
                let (task, mut dropped) = start(on_thread);
                task.abort();
                task.join().await;
                assert_eq!(dropped.try_recv(), Ok(()));
            }
        });
    }

    #[test]
    fn panics_reach_whoever_waits() {
        run(async {
            assert!(panics(Spawn::real().task("task", async { panic!("expected") })).await);
            assert!(panics(Spawn::real().owner("owner", async { panic!("expected") })).await);
            let call = Spawn::real().blocking(|| panic!("expected"));
            assert!(AssertUnwindSafe(call).catch_unwind().await.is_err());
        });
    }

    #[test]
    fn blocking_calls_leave_the_thread() {
        run(async {
            let here = thread::current().id();
            assert_ne!(Spawn::real().blocking(|| thread::current().id()).await, here);
        });
    }

    #[cfg(feature = "sim")]
    #[test]
    fn simulated_work_stays_on_the_thread() {
        run(async {
            let here = thread::current().id();
            let spawn = Spawn::simulated();
            let owner = async move { assert_eq!(thread::current().id(), here) };
            spawn.owner("owner", owner).join().await;
            assert_eq!(spawn.blocking(|| thread::current().id()).await, here);
        });
    }
}
