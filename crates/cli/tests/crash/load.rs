//! Load: producers and readers that go on, however often the server is killed.

use std::{path::Path, time::Duration};

use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use sys::{Chance, Sys};
use tokio::{
    runtime::Runtime,
    sync::mpsc::{self, Sender},
    task::JoinSet,
};

use crate::{
    model::{elements, messages},
    support::{Client, Died, Launch, Server},
};

const KILLS: u32 = 50;
/// Two producers each.
const STREAMS: [&str; 3] = ["load/a", "load/b", "load/c"];
const PRODUCERS: usize = 2 * STREAMS.len();
/// Appends that are acknowledged between two kills, at most.
const APPENDS_MAX: u64 = 300;
/// Messages of one append, at most.
const BATCH_MAX: u64 = 4;
/// So long may the slowest disk take to acknowledge one append.
const PATIENCE: Duration = Duration::from_secs(30);

/// Somebody who appends numbers, each exactly once.
#[derive(Debug)]
struct Producer {
    index: usize,
    seq: u64,
    /// Numbers that were acknowledged.
    acknowledged: u64,
    /// How many numbers the append under way carries; the same ones until it is acknowledged.
    batch: u64,
    chance: Chance,
}

/// Somebody who reads a stream from its beginning and remembers all of it.
#[derive(Debug)]
struct Reader {
    stream: &'static str,
    way: Way,
    seen: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Sse,
    LongPoll,
}

/// Kills a server fifty times, at moments that `chance` chooses.
pub(crate) fn run(chance: &Chance) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    Runtime::new().unwrap().block_on(async {
        let mut world = World::new(chance);
        world.create_streams(dir.path()).await;
        for kill in 0..KILLS {
            let server = launch(dir.path()).start().expect("it recovers");
            world.check(&server, kill).await;
            world.live(server, chance).await;
        }
        let server = launch(dir.path()).start().expect("it recovers");
        world.check(&server, KILLS).await;
        assert!(server.stop().0.success());
    });
}

fn launch(dir: &Path) -> Launch {
    Launch::new(dir)
        .args(["--chunk-bytes", "16KiB", "--long-poll-timeout", "1s"])
        .env("HEADWATER_ENGINE_SEGMENT_BYTES", "32KiB")
        .env("HEADWATER_ENGINE_HOT_BYTES", "16KiB")
        .env("HEADWATER_ENGINE_REGROUP_SEGMENTS", "1")
}

/// Everybody, between two lives of the server.
struct World {
    producers: Vec<Producer>,
    readers: Vec<Reader>,
}

impl World {
    fn new(chance: &Chance) -> Self {
        let producer = |index| Producer {
            index,
            seq: 0,
            acknowledged: 0,
            batch: 1,
            chance: Chance::seeded(chance.below(u64::MAX)),
        };
        let both =
            |stream| [Way::Sse, Way::LongPoll].map(|way| Reader { stream, way, seen: Vec::new() });
        Self {
            producers: (0..PRODUCERS).map(producer).collect(),
            readers: STREAMS.into_iter().flat_map(both).collect(),
        }
    }

    async fn create_streams(&self, dir: &Path) {
        let server = launch(dir).start().unwrap();
        let client = Client::new(&server.address);
        for stream in STREAMS {
            let create = client.ask(Method::PUT, stream).body("application/json", "");
            assert_eq!(create.send().await.unwrap().status, 201);
        }
    }

    /// Lets some producers and all readers work for a while, then kills the server.
    async fn live(&mut self, server: Server, chance: &Chance) {
        let client = Client::new(&server.address);
        let (acknowledge, mut acknowledged) = mpsc::channel(PRODUCERS);
        let mut producing = JoinSet::new();
        let busy = chance.below(PRODUCERS as u64);
        for producer in std::mem::take(&mut self.producers) {
            // Who rests is known from older and older records: most do, but never all.
            if producer.index as u64 == busy || chance.below(3) == 0 {
                producing.spawn(producer.work(client.clone(), acknowledge.clone()));
            } else {
                self.producers.push(producer);
            }
        }
        let mut reading = JoinSet::new();
        for reader in self.readers.drain(..) {
            reading.spawn(reader.work(client.clone()));
        }
        drop(acknowledge);
        let clock = Sys::real().clock;
        for _ in 0..=chance.below(APPENDS_MAX) {
            let next = clock.timeout(PATIENCE, acknowledged.recv()).await;
            next.expect("an append is acknowledged in time").expect("producers go on");
        }
        server.kill();
        // Those who wait to tell of an append must be heard, or they would never notice.
        while acknowledged.recv().await.is_some() {}
        self.producers.extend(producing.join_all().await);
        self.readers = reading.join_all().await;
    }

