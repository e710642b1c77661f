//! Waiting for a tail to move.

use wire::{Expiry, Offset, Ttl};

use super::{
    Subject,
    subject::{append, is_pending, produced},
};
use crate::{Closing, Create, Delete, Fork, HeadError};

/// What has happened needs no waiting.
pub async fn a_tail_that_has_moved_is_told_at_once(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"], &["two"]]).await;
    let head = subject.head(&address).await;
    for after in [Offset::START, Offset::new(1, 3), Offset::new(1, 5)] {
        let told = subject.soon(subject.log.tail(&address, after)).await;
        assert_eq!(told.expect("the stream exists"), head);
    }
}

/// An append wakes who waits.
pub async fn an_append_wakes_a_waiter(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    let after = subject.head(&address).await.tail;
    let mut waiting = subject.log.tail(&address, after);
    subject.stays_pending(&mut waiting).await;
    let tail = subject.append(&address, &["two"]).await;
    let told = subject.soon(waiting).await.expect("the stream exists");
    assert_eq!((told.tail, told.closed), (tail, false));
}

/// A close wakes who waits, with or without messages.
pub async fn a_close_wakes_a_waiter(subject: Subject) {
    for (name, texts) in [("close", &[][..]), ("append and close", &["last"])] {
        let address = subject.make(name).await;
        let mut waiting = subject.log.tail(&address, Offset::START);
        assert!(is_pending(&mut waiting).await);
        let last = crate::Append { closing: Closing::Close, ..append(texts) };
        let tail = subject.accept(&address, last).await;
        let told = subject.soon(waiting).await.expect("the stream exists");
        assert_eq!((told.tail, told.closed), (tail, true));
    }
}

/// Nobody waits for what cannot come.
pub async fn a_closed_stream_keeps_nobody_waiting(subject: Subject) {
    let address = subject.make_filled("a", &[&["one"]]).await;
    subject.close(&address).await;
    let head = subject.head(&address).await;
    for after in [Offset::START, head.tail, head.tail.after(5, 5)] {
        let told = subject.soon(subject.log.tail(&address, after)).await;
        assert_eq!(told.expect("the stream exists"), head);
    }
}

/// The stream that was waited for has ended.
pub async fn a_delete_wakes_a_waiter_with_an_error(subject: Subject) {
    let address = subject.make("a").await;
    let mut waiting = subject.log.tail(&address, Offset::START);
    assert!(is_pending(&mut waiting).await);
    subject.delete(&address).await;
    assert_matches!(subject.soon(waiting).await, Err(HeadError::NotFound(_)));
}

/// Also where forks keep the data.
pub async fn a_delete_wakes_a_waiter_though_forks_live_on(subject: Subject) {
    let address = subject.make("a").await;
    let fork = subject.fork("fork", Fork::of(address.clone())).await;
    let mut waiting = subject.log.tail(&address, Offset::START);
    let mut forks = subject.log.tail(&fork, Offset::START);
    assert!(is_pending(&mut waiting).await);
    assert!(is_pending(&mut forks).await);
    subject.delete(&address).await;
    assert_matches!(subject.soon(waiting).await, Err(HeadError::Gone(_)));
    subject.stays_pending(forks).await;
}

/// Erasing ends the forks, and the waits for them.
pub async fn an_erase_wakes_the_waiters_of_forks(subject: Subject) {
    let address = subject.make("a").await;
    let fork = subject.fork("fork", Fork::of(address.clone())).await;
    let mut waiting = subject.log.tail(&fork, Offset::START);
    assert!(is_pending(&mut waiting).await);
    match subject.log.delete(&address, Delete::Erase).await {
        Err(crate::DeleteError::Unsupported(_)) => {}
        erased => {
            erased.expect("the stream can be erased");
            assert_matches!(subject.soon(waiting).await, Err(HeadError::NotFound(_)));
        }
    }
}

