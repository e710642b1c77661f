//! How much of a session an agent reads that was last asked long ago.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::{
    History, RunningAgent,
    caps::WINDOW_BYTES_PER_HISTORY_BYTE,
    rows::{Generation, Message},
    session::Sessions,
};
use log::{Answer, Layer, Log, ReadError};
use providers::scripted::{Pace, Scripted, Turn};
use wire::{Address, ReadFrom};

use crate::support::{AGENT, Session};

/// A log that counts the bytes that are read from it.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Log>,
    bytes: AtomicUsize,
}

impl Layer for Counted {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<log::Chunk, ReadError>> {
        Box::pin(async move {
            let chunk = self.inner.read(address, from, bytes_max).await?;
            let bytes: usize = chunk.messages().map(<[u8]>::len).sum();
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            Ok(chunk)
        })
    }
}

/// What the agents of these tests are told at the most, and how far back they read for it.
const TOLD: usize = 128 * 1024;
const READ: usize = TOLD * WINDOW_BYTES_PER_HISTORY_BYTE as usize;

struct World {
    session: Session,
    log: Arc<Counted>,
    sessions: Sessions,
}

impl World {
    async fn new() -> Self {
        let session = Session::new().await;
        let log = Arc::new(Counted { inner: session.log.clone(), bytes: AtomicUsize::new(0) });
        let sessions = Sessions::new(&session.sys, log.clone());
        Self { session, log, sessions }
    }

    async fn start(&self, model: &Scripted) -> RunningAgent {
        let history = History { bytes_max: TOLD, ..History::default() };
        let agent = self.session.agent(model).history(history);
        let agent = agent.session(self.log.clone(), self.session.address.clone());
        agent.sessions(&self.sessions).start(&self.session.sys).await.unwrap()
    }

    /// Another agent is told so many bytes, and gives no answer.
    async fn others(&self, bytes: usize) {
        for number in 0..bytes / 64_000 {
            let text = "x".repeat(64_000);
            let row = Message::to_agent("other", "ada", &text, &self.session.sys);
            self.session.insert(Message { id: format!("{}-{number}", row.id), ..row }).await;
        }
        // What all parts of this process share knows of it.
        let shared = self.sessions.of(self.session.address.stream().unwrap());
        shared.lock().await.catch_up().await.unwrap();
        self.log.bytes.store(0, Ordering::Relaxed);
    }

    async fn generation(&self, count: usize) -> Generation {
        self.session.over(count).await.pop().unwrap()
    }
}

fn texts(request: &chat::Request) -> Vec<String> {
    request.messages.iter().map(|message| message.text_content()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_asked_long_ago_does_not_read_all_that_others_said_since() {
    let world = World::new().await;
    let script = || (0..9).map(|number| Turn::new().text(format!("Answer {number}.")));
    let model = world.session.model(script());
    let running = world.start(&model).await;
    world.session.say("m0", "Question 0?").await;
    world.generation(1).await;
    running.stop().await.unwrap();

    world.others(5 * READ).await;
    world.session.say("m1", "Question 1?").await;
    let running = world.start(&model).await;
    let second = world.generation(2).await;
    let read = world.log.bytes.load(Ordering::Relaxed);
    assert!(read < 3 * READ, "{read} bytes were read; they are looked for, and then read");
    assert_eq!(texts(model.requests().last().unwrap()), ["Question 1?"]);
    let first = world.session.over(2).await.remove(0);
    assert_eq!(second.read_after, Some(first.read_up_to), "nothing is answered twice");
    let asked = world.session.db.rows::<Message>().unwrap().get("m1").unwrap();
    assert_eq!(second.history_from, asked.meta().position);
    running.stop().await.unwrap();

    // From there on it is as with any other conversation.
    let running = world.start(&model).await;
    world.session.say("m2", "Question 2?").await;
    world.generation(3).await;
    let told = texts(model.requests().last().unwrap());
    assert_eq!((told[0].as_str(), told.len()), ("Question 1?", 3));
    running.stop().await.unwrap();
    assert_eq!(world.session.rows::<Generation>().len(), 3);
    assert!(world.session.rows::<Generation>().iter().all(|row| row.agent_name == AGENT));
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_told_the_same_however_much_others_say_meanwhile() {
    let world = World::new().await;
    let script = || (0..9).map(|number| Turn::new().text(format!("Answer {number}.")));
    let model = world.session.model(script());
    let running = world.start(&model).await;
    world.session.say("m0", "Question 0?").await;
    world.generation(1).await;
    running.stop().await.unwrap();
    let slow = world.session.model(script()).pace(Pace::per_word(Duration::from_secs(10)));
    let running = world.start(&slow).await;
    world.session.say("m1", "Question 1?").await;
    while slow.requests().is_empty() {
        world.session.sys.clock.sleep(Duration::from_secs(1)).await;
    }
    running.abort();
    world.others(3 * READ).await;
    let running = world.start(&model).await;
    world.generation(2).await;
    assert_eq!(texts(&slow.requests()[0]), texts(model.requests().last().unwrap()));
    running.stop().await.unwrap();
}
