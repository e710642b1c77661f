//! Appending: what is stored, under which conditions, and in which order.

use std::collections::BTreeSet;

use wire::{Address, ContentType, Messages, Offset, ReadFrom};

use super::{
    Subject,
    subject::{
        append, boundaries, closing, is_pending, messages, produced, producer, stream, stream_seq,
        texts_of,
    },
};
use crate::{Append, AppendError, Create, Outcome};

fn typed(append: Append, content_type: ContentType) -> Append {
    Append { content_type: Some(content_type), ..append }
}

fn in_seq(seq: &str) -> Append {
    Append { seq: Some(stream_seq(seq)), ..append(&["s"]) }
}

fn expecting(expected: Offset) -> Append {
    Append { expected: Some(expected), ..append(&["e"]) }
}

/// True if the engine has no expected offset; then it must say so.
async fn lacks_expected_offset(subject: &Subject, address: &Address) -> bool {
    if subject.log.capabilities().expected_offset {
        return false;
    }
    let answer = subject.log.append(address, expecting(Offset::START)).await;
    assert_matches!(answer, Err(AppendError::Unsupported(_)));
    true
}

/// However messages come, they leave as they came.
pub async fn messages_keep_their_boundaries_and_order(subject: Subject) {
    let address = subject.make("a").await;
    let appends: [&[&str]; 4] = [&["one"], &["two", "three"], &["4"], &["five", "6", "seven"]];
    let mut tail = Offset::START;
    for texts in appends {
        let appended = subject.answer(&address, append(texts)).await;
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        tail = tail.after(texts.len() as u64, bytes as u64);
        assert_eq!((appended.tail, appended.closed, appended.producer), (tail, false, None));
        assert_eq!(subject.head(&address).await.tail, tail);
    }
    subject.holds(&address, &appends.concat()).await;
}

/// The log knows no content.
pub async fn any_byte_comes_back_as_it_was(subject: Subject) {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let odd: [&[u8]; 5] = [&every_byte, b"\0", b"\r\n", b"\n\n", b"\xff\xfe"];
    // Whoever speaks HTTP wants JSON to be JSON.
    let odd_json: [&[u8]; 5] =
        [b"[\r\n1 ,\t2]", b"\"\\u0000\"", "\"é\u{2028}\"".as_bytes(), b"1e3", b"{}"];
    let rows = [(ContentType::octet_stream(), odd), (ContentType::json(), odd_json)];
    for (content_type, odd) in rows {
        let create = Create { content_type: Some(content_type.clone()), ..Create::default() };
        let address = subject.make_with(&content_type.as_str().replace('/', "-"), create).await;
        let all = Messages::copied(odd.iter().copied()).expect("five small messages");
        subject.accept(&address, Append::messages(all)).await;
        let chunk = subject.read(&address, ReadFrom::Start).await;
        assert!(chunk.messages().eq(odd), "{content_type}");
        assert_eq!(chunk.bytes(), odd.concat());
    }
}

/// A message may be larger than a chunk, an append longer than any page.
pub async fn large_appends_come_back_whole(subject: Subject) {
    let address = subject.make("a").await;
    let large: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let one = Messages::one(large.clone()).expect("a message may have three million bytes");
    subject.accept(&address, Append::messages(one)).await;
    let chunk = subject.read(&address, ReadFrom::Start).await;
    assert!(chunk.bytes() == large, "the large message comes back");

    let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    subject.append(&address, &numbers).await;
    let rest = subject.read(&address, ReadFrom::At(chunk.next)).await;
    assert_eq!(texts_of(&rest), numbers);
}

/// An append of nothing is a mistake.
pub async fn an_append_without_messages_is_refused(subject: Subject) {
    let address = subject.make("a").await;
    for nothing in [append(&[]), Append { messages: Messages::none(), ..produced("p", 0, 0) }] {
        assert_matches!(subject.log.append(&address, nothing).await, Err(AppendError::Empty));
    }
    subject.accept(&address, produced("p", 0, 0)).await;
}

/// Who names a content type must name the stream's.
pub async fn the_content_type_must_be_the_streams(subject: Subject) {
    let create = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let address = subject.make_with("a", create).await;
    let same = "Application/JSON; charset=utf-8".parse().expect("a content type");
    subject.accept(&address, typed(append(&["1"]), same)).await;
    let other = typed(append(&["2"]), ContentType::octet_stream());
    let refused = subject.log.append(&address, other).await;
    assert_matches!(
        refused,
        Err(AppendError::ContentType(fact))
            if fact.stream == ContentType::json() && fact.given == ContentType::octet_stream()
    );
    subject.holds(&address, &["1"]).await;
}

