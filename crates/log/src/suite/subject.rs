//! What a test works on, and the steps that most tests share.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use sys::Sys;
use tokio::sync::oneshot;
use wire::{
    Address, Epoch, Messages, Offset, Producer, ProducerSeq, ReadFrom, StreamSeq,
    caps::CHUNK_BYTES_DEFAULT,
};

use crate::{
    Append, Appended, Chunk, Closing, Create, Delete, Fork, Freshness, Head, Log, Outcome,
};

/// How long a test waits for what must happen at once; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a test watches for what must not happen.
const SUSPICION: Duration = Duration::from_millis(200);
/// How often a test looks again for what happens in its own time.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// An empty log and the world it lives in.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The log.
    pub log: Arc<dyn Log>,
    /// Its clock says when streams expire; its tasks run beside the test.
    pub sys: Sys,
    /// Whether it is elsewhere, so that a watch begins with a resync when hints begin to come.
    pub is_remote: bool,
}

/// The address of a user's stream.
pub(super) fn stream(name: &str) -> Address {
    Address::Stream(name.parse().expect("tests name streams by valid paths"))
}

/// One run of messages.
pub(super) fn messages(texts: &[&str]) -> Messages {
    Messages::copied(texts.iter().map(|text| text.as_bytes())).expect("tests send small messages")
}

/// An append of these messages, without conditions.
pub(super) fn append(texts: &[&str]) -> Append {
    Append::messages(messages(texts))
}

/// An append of one message by a producer.
pub(super) fn produced(id: &str, epoch: u64, seq: u64) -> Append {
    Append { producer: Some(producer(id, epoch, seq)), ..append(&["p"]) }
}

/// A producer's triple.
pub(super) fn producer(id: &str, epoch: u64, seq: u64) -> Producer {
    Producer {
        id: id.parse().expect("tests name producers by short words"),
        epoch: Epoch::new(epoch),
        seq: ProducerSeq::new(seq),
    }
}

/// A `Stream-Seq`.
pub(super) fn stream_seq(text: &str) -> StreamSeq {
    text.parse().expect("tests use short sequences")
}

/// The same append, closing the stream.
pub(super) fn closing(append: Append) -> Append {
    Append { closing: Closing::Close, ..append }
}

/// The chunk's messages as text.
pub(super) fn texts_of(chunk: &Chunk) -> Vec<String> {
    chunk.messages().map(|message| String::from_utf8_lossy(message).into_owned()).collect()
}

/// The places before, between and after these messages, from the start of a stream.
pub(super) fn boundaries(texts: &[&str]) -> Vec<Offset> {
    let mut places = vec![Offset::START];
    for text in texts {
        places.push(places[places.len() - 1].after(1, text.len() as u64));
    }
    places
}

/// Polls once; true if the future has not resolved.
pub(super) async fn is_pending(future: &mut (impl Future + Unpin)) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

impl Subject {
    /// Makes a stream with default settings.
    pub(super) async fn make(&self, name: &str) -> Address {
        self.make_with(name, Create::default()).await
    }

    /// Makes a stream.
    pub(super) async fn make_with(&self, name: &str, create: Create) -> Address {
        let address = stream(name);
        let created = self.log.create(&address, create).await.expect("the name is free");
        assert_eq!(created.outcome, Outcome::New, "{address} is new");
        address
    }

    /// Makes a stream and sends it these appends, one after the other.
    pub(super) async fn make_filled(&self, name: &str, appends: &[&[&str]]) -> Address {
        let address = self.make(name).await;
        for texts in appends {
            self.append(&address, texts).await;
        }
        address
    }

    /// Forks, and tells the fork's address.
    pub(super) async fn fork(&self, name: &str, fork: Fork) -> Address {
        let address = stream(name);
        let created = self.log.fork(&address, fork).await.expect("the fork can be made");
        assert_eq!(created.outcome, Outcome::New, "{address} is new");
        address
    }

