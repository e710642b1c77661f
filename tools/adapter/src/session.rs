//! One run of the suite: a server, what is known of its streams, and the producers under way.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use client::{Body, Client, NewStream, Settings, Stream};
use log::Closing;
use serde_json::{Map, Value, json};
use sys::Sys;
use wire::{ContentType, Epoch, Expiry, ProducerSeq, StreamPath};

use crate::{
    answer::Failed,
    badge::Sheet,
    command::{Append, Command, Producer},
    reading, validate,
};

type Answer = Result<Map<String, Value>, Failed>;

/// What the suite works with between an init and the next.
pub(crate) struct Session {
    sys: Sys,
    client: Client,
    sheet: Sheet,
    types: HashMap<String, ContentType>,
    producers: HashMap<(String, String, u64), client::Producer>,
    /// Where streams ended that a producer closed.
    ends: HashMap<(String, String, u64), String>,
}

impl Session {
    /// Answers a line, and tells whether it was the last.
    pub(crate) async fn handle(session: &mut Option<Self>, line: &str) -> (Value, bool) {
        let command: Command = match serde_json::from_str(line) {
            Ok(command) => command,
            Err(error) => {
                let name: Value = serde_json::from_str(line).unwrap_or_default();
                let name = name["type"].as_str().unwrap_or_default();
                return (Failed::new("NOT_SUPPORTED", error).answer(name), false);
            }
        };
        let name = command.name();
        let is_last = matches!(command, Command::Shutdown);
        let answer = match command {
            Command::Init { server_url } => Self::new(&server_url).map(|new| {
                *session = Some(new);
                introduction()
            }),
            Command::Shutdown => Ok(Map::new()),
            Command::Validate { target } => validate::validate(&target).map(|()| Map::new()),
            command => match session {
                Some(session) => session.answer(command).await,
                None => Err(Failed::new("INTERNAL_ERROR", "init comes first")),
            },
        };
        let answer = match answer {
            Ok(mut answer) => {
                answer.insert("type".to_owned(), name.into());
                answer.insert("success".to_owned(), true.into());
                Value::Object(answer)
            }
            Err(failed) => failed.answer(name),
        };
        (answer, is_last)
    }

    fn new(server_url: &str) -> Result<Self, Failed> {
        let sys = Sys::real();
        let sheet = Sheet::new(&sys);
        let settings = Settings::rooted(server_url);
        let settings = settings.map_err(|error| Failed::new("INVALID_ARGUMENT", error))?;
        let client = Client::new(&sys, settings.with_badge(sheet.clone()));
        let (types, producers, ends) = (HashMap::new(), HashMap::new(), HashMap::new());
        Ok(Self { sys, client, sheet, types, producers, ends })
    }

    async fn answer(&mut self, command: Command) -> Answer {
        self.sheet.begin(command.headers());
        match command {
            Command::Create {
                path, content_type, ttl_seconds, expires_at, closed, data, ..
            } => {
                let ttl = ttl_seconds.map(|seconds| seconds.to_string());
                let expiry = Expiry::from_headers(ttl.as_deref(), expires_at.as_deref());
                let new = NewStream {
                    content_type: Some(content_type_of(content_type.as_deref())?),
                    expiry: expiry.map_err(invalid)?,
                    body: data.unwrap_or_default().into(),
                    closing: if closed { Closing::Close } else { Closing::LeaveOpen },
                };
                self.create(path, new).await
            }
            Command::Connect { path, .. } | Command::Head { path, .. } => self.head(path).await,
            Command::Append(append) => self.append(append).await,
            Command::Delete { path, .. } => {
                self.stream(&path)?.delete().await?;
                self.types.remove(&path);
                Ok(fields(json!({ "status": 200 })))
            }
            Command::Close { path, data, content_type } => {
                self.close(&path, data, content_type.as_deref()).await
            }
            Command::Read(asked) => {
                let is_json = self.types.get(&asked.path).is_some_and(ContentType::is_json);
                let stream = self.stream(&asked.path)?;
                let read = reading::read(&self.sys, &stream, is_json, &asked).await?;
                Ok(self.with_sent(read))
            }
            Command::SetDynamicHeader { name, value_type, initial_value } => {
                self.sheet.header(name, value_type, initial_value);
                Ok(Map::new())
            }
            Command::SetDynamicParam { name, value_type } => {
                self.sheet.param(name, value_type);
                Ok(Map::new())
            }
            Command::ClearDynamic => {
                self.sheet.clear();
                Ok(Map::new())
            }
            command => self.produce(command).await,
        }
    }

