//! The life of an agent in one process: takeover, what was left unfinished, one inbox after the
//! other.

use std::{collections::BTreeMap, sync::Arc};

use chat::{
    Strategy,
    caps::TURNS_MAX,
    machine::{Input, Machine, Plan, Start},
};
use live::{Since, StreamDb};
use log::{Log, ReadError};
use sys::Cancellation;
use tokio::sync::watch;
use wire::{Address, Offset};

use super::{
    Activity, AgentError,
    core::Core,
    news::News,
    past::{Last, Past, chunks_of, request_in, runner_of, weight},
    pulse::{Pulse, PulseHandle},
    recovery::{Left, Parting},
    work::{Halt, Notes, Work},
};
use crate::{
    caps::{INBOX_BATCH_MAX, TAKEOVER_PATIENCE},
    conversation::{Calls, message_of},
    journal::{Journal, JournalError, Takeover, Writes},
    rows::{self, Generation, GenerationStatus, Message, Runner, now},
    session::Sessions,
    stream::Chunker,
};

/// An agent in this process.
pub(super) struct Life {
    core: Core,
    log: Arc<dyn Log>,
    address: Address,
    db: StreamDb,
    journal: Journal,
    pulse: Pulse,
    /// How the runner before has ended.
    parting: Parting,
    /// Whether the runner before worked in the stream that this one was forked from.
    was_forked: bool,
    news: News,
    machine: Option<Machine>,
    read_up_to: Option<u64>,
    /// Where the rows begin that `db` shows.
    since: Option<Since>,
    /// What began before this position is not all in `db`.
    floor: u64,
    /// Where the stream ended when `db` was opened.
    opened_at: Option<Offset>,
    /// Where the conversation begins that the model is told.
    history_from: u64,
    /// How much of the conversation was weighed, and what it weighs.
    weighed: (usize, usize),
    cancellation: Cancellation,
    activity: watch::Sender<Activity>,
}

impl Life {
    /// Takes the agent over, and reads all that was written before that.
    pub(super) async fn begin(
        core: Core,
        (sessions, address): (&Sessions, Address),
        cancellation: Cancellation,
        activity: watch::Sender<Activity>,
    ) -> Result<(Self, PulseHandle), AgentError> {
        let unreadable = |error: &dyn std::fmt::Display| AgentError::Unreadable(error.to_string());
        let log = Arc::clone(sessions.log());
        let opened = opened(sessions, &address, &core).await;
        let Opened { before, since, floor, read_up_to, tail } =
            opened.map_err(|error| unreadable(&error))?;
        let db = rows::session(StreamDb::builder(Arc::clone(&log), address.clone(), &core.sys));
        let db = since.iter().fold(db, |db, since| db.since(*since));
        let db = db.open().map_err(|error| unreadable(&error))?;
        db.ready().await.map_err(|error| unreadable(&error))?;
        // What is no epoch was not written by a runner; the log knows the true one.
        let epoch = before.as_ref().map_or(0, |before| before.epoch % wire::caps::INTEGER_MAX);
        let takeover = match &core.lease {
            Some(lease) if epoch > lease.after => {
                return Err(JournalError::TakenOver { epoch }.into());
            }
            Some(_) => Takeover::Known,
            None => Takeover::Any,
        };
        let epoch = core.lease.as_ref().map_or(epoch, |lease| lease.after);
        let mut runner = core.runner_after(epoch);
        let place = (Arc::clone(&log), address.clone());
        let journal = loop {
            let place = place.clone();
            let end = cancellation.clone();
            let taken = Journal::take_over(place, &mut runner, takeover, &core.sys, end);
            let (journal, txid) = taken.await?;
            // The runner before may have written until just now.
            let read = db.await_txid(txid.as_str(), TAKEOVER_PATIENCE).await;
            read.map_err(|error| unreadable(&error))?;
            // An append that is repeated cannot be told from that of a runner with the same idea.
            let now = runner_of(&db, &core.name).map_err(|error| unreadable(&error))?;
            match now {
                Some(now) if now.epoch == runner.epoch && now.runner != runner.runner => {
                    if takeover == Takeover::Known {
                        return Err(JournalError::TakenOver { epoch: now.epoch }.into());
                    }
                }
                _ => break journal,
            }
        };
        let news = News::listen(&db, &core.name).map_err(|error| unreadable(&error))?;
        let was_forked = before.as_ref().is_some_and(|it| it.incarnation != core.incarnation);
        let parting = Parting::of(before.as_ref(), core.lease.as_ref());
        let (pulse, handle) = Pulse::new(runner, core.lease.as_ref());
        let life = Self {
            core,
            log,
            address,
            db,
            journal,
            pulse,
            parting,
            was_forked,
            news,
            machine: None,
            read_up_to,
            since,
            floor,
            opened_at: tail,
            history_from: 0,
            weighed: (0, 0),
            cancellation,
            activity,
        };
        Ok((life, handle))
    }

