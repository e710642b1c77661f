//! The memory engine keeps the contract, and the bounds it sets itself.

use std::{sync::Arc, time::Duration};

use log::{Append, AppendError, Create, MemoryLog, Moved, Outcome, suite::Subject};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wire::{
    Address, Epoch, Glob, Messages, Producer, ProducerSeq, StreamPath,
    caps::PRODUCERS_PER_STREAM_MAX,
};

#[allow(clippy::unused_async, reason = "other engines wait for their disk")]
async fn memory() -> Subject {
    let disk = SimDisk::new(1, SimFaults::default());
    let sys = Sys::simulated(1, disk, UnixMs::new(1_700_000_000_000));
    Subject { log: Arc::new(MemoryLog::new(&sys)), sys, is_remote: false }
}

log::suite!(memory);

async fn one_stream(subject: &Subject) -> Address {
    let path: StreamPath = "a".parse().expect("a valid path");
    let address = Address::from(path);
    let created = subject.log.create(&address, Create::default()).await;
    assert_eq!(created.expect("a free name").outcome, Outcome::New);
    address
}

fn hello() -> Append {
    Append::messages(Messages::one("hello").expect("a small message"))
}

fn hello_from(number: usize) -> Append {
    nth_from(number, 0)
}

/// What a producer sends as its append of this number.
fn nth_from(number: usize, seq: u64) -> Append {
    let id = format!("p{number}").parse().expect("a short id");
    let producer = Producer { id, epoch: Epoch::new(0), seq: ProducerSeq::new(seq) };
    Append { producer: Some(producer), ..hello() }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_listen_is_told_to_resync() {
    let subject = memory().await;
    let mut watch = subject.log.watch(Glob::everything()).expect("room for a watcher");
    let address = one_stream(&subject).await;
    for _ in 0..2_000 {
        assert!(subject.log.append(&address, hello()).await.is_ok());
    }
    assert_eq!(watch.next().await, Some(Moved::Resync));
    assert!(matches!(watch.next().await, Some(Moved::Stream(..))));
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_log() {
    let Subject { log, .. } = memory().await;
    let mut watch = log.watch(Glob::everything()).expect("room for a watcher");
    drop(log);
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_producer_silent_for_a_week_makes_room_for_a_new_one() {
    let subject = memory().await;
    let address = one_stream(&subject).await;
    let log = &subject.log;
    for number in 0..PRODUCERS_PER_STREAM_MAX {
        assert!(log.append(&address, hello_from(number)).await.is_ok());
    }
    let newcomer = hello_from(PRODUCERS_PER_STREAM_MAX);
    subject.sys.clock.sleep(Duration::from_secs(6 * 24 * 60 * 60)).await;
    let refused = log.append(&address, newcomer.clone()).await;
    assert!(matches!(refused, Err(AppendError::TooManyProducers(_))), "{refused:?}");
    subject.sys.clock.sleep(Duration::from_secs(2 * 24 * 60 * 60)).await;
    let accepted = log.append(&address, newcomer).await.expect("there is room now");
    assert_eq!(accepted.outcome, Outcome::New);
}

/// The one that was silent for longest leaves, and it alone: what others repeat is still known, and
/// what it repeats is refused as a gap, so that nothing is stored twice.
#[tokio::test(start_paused = true)]
async fn the_idlest_producer_leaves_and_no_other() {
    const IDLEST: usize = 1_717;
    const IDLE: usize = 42;
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let subject = memory().await;
    let address = one_stream(&subject).await;
    let (log, clock) = (&subject.log, &subject.sys.clock);
    let append = async |append: Append| log.append(&address, append).await;
    let is_idle = |number: &usize| matches!(*number, IDLEST | IDLE);
    assert!(append(hello_from(IDLEST)).await.is_ok());
    clock.sleep(Duration::from_secs(1)).await;
    for number in (0..PRODUCERS_PER_STREAM_MAX).filter(|number| *number != IDLEST) {
        assert!(append(hello_from(number)).await.is_ok());
    }
    clock.sleep(6 * DAY).await;
    for number in (0..PRODUCERS_PER_STREAM_MAX).filter(|number| !is_idle(number)) {
        assert!(append(nth_from(number, 1)).await.is_ok());
    }
    clock.sleep(2 * DAY).await;
    let newcomer = hello_from(PRODUCERS_PER_STREAM_MAX);
    let outcome = |appended: Result<log::Appended, AppendError>| appended.map(|it| it.outcome).ok();
    assert_eq!(outcome(append(newcomer.clone()).await), Some(Outcome::New));
    let tail = log.head(&address).await.expect("it is there").tail;

    // It comes back as one that is unknown.
    let gap = append(nth_from(IDLEST, 1)).await;
    assert!(
        matches!(&gap, Err(AppendError::Gap(gap)) if gap.expected == ProducerSeq::FIRST),
        "{gap:?}"
    );
    // All others, the newcomer and the next idle one too, are known.
    assert_eq!(outcome(append(newcomer).await), Some(Outcome::Duplicate));
    for number in (0..PRODUCERS_PER_STREAM_MAX).filter(|number| *number != IDLEST) {
        let repeated = nth_from(number, u64::from(!is_idle(&number)));
        assert_eq!(outcome(append(repeated).await), Some(Outcome::Duplicate), "p{number}");
    }
    assert_eq!(log.head(&address).await.expect("it is there").tail, tail, "nothing was stored");
}
