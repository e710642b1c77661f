//! Idempotent producers: every row of the protocol's table, and what follows from it.

use wire::{
    Address, ContentType, Offset,
    caps::{INTEGER_MAX, PRODUCERS_PER_STREAM_MAX},
};

use super::{
    Subject,
    subject::{append, messages, produced, producer, stream, stream_seq},
};
use crate::{Append, AppendError, Outcome, ProducerState};

/// What the table says of a triple.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    New,
    Duplicate { highest: u64 },
    Fenced { current: u64 },
    EpochStart,
    Gap { expected: u64 },
}

fn state(epoch: u64, seq: u64) -> Option<ProducerState> {
    let triple = producer("any", epoch, seq);
    Some(ProducerState { epoch: triple.epoch, seq: triple.seq })
}

/// Sends one append to a stream where producer `p` is in epoch 5 and has sent 0..=3.
async fn judge(subject: &Subject, name: &str, id: &str, (epoch, seq): (u64, u64), says: Verdict) {
    let address = subject.make(name).await;
    for seq in 0..=3 {
        subject.accept(&address, produced("p", 5, seq)).await;
    }
    let before = subject.head(&address).await;
    let answer = subject.log.append(&address, produced(id, epoch, seq)).await;
    let row = format!("{id} {epoch} {seq} should be {says:?}, got {answer:?}");
    let agrees = match (says, &answer) {
        (Verdict::New, Ok(appended)) => {
            appended.outcome == Outcome::New
                && appended.tail == before.tail.after(1, 1)
                && appended.producer == state(epoch, seq)
        }
        (Verdict::Duplicate { highest }, Ok(appended)) => {
            appended.outcome == Outcome::Duplicate
                && appended.tail == before.tail
                && appended.producer == state(epoch, highest)
        }
        (Verdict::Fenced { current }, Err(AppendError::Fenced(fact))) => {
            fact.current.get() == current
        }
        (Verdict::EpochStart, Err(AppendError::EpochStart(fact))) => fact.received.get() == seq,
        (Verdict::Gap { expected }, Err(AppendError::Gap(fact))) => {
            fact.expected.get() == expected && fact.received.get() == seq
        }
        _ => false,
    };
    assert!(agrees, "{row}");
    if !matches!(says, Verdict::New) {
        assert_eq!(subject.head(&address).await, before, "{row}");
        subject.accept(&address, produced("p", 5, 4)).await;
    }
}

/// The table of the protocol, row by row.
pub async fn the_table_of_the_protocol_holds(subject: Subject) {
    let rows = [
        ("new", (0, 0), Verdict::New),
        ("new", (9, 0), Verdict::New),
        ("new", (0, 1), Verdict::Gap { expected: 0 }),
        ("new", (9, 7), Verdict::Gap { expected: 0 }),
        ("p", (4, 0), Verdict::Fenced { current: 5 }),
        ("p", (4, 4), Verdict::Fenced { current: 5 }),
        ("p", (0, 99), Verdict::Fenced { current: 5 }),
        ("p", (6, 0), Verdict::New),
        ("p", (99, 0), Verdict::New),
        ("p", (6, 1), Verdict::EpochStart),
        ("p", (6, 4), Verdict::EpochStart),
        ("p", (5, 0), Verdict::Duplicate { highest: 3 }),
        ("p", (5, 2), Verdict::Duplicate { highest: 3 }),
        ("p", (5, 3), Verdict::Duplicate { highest: 3 }),
        ("p", (5, 4), Verdict::New),
        ("p", (5, 5), Verdict::Gap { expected: 4 }),
        ("p", (5, 99), Verdict::Gap { expected: 4 }),
    ];
    for (number, (id, triple, says)) in rows.into_iter().enumerate() {
        judge(&subject, &format!("row/{number}"), id, triple, says).await;
    }
}

/// The first to come with a triple decides what it stands for.
pub async fn a_retry_with_other_bytes_is_the_first_append(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, produced("p", 0, 0)).await;
    let other = Append { messages: messages(&["other", "bytes"]), ..produced("p", 0, 0) };
    let answer = subject.log.append(&address, other).await.expect("a retry is no error");
    assert_eq!(answer.outcome, Outcome::Duplicate);
    subject.holds(&address, &["p"]).await;
}

/// The sequence counts appends.
pub async fn a_sequence_counts_appends_and_not_messages(subject: Subject) {
    let address = subject.make("a").await;
    let three = Append { messages: messages(&["a", "b", "c"]), ..produced("p", 0, 0) };
    subject.accept(&address, three).await;
    subject.accept(&address, produced("p", 0, 1)).await;
}

/// Each id has its own state.
pub async fn producers_do_not_know_each_other(subject: Subject) {
    let address = subject.make("a").await;
    for id in ["p", "q", "P", "p q", "é"] {
        subject.accept(&address, produced(id, 3, 0)).await;
    }
    subject.accept(&address, produced("q", 4, 0)).await;
    subject.accept(&address, produced("p", 3, 1)).await;
}

