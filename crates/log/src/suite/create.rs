//! Making a stream, and making it again.

use wire::{ContentType, Expiry, Offset, ReadFrom, Timestamp, Ttl, caps::CHUNK_BYTES_DEFAULT};

use super::{
    Subject,
    subject::{append, boundaries, messages, stream},
};
use crate::{
    AppendError, Closing, Create, CreateError, Delete, DeleteError, Fork, ForkError, Freshness,
    HeadError, Outcome, ReadError, TrimError,
};

fn typed(content_type: &str) -> Create {
    let content_type = content_type.parse().expect("tests use valid content types");
    Create { content_type: Some(content_type), ..Create::default() }
}

fn living(expiry: Expiry) -> Create {
    Create { expiry, ..Create::default() }
}

fn closed() -> Create {
    Create { closing: Closing::Close, ..Create::default() }
}

/// Far enough from any clock's now.
fn in_the_year(year: u64) -> Expiry {
    Expiry::At(Timestamp::from_unix_ms((year - 1970) * 365 * 24 * 60 * 60 * 1000))
}

fn sliding(seconds: u64) -> Expiry {
    Expiry::Sliding(Ttl::from_seconds(seconds))
}

/// A stream of which nothing was said.
pub async fn a_new_stream_is_empty_and_open(subject: Subject) {
    let before = subject.sys.clock.unix_ms();
    let created = subject.log.create(&stream("a"), Create::default()).await.expect("a free name");
    assert_eq!(created.outcome, Outcome::New);
    let head = subject.head(&stream("a")).await;
    assert_eq!(created.head, head);
    assert_eq!((head.earliest, head.tail), (Offset::START, Offset::START));
    assert_eq!((head.closed, head.expiry), (false, Expiry::Never));
    assert_eq!(head.content_type, ContentType::octet_stream());
    assert!((before..=subject.sys.clock.unix_ms()).contains(&head.created_at));
    let chunk = subject.read(&stream("a"), ReadFrom::Start).await;
    assert_eq!((chunk.messages().count(), chunk.freshness), (0, Freshness::UpToDate));
}

/// What was set is told again.
pub async fn settings_are_kept(subject: Subject) {
    for (number, expiry) in [Expiry::Never, sliding(60), in_the_year(2900)].into_iter().enumerate()
    {
        let create = Create { expiry, ..typed("text/plain; charset=utf-8") };
        let address = subject.make_with(&format!("s/{number}"), create).await;
        let head = subject.head(&address).await;
        assert_eq!(head.expiry, expiry);
        assert_eq!(head.content_type.as_str(), "text/plain; charset=utf-8");
    }
}

/// The same request twice is one stream.
pub async fn the_same_create_again_is_confirmed(subject: Subject) {
    let requests = [
        Create::default(),
        typed("application/json"),
        living(sliding(60)),
        living(in_the_year(2900)),
        closed(),
        Create { messages: messages(&["a", "b"]), ..Create::default() },
        Create { messages: messages(&["a", "b"]), ..closed() },
    ];
    for (number, create) in requests.into_iter().enumerate() {
        let address = subject.make_with(&format!("s/{number}"), create.clone()).await;
        let before = subject.head(&address).await;
        let again = subject.log.create(&address, create).await.expect("it is the same stream");
        assert_eq!((again.outcome, &again.head), (Outcome::Duplicate, &before));
        assert_eq!(subject.head(&address).await, before);
    }
}

/// A confirmation tells of the stream as it has become.
pub async fn a_confirmed_stream_is_told_as_it_is_now(subject: Subject) {
    let create = Create { messages: messages(&["first"]), ..Create::default() };
    let address = subject.make_with("a", create.clone()).await;
    subject.append(&address, &["second"]).await;
    let again = subject.log.create(&address, create).await.expect("it is the same stream");
    assert_eq!(again.outcome, Outcome::Duplicate);
    assert_eq!(again.head, subject.head(&address).await);
    subject.holds(&address, &["first", "second"]).await;
}

/// Each setting counts, both ways.
pub async fn a_create_that_differs_is_refused(subject: Subject) {
    let pairs = [
        (Create::default(), typed("text/plain")),
        (typed("application/json"), typed("application/ndjson")),
        (typed("text/plain"), typed("text/plain; charset=utf-8")),
        (Create::default(), living(sliding(60))),
        (living(sliding(60)), living(sliding(61))),
        (living(sliding(60)), living(in_the_year(2900))),
        (living(in_the_year(2900)), living(in_the_year(2901))),
        (Create::default(), closed()),
    ];
    let both_ways =
        pairs.into_iter().flat_map(|(one, other)| [(one.clone(), other.clone()), (other, one)]);
    for (number, (first, second)) in both_ways.enumerate() {
        let address = subject.make_with(&format!("s/{number}"), first).await;
        let before = subject.head(&address).await;
        let refused = subject.log.create(&address, second).await;
        assert_matches!(refused, Err(CreateError::Exists(_)));
        assert_eq!(subject.head(&address).await, before);
    }
}