/// A stream of the same name is another stream.
pub async fn a_waiter_is_not_handed_on_to_a_stream_made_anew(subject: Subject) {
    let address = subject.make_filled("a", &[&["old"]]).await;
    let after = subject.head(&address).await.tail;
    let mut waiting = subject.log.tail(&address, after);
    assert!(is_pending(&mut waiting).await);
    subject.delete(&address).await;
    subject.make("a").await;
    subject.append(&address, &["new", "and", "longer"]).await;
    assert_matches!(subject.soon(waiting).await, Err(HeadError::NotFound(_)));
}

/// Time ends a wait as a delete does.
pub async fn an_expiry_wakes_a_waiter_with_an_error(subject: Subject) {
    let expiry = Expiry::Sliding(Ttl::from_seconds(1));
    let address = subject.make_with("a", Create { expiry, ..Create::default() }).await;
    let answer = subject.soon(subject.log.tail(&address, Offset::START)).await;
    assert_matches!(answer, Err(HeadError::NotFound(_)));
}

/// However many wait, all are told.
pub async fn every_waiter_is_woken(subject: Subject) {
    let address = subject.make("a").await;
    let mut waiting: Vec<_> = (0..100).map(|_| subject.log.tail(&address, Offset::START)).collect();
    for one in &mut waiting {
        assert!(is_pending(one).await);
    }
    let tail = subject.append(&address, &["now"]).await;
    for one in waiting {
        assert_eq!(subject.soon(one).await.expect("the stream exists").tail, tail);
    }
}

/// Waiters that leave take nobody along.
pub async fn a_waiter_that_leaves_disturbs_no_other(subject: Subject) {
    let address = subject.make("a").await;
    let mut staying = subject.log.tail(&address, Offset::START);
    assert!(is_pending(&mut staying).await);
    {
        let mut leaving = subject.log.tail(&address, Offset::START);
        assert!(is_pending(&mut leaving).await);
    }
    subject.append(&address, &["now"]).await;
    assert!(subject.soon(staying).await.is_ok());
}

/// A waiter is told when the tail is past its offset, and not before.
pub async fn a_waiter_ahead_of_the_tail_waits_until_it_is_passed(subject: Subject) {
    let address = subject.make("a").await;
    let mut waiting = subject.log.tail(&address, Offset::new(2, 2));
    for text in ["1", "2"] {
        assert!(is_pending(&mut waiting).await);
        subject.append(&address, &[text]).await;
    }
    subject.stays_pending(&mut waiting).await;
    let tail = subject.append(&address, &["3"]).await;
    assert_eq!(subject.soon(waiting).await.expect("the stream exists").tail, tail);
}

/// What does not move the tail wakes nobody.
pub async fn nothing_else_wakes_a_waiter(subject: Subject) {
    let address = subject.make("a").await;
    let tail = subject.accept(&address, produced("p", 0, 0)).await;
    let other = subject.make("b").await;
    let mut waiting = subject.log.tail(&address, tail);
    assert!(is_pending(&mut waiting).await);
    let fork = subject.fork("fork", Fork::of(address.clone())).await;
    subject.append(&fork, &["to the fork"]).await;
    subject.append(&other, &["to another"]).await;
    let retry = subject.log.append(&address, produced("p", 0, 0)).await;
    assert!(retry.is_ok(), "a retry is no error");
    let gap = subject.log.append(&address, produced("p", 0, 9)).await;
    assert!(gap.is_err(), "a gap is refused");
    if subject.log.capabilities().trim {
        subject.log.trim(&address, tail).await.expect("the tail is a boundary");
    }
    subject.stays_pending(waiting).await;
}

/// A fork waits for its own tail.
pub async fn a_source_does_not_wake_the_waiters_of_its_forks(subject: Subject) {
    let source = subject.make_filled("source", &[&["one"]]).await;
    let fork = subject.fork("fork", Fork::of(source.clone())).await;
    let after = subject.head(&fork).await.tail;
    let mut waiting = subject.log.tail(&fork, after);
    subject.append(&source, &["two"]).await;
    subject.close(&source).await;
    subject.stays_pending(&mut waiting).await;
    let tail = subject.append(&fork, &["own"]).await;
    assert_eq!(subject.soon(waiting).await.expect("the fork exists").tail, tail);
}
