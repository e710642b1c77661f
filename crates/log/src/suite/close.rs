//! Closing, and what a closed stream still answers.

use wire::{ContentType, Offset, ReadFrom};

use super::{
    Subject,
    subject::{append, closing, produced, producer, stream, stream_seq, texts_of},
};
use crate::{Append, AppendError, Fork, Freshness, Outcome};

/// A close without messages by a producer.
fn close_by(id: &str, epoch: u64, seq: u64) -> Append {
    Append { producer: Some(producer(id, epoch, seq)), ..closing(append(&[])) }
}

/// Nothing can follow.
pub async fn a_closed_stream_takes_no_more(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    let before = subject.head(&address).await;
    let closed = subject.answer(&address, closing(append(&[]))).await;
    assert_eq!((closed.outcome, closed.closed), (Outcome::New, true));
    assert_eq!(closed.tail, before.tail);
    assert_eq!(subject.head(&address).await, crate::Head { closed: true, ..before.clone() });
    for more in [append(&["two"]), closing(append(&["two"])), produced("p", 0, 0)] {
        let answer = subject.log.append(&address, more).await;
        assert_matches!(answer, Err(AppendError::Closed(fact)) if fact.tail == before.tail);
    }
    subject.holds(&address, &["one"]).await;
}

/// An empty stream may be complete.
pub async fn an_empty_stream_can_be_closed(subject: Subject) {
    let address = subject.make("a").await;
    let closed = subject.log.close(&address).await.expect("an open stream");
    assert_eq!((closed.tail, closed.closed), (Offset::START, true));
    let chunk = subject.read(&address, ReadFrom::Start).await;
    assert_eq!((chunk.messages().count(), chunk.freshness), (0, Freshness::Closed));
}

/// Closing says how it shall be, not what to do.
pub async fn closing_again_is_no_error(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    let first = subject.close(&address).await;
    let again = subject.log.close(&address).await.expect("a closed stream");
    assert_eq!((again.outcome, again.closed), (Outcome::Duplicate, true));
    assert_eq!(again.tail, first);
}

/// The last messages and the end are one step.
pub async fn the_last_append_may_close(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    let last = subject.answer(&address, closing(append(&["two", "three"]))).await;
    assert!(last.closed);
    let chunk = subject.read(&address, ReadFrom::Start).await;
    assert_eq!(texts_of(&chunk), ["one", "two", "three"]);
    assert_eq!((chunk.next, chunk.freshness), (last.tail, Freshness::Closed));
}

/// Whoever closed a stream may ask again whether it did.
pub async fn the_closers_retry_is_recognised(subject: Subject) {
    let closers = [
        (
            "with messages",
            Append { producer: Some(producer("p", 1, 1)), ..closing(append(&["x"])) },
        ),
        ("without", close_by("p", 1, 1)),
    ];
    for (name, closer) in closers {
        let address = subject.make(name).await;
        subject.accept(&address, produced("p", 1, 0)).await;
        let first = subject.answer(&address, closer.clone()).await;
        assert!(first.closed);
        for retry in [closer.clone(), close_by("p", 1, 1)] {
            let again = subject.log.append(&address, retry).await.expect("the closer's retry");
            assert_eq!((again.outcome, again.closed), (Outcome::Duplicate, true));
            assert_eq!((again.tail, again.producer), (first.tail, first.producer));
        }
    }
}

/// Everybody else is told that it is closed.
pub async fn other_producers_find_the_stream_closed(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, produced("p", 1, 0)).await;
    subject.accept(&address, produced("q", 5, 0)).await;
    let tail = subject.accept(&address, close_by("p", 1, 1)).await;
    let others = [
        produced("p", 1, 0),
        produced("p", 1, 2),
        produced("p", 2, 0),
        produced("q", 5, 0),
        produced("q", 5, 1),
        produced("new", 0, 0),
        close_by("p", 1, 2),
        close_by("p", 2, 0),
        close_by("q", 5, 1),
        close_by("new", 0, 0),
    ];
    for other in others {
        let answer = subject.log.append(&address, other).await;
        assert_matches!(answer, Err(AppendError::Closed(fact)) if fact.tail == tail);
    }
    let stale = subject.log.append(&address, produced("q", 4, 0)).await;
    assert_matches!(stale, Err(AppendError::Closed(_) | AppendError::Fenced(_)));
}

