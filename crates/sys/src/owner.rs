//! Owners: a thread that runs one future to its end, with timers of its own.
//!
//! An owner outlives the runtime that it was started in, so it must not lean on that one's timers.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};

thread_local! {
    /// The timers of this thread, if it is an owner's.
    static TIMERS: RefCell<Option<Timers>> = const { RefCell::new(None) };
}

/// Who is to be woken, and when.
#[derive(Default)]
struct Timers {
    waiting: BTreeMap<(Instant, u64), Waker>,
    next: u64,
}

/// Wakes a future by unparking the thread that polls it.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` on this thread until it is done, parked between wake-ups.
pub(crate) fn run(future: impl Future<Output = ()>) {
    TIMERS.set(Some(Timers::default()));
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    while future.as_mut().poll(&mut context).is_pending() {
        // A wake-up since the poll makes this return at once; a needless one costs a poll.
        match next_due() {
            Some(due) => thread::park_timeout(due.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
        wake_due();
    }
    drop(TIMERS.take());
}

/// True on the thread of an owner, unless it runs a runtime.
pub(crate) fn is_here() -> bool {
    TIMERS.with_borrow(Option::is_some) && Handle::try_current().is_err()
}

/// Waits on the thread of an owner. Where `duration` is too long to be told, for ever.
pub(crate) fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
    Sleep { due: Instant::now().checked_add(duration), timer: None }
}

/// Runs `future` on the thread of an owner; none if the time ran out first.
pub(crate) async fn timeout<F: Future>(
    duration: Duration,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    let mut over = pin!(sleep(duration));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => over.as_mut().poll(context).map(|()| None),
    })
    .await
}

struct Sleep {
    due: Option<Instant>,
    /// Under which it waits.
    timer: Option<(Instant, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = self.due else { return Poll::Pending };
        if due <= Instant::now() {
            return Poll::Ready(());
        }
        with_timers(|timers| {
            let timer = *self.timer.get_or_insert_with(|| timers.number(due));
            timers.waiting.insert(timer, context.waker().clone())
        });
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            with_timers(|timers| timers.waiting.remove(&timer));
        }
    }
}

impl Timers {
    fn number(&mut self, due: Instant) -> (Instant, u64) {
        self.next += 1;
        (due, self.next)
    }
}

fn next_due() -> Option<Instant> {
    with_timers(|timers| timers.waiting.keys().next().map(|(due, _)| *due)).flatten()
}

fn wake_due() {
    let now = Instant::now();
    let first_due = || {
        with_timers(|timers| {
            let first = timers.waiting.first_entry()?;
            (first.key().0 <= now).then(|| first.remove())
        })
    };
    while let Some(waker) = first_due().flatten() {
        waker.wake();
    }
}

/// None where there are none: a future that has left its owner's thread, or outlives it.
fn with_timers<T>(act: impl FnOnce(&mut Timers) -> T) -> Option<T> {
    TIMERS.try_with(|timers| timers.borrow_mut().as_mut().map(act)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream::FuturesUnordered};

    use super::*;

    /// Whether a sleeper that was asked goes on sleeping.
    async fn is_asleep(sleeper: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *sleeper).poll(context).is_pending())).await
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_time_without_any_runtime() {
        let mut woken = Vec::new();
        run(async {
            let sleepers = [30, 10, 20].map(|ms| async move {
                sleep(Duration::from_millis(ms)).await;
                ms
            });
            let mut sleepers: FuturesUnordered<_> = sleepers.into_iter().collect();
            while let Some(ms) = sleepers.next().await {
                woken.push(ms);
            }
        });
        assert_eq!(woken, [10, 20, 30]);
    }

    #[test]
    fn a_sleep_that_was_dropped_leaves_no_timer() {
        run(async {
            let mut hour = Box::pin(sleep(Duration::from_secs(3_600)));
            assert!(is_asleep(&mut hour).await);
            assert!(next_due().is_some());
            drop(hour);
            assert!(next_due().is_none());
        });
    }

    #[test]
    fn for_ever_is_no_overflow() {
        run(async {
            let mut ever = Box::pin(sleep(Duration::MAX));
            assert!(is_asleep(&mut ever).await);
        });
    }
}