/// `Stream-Seq` is compared byte by byte and must grow.
pub async fn stream_seq_must_grow(subject: Subject) {
    let address = subject.make("a").await;
    let steps = [
        ("2", true),
        ("2", false),
        ("10", false),
        ("1", false),
        ("20", true),
        ("3", true),
        ("B", true),
        ("A", false),
        ("a", true),
        ("Z", false),
    ];
    let mut last = None;
    for (seq, grows) in steps {
        let tail = subject.head(&address).await.tail;
        let answer = subject.log.append(&address, in_seq(seq)).await;
        if grows {
            assert_matches!(answer, Ok(appended) if appended.outcome == Outcome::New);
            last = Some(stream_seq(seq));
        } else {
            let given = stream_seq(seq);
            assert_matches!(
                answer,
                Err(AppendError::StreamSeq(fact))
                    if Some(&fact.last) == last.as_ref() && fact.given == given && fact.tail == tail
            );
        }
    }
    subject.append(&address, &["without a sequence"]).await;
    let answer = subject.log.append(&address, in_seq("a")).await;
    assert_matches!(answer, Err(AppendError::StreamSeq(_)));
}

/// Compare and append.
pub async fn the_expected_offset_must_be_the_tail(subject: Subject) {
    let address = subject.make("a").await;
    if lacks_expected_offset(&subject, &address).await {
        return;
    }
    let first = subject.accept(&address, expecting(Offset::START)).await;
    let tail = subject.accept(&address, expecting(first)).await;
    let wrong = [Offset::START, first, tail.after(1, 1), tail.after(0, 1), Offset::new(2, 0)];
    for expected in wrong {
        let answer = subject.log.append(&address, expecting(expected)).await;
        assert_matches!(answer, Err(AppendError::ExpectedOffset(fact)) if fact.tail == tail);
    }
    subject.accept(&address, expecting(tail)).await;
}

/// Compare and append is atomic.
pub async fn one_of_many_with_the_same_expected_offset_wins(subject: Subject) {
    let address = subject.make("a").await;
    if lacks_expected_offset(&subject, &address).await {
        return;
    }
    let answers = subject
        .side_by_side(16, async |subject, _| {
            subject.log.append(&stream("a"), expecting(Offset::START)).await
        })
        .await;
    let tail = subject.head(&address).await.tail;
    assert_eq!(tail, Offset::new(1, 1));
    let winners = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(winners, 1);
    for loser in answers.into_iter().filter_map(Result::err) {
        assert_matches!(loser, AppendError::ExpectedOffset(fact) if fact.tail == tail);
    }
}

/// Of many reasons to refuse, the protocol's first is told.
pub async fn refusals_come_in_the_order_of_the_protocol(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, Append { seq: Some(stream_seq("5")), ..produced("p", 1, 0) }).await;
    let has_expected = subject.log.capabilities().expected_offset;
    let mut wrong = Append {
        content_type: Some(ContentType::json()),
        producer: Some(producer("p", 0, 7)),
        seq: Some(stream_seq("5")),
        expected: has_expected.then_some(Offset::START),
        ..append(&["1"])
    };
    let answer = subject.log.append(&address, wrong.clone()).await;
    assert_matches!(answer, Err(AppendError::ContentType(_)));
    wrong.content_type = None;
    let answer = subject.log.append(&address, wrong.clone()).await;
    assert_matches!(answer, Err(AppendError::Fenced(_)));
    wrong.producer = Some(producer("p", 1, 1));
    if has_expected {
        let answer = subject.log.append(&address, wrong.clone()).await;
        assert_matches!(answer, Err(AppendError::ExpectedOffset(_)));
        wrong.expected = Some(Offset::new(1, 1));
    }
    let answer = subject.log.append(&address, wrong.clone()).await;
    assert_matches!(answer, Err(AppendError::StreamSeq(_)));
    wrong.seq = Some(stream_seq("6"));
    subject.accept(&address, wrong).await;
}

