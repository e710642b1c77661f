//! A session in memory, and what people and agents write into it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agent::{
    rows::{Generation, GenerationStatus, Message, Role},
    session::{IdKey, Session},
};
use live::Row;
use log::{Append, Create, Fork, Log, MemoryLog};
use serde::Serialize;
use state::{Draft, Json};
use sys::Sys;
use wire::{Address, ContentType, Messages, Offset, ReadFrom, StreamPath};

/// Every transaction has a name of its own.
static TXIDS: AtomicU64 = AtomicU64::new(0);

pub(crate) const AGENT: &str = "assistant";

pub(crate) struct World {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) path: StreamPath,
}

impl World {
    pub(crate) async fn new() -> Self {
        let sys = Sys::real();
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let world = Self { sys, log, path: "main/sessions/s".parse().unwrap() };
        world.create().await;
        world
    }

    pub(crate) async fn create(&self) {
        let json = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let _ = self.log.create(&self.address(), json).await.unwrap();
    }

    /// A session that begins as this one does.
    pub(crate) async fn forked(&self, name: &str, fork: Fork) -> Self {
        let path = format!("main/sessions/{name}").parse().unwrap();
        let world = Self { sys: self.sys.clone(), log: self.log.clone(), path };
        let _ = world.log.fork(&world.address(), fork).await.unwrap();
        world
    }

    pub(crate) fn address(&self) -> Address {
        self.path.clone().into()
    }

    pub(crate) fn index(&self) -> Address {
        Address::System(format!("session-index/{}", self.path).parse().unwrap())
    }

    /// A session that was not read yet.
    pub(crate) fn session(&self) -> Session {
        Session::new(&self.sys, self.log.clone(), &self.path)
    }

    /// Writes a row, in a transaction of this name or one of its own.
    pub(crate) async fn put<R: Row + Serialize>(&self, txid: Option<&str>, row: &R) {
        self.append(written_as(txid, row, Draft::upsert)).await;
    }

    pub(crate) async fn append(&self, messages: Messages) {
        let _ = self.log.append(&self.address(), Append::messages(messages)).await.unwrap();
    }

    /// A person says something, with so much text.
    pub(crate) async fn say(&self, id: &str, bytes: usize) {
        self.append(insert(&message(id, bytes))).await;
    }

    /// The agent answers all that was said, and is done with it.
    pub(crate) async fn answer(&self, history_from: Option<u64>) -> u64 {
        let tail = self.log.head(&self.address()).await.unwrap().tail.position.get();
        self.append(insert(&generation(tail - 1, history_from, GenerationStatus::Generating)))
            .await;
        self.append(update(&generation(tail - 1, history_from, GenerationStatus::Completed))).await;
        tail - 1
    }

    /// What a fresh process makes of the session, and the bytes of it that it read.
    pub(crate) async fn opened(&self) -> (Session, u64) {
        let mut session = self.session();
        session.catch_up().await.unwrap();
        let (next, _) = session.place().unwrap();
        let read = next.byte.get() - session.opened_at().byte.get();
        (session, read)
    }

    /// The last message of the index.
    pub(crate) async fn last_of_index(&self) -> Vec<u8> {
        let chunk = self.log.read(&self.index(), ReadFrom::Last, 1).await.unwrap();
        chunk.messages().last().unwrap().to_vec()
    }

    pub(crate) async fn append_to_index(&self, bytes: Vec<u8>) {
        let messages = Messages::one(bytes).unwrap();
        let _ = self.log.append(&self.index(), Append::messages(messages)).await.unwrap();
    }

    pub(crate) async fn tail(&self) -> Offset {
        self.log.head(&self.address()).await.unwrap().tail
    }
}

pub(crate) fn key(id: &str) -> IdKey {
    IdKey::of(Message::NAME, id)
}

pub(crate) fn message(id: &str, bytes: usize) -> Message {
    Message {
        id: id.to_owned(),
        role: Role::User,
        content: "x".repeat(bytes),
        parts: None,
        actor_id: "ada".to_owned(),
        target_agent: Some(AGENT.to_owned()),
        generation_id: None,
        request_id: None,
        in_reply_to: None,
        created_at: String::new(),
    }
}

pub(crate) fn generation(
    read_up_to: u64,
    history_from: Option<u64>,
    status: GenerationStatus,
) -> Generation {
    Generation {
        id: format!("{AGENT}-{read_up_to}"),
        agent_name: AGENT.to_owned(),
        status,
        model: "test/model".to_owned(),
        read_after: None,
        read_up_to,
        history_from,
        cancelled_by: None,
        error: None,
        created_at: String::new(),
        updated_at: String::new(),
        completed_at: None,
    }
}

fn insert<R: Row + Serialize>(row: &R) -> Messages {
    written(row, Draft::insert)
}

fn update<R: Row + Serialize>(row: &R) -> Messages {
    written(row, Draft::update)
}

fn written<R: Row + Serialize>(
    row: &R,
    draft: fn(state::TypeName, state::Key, Json) -> Draft,
) -> Messages {
    written_as(None, row, draft)
}

fn written_as<R: Row + Serialize>(
    txid: Option<&str>,
    row: &R,
    draft: fn(state::TypeName, state::Key, Json) -> Draft,
) -> Messages {
    let live::Value::Text(key) = row.key() else { panic!("keys of sessions are texts") };
    let draft = draft(R::NAME.parse().unwrap(), key.parse().unwrap(), Json::of(row).unwrap());
    let drawn = format!("t{}", TXIDS.fetch_add(1, Ordering::Relaxed));
    let txid = txid.map_or(drawn, str::to_owned);
    state::transaction(&txid.parse().unwrap(), [draft]).unwrap()
}