    /// Appends messages to an open stream, and tells the tail.
    pub(super) async fn append(&self, address: &Address, texts: &[&str]) -> Offset {
        self.accept(address, append(texts)).await
    }

    /// Sends an append that must be stored, and tells the tail.
    pub(super) async fn accept(&self, address: &Address, append: Append) -> Offset {
        let appended = self.answer(address, append).await;
        assert_eq!(appended.outcome, Outcome::New, "the append to {address} is new");
        appended.tail
    }

    /// Sends an append that must be stored, now or before.
    pub(super) async fn answer(&self, address: &Address, append: Append) -> Appended {
        self.log.append(address, append).await.expect("the append is in order")
    }

    /// Closes an existing stream, and tells the tail.
    pub(super) async fn close(&self, address: &Address) -> Offset {
        self.log.close(address).await.expect("a stream can be closed").tail
    }

    /// Deletes an existing stream.
    pub(super) async fn delete(&self, address: &Address) {
        self.log.delete(address, Delete::Stream).await.expect("a stream can be deleted");
    }

    /// The head of an existing stream.
    pub(super) async fn head(&self, address: &Address) -> Head {
        self.log.head(address).await.expect("the stream exists")
    }

    /// One read of an existing stream.
    pub(super) async fn read(&self, address: &Address, from: ReadFrom) -> Chunk {
        self.log.read(address, from, CHUNK_BYTES_DEFAULT).await.expect("the place can be read")
    }

    /// Every message kept, first to last.
    pub(super) async fn texts(&self, address: &Address) -> Vec<String> {
        let mut texts = Vec::new();
        let mut from = ReadFrom::Start;
        loop {
            let chunk = self.read(address, from).await;
            texts.extend(texts_of(&chunk));
            if chunk.freshness != Freshness::Behind {
                return texts;
            }
            from = ReadFrom::At(chunk.next);
        }
    }

    /// Demands that the stream keeps exactly these messages.
    pub(super) async fn holds(&self, address: &Address, expected: &[&str]) {
        assert_eq!(self.texts(address).await, expected, "the messages of {address}");
    }

    /// Waits for what must happen without anything else happening first.
    pub(super) async fn soon<F: Future>(&self, future: F) -> F::Output {
        let answer = self.sys.clock.timeout(PATIENCE, future).await;
        answer.expect("what the test waits for happens soon")
    }

    /// Demands that a future does not resolve by itself.
    pub(super) async fn stays_pending(&self, future: impl Future) {
        let answer = self.sys.clock.timeout(SUSPICION, future).await;
        assert!(answer.is_err(), "nothing has happened that could wake the future");
    }

    /// Lets time pass.
    pub(super) async fn pass_ms(&self, ms: u64) {
        self.sys.clock.sleep(Duration::from_millis(ms)).await;
    }

    /// Looks again and again until the stream is not found.
    pub(super) async fn vanishes(&self, address: &Address) {
        let looking = async {
            while !matches!(self.log.head(address).await, Err(crate::HeadError::NotFound(_))) {
                self.sys.clock.sleep(LOOK_AGAIN).await;
            }
        };
        self.soon(looking).await;
    }

    /// Runs one task for each number below `count`, side by side, and gathers what they return.
    pub(super) async fn side_by_side<T, F>(
        &self,
        count: usize,
        work: impl Fn(Self, usize) -> F,
    ) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let start = |number| {
            let (done, result) = oneshot::channel();
            let work = work(self.clone(), number);
            let task = self.sys.spawn.task("side by side", async move {
                assert!(done.send(work.await).is_ok(), "the test waits for its tasks");
            });
            (task, result)
        };
        let mut results = Vec::new();
        for (task, result) in (0..count).map(start).collect::<Vec<_>>() {
            task.join().await;
            results.push(result.await.expect("a task that ended has sent its result"));
        }
        results
    }
}