/// A plain close is nobody's: a producer cannot claim it.
pub async fn a_plain_close_belongs_to_no_producer(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, produced("p", 0, 0)).await;
    subject.close(&address).await;
    for claim in [produced("p", 0, 0), close_by("p", 0, 0), close_by("p", 0, 1)] {
        let answer = subject.log.append(&address, claim).await;
        assert_matches!(answer, Err(AppendError::Closed(_)));
    }
}

/// Closing is an append of its producer.
pub async fn a_close_is_judged_like_any_append(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, Append { seq: Some(stream_seq("5")), ..produced("p", 1, 0) }).await;
    let retry = subject.log.append(&address, close_by("p", 1, 0)).await.expect("a retry");
    assert_eq!((retry.outcome, retry.closed), (Outcome::Duplicate, false));
    assert_matches!(
        subject.log.append(&address, close_by("p", 0, 1)).await,
        Err(AppendError::Fenced(_))
    );
    assert_matches!(
        subject.log.append(&address, close_by("p", 1, 2)).await,
        Err(AppendError::Gap(_))
    );
    let old_seq = Append { seq: Some(stream_seq("5")), ..closing(append(&[])) };
    let answer = subject.log.append(&address, old_seq).await;
    assert_matches!(answer, Err(AppendError::StreamSeq(_)));
    if subject.log.capabilities().expected_offset {
        let elsewhere = Append { expected: Some(Offset::START), ..closing(append(&[])) };
        let answer = subject.log.append(&address, elsewhere).await;
        assert_matches!(answer, Err(AppendError::ExpectedOffset(_)));
    }
    assert!(!subject.head(&address).await.closed);
    let closed = subject.answer(&address, close_by("p", 1, 1)).await;
    assert_eq!(closed.producer.map(|state| state.seq.get()), Some(1));
}

/// A close that carries nothing carries no content type.
pub async fn a_close_without_messages_may_name_any_content_type(subject: Subject) {
    let address = subject.make("a").await;
    let close = Append { content_type: Some(ContentType::json()), ..closing(append(&[])) };
    assert!(subject.answer(&address, close).await.closed);
}

/// Of all refusals, the closed stream comes first.
pub async fn closed_comes_before_every_other_refusal(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, Append { seq: Some(stream_seq("5")), ..append(&["x"]) }).await;
    let tail = subject.close(&address).await;
    let expected = subject.log.capabilities().expected_offset.then_some(Offset::START);
    let wrong = Append {
        content_type: Some(ContentType::json()),
        producer: Some(producer("p", 0, 7)),
        seq: Some(stream_seq("1")),
        expected,
        ..append(&["2"])
    };
    let answer = subject.log.append(&address, wrong).await;
    assert_matches!(answer, Err(AppendError::Closed(fact)) if fact.tail == tail);
}

/// Of many who close with a last word, one has it.
pub async fn one_of_many_closers_has_the_last_word(subject: Subject) {
    let address = subject.make("a").await;
    let answers = subject
        .side_by_side(16, async |subject, number| {
            let last = closing(append(&[&number.to_string()]));
            (number, subject.log.append(&stream("a"), last).await)
        })
        .await;
    let winners: Vec<String> = answers
        .iter()
        .filter(|(_, answer)| answer.is_ok())
        .map(|(number, _)| number.to_string())
        .collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(subject.texts(&address).await, winners);
}

/// A complete stream can be read, continued elsewhere, and deleted.
pub async fn a_closed_stream_can_be_forked_and_deleted(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    subject.close(&address).await;
    let fork = subject.fork("fork", Fork::of(address.clone())).await;
    assert!(!subject.head(&fork).await.closed);
    subject.append(&fork, &["two"]).await;
    subject.delete(&fork).await;
    subject.delete(&address).await;
    subject.vanishes(&address).await;
    assert_matches!(subject.log.close(&address).await, Err(AppendError::NotFound(_)));
}