    /// The session as this runner sees it.
    pub(super) fn db(&self) -> StreamDb {
        self.db.clone()
    }

    /// Works until it is to stop, or cannot go on.
    pub(super) async fn run(mut self) {
        let ended = match self.work().await {
            Ok(()) | Err(Ended::Stopped) => self.release().await.err(),
            Err(Ended::Failed(error)) => Some(error),
        };
        if let Some(error) = &ended {
            tracing::warn!(agent = self.core.name, %error, "an agent has ended");
        }
        self.activity.send_replace(Activity::Ended(ended));
    }

    async fn work(&mut self) -> Result<(), Ended> {
        self.go_on_from_past().await?;
        loop {
            if self.is_overgrown().await {
                return Ok(());
            }
            self.news.forget(self.read_up_to);
            let mail = self.news.waiting(INBOX_BATCH_MAX);
            if mail.is_empty() {
                self.activity.send_replace(Activity::Idle);
                tokio::select! {
                    biased;
                    () = self.cancellation.cancelled() => return Ok(()),
                    () = self.news.mail() => {}
                }
                continue;
            }
            self.activity.send_replace(Activity::Busy);
            self.cut_history()?;
            self.answer(mail).await?;
        }
    }

    /// Says that what is left unfinished is no failure.
    async fn release(&mut self) -> Result<(), AgentError> {
        let mut writes = Writes::default();
        self.pulse.note_waiting(&self.activity, &self.db, &mut self.news);
        self.pulse.release(&self.core.sys, &mut writes);
        // Nobody waits for a stream that cannot be reached.
        match self.journal.commit(writes).await {
            Ok(_) | Err(JournalError::Ended(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers what waits, by one generation.
    async fn answer(&mut self, mail: Vec<(u64, Message)>) -> Result<(), Ended> {
        let (Some((first, _)), Some((read_up_to, _))) = (mail.first(), mail.last()) else {
            return Ok(());
        };
        let read_up_to = *read_up_to;
        if self.machine.is_none() {
            // The conversation begins here, whatever was said to others before.
            self.history_from = *first;
        }
        let now = now(&self.core.sys);
        let generation = Generation {
            id: format!("{}-{read_up_to}", self.core.name),
            agent_name: self.core.name.clone(),
            status: GenerationStatus::Generating,
            model: self.core.model.name().to_string(),
            read_after: self.read_up_to,
            read_up_to,
            history_from: Some(self.history_from).filter(|from| *from > 0),
            cancelled_by: None,
            error: None,
            created_at: now.clone(),
            updated_at: now,
            completed_at: None,
        };
        let none = Calls::new();
        let said = mail.iter().flat_map(|(_, row)| message_of(row, &none)).collect();
        self.begin_run(&generation.id, said)?;
        self.read_up_to = Some(read_up_to);
        let mut writes = Writes::default();
        writes.insert(&generation);
        let request = request_in(mail.iter().map(|(_, row)| row));
        let mut work = self.work_on(generation, 0);
        work.request = request;
        let step = work.advance(&mut writes);
        work.journal.commit(writes).await?;
        Ok(work.run(step).await?)
    }

    /// Begins a run of the machine with what was said.
    fn begin_run(&mut self, run_id: &str, said: Vec<chat::Message>) -> Result<(), Ended> {
        let Some(machine) = &mut self.machine else {
            self.machine = Some(self.begun(self.core.plan.clone(), run_id, said)?);
            return Ok(());
        };
        let begun = machine.begin_again(run_id.into(), said);
        begun.map_err(|error| JournalError::BadRow(error.to_string()))?;
        Ok(())
    }

    /// A generation under way. The machine must have its run.
    fn work_on(&mut self, generation: Generation, next_chunk: u64) -> Work<'_> {
        let clock = &self.core.sys.clock;
        let deadline = self.core.time_max.map(|time_max| clock.unix_ms().plus(time_max));
        let chunker = Chunker::new(&generation.id, next_chunk);
        let machine = self.machine.as_mut().expect("a run was begun");
        Work {
            core: &self.core,
            journal: &mut self.journal,
            machine,
            news: &mut self.news,
            pulse: &mut self.pulse,
            db: &self.db,
            cancellation: &self.cancellation,
            generation,
            step: None,
            calls: BTreeMap::new(),
            chunker,
            flushed: next_chunk,
            written: 0,
            deadline,
            cancelled: None,
            notes: Notes::default(),
            request: None,
            said: None,
            activity: &self.activity,
        }
    }

    /// Takes up the conversation, and what the runner before has left unfinished.
    async fn go_on_from_past(&mut self) -> Result<(), Ended> {
        let past = self.past()?;
        if past.is_short {
            let why = "the runner before began a generation meanwhile that needs more of it";
            return Err(AgentError::Unreadable(why.to_owned()).into());
        }
        self.read_up_to = self.read_up_to.max(past.read_up_to);
        let Some(last) = &past.last else { return Ok(()) };
        if last.generation.status.is_terminal() {
            return self.take_up(past);
        }
        self.history_from = past.history_from();
        let (messages, last) = past.into_parts();
        let Some(last) = last else { return Ok(()) };
        // Whatever limit the agent has now, the turns that are there were made.
        let strategy = Strategy::TurnsMax(TURNS_MAX);
        let plan = Plan { strategy, ..self.core.plan.clone() };
        self.machine = Some(self.begun(plan, &last.generation.id, messages)?);
        self.go_on_with(last).await
    }

    /// Whether so much was written since it began to read that it should begin anew, with less; a
    /// supervisor does that at once.
    async fn is_overgrown(&self) -> bool {
        let Some(opened_at) = self.opened_at.filter(|_| self.core.lease.is_some()) else {
            return false;
        };
        let Ok(head) = self.log.head(&self.address).await else { return false };
        let grown = head.tail.byte.get().saturating_sub(opened_at.byte.get());
        grown > self.core.history.window_bytes_max()
    }

    fn past(&self) -> Result<Past, AgentError> {
        let past = Past::read(&self.db, &self.core.name, self.floor);
        past.map_err(|error| AgentError::Unreadable(error.to_string()))
    }

    /// Takes up a conversation in which nothing is left unfinished, no more of it than the model
    /// may be told.
    fn take_up(&mut self, mut past: Past) -> Result<(), Ended> {
        past.cut(self.core.history);
        self.history_from = past.history_from();
        let (mut messages, last) = past.into_parts();
        let Some(last) = last else { return Ok(()) };
        messages.extend(last.turns.into_iter().flat_map(|turn| turn.said));
        let plan = self.core.plan.clone();
        let mut machine = self.begun(plan, &last.generation.id, messages)?;
        // It ended; what was said stays.
        let _ = machine.feed(Input::Cancel { reason: None }, &mut Vec::new());
        self.machine = Some(machine);
        self.weighed = (0, 0);
        Ok(())
    }

    /// Shortens a conversation that has become longer than the model may be told.
    fn cut_history(&mut self) -> Result<(), Ended> {
        let Some(machine) = &self.machine else { return Ok(()) };
        let (count, bytes) = self.weighed;
        let new: usize = machine.messages().since(count).map(|message| weight(message)).sum();
        self.weighed = (machine.messages().len(), bytes + new);
        if !self.core.history.is_over(self.weighed.0, self.weighed.1) {
            return Ok(());
        }
        self.take_up(self.past()?)
    }

    fn begun(
        &self,
        plan: Plan,
        run_id: &str,
        messages: Vec<chat::Message>,
    ) -> Result<Machine, Ended> {
        let start = Start {
            thread_id: self.address.to_string().into(),
            run_id: run_id.into(),
            parent_run_id: None,
            messages,
        };
        match Machine::start(plan, start) {
            Ok((machine, _)) => Ok(machine),
            Err(error) => Err(AgentError::Unreadable(error.to_string()).into()),
        }
    }

    /// Goes on with a generation that somebody has left unfinished.
    async fn go_on_with(&mut self, last: Last) -> Result<(), Ended> {
        let Last { generation, request, said, turns } = last;
        let first = turns.last().map_or(0, |turn| turn.step.first_chunk);
        let since = self.since.map(|since| since.offset);
        let place = (generation.id.as_str(), since);
        let found = chunks_of(&self.log, &self.address, place, first).await?;
        // What a compaction forgot was before this attempt.
        let next_chunk = found.next.max(first);
        let dead = found.last;
        let left = Left { dead, parting: self.parting, was_forked: self.was_forked };
        let plan = self.core.plan.clone();
        let mut work = self.work_on(generation, next_chunk);
        (work.written, work.request, work.said) = (found.count, request, said);
        for turn in turns {
            work.take_up(turn)?;
        }
        *work.machine = Machine::restore(plan, work.machine.save());
        let step = work.begin_where_it_was(&left).await?;
        Ok(work.run(step).await?)
    }
}

/// Who ran an agent before, and from where on its rows are needed.
#[derive(Default)]
struct Opened {
    before: Option<Runner>,
    since: Option<Since>,
    /// If its conversation begins later than it did, since that was too far back: where.
    floor: u64,
    /// How far it has read, if the rows may not tell it.
    read_up_to: Option<u64>,
    /// Where the session ends.
    tail: Option<Offset>,
}

async fn opened(sessions: &Sessions, address: &Address, core: &Core) -> Result<Opened, ReadError> {
    let Some(path) = address.stream() else { return Ok(Opened::default()) };
    let session = sessions.of(path);
    let mut session = session.lock().await;
    let head = session.catch_up().await?.agent(&core.name).cloned().unwrap_or_default();
    let window = session.window_of(&head, core.history.window_bytes_max()).await?;
    let (before, place) = (head.runner.as_ref().map(|runner| runner.row.clone()), session.place());
    let opened = Opened { before, tail: place.map(|(offset, _)| offset), ..Opened::default() };
    Ok(match (window, place) {
        (Some(window), _) if Some(window.covered) == head.window() => {
            Opened { since: Some(window.since()), ..opened }
        }
        (Some(window), _) => Opened {
            since: Some(window.since()),
            floor: window.covered.get(),
            read_up_to: head.read_up_to(),
            ..opened
        },
        // Nothing was said to it yet, so only what comes concerns it.
        (None, Some((offset, life))) => {
            let since = Since { life: life.get(), offset, position: offset.position };
            Opened { since: Some(since), ..opened }
        }
        (None, None) => opened,
    })
}

/// Why an agent does not go on.
enum Ended {
    Stopped,
    Failed(AgentError),
}

impl From<Halt> for Ended {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Stopped => Self::Stopped,
            Halt::Journal(error) => Self::Failed(error.into()),
        }
    }
}

impl From<JournalError> for Ended {
    fn from(error: JournalError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<AgentError> for Ended {
    fn from(error: AgentError) -> Self {
        Self::Failed(error)
    }
}