/// Spelling is no setting.
pub async fn content_types_are_compared_by_meaning(subject: Subject) {
    let pairs = [
        ("application/json", "Application/JSON; charset=utf-8"),
        ("text/plain;charset=utf-8", "TEXT/PLAIN; charset=UTF-8"),
    ];
    for (number, (first, second)) in pairs.into_iter().enumerate() {
        let address = subject.make_with(&format!("s/{number}"), typed(first)).await;
        let again = subject.log.create(&address, typed(second)).await.expect("the same type");
        assert_eq!(again.outcome, Outcome::Duplicate);
        assert_eq!(again.head.content_type.as_str(), first);
    }
}

/// A stream that was closed is not the open one that is asked for.
pub async fn a_stream_closed_since_is_not_confirmed_as_open(subject: Subject) {
    let address = subject.make("a").await;
    subject.close(&address).await;
    let open = subject.log.create(&address, Create::default()).await;
    assert_matches!(open, Err(CreateError::Exists(_)));
    let confirmed = subject.log.create(&address, closed()).await.expect("it is closed");
    assert_eq!(confirmed.outcome, Outcome::Duplicate);
}

/// What a create carries comes first.
pub async fn initial_messages_are_the_first(subject: Subject) {
    let create = Create { messages: messages(&["one", "two"]), ..Create::default() };
    let created = subject.log.create(&stream("a"), create).await.expect("a free name");
    assert_eq!(created.head.tail, boundaries(&["one", "two"])[2]);
    let tail = subject.append(&stream("a"), &["three"]).await;
    assert_eq!(tail, boundaries(&["one", "two", "three"])[3]);
    subject.holds(&stream("a"), &["one", "two", "three"]).await;
}

/// With or without content, a stream may be complete from the beginning.
pub async fn a_stream_may_be_made_closed(subject: Subject) {
    for (name, texts) in [("empty", &[][..]), ("full", &["all", "of it"])] {
        let create = Create { messages: messages(texts), ..closed() };
        let address = subject.make_with(name, create).await;
        let chunk = subject.read(&address, ReadFrom::Start).await;
        assert_eq!(chunk.freshness, Freshness::Closed);
        subject.holds(&address, texts).await;
        let tail = subject.head(&address).await.tail;
        let refused = subject.log.append(&address, append(&["more"])).await;
        assert_matches!(refused, Err(AppendError::Closed(closed)) if closed.tail == tail);
    }
}

/// No operation makes a stream by the way.
pub async fn nothing_is_found_before_it_is_made(subject: Subject) {
    let (log, nowhere) = (&subject.log, stream("nowhere"));
    assert_matches!(log.head(&nowhere).await, Err(HeadError::NotFound(_)));
    assert_matches!(log.tail(&nowhere, Offset::START).await, Err(HeadError::NotFound(_)));
    let read = log.read(&nowhere, ReadFrom::Start, CHUNK_BYTES_DEFAULT).await;
    assert_matches!(read, Err(ReadError::NotFound(_)));
    assert_matches!(log.append(&nowhere, append(&["a"])).await, Err(AppendError::NotFound(_)));
    assert_matches!(log.close(&nowhere).await, Err(AppendError::NotFound(_)));
    assert_matches!(log.delete(&nowhere, Delete::Stream).await, Err(DeleteError::NotFound(_)));
    let fork = log.fork(&stream("fork"), Fork::of(nowhere.clone())).await;
    assert_matches!(fork, Err(ForkError::SourceNotFound(_)));
    if log.capabilities().trim {
        assert_matches!(log.trim(&nowhere, Offset::START).await, Err(TrimError::NotFound(_)));
    }
    assert_matches!(log.head(&stream("fork")).await, Err(HeadError::NotFound(_)));
}

/// One of many is first; the others find its stream.
pub async fn many_creates_at_once_make_one_stream(subject: Subject) {
    let answers = subject
        .side_by_side(16, async |subject, _| {
            let create = Create { messages: messages(&["once"]), ..Create::default() };
            subject.log.create(&stream("a"), create).await.expect("the same request")
        })
        .await;
    let new = answers.iter().filter(|created| created.outcome == Outcome::New).count();
    assert_eq!(new, 1);
    assert!(answers.iter().all(|one| one.head.incarnation == answers[0].head.incarnation));
    subject.holds(&stream("a"), &["once"]).await;
}

/// A name is every one of its characters.
pub async fn names_that_resemble_each_other_are_apart(subject: Subject) {
    let names = ["a", "A", "aa", "a/a", "a/a/a", "a a", "a%20a", "a.", "á", "a\u{301}"];
    for name in names {
        subject.make_filled(name, &[&[name]]).await;
    }
    for name in names {
        subject.holds(&stream(name), &[name]).await;
    }
}