/// Each stream has its own state.
pub async fn a_producer_starts_anew_in_each_stream(subject: Subject) {
    let (one, other) = (subject.make("one").await, subject.make("other").await);
    subject.accept(&one, produced("p", 7, 0)).await;
    subject.accept(&other, produced("p", 0, 0)).await;
    subject.accept(&one, produced("p", 7, 1)).await;
}

/// Writers without a triple neither need nor disturb those with one.
pub async fn appends_without_a_producer_pass_between(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, produced("p", 0, 0)).await;
    subject.append(&address, &["plain"]).await;
    subject.accept(&address, produced("p", 0, 1)).await;
    let retry = subject.log.append(&address, produced("p", 0, 0)).await.expect("a retry");
    assert_eq!(retry.outcome, Outcome::Duplicate);
    assert_eq!(retry.tail, subject.head(&address).await.tail);
}

/// A higher epoch takes over and starts at zero.
pub async fn a_new_epoch_fences_the_old_one(subject: Subject) {
    let address = subject.make("a").await;
    for seq in 0..3 {
        subject.accept(&address, produced("p", 0, seq)).await;
    }
    subject.accept(&address, produced("p", 1, 0)).await;
    for seq in [0, 2, 3] {
        let answer = subject.log.append(&address, produced("p", 0, seq)).await;
        assert_matches!(answer, Err(AppendError::Fenced(fact)) if fact.current.get() == 1);
    }
    subject.accept(&address, produced("p", 1, 1)).await;
}

/// A retry was judged when it was first sent.
pub async fn a_retry_is_known_before_its_conditions_are_judged(subject: Subject) {
    let address = subject.make("a").await;
    let first = Append { seq: Some(stream_seq("1")), ..produced("p", 0, 0) };
    let expected = subject.log.capabilities().expected_offset.then_some(Offset::START);
    let first = Append { expected, ..first };
    subject.accept(&address, first.clone()).await;
    let retry = subject.log.append(&address, first).await.expect("a retry meets no condition");
    assert_eq!(retry.outcome, Outcome::Duplicate);
    assert_eq!(retry.producer, state(0, 0));
}

/// Only what was stored counts.
pub async fn a_refused_append_does_not_advance_its_producer(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, Append { seq: Some(stream_seq("5")), ..append(&["a"]) }).await;
    let mut bad = vec![
        Append { content_type: Some(ContentType::json()), ..produced("p", 2, 0) },
        Append { seq: Some(stream_seq("5")), ..produced("p", 2, 0) },
    ];
    if subject.log.capabilities().expected_offset {
        bad.push(Append { expected: Some(Offset::START), ..produced("p", 2, 0) });
    }
    for append in bad {
        assert!(subject.log.append(&address, append).await.is_err());
    }
    // Were the refused epoch remembered, this lower one would be fenced.
    subject.accept(&address, produced("p", 1, 0)).await;
}

/// Retries that cross on their way are stored once.
pub async fn retries_at_the_same_time_are_stored_once(subject: Subject) {
    let address = subject.make("a").await;
    let answers = subject
        .side_by_side(16, async |subject, _| {
            let answer = subject.log.append(&stream("a"), produced("p", 0, 0)).await;
            answer.expect("a retry is no error")
        })
        .await;
    let new = answers.iter().filter(|answer| answer.outcome == Outcome::New).count();
    assert_eq!(new, 1);
    assert!(answers.iter().all(|answer| answer.tail == Offset::new(1, 1)));
    subject.holds(&address, &["p"]).await;
}

/// The protocol's largest integers are accepted.
pub async fn epochs_go_up_to_the_largest_integer(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, produced("p", INTEGER_MAX - 1, 0)).await;
    subject.accept(&address, produced("p", INTEGER_MAX, 0)).await;
    let answer = subject.log.append(&address, produced("p", INTEGER_MAX, INTEGER_MAX)).await;
    assert_matches!(answer, Err(AppendError::Gap(fact)) if fact.expected.get() == 1);
}

/// Producers are bounded; those who are known stay welcome.
pub async fn a_stream_remembers_so_many_producers_and_no_more(subject: Subject) {
    const TASKS: usize = 16;
    let address = subject.make("a").await;
    subject
        .side_by_side(TASKS, async |subject, task| {
            for number in (task..PRODUCERS_PER_STREAM_MAX).step_by(TASKS) {
                subject.accept(&stream("a"), produced(&format!("p{number}"), 0, 0)).await;
            }
        })
        .await;
    refuses_a_newcomer(&subject, &address).await;
    for known in ["p0", "p4095"] {
        let retry = subject.log.append(&address, produced(known, 0, 0)).await.expect("a retry");
        assert_eq!(retry.outcome, Outcome::Duplicate);
        subject.accept(&address, produced(known, 0, 1)).await;
    }
    refuses_a_newcomer(&subject, &address).await;
    subject.append(&address, &["without a producer"]).await;
}

async fn refuses_a_newcomer(subject: &Subject, address: &Address) {
    let answer = subject.log.append(address, produced("newcomer", 0, 0)).await;
    assert_matches!(answer, Err(AppendError::TooManyProducers(_)));
}
