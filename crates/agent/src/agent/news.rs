//! What others write into the session while an agent works.

use std::collections::VecDeque;

use live::{Changes, DbError, Row, StreamDb, from};

use crate::{
    rows::{Message, Resolution, Stop, ToolCall},
    table::Table,
};

/// What others write, as it comes by the stream.
pub(super) struct News {
    agent: String,
    messages: Changes<Message>,
    stops: Changes<Stop>,
    calls: Changes<ToolCall>,
    resolutions: Changes<Resolution>,
    table: Table<ToolCall>,
    /// Messages that no generation has read, by position.
    inbox: VecDeque<(u64, Message)>,
    /// Stops that may still end something, by position.
    stopped: Vec<(u64, Stop)>,
}

/// What may concern a generation that is under way.
pub(super) enum Signal {
    /// Somebody says stop, or somebody wrote to the agent: look.
    Look,
    /// Calls are others than they were: somebody has begun, answered or parked them.
    Calls(Vec<ToolCall>),
    /// Somebody has decided on calls.
    Resolved(Vec<Resolution>),
}

impl News {
    /// Listens, beginning with what is there.
    pub(super) fn listen(db: &StreamDb, agent: &str) -> Result<Self, DbError> {
        let mine = from::<Message>().filter(Message::target_agent.eq(agent));
        Ok(Self {
            agent: agent.to_owned(),
            messages: db.changes(mine.synced())?,
            stops: db.changes(from::<Stop>().synced())?,
            calls: db.changes(from::<ToolCall>().synced())?,
            resolutions: db.changes(from::<Resolution>().synced())?,
            table: db.rows::<ToolCall>()?.into(),
            inbox: VecDeque::new(),
            stopped: Vec::new(),
        })
    }

    /// Messages up to this position were read; stops before it are over, too.
    pub(super) fn forget(&mut self, read_up_to: Option<u64>) {
        self.take();
        let Some(read_up_to) = read_up_to else { return };
        while self.inbox.front().is_some_and(|(position, _)| *position <= read_up_to) {
            self.inbox.pop_front();
        }
        self.stopped.retain(|(position, _)| *position > read_up_to);
    }

    /// The first messages that wait, by position. A request waits alone: whoever asked gets an
    /// answer of its own.
    pub(super) fn waiting(&mut self, count_max: usize) -> Vec<(u64, Message)> {
        self.take();
        let is_request = |(_, message): &&(u64, Message)| message.request_id.is_some();
        let count = match self.inbox.front() {
            Some(first) if is_request(&first) => 1,
            _ => self.inbox.iter().take_while(|mail| !is_request(mail)).count(),
        };
        self.inbox.iter().take(count.min(count_max)).cloned().collect()
    }

    /// Waits until there may be messages.
    pub(super) async fn mail(&mut self) {
        if self.inbox.is_empty() {
            let changes = self.messages.next().await;
            self.keep_messages(&changes);
        }
    }

    /// Who has stopped this generation, which has read up to this position.
    pub(super) fn stop_of(&mut self, generation: &str, read_up_to: u64) -> Option<Stop> {
        let changes = self.stops.take();
        self.keep_stops(&changes);
        let is_meant = |(position, stop): &&(u64, Stop)| match &stop.generation_id {
            Some(id) => id == generation,
            None => {
                let is_mine = stop.agent_name.as_ref().is_none_or(|name| *name == self.agent);
                is_mine && *position > read_up_to
            }
        };
        self.stopped.iter().find(is_meant).map(|(_, stop)| stop.clone())
    }

    /// Calls that have changed, and nobody has looked at yet.
    pub(super) fn changed_calls(&mut self) -> Vec<ToolCall> {
        rows_of(&self.calls.take()).map(|(_, row)| row).collect()
    }

    /// The row of a call, as far as the stream was read.
    pub(super) fn call(&self, id: &str) -> Option<ToolCall> {
        self.table.get(id).ok().flatten().map(|row| (*row).clone())
    }

    /// Waits until a call has ended, and tells how. None if its row is gone, or cannot be read.
    pub(super) async fn ended_call(&self, id: &str) -> Option<ToolCall> {
        let ended = self.table.wait_for(id, |row| row.status.is_terminal()).await;
        ended.ok().flatten().map(|row| (*row).clone())
    }

    /// Waits for something that may concern a generation.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            changes = self.stops.next() => {
                self.keep_stops(&changes);
                Signal::Look
            }
            changes = self.calls.next() => {
                Signal::Calls(rows_of(&changes).map(|(_, row)| row).collect())
            }
            changes = self.resolutions.next() => {
                Signal::Resolved(rows_of(&changes).map(|(_, row)| row).collect())
            }
        }
    }

    fn take(&mut self) {
        let (messages, stops) = (self.messages.take(), self.stops.take());
        self.keep_messages(&messages);
        self.keep_stops(&stops);
    }

    fn keep_messages(&mut self, changes: &[live::Change]) {
        let mut new: Vec<_> = rows_of::<Message>(changes).collect();
        // Within one batch rows come by their keys.
        new.sort_by_key(|(position, _)| *position);
        for gone in deleted::<Message>(changes) {
            self.inbox.retain(|(_, message)| message.id != gone.id);
        }
        let last = self.inbox.back().map(|(position, _)| *position);
        let is_new = |(position, _): &(u64, Message)| last.is_none_or(|last| *position > last);
        self.inbox.extend(new.into_iter().filter(is_new));
    }

    fn keep_stops(&mut self, changes: &[live::Change]) {
        self.stopped.extend(rows_of::<Stop>(changes));
    }
}

/// The rows that went.
fn deleted<R: Row>(changes: &[live::Change]) -> impl Iterator<Item = &R> {
    let gone = changes.iter().filter(|change| change.new.is_none());
    gone.filter_map(|change| change.old.as_ref()?.record.as_typed::<R>())
}

/// The rows that came or changed, with their positions.
fn rows_of<R: Row>(changes: &[live::Change]) -> impl Iterator<Item = (u64, R)> {
    changes.iter().filter_map(|change| {
        let entry = change.new.as_ref()?;
        Some((entry.meta.position?, entry.record.as_typed::<R>()?.clone()))
    })
}
