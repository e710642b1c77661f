//! Readers of a session over HTTP, through the death of its server: whatever they show is a begin
//! of the answer, and never a piece of it twice.

use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
    time::Instant,
};

use client::{Client, Live, OffsetToken, Settings};
use serde_json::Value;
use sys::Sys;

use crate::world::{Dev, PATIENCE};

/// Rows by type and key.
type Rows = BTreeMap<(String, String), Value>;

/// Somebody who reads a session in a thread of its own.
struct Watcher {
    /// The text of the answer, each time that it has changed.
    texts: Receiver<String>,
    /// The rows once the answer is whole.
    rows: JoinHandle<Rows>,
}

impl Watcher {
    /// Reads from the begin, until the answer is whole.
    fn start(dev: &Dev, session: &str, live: Live) -> Self {
        let (tell, texts) = channel();
        let (url, path) = (dev.url(), format!("main/sessions/{session}").parse().unwrap());
        let rows = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let client = Client::connect(&Sys::real(), Settings::new(&url).unwrap()).await;
                let stream = client.unwrap().stream(&path);
                watch(stream.reader(OffsetToken::start(), live), &tell).await
            })
        });
        Self { texts, rows }
    }

    /// All that it has shown since, and the rows in the end.
    fn end(self) -> (Vec<String>, Rows) {
        let rows = self.rows.join().unwrap();
        (self.texts.iter().collect(), rows)
    }
}

/// Folds message by message, as they come.
async fn watch(mut reader: client::Reader, tell: &Sender<String>) -> Rows {
    let (mut rows, began) = (Rows::new(), Instant::now());
    let mut shown = String::new();
    loop {
        assert!(began.elapsed() < PATIENCE, "it takes too long: {rows:#?}");
        // While the server is away there is nothing to read.
        let Ok(batch) = reader.next().await else { continue };
        let batch = batch.expect("a session does not end");
        if batch.data.is_empty() {
            continue;
        }
        let messages: Vec<Value> = serde_json::from_slice(&batch.data).unwrap();
        for message in messages {
            let text = |name: &str| message[name].as_str().unwrap().to_owned();
            let key = (text("type"), text("key"));
            let is_last = message["value"]["isFinal"] == true;
            match message.get("value") {
                Some(value) => drop(rows.insert(key, value.clone())),
                None => drop(rows.remove(&key)),
            }
            let text = text_in(&rows);
            if text != shown {
                shown.clone_from(&text);
                let _ = tell.send(text);
            }
            if is_last {
                return rows;
            }
        }
    }
}

/// What a page shows of the answer: its message, or what that has grown to.
fn text_in(rows: &Rows) -> String {
    let of = |kind: &'static str| {
        rows.iter().filter(move |((of, _), _)| of == kind).map(|(_, value)| value)
    };
    if let Some(message) = of("message").find(|row| row["role"] == "assistant") {
        return message["content"].as_str().unwrap().to_owned();
    }
    let mut pieces: Vec<_> = of("chunk").filter(|row| row["type"] == "text").collect();
    pieces.sort_by_key(|row| row["index"].as_u64());
    pieces.iter().map(|row| row["content"].as_str().unwrap()).collect()
}

#[test]
fn no_reader_sees_text_twice_when_the_server_dies_in_the_middle_of_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let dev = Dev::start(dir.path());
    let (session, address) = (dev.session.clone(), dev.address.clone());
    let token = dev.token(&session);
    let stays = [Live::Sse, Live::LongPoll].map(|live| Watcher::start(&dev, &session, live));
    assert_eq!(dev.say(&session, &token, "m1", "Why is the sky blue?").status, 201);
    // Each has seen a part of the answer, and stays while the server dies and comes back.
    let seen = stays.each_ref().map(|reader| -> Vec<String> {
        (0..4).map(|_| reader.texts.recv_timeout(PATIENCE).unwrap()).collect()
    });
    dev.kill();
    let dev = Dev::start_on(dir.path(), &address);
    let comes = Watcher::start(&dev, &session, Live::Auto);

    let (newcomer, rows) = comes.end();
    let answer = text_in(&rows);
    assert!(answer.starts_with("You said: “Why is the sky blue?”"), "{answer}");
    let check = |who: &str, texts: &[String]| {
        for text in texts {
            assert!(answer.starts_with(text), "{who} saw {text:?} of {answer:?}");
        }
        assert_eq!(texts.last(), Some(&answer), "{who} saw all of it");
    };
    check("who came later", &newcomer);
    for (reader, before) in stays.into_iter().zip(seen) {
        let (after, same) = reader.end();
        assert_eq!(same, rows, "all end with the same rows");
        let texts = [before, after].concat();
        assert!(texts.contains(&String::new()), "what a dead attempt said was taken back");
        check("who stayed", &texts);
    }
    dev.stop();
}