    async fn produce(&mut self, command: Command) -> Answer {
        let stored = || fields(json!({ "status": 200 }));
        match command {
            Command::IdempotentAppend { producer, data } => {
                let producer = self.producer(&producer).await?;
                let receipt = producer.append(data).await?.await?;
                Ok(fields(json!({
                    "status": 200,
                    "offset": receipt.tail.as_str(),
                    "duplicate": receipt.is_duplicate,
                    "producerSeq": receipt.seq.get(),
                })))
            }
            Command::IdempotentAppendBatch { producer, items, max_in_flight } => {
                let stream = self.stream(&producer.path)?;
                let many = max_in_flight.unwrap_or(1);
                let settings = stream
                    .producer(producer.producer_id.parse().map_err(invalid)?)
                    .epoch(Epoch::new(producer.epoch))
                    .claims(producer.auto_claim)
                    .content_type(self.type_of(&producer.path))
                    .in_flight_max(many);
                // Many requests at a time are only seen if there are many requests.
                let settings = if many > 1 { settings.batch_messages_max(1) } else { settings };
                let producer = settings.start().await?;
                let mut tickets = Vec::new();
                for item in items {
                    tickets.push(producer.append(item).await?);
                }
                for ticket in tickets {
                    ticket.await?;
                }
                Ok(stored())
            }
            Command::IdempotentClose { producer, data } => self.finish(producer, data).await,
            Command::IdempotentDetach { producer } => {
                let known = self.producers.remove(&key(&producer));
                if let Some(producer) = known {
                    producer.flush().await?;
                }
                Ok(stored())
            }
            other => Err(Failed::new("NOT_SUPPORTED", format!("{other:?}"))),
        }
    }

    async fn finish(&mut self, producer: Producer, data: Option<String>) -> Answer {
        let key = key(&producer);
        if !self.ends.contains_key(&key) {
            let receipt = self.producer(&producer).await?.close(data.map(Bytes::from)).await?;
            self.ends.insert(key.clone(), receipt.tail.to_string());
        }
        Ok(fields(json!({ "status": 200, "finalOffset": self.ends.get(&key) })))
    }

    async fn create(&mut self, path: String, new: NewStream) -> Answer {
        let content_type = new.content_type.clone();
        let made = self.stream(&path)?.create(new).await?;
        self.types.extend(content_type.map(|content_type| (path, content_type)));
        let status = if made.is_new { 201 } else { 200 };
        Ok(fields(json!({ "status": status, "offset": made.tail.as_str() })))
    }

    async fn head(&mut self, path: String) -> Answer {
        let facts = self.stream(&path)?.head().await?;
        let content_type = facts.content_type.as_ref().map(ContentType::as_str);
        let (ttl, end) = match facts.expiry {
            Expiry::Never => (None, None),
            Expiry::Sliding(ttl) => (Some(ttl.seconds()), None),
            Expiry::At(time) => (None, Some(time.to_string())),
        };
        let answer = json!({
            "status": 200,
            "offset": facts.tail.as_str(),
            "contentType": content_type,
            "streamClosed": facts.is_closed,
            "ttlSeconds": ttl,
            "expiresAt": end,
        });
        self.types.extend(facts.content_type.map(|content_type| (path, content_type)));
        Ok(fields(answer))
    }

