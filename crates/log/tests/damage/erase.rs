//! Erasing costs what is erased, not what is stored.

use log::{Append, Create, Delete, Log};
use wire::Messages;

use crate::place::{MESSAGES, Place, stream, text};

/// The head of a pack passed for dead bytes after a restart, and every pack was written again.
#[tokio::test(start_paused = true)]
async fn erasing_a_small_stream_after_a_restart_rewrites_no_pack() {
    let place = Place::filled().await;
    let log = place.open().await;
    let _ = log.create(&stream("small"), Create::default()).await.expect("a new name");
    let message = Append::messages(Messages::one("one").expect("one message"));
    let _ = log.append(&stream("small"), message).await.expect("an open stream");
    place.rest().await;
    log.close().await;

    let log = place.open().await;
    place.rest().await;
    let stored = MESSAGES * 2 * text("a", 0).len() as u64;
    let before = place.pack_bytes_written();
    log.delete(&stream("small"), Delete::Erase).await.expect("it was there");
    place.rest().await;
    let written = place.pack_bytes_written() - before;
    assert!(written < stored / 4, "{written} of {stored} bytes were written again");
    log.close().await;
}
