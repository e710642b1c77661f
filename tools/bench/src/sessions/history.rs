//! Sessions that are old: what an agent would have written, without the time that took.

use agent::rows::{self, Generation, GenerationStatus, Message, Role, Step, StepStatus};
use anyhow::Result;
use live::Row;
use log::Append;
use wire::{Address, Messages, Producer};

use crate::agent::place::Place;

/// Who answers.
pub(super) const AGENT: &str = "assistant";
/// Messages that a model is told at the most, and how many are left then: what agents do unless
/// they are told otherwise.
const HISTORY_MAX: usize = agent::caps::HISTORY_MESSAGES_DEFAULT;
/// Bytes of one append.
const APPEND_BYTES: usize = 1024 * 1024;

/// Fills a session with so many messages, half of them answers.
pub(super) async fn fill(place: &Place, address: &Address, messages: usize) -> Result<()> {
    write(Writer::new(place, address).await?, messages).await
}

/// The same for one that takes a single append. The log remembers for it what it remembers of every
/// session that was ever answered: the producer that an agent writes as.
pub(super) async fn fill_as_agent(place: &Place, address: &Address, messages: usize) -> Result<()> {
    let id = format!("agent/{AGENT}");
    let by = Producer::from_headers(Some(&id), Some("1"), Some("0"))?;
    write(Writer { by, ..Writer::new(place, address).await? }, messages).await
}

async fn write(mut writer: Writer<'_>, messages: usize) -> Result<()> {
    let (mut read_after, mut window) = (None, Vec::new());
    for number in 0..messages / 2 {
        if window.len() * 2 > HISTORY_MAX {
            window.drain(..window.len() - HISTORY_MAX / 4);
        }
        let mut asked = writer.place.question(&format!("q{number}"), AGENT);
        asked.content = format!("This is question {number}, about as long as people ask.");
        let read_up_to = writer.push(&asked)?;
        window.push(read_after.map_or(0, |after: u64| after + 1));
        let history_from = window.first().copied().filter(|from| *from > 0);
        answer(&mut writer, (read_after, read_up_to), history_from)?;
        read_after = Some(read_up_to);
        writer.flush_if_full().await?;
    }
    writer.flush().await
}

fn answer(
    writer: &mut Writer<'_>,
    (read_after, read_up_to): (Option<u64>, u64),
    history_from: Option<u64>,
) -> Result<()> {
    let at = rows::now(&writer.place.sys);
    let id = format!("{AGENT}-{read_up_to}");
    writer.push(&Generation {
        id: id.clone(),
        agent_name: AGENT.to_owned(),
        status: GenerationStatus::Completed,
        model: "bench/talker".to_owned(),
        read_after,
        read_up_to,
        history_from,
        cancelled_by: None,
        error: None,
        created_at: at.clone(),
        updated_at: at.clone(),
        completed_at: Some(at.clone()),
    })?;
    writer.push(&Step {
        id: format!("{id}:1"),
        generation_id: id.clone(),
        turn: 1,
        status: StepStatus::Completed,
        attempt: 1,
        failures: 0,
        deaths: 0,
        first_chunk: 0,
        chunks: Some(0),
        model: None,
        stop: None,
        usage: None,
        error: None,
        started_at: at.clone(),
        completed_at: Some(at.clone()),
    })?;
    writer.push(&Message {
        id: format!("{id}:1"),
        role: Role::Assistant,
        content: "An answer of some length, as models give them to questions. ".repeat(8),
        parts: None,
        actor_id: AGENT.to_owned(),
        target_agent: None,
        generation_id: Some(id),
        request_id: None,
        in_reply_to: None,
        created_at: at,
    })?;
    Ok(())
}

/// Puts rows into large appends, and knows where each stands.
struct Writer<'a> {
    place: &'a Place,
    address: &'a Address,
    by: Option<Producer>,
    position: u64,
    batch: Vec<Vec<u8>>,
    bytes: usize,
}

impl<'a> Writer<'a> {
    async fn new(place: &'a Place, address: &'a Address) -> Result<Self> {
        let position = place.log.head(address).await?.tail.position.get();
        Ok(Self { place, address, by: None, position, batch: Vec::new(), bytes: 0 })
    }

    fn push<R: Row>(&mut self, row: &R) -> Result<u64> {
        for message in self.place.transaction(std::slice::from_ref(row))?.iter() {
            self.bytes += message.len();
            self.batch.push(message.to_vec());
        }
        self.position += 1;
        Ok(self.position - 1)
    }

    async fn flush_if_full(&mut self) -> Result<()> {
        if self.bytes >= APPEND_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.bytes = 0;
        if batch.is_empty() {
            return Ok(());
        }
        let messages = Messages::copied(batch.iter().map(Vec::as_slice))?;
        let append = Append { producer: self.by.clone(), ..Append::messages(messages) };
        let _ = self.place.log.append(self.address, append).await?;
        Ok(())
    }
}