    /// Checks that every number is there exactly once, and everything that was seen still is.
    async fn check(&self, server: &Server, kill: u32) {
        let client = Client::new(&server.address);
        for (index, stream) in STREAMS.into_iter().enumerate() {
            let mut whole = Reader { stream, way: Way::LongPoll, seen: Vec::new() };
            whole.catch_up(&client).await;
            for producer in self.producers.iter().filter(|one| one.stream() == index) {
                producer.check(&whole.seen, kill);
            }
            for reader in self.readers.iter().filter(|reader| reader.stream == stream) {
                let still = whole.seen.get(..reader.seen.len());
                assert_eq!(still, Some(&reader.seen[..]), "after kill {kill}: {stream}");
            }
        }
    }
}

impl Producer {
    fn stream(&self) -> usize {
        self.index % STREAMS.len()
    }

    /// Appends until the server dies; the append that was not acknowledged comes again next time.
    async fn work(mut self, client: Client, acknowledge: Sender<()>) -> Self {
        while let Ok(()) = self.append(&client).await {
            // Nobody listens any more once the server is being killed.
            let _ = acknowledge.send(()).await;
            self.acknowledged += self.batch;
            self.seq += 1;
            self.batch = 1 + self.chance.below(BATCH_MAX);
        }
        self
    }

    async fn append(&self, client: &Client) -> Result<(), Died> {
        let numbers = self.acknowledged..self.acknowledged + self.batch;
        let message = |number| format!("{{\"producer\":{},\"number\":{number}}}", self.index);
        let body = format!("[{}]", numbers.map(message).collect::<Vec<_>>().join(","));
        loop {
            let request = client
                .ask(Method::POST, STREAMS[self.stream()])
                .body("application/json", body.clone())
                .header("producer-id", format_args!("p{}", self.index))
                .header("producer-epoch", 0)
                .header("producer-seq", self.seq);
            let answer = request.send().await?;
            match answer.status {
                200 | 204 => return Ok(()),
                // Busy: nothing was stored.
                503 => tokio::task::yield_now().await,
                other => panic!("{self:?} is answered with {other}: {:?}", answer.body),
            }
        }
    }

    /// All that was acknowledged is there, and what was not is there as a whole or not at all.
    fn check(&self, messages: &[Vec<u8>], kill: u32) {
        let mut numbers = 0;
        for message in messages {
            let value: Value = serde_json::from_slice(message).unwrap();
            if value["producer"] == self.index {
                assert_eq!(value["number"], numbers, "after kill {kill}: {self:?}");
                numbers += 1;
            }
        }
        let allowed = [self.acknowledged, self.acknowledged + self.batch];
        assert!(allowed.contains(&numbers), "after kill {kill}: {numbers} numbers of {self:?}");
    }
}

impl Reader {
    /// Reads until the server dies.
    async fn work(mut self, client: Client) -> Self {
        let died = match self.way {
            Way::Sse => self.follow(&client).await,
            Way::LongPoll => self.poll(&client).await,
        };
        assert!(died.is_err());
        self
    }

    fn offset(&self) -> String {
        let bytes: usize = self.seen.iter().map(Vec::len).sum();
        format!("{:016}_{bytes:016}", self.seen.len())
    }

    async fn poll(&mut self, client: &Client) -> Result<(), Died> {
        loop {
            let target = format!("{}?live=long-poll&offset={}", self.stream, self.offset());
            let answer = client.ask(Method::GET, &target).send().await?;
            assert!(matches!(answer.status, 200 | 204), "{target}: {}", answer.status);
            if answer.status == 200 {
                self.seen.extend(messages(&answer));
            }
            assert_eq!(answer.header("stream-next-offset"), self.offset(), "{target}");
        }
    }

    async fn catch_up(&mut self, client: &Client) {
        loop {
            let target = format!("{}?offset={}", self.stream, self.offset());
            let answer = client.ask(Method::GET, &target).send().await.unwrap();
            assert_eq!(answer.status, 200, "{target}");
            self.seen.extend(messages(&answer));
            if answer.header("stream-up-to-date") == "true" {
                return;
            }
        }
    }

    async fn follow(&mut self, client: &Client) -> Result<(), Died> {
        let target = format!("{}?live=sse&offset={}", self.stream, self.offset());
        let mut body = client.follow(&target).await?;
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Died)?.into_data() else { continue };
            text.push_str(std::str::from_utf8(&data).unwrap());
            while let Some(end) = text.find("\n\n") {
                let event: String = text.drain(..end + 2).collect();
                if let Some(array) = event.strip_prefix("event: data\ndata:") {
                    self.seen.extend(elements(array.trim()));
                }
            }
        }
        Err(Died)
    }
}
