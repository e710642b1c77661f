//! A session in memory, in simulated time.

use std::{collections::BTreeMap, sync::Arc};

use agent::{
    Agent, AgentBuilder, RunningAgent,
    rows::{self, Chunk, Generation, GenerationStatus, Message, Stop, ToolCall},
};
use chat::Model;
use live::{Row, StreamDb};
use log::{Create, Log, MemoryLog};
use providers::scripted::{Order, Scripted, Turn};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};
use wire::{Address, StreamPath};

/// What the agent of these tests is called.
pub(crate) const AGENT: &str = "assistant";

/// A session, and somebody who looks at all its rows.
pub(crate) struct Session {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) address: Address,
    pub(crate) db: StreamDb,
}

impl Session {
    pub(crate) async fn new() -> Self {
        let sys = Sys::simulated(
            1,
            SimDisk::new(1, SimFaults::default()),
            UnixMs::new(1_000_000_000_000),
        );
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
        let path: StreamPath = "main/sessions/test".parse().unwrap();
        Self::open(sys, log, path.into()).await
    }

    pub(crate) async fn open(sys: Sys, log: Arc<dyn Log>, address: Address) -> Self {
        let json = Some("application/json".parse().unwrap());
        let _ = log.create(&address, Create { content_type: json, ..Create::default() }).await;
        let db = StreamDb::builder(Arc::clone(&log), address.clone(), &sys).client("reader");
        let db = rows::session(db).with::<Chunk>().open().unwrap();
        db.ready().await.unwrap();
        Self { sys, log, address, db }
    }

    /// A model that follows a script by what the conversation holds, and remembers what it was
    /// asked.
    pub(crate) fn model(&self, turns: impl IntoIterator<Item = Turn>) -> Scripted {
        let script = turns.into_iter().collect();
        Scripted::ordered(script, Order::ByConversation, self.sys.clone()).recording()
    }

    pub(crate) fn agent(&self, model: &Scripted) -> AgentBuilder {
        let model: Arc<dyn Model> = Arc::new(model.clone());
        Agent::builder(AGENT).instructions("Be brief.").model(model)
    }

    pub(crate) async fn start(&self, agent: AgentBuilder) -> RunningAgent {
        let agent = agent.session(Arc::clone(&self.log), self.address.clone());
        agent.start(&self.sys).await.unwrap()
    }

    /// Says something to the agent.
    pub(crate) async fn say(&self, id: &str, text: &str) {
        let mut row = Message::to_agent(AGENT, "ada", text, &self.sys);
        id.clone_into(&mut row.id);
        self.insert(row).await;
    }

    pub(crate) async fn stop(&self, generation: Option<&str>) {
        let row = Stop {
            id: format!("stop-{}", self.sys.chance.u64()),
            generation_id: generation.map(str::to_owned),
            agent_name: None,
            actor_id: "ada".to_owned(),
            reason: Some("enough".to_owned()),
            created_at: rows::now(&self.sys),
        };
        self.insert(row).await;
    }

    pub(crate) async fn insert<R: Row>(&self, row: R) {
        self.db.rows::<R>().unwrap().insert(row).unwrap().settled().await.unwrap();
    }

    /// Waits until the rows are such.
    pub(crate) async fn until<R: Row>(&self, is_such: impl Fn(&[R]) -> bool) -> Vec<R> {
        let rows = self.db.rows::<R>().unwrap();
        let mut changes = rows.changes().unwrap();
        loop {
            let now: Vec<R> = rows.rows().iter().map(|row| (**row).clone()).collect();
            if is_such(&now) {
                return now;
            }
            changes.next().await;
        }
    }

    /// Waits until so many generations are over, and tells them in order.
    pub(crate) async fn over(&self, count: usize) -> Vec<Generation> {
        let is_over = |rows: &[Generation]| {
            rows.iter().filter(|row| row.status.is_terminal()).count() >= count
        };
        let mut rows = self.until(is_over).await;
        rows.sort_by_key(|row| row.read_up_to);
        rows
    }

    /// Waits until the only generation is over, and tells what became of it.
    pub(crate) async fn outcome(&self) -> (GenerationStatus, Option<String>) {
        let over = self.over(1).await.remove(0);
        (over.status, over.error)
    }

    pub(crate) fn rows<R: Row>(&self) -> Vec<R> {
        self.db.rows::<R>().unwrap().rows().iter().map(|row| (**row).clone()).collect()
    }

    /// Messages by their places, and the answers of calls.
    pub(crate) fn transcript(&self) -> Vec<String> {
        let messages = self.db.rows::<Message>().unwrap().rows();
        let calls: BTreeMap<_, _> =
            self.rows::<ToolCall>().into_iter().map(|row| (row.id.clone(), row)).collect();
        let mut lines = BTreeMap::new();
        for message in &messages {
            let asked = calls.values().filter(|it| it.message_id.as_ref() == Some(&message.id));
            let asked = asked.map(|call| {
                let answer = call.result.clone().unwrap_or_else(|| call.error.clone().into());
                format!(" [{} {} {:?} {answer}]", call.name, call.args, call.status)
            });
            let line =
                format!("{}: {}{}", message.actor_id, message.content, asked.collect::<String>());
            lines.insert(message.meta().position, line);
        }
        lines.into_values().collect()
    }

    /// The text of the chunks, by index.
    pub(crate) fn chunk_text(&self) -> String {
        let mut chunks = self.rows::<Chunk>();
        chunks.sort_by_key(|chunk| (chunk.generation_id.clone(), chunk.index));
        let texts = chunks.into_iter().filter(|chunk| chunk.kind == rows::ChunkType::Text);
        texts.map(|chunk| chunk.content).collect()
    }
}