    async fn append(&mut self, append: Append) -> Answer {
        let bytes = match append.binary {
            true => STANDARD.decode(&append.data).map_err(invalid)?.into(),
            false => Bytes::from(append.data),
        };
        let producer = match (append.producer_id, append.producer_epoch, append.producer_seq) {
            (Some(id), epoch, seq) => Some(wire::Producer {
                id: id.parse().map_err(invalid)?,
                epoch: Epoch::new(epoch.unwrap_or(0)),
                seq: ProducerSeq::new(seq.unwrap_or(0)),
            }),
            (None, ..) => None,
        };
        let is_produced = producer.is_some();
        let body = Body {
            bytes,
            content_type: self.type_of(&append.path),
            seq: append.seq.map(|seq| seq.to_string().parse()).transpose().map_err(invalid)?,
            producer,
            closing: Closing::LeaveOpen,
        };
        let stored = self.stream(&append.path)?.append(body).await?;
        let status = if is_produced && stored.is_duplicate { 204 } else { 200 };
        let answer = json!({
            "status": status,
            "offset": stored.tail.as_str(),
            "duplicate": stored.is_duplicate,
            "producerEpoch": stored.producer.map(|(epoch, _)| epoch.get()),
            "producerSeq": stored.producer.map(|(_, seq)| seq.get()),
        });
        Ok(self.with_sent(fields(answer)))
    }

    async fn close(&self, path: &str, data: Option<String>, content_type: Option<&str>) -> Answer {
        let stream = self.stream(path)?;
        let stored = match data {
            None => stream.close().await?,
            Some(data) => {
                let content_type = match content_type {
                    Some(_) => content_type_of(content_type)?,
                    None => self.type_of(path),
                };
                let body = Body {
                    bytes: data.into(),
                    content_type,
                    seq: None,
                    producer: None,
                    closing: Closing::Close,
                };
                stream.append(body).await?
            }
        };
        Ok(fields(json!({ "finalOffset": stored.tail.as_str() })))
    }

    async fn producer(&mut self, asked: &Producer) -> Result<client::Producer, Failed> {
        let key = key(asked);
        if let Some(producer) = self.producers.get(&key) {
            return Ok(producer.clone());
        }
        let stream = self.stream(&asked.path)?;
        let producer = stream
            .producer(asked.producer_id.parse().map_err(invalid)?)
            .epoch(Epoch::new(asked.epoch))
            .claims(asked.auto_claim)
            .content_type(self.type_of(&asked.path))
            .start()
            .await?;
        self.producers.insert(key, producer.clone());
        Ok(producer)
    }

    fn stream(&self, path: &str) -> Result<Stream, Failed> {
        let path = StreamPath::from_url(path.trim_start_matches('/')).map_err(invalid)?;
        Ok(self.client.stream(&path))
    }

    fn type_of(&self, path: &str) -> ContentType {
        self.types.get(path).cloned().unwrap_or_else(ContentType::octet_stream)
    }

    /// The answer, and what the first request carried.
    fn with_sent(&self, mut answer: Map<String, Value>) -> Map<String, Value> {
        let (headers, params) = self.sheet.sent();
        for (name, sent) in [("headersSent", headers), ("paramsSent", params)] {
            if !sent.is_empty() {
                answer.insert(name.to_owned(), sent.into());
            }
        }
        answer
    }
}

fn introduction() -> Map<String, Value> {
    fields(json!({
        "clientName": "headwater",
        "clientVersion": env!("CARGO_PKG_VERSION"),
        "features": {
            "batching": true,
            "sse": true,
            "longPoll": true,
            "auto": true,
            "streaming": true,
            "dynamicHeaders": true,
            "retryOptions": true,
            "batchItems": true,
            "strictZeroValidation": true,
        },
    }))
}

fn key(producer: &Producer) -> (String, String, u64) {
    (producer.path.clone(), producer.producer_id.clone(), producer.epoch)
}

fn content_type_of(text: Option<&str>) -> Result<ContentType, Failed> {
    text.map_or_else(|| Ok(ContentType::octet_stream()), |text| text.parse().map_err(invalid))
}

fn invalid(error: impl ToString) -> Failed {
    Failed::new("INVALID_ARGUMENT", error)
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
