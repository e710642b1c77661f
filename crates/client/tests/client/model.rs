//! Producers against a server that fails in every way: whatever a ticket says, the stream agrees.
//!
//! The server keeps the table of the protocol in memory and is told by a seed when to lose a
//! request, to lose an answer, to fail before or after it stored, to refuse, or to let another
//! life of the producer write in between.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use client::{Client, ProducerError};
use sys::{Chance, Sys};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use wire::Epoch;

use crate::support::{answer, settings};

const SEEDS: u64 = 40;
const MESSAGES: usize = 40;
/// How many of a hundred requests meet a fault.
const FAULTY_PERCENT: u64 = 25;

#[derive(Clone, Copy, Debug)]
enum Fault {
    LoseRequest,
    LoseAnswer,
    FailBefore,
    FailAfter,
    Refuse,
    Intrude,
}

/// What the server holds.
#[derive(Default)]
struct Model {
    producers: HashMap<String, (u64, u64)>,
    stored: Vec<String>,
}

struct Asked {
    id: String,
    epoch: u64,
    seq: u64,
    values: Vec<String>,
}

impl Model {
    /// Answers as the table of the protocol says.
    fn answer(&mut self, asked: Asked) -> String {
        let Asked { id, epoch, seq, values } = asked;
        let known = self.producers.get(&id).copied();
        let expected = match known {
            Some((current, _)) if epoch < current => {
                return answer("403 Forbidden", &format!("producer-epoch: {current}\r\n"), "");
            }
            Some((current, last)) if epoch == current => last + 1,
            _ => 0,
        };
        if seq > expected {
            let gap =
                format!("producer-expected-seq: {expected}\r\nproducer-received-seq: {seq}\r\n");
            return answer("409 Conflict", &gap, "");
        }
        let (status, last) = match seq < expected {
            true => ("204 No Content", expected - 1),
            false => {
                self.producers.insert(id, (epoch, seq));
                self.stored.extend(values);
                ("200 OK", seq)
            }
        };
        let tail = self.stored.len();
        let state = format!("producer-epoch: {epoch}\r\nproducer-seq: {last}\r\n");
        answer(status, &format!("stream-next-offset: {tail}\r\n{state}"), "")
    }

    /// Another life of the producer takes over, and writes.
    fn intrude(&mut self, id: &str) {
        // Epoch 0 is ours: whoever is given an epoch must be alone with it.
        let epoch = self.producers.get(id).map_or(1, |(epoch, _)| epoch + 1);
        self.producers.insert(id.to_owned(), (epoch, 0));
        self.stored.push("\"stranger\"".to_owned());
    }
}

async fn serve(mut socket: TcpStream, model: &Mutex<Model>, chance: &Chance, faults: &[Fault]) {
    while let Some(asked) = request(&mut socket).await {
        let is_faulty = !faults.is_empty() && chance.below(100) < FAULTY_PERCENT;
        let fault = is_faulty.then(|| faults[chance.below(faults.len() as u64) as usize]);
        let failed = || answer("504 Gateway Timeout", "", "");
        let said = {
            let mut model = model.lock().unwrap();
            match fault {
                Some(Fault::LoseRequest) => return,
                Some(Fault::FailBefore) => failed(),
                Some(Fault::Refuse) => answer("401 Unauthorized", "", "who are you?"),
                Some(Fault::LoseAnswer) => {
                    model.answer(asked);
                    return;
                }
                Some(Fault::FailAfter) => {
                    model.answer(asked);
                    failed()
                }
                Some(Fault::Intrude) => {
                    model.intrude(&asked.id);
                    model.answer(asked)
                }
                None => model.answer(asked),
            }
        };
        if socket.write_all(said.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn request(socket: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|end| end + 4);
        let head = end.map(|end| String::from_utf8_lossy(&bytes[..end]).to_lowercase());
        let header = |name: &str| {
            let lines = head.as_deref().unwrap_or_default().lines();
            let mut found = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.next().map(str::to_owned)
        };
        let length: usize = header("content-length").map_or(0, |text| text.parse().unwrap());
        if let Some(end) = end.filter(|end| bytes.len() >= end + length) {
            let values: Vec<Box<serde_json::value::RawValue>> =
                serde_json::from_slice(&bytes[end..end + length]).unwrap();
            return Some(Asked {
                id: header("producer-id")?,
                epoch: header("producer-epoch")?.parse().ok()?,
                seq: header("producer-seq")?.parse().ok()?,
                values: values.iter().map(|value| value.get().to_owned()).collect(),
            });
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn start(seed: u64, faults: &'static [Fault]) -> (SocketAddr, Arc<Mutex<Model>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let model: Arc<Mutex<Model>> = Arc::default();
    let (kept, chance, spawn) = (model.clone(), Chance::seeded(seed), Sys::real().spawn);
    spawn.clone().task("model", async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (model, chance) = (kept.clone(), chance.clone());
            spawn.task("connection", async move { serve(socket, &model, &chance, faults).await });
        }
    });
    (address, model)
}

/// Sends numbers through one producer, and holds its tickets against what the server holds.
async fn play(seed: u64, faults: &'static [Fault], in_flight: usize, claims: bool) {
    let (address, model) = start(seed, faults).await;
    let stream = Client::new(&Sys::real(), settings(address)).stream(&"a".parse().unwrap());
    let producer = stream.producer("p".parse().unwrap()).batch_messages_max(3);
    let producer = match claims {
        true => producer.epoch(Epoch::new(0)).claims(true),
        false => producer,
    };
    let producer =
        producer.in_flight_max(in_flight).content_type("application/json".parse().unwrap());
    let producer = producer.start().await.unwrap();
    let mut tickets = Vec::new();
    for number in 0..MESSAGES {
        tickets.push((number.to_string(), producer.append(number.to_string()).await.unwrap()));
    }
    let mut certain = Vec::new();
    for (value, ticket) in tickets {
        match ticket.await {
            Ok(_) => certain.push((value, true)),
            Err(ProducerError::Refused(_) | ProducerError::Fenced { .. }) => {
                certain.push((value, false));
            }
            Err(_) => {}
        }
    }
    let stored = model.lock().unwrap().stored.clone();
    let context = format!("seed {seed}, {faults:?}, {in_flight} under way, claims {claims}");
    for (value, is_stored) in certain {
        let count = stored.iter().filter(|other| **other == value).count();
        assert_eq!(count, usize::from(is_stored), "{value} of {stored:?}; {context}");
    }
    let numbers: Vec<u32> = stored.iter().filter_map(|value| value.parse().ok()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?} are in order and once; {context}");
}

#[tokio::test]
async fn whatever_breaks_a_ticket_tells_the_truth() {
    use Fault::{FailAfter, FailBefore, Intrude, LoseAnswer, LoseRequest, Refuse};
    const MIXES: [&[Fault]; 6] = [
        &[],
        &[LoseRequest, LoseAnswer],
        &[FailBefore, FailAfter],
        &[LoseAnswer, Refuse],
        &[LoseAnswer, LoseRequest, Intrude],
        &[LoseRequest, LoseAnswer, FailBefore, FailAfter, Refuse, Intrude],
    ];
    for seed in 0..SEEDS {
        for faults in MIXES {
            for (in_flight, claims) in [(1, false), (8, false), (8, true)] {
                play(seed, faults, in_flight, claims).await;
            }
        }
    }
}
