//! Streams that end by themselves.
//!
//! Times are chosen so that a real clock, too, has half a second to spare.

use wire::{Address, Expiry, Messages, Offset, ReadFrom, Timestamp, Ttl};

use super::{
    Subject,
    subject::{append, closing, produced, stream},
};
use crate::{
    Append, AppendError, Create, CreateError, Delete, DeleteError, Fork, ForkError, HeadError,
    Lifetime, List, ReadError,
};

const TTL_SECONDS: u64 = 2;
/// Well within the time to live, and twice that well past it.
const STEP_MS: u64 = 1_300;
/// So that no clean-up that comes around regularly comes just when a stream expires.
const OUT_OF_STEP_MS: u64 = 137;

fn sliding() -> Create {
    let expiry = Expiry::Sliding(Ttl::from_seconds(TTL_SECONDS));
    Create { expiry, ..Create::default() }
}

fn until(subject: &Subject, in_ms: u64) -> Create {
    let time = Timestamp::from_unix_ms(subject.sys.clock.unix_ms().get() + in_ms);
    Create { expiry: Expiry::At(time), ..Create::default() }
}

async fn has_expired(subject: &Subject, address: &Address) {
    assert_matches!(subject.log.head(address).await, Err(HeadError::NotFound(_)));
}

/// A stream that nobody has used for its time is not there.
pub async fn an_idle_stream_expires(subject: Subject) {
    let address = subject.make_with("a", sliding()).await;
    subject.append(&address, &["one"]).await;
    subject.pass_ms(2 * STEP_MS).await;
    let log = &subject.log;
    assert_matches!(log.head(&address).await, Err(HeadError::NotFound(_)));
    assert_matches!(log.tail(&address, Offset::START).await, Err(HeadError::NotFound(_)));
    assert_matches!(log.read(&address, ReadFrom::Start, 9).await, Err(ReadError::NotFound(_)));
    assert_matches!(log.append(&address, append(&["2"])).await, Err(AppendError::NotFound(_)));
    assert_matches!(log.close(&address).await, Err(AppendError::NotFound(_)));
    let fork = log.fork(&stream("fork"), Fork::of(address.clone())).await;
    assert_matches!(fork, Err(ForkError::SourceNotFound(_)));
    assert_matches!(log.delete(&address, Delete::Stream).await, Err(DeleteError::NotFound(_)));
}

/// One way to use a stream.
#[derive(Clone, Copy)]
enum Use {
    Read(ReadFrom),
    Write(fn() -> Append),
    Head,
    List,
}

/// Whether a stream that is used in one way half-way through its time outlives it.
async fn check_prolonging(subject: &Subject, (name, way): (&str, Use), prolongs: bool) {
    let address = subject.make_with(name, sliding()).await;
    subject.pass_ms(STEP_MS).await;
    match way {
        Use::Read(from) => assert_eq!(subject.read(&address, from).await.runs, []),
        Use::Write(append) => assert!(subject.accept(&address, append()).await >= Offset::START),
        Use::Head => assert_eq!(subject.head(&address).await.tail, Offset::START),
        Use::List => {
            let list = List { limit: 9, ..List::default() };
            let listed = subject.log.list(list).await.is_ok();
            assert_eq!(listed, subject.log.capabilities().list);
        }
    }
    subject.pass_ms(STEP_MS).await;
    assert_eq!(subject.log.head(&address).await.is_ok(), prolongs, "{name}");
    subject.pass_ms(STEP_MS).await;
    has_expired(subject, &address).await;
}

/// Readers and writers keep a stream alive.
pub async fn reads_and_writes_prolong_a_sliding_life(subject: Subject) {
    const WAYS: [(&str, Use); 6] = [
        ("read", Use::Read(ReadFrom::Start)),
        ("read from now", Use::Read(ReadFrom::Now)),
        ("append", Use::Write(|| append(&["x"]))),
        ("append by a producer", Use::Write(|| produced("p", 0, 0))),
        ("close", Use::Write(|| closing(append(&[])))),
        ("close by a producer", Use::Write(|| closing(empty(produced("p", 0, 0))))),
    ];
    subject
        .side_by_side(WAYS.len(), async |subject, number| {
            check_prolonging(&subject, WAYS[number], true).await;
        })
        .await;
}

fn empty(append: Append) -> Append {
    Append { messages: Messages::none(), ..append }
}

/// Who only looks does not.
pub async fn looking_does_not_prolong_a_life(subject: Subject) {
    for way in [("head", Use::Head), ("list", Use::List)] {
        check_prolonging(&subject, way, false).await;
    }
}

/// A stream lives as long as it is used, however long that is.
pub async fn a_stream_in_use_outlives_its_time_many_times(subject: Subject) {
    let address = subject.make_with("a", sliding()).await;
    for _ in 0..5 {
        subject.pass_ms(STEP_MS).await;
        subject.append(&address, &["x"]).await;
    }
    subject.holds(&address, &["x"; 5]).await;
}

/// A deadline is a deadline.
pub async fn nothing_prolongs_a_life_until_a_given_time(subject: Subject) {
    let address = subject.make_with("a", until(&subject, 2_000)).await;
    subject.pass_ms(STEP_MS).await;
    subject.append(&address, &["x"]).await;
    subject.holds(&address, &["x"]).await;
    subject.pass_ms(STEP_MS).await;
    has_expired(&subject, &address).await;
}