/// A refusal leaves the head, the messages, the producers and the sequence as they were.
pub async fn a_refused_append_changes_nothing(subject: Subject) {
    let address = subject.make("a").await;
    subject.accept(&address, Append { seq: Some(stream_seq("5")), ..produced("p", 1, 0) }).await;
    let before = subject.head(&address).await;
    let next = Append { seq: Some(stream_seq("7")), ..produced("p", 1, 1) };
    let mut bad = vec![
        Append { messages: Messages::none(), ..next.clone() },
        typed(next.clone(), ContentType::json()),
        typed(closing(next.clone()), ContentType::json()),
        Append { producer: Some(producer("p", 0, 9)), ..next.clone() },
        Append { producer: Some(producer("p", 1, 2)), ..next.clone() },
        Append { producer: Some(producer("p", 2, 1)), ..next.clone() },
        Append { producer: Some(producer("q", 0, 1)), ..next.clone() },
        Append { seq: Some(stream_seq("5")), ..next.clone() },
        Append { seq: Some(stream_seq("5")), ..closing(next.clone()) },
    ];
    if subject.log.capabilities().expected_offset {
        bad.push(Append { expected: Some(Offset::START), ..next.clone() });
        bad.push(Append { expected: Some(Offset::START), ..closing(next.clone()) });
    }
    for append in bad {
        let answer = subject.log.append(&address, append.clone()).await;
        assert!(answer.is_err(), "{append:?} was accepted: {answer:?}");
        assert_eq!(subject.head(&address).await, before, "{append:?}");
        subject.holds(&address, &["p"]).await;
    }
    subject.accept(&address, Append { seq: Some(stream_seq("6")), ..next }).await;
    subject.accept(&address, produced("q", 0, 0)).await;
}

/// One order for all, and in it the order of each.
pub async fn appends_of_many_tasks_are_all_there_once(subject: Subject) {
    const TASKS: usize = 8;
    const APPENDS: usize = 25;
    let address = subject.make("a").await;
    let tails = subject
        .side_by_side(TASKS, async |subject, task| {
            let mut tails = Vec::new();
            for number in 0..APPENDS {
                let (first, second) = (format!("{task}:{number}:1"), format!("{task}:{number}:2"));
                tails.push(subject.append(&stream("a"), &[&first, &second]).await);
            }
            tails
        })
        .await;

    assert!(tails.iter().all(|own| own.is_sorted()), "each caller's appends are in its order");
    let unique: BTreeSet<Offset> = tails.iter().flatten().copied().collect();
    assert_eq!(unique.len(), TASKS * APPENDS);
    let texts = subject.texts(&address).await;
    assert_eq!(texts.len(), 2 * TASKS * APPENDS);
    for (task, own) in tails.iter().enumerate() {
        for (number, tail) in own.iter().enumerate() {
            let end = tail.position.get() as usize;
            let both = [format!("{task}:{number}:1"), format!("{task}:{number}:2")];
            assert_eq!(texts[end - 2..end], both);
        }
    }
}

/// Streams do not wait for each other, and do not mix.
pub async fn appends_to_many_streams_stay_apart(subject: Subject) {
    subject
        .side_by_side(16, async |subject, number| {
            let (name, text) = (format!("s/{number}"), number.to_string());
            let address = subject.make(&name).await;
            for _ in 0..10 {
                subject.append(&address, &[&text]).await;
            }
            subject.holds(&address, &[text.as_str(); 10]).await;
        })
        .await;
}

/// A caller that leaves has appended all or nothing.
pub async fn a_dropped_append_happened_or_did_not(subject: Subject) {
    let address = subject.make("a").await;
    {
        let mut abandoned = subject.log.append(&address, append(&["one", "two"]));
        is_pending(&mut abandoned).await;
    }
    drop(subject.log.append(&address, append(&["never polled"])));
    subject.append(&address, &["end"]).await;
    let texts = subject.texts(&address).await;
    let abandoned: [&[&str]; 4] =
        [&[], &["one", "two"], &["never polled"], &["one", "two", "never polled"]];
    assert!(abandoned.iter().any(|kept| texts == [kept, &["end"][..]].concat()), "{texts:?}");
    let tail = boundaries(&texts.iter().map(String::as_str).collect::<Vec<_>>()).pop();
    assert_eq!(Some(subject.head(&address).await.tail), tail);
}

/// A part of a run is a run.
pub async fn slices_of_a_run_are_appended_as_they_are(subject: Subject) {
    let address = subject.make("a").await;
    let run = messages(&["a", "bb", "ccc"]);
    subject.accept(&address, Append::messages(run.slice(1, 3))).await;
    subject.accept(&address, Append::messages(run.slice(0, 2))).await;
    subject.holds(&address, &["bb", "ccc", "a", "bb"]).await;
}