/// An expired name is free at once, not only when somebody has cleaned up.
pub async fn an_expired_name_can_be_made_anew(subject: Subject) {
    subject.pass_ms(OUT_OF_STEP_MS).await;
    for idle_ms in [1_000 * TTL_SECONDS + 1, 2 * STEP_MS, 4 * STEP_MS] {
        let address = subject.make_with("a", sliding()).await;
        subject.append(&address, &["old"]).await;
        let old = subject.head(&address).await;
        subject.pass_ms(idle_ms).await;
        let new = subject.log.create(&address, Create::default()).await.expect("a free name").head;
        assert_ne!(new.incarnation, old.incarnation);
        assert_eq!((new.tail, new.expiry), (Offset::START, Expiry::Never));
        subject.pass_ms(2 * STEP_MS).await;
        subject.holds(&address, &[]).await;
        subject.delete(&address).await;
    }
}

/// A new stream does not die of its predecessor's age.
pub async fn a_stream_made_anew_has_a_whole_life(subject: Subject) {
    let address = subject.make_with("a", sliding()).await;
    subject.pass_ms(STEP_MS).await;
    subject.delete(&address).await;
    subject.make_with("a", sliding()).await;
    subject.pass_ms(STEP_MS).await;
    assert!(subject.log.head(&address).await.is_ok());
    subject.pass_ms(STEP_MS).await;
    has_expired(&subject, &address).await;
}

/// An inherited lifetime is a window of the fork's own.
pub async fn a_fork_is_prolonged_by_its_own_use(subject: Subject) {
    let source = subject.make_with("source", sliding()).await;
    subject.append(&source, &["one"]).await;
    subject.pass_ms(STEP_MS).await;
    let used = subject.fork("used", Fork::of(source.clone())).await;
    let idle = subject.fork("idle", Fork::of(source)).await;
    subject.pass_ms(STEP_MS).await;
    subject.holds(&used, &["one"]).await;
    subject.pass_ms(STEP_MS).await;
    subject.holds(&used, &["one"]).await;
    has_expired(&subject, &idle).await;
}

/// Reading a fork does not keep its source alive, and what ends the source leaves the fork.
pub async fn a_fork_outlives_its_source(subject: Subject) {
    let source = subject.make_with("source", sliding()).await;
    subject.append(&source, &["one"]).await;
    let own = Fork { lifetime: Lifetime::Own(Expiry::Never), ..Fork::of(source.clone()) };
    let fork = subject.fork("fork", own).await;
    for _ in 0..3 {
        subject.pass_ms(STEP_MS).await;
        subject.holds(&fork, &["one"]).await;
    }
    assert_matches!(subject.log.head(&source).await, Err(HeadError::Gone(_)));
    subject.delete(&fork).await;
    subject.vanishes(&source).await;
    subject.make("source").await;
}

/// A source that its time has ended is gone at once, not only when somebody has cleaned up.
pub async fn an_expired_source_is_gone_like_a_deleted_one(subject: Subject) {
    subject.pass_ms(OUT_OF_STEP_MS).await;
    let source = subject.make_with("source", sliding()).await;
    let own = Fork { lifetime: Lifetime::Own(Expiry::Never), ..Fork::of(source.clone()) };
    subject.fork("fork", own).await;
    for idle_ms in [1_000 * TTL_SECONDS + 1, STEP_MS] {
        subject.pass_ms(idle_ms).await;
        let log = &subject.log;
        assert_matches!(log.head(&source).await, Err(HeadError::Gone(_)));
        assert_matches!(log.read(&source, ReadFrom::Start, 9).await, Err(ReadError::Gone(_)));
        assert_matches!(log.append(&source, append(&["2"])).await, Err(AppendError::Gone(_)));
        assert_matches!(log.create(&source, sliding()).await, Err(CreateError::Gone(_)));
        let fork = log.fork(&stream("refused"), Fork::of(source.clone())).await;
        assert_matches!(fork, Err(ForkError::Gone(_)));
        assert_matches!(log.delete(&source, Delete::Stream).await, Err(DeleteError::Gone(_)));
    }
}

/// A fork that expires lets go of its source.
pub async fn an_expired_fork_takes_its_deleted_source_along(subject: Subject) {
    let source = subject.make("source").await;
    let expiry = Expiry::Sliding(Ttl::from_seconds(1));
    let short = Fork { lifetime: Lifetime::Own(expiry), ..Fork::of(source.clone()) };
    subject.fork("fork", short).await;
    subject.delete(&source).await;
    assert_matches!(subject.log.head(&source).await, Err(HeadError::Gone(_)));
    subject.vanishes(&source).await;
}

/// However many end at once, each ends in time.
pub async fn many_streams_expire_together(subject: Subject) {
    for number in 0..100 {
        subject.make_with(&format!("s/{number}"), until(&subject, 1_500)).await;
    }
    let kept = subject.make("kept").await;
    subject.pass_ms(2_500).await;
    for number in 0..100 {
        has_expired(&subject, &stream(&format!("s/{number}"))).await;
    }
    assert!(subject.log.head(&kept).await.is_ok());
}
