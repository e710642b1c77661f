//! An agent: it watches its inbox in a session, answers, and goes on after a crash.
//!
//! What waits in the inbox is answered together, by one generation; what arrives meanwhile waits
//! for the next. Every step of a generation is written down before the next one is taken, so
//! whoever takes an agent over goes on where it was: no model turn that has ended is asked for
//! again, no tool that has answered is run again.

mod core;
mod error;
mod life;
mod news;
mod past;
mod pulse;
mod recovery;
mod tools;
mod turn;
mod work;

use std::{sync::Arc, time::Duration};

use chat::{Model, Settings, Strategy, Tool, ToolChoice, Toolbox, machine::Plan};
use live::{StreamDb, from};
use log::Log;
use sys::{Cancellation, Canceller, Sys, Task, UnixMs};
use tokio::sync::watch;
use wire::Address;

use self::{core::Core, life::Life, pulse::PulseHandle};
pub use self::{
    core::{Flush, History, Partial},
    error::AgentError,
};
use crate::{
    caps::{AGENT_NAME_BYTES_MAX, AGENT_TURNS_DEFAULT, MODEL_SILENCE_DEFAULT},
    lease::{Home, Lease},
    rows::{Generation, Message},
    session::Sessions,
};

/// An agent. See [`Agent::builder`].
#[derive(Debug)]
pub enum Agent {}

impl Agent {
    /// An agent of this name, which it keeps for ever: messages are addressed to it.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use agent::Agent;
    /// use log::{Create, Log, MemoryLog};
    /// # use chat::{Abilities, Model, ModelName, ModelStream, Request};
    /// # #[derive(Debug)] struct Mute(ModelName);
    /// # impl Model for Mute {
    /// #     fn name(&self) -> &ModelName { &self.0 }
    /// #     fn abilities(&self) -> Abilities { Abilities { structured: Default::default() } }
    /// #     fn call(&self, _: Arc<Request>, _: sys::Cancellation) -> ModelStream {
    /// #         Box::pin(futures_util::stream::empty())
    /// #     }
    /// # }
    /// # let name = ModelName { provider: "p".into(), model: "m".into() };
    /// # let model: Arc<dyn Model> = Arc::new(Mute(name));
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let sys = sys::Sys::real();
    /// let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
    /// let session: wire::StreamPath = "main/sessions/demo".parse()?;
    /// let json = Create { content_type: Some("application/json".parse()?), ..Create::default() };
    /// log.create(&session.clone().into(), json).await?;
    ///
    /// let running = Agent::builder("assistant")
    ///     .instructions("You are brief.")
    ///     .model(model)
    ///     .session(log, session)
    ///     .start(&sys)
    ///     .await?;
    /// running.idle().await?;
    /// running.stop().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(name: impl Into<String>) -> AgentBuilder {
        AgentBuilder {
            name: name.into(),
            instructions: Vec::new(),
            model: None,
            tools: Vec::new(),
            settings: Settings::default(),
            strategy: Strategy::TurnsMax(AGENT_TURNS_DEFAULT),
            history: History::default(),
            flush: Flush::default(),
            partial: Partial::default(),
            silence_max: MODEL_SILENCE_DEFAULT,
            time_max: None,
            tools_parallel: chat::caps::TOOLS_PARALLEL_DEFAULT,
            lease: None,
            home: None,
        }
    }
}

/// An agent on its way.
#[derive(Clone, Debug)]
#[must_use]
pub struct AgentBuilder {
    name: String,
    instructions: Vec<String>,
    model: Option<Arc<dyn Model>>,
    tools: Vec<Tool>,
    settings: Settings,
    strategy: Strategy,
    history: History,
    flush: Flush,
    partial: Partial,
    silence_max: Duration,
    time_max: Option<Duration>,
    tools_parallel: usize,
    lease: Option<Lease>,
    home: Option<Home>,
}

impl AgentBuilder {
    /// What the model should know before anything else. May be said more than once.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions.push(text.into());
        self
    }

    /// Who answers.
    pub fn model(mut self, model: Arc<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// A tool that the model may call.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Tools that the model may call. Those that do not run here become pending rows, for whoever
    /// executes them.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// How the model should answer.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// When a generation goes on after its tools have answered. Default: for
    /// [`AGENT_TURNS_DEFAULT`] turns.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// How much of the conversation the model is told.
    pub const fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// How soon what the model says is written down.
    pub const fn flush(mut self, flush: Flush) -> Self {
        self.flush = flush;
        self
    }

    /// What becomes of what was said before a generation was cancelled or failed.
    pub const fn partial(mut self, partial: Partial) -> Self {
        self.partial = partial;
        self
    }

    /// How long the model may say nothing at all before it is asked again.
    pub const fn silence_max(mut self, silence_max: Duration) -> Self {
        self.silence_max = silence_max;
        self
    }

    /// How long one generation may take in one life of the agent. Default: as long as it likes.
    pub const fn time_max(mut self, time_max: Duration) -> Self {
        self.time_max = Some(time_max);
        self
    }

    /// How many tools run at the same time.
    pub fn tools_parallel(mut self, count: usize) -> Self {
        self.tools_parallel = count.max(1);
        self
    }

    /// On what terms a supervisor lets it run. Without one, it takes over from whoever runs it.
    pub fn lease(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The opening of an exclusive log that it runs in, if no lease tells: a supervisor of a later
    /// opening takes over from it at once.
    pub const fn home(mut self, home: Home) -> Self {
        self.home = Some(home);
        self
    }

    /// The session it works in: a stream of JSON messages, which must exist.
    pub fn session(self, log: Arc<dyn Log>, stream: impl Into<Address>) -> SessionAgent {
        SessionAgent { builder: self, log, address: stream.into(), sessions: None }
    }
}

/// An agent and its session.
#[derive(Clone, Debug)]
#[must_use = "an agent does nothing before it is started"]
pub struct SessionAgent {
    builder: AgentBuilder,
    log: Arc<dyn Log>,
    address: Address,
    sessions: Option<Sessions>,
}

impl SessionAgent {
    /// Shares what other parts of this process know of the session, so that it is read once.
    pub fn sessions(mut self, sessions: &Sessions) -> Self {
        self.sessions = Some(sessions.clone());
        self
    }

    /// Takes the agent over from whoever ran it before, and starts it.
    ///
    /// # Errors
    /// If it cannot be built, or its session cannot be read or written.
    pub async fn start(self, sys: &Sys) -> Result<RunningAgent, AgentError> {
        let Self { builder, log, address, sessions } = self;
        let head = log.head(&address).await;
        let head = head.map_err(|error| AgentError::Unreadable(error.to_string()))?;
        let core = builder.build(sys, head.incarnation.get())?;
        let (canceller, cancellation) = Cancellation::new();
        let (activity, watched) = watch::channel(Activity::Busy);
        let name = core.name.clone();
        let sessions = sessions.unwrap_or_else(|| Sessions::new(sys, log));
        let begun = Life::begin(core, (&sessions, address), cancellation, activity).await?;
        let (life, pulse) = begun;
        let db = life.db();
        let task = sys.spawn.task("agent", life.run());
        Ok(RunningAgent { name, db, canceller, activity: watched, pulse, task })
    }
}

impl AgentBuilder {
    fn build(self, sys: &Sys, incarnation: u64) -> Result<Core, AgentError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let name = self.name;
        if name.is_empty() || name.len() > AGENT_NAME_BYTES_MAX || !name.chars().all(is_plain) {
            return Err(AgentError::BadName { name });
        }
        let Some(model) = self.model else { return Err(AgentError::NoModel { name }) };
        if let Some(tool) = self.tools.iter().find(|tool| tool.may_need_approval()) {
            return Err(AgentError::NeedsApproval { tool: tool.spec().name.to_string() });
        }
        let plan = Plan {
            model: model.name().clone(),
            system: self.instructions,
            tools: Toolbox::new(self.tools)?,
            choice: ToolChoice::default(),
            settings: self.settings,
            strategy: self.strategy,
            output: None,
        };
        let lease = self.lease.filter(|lease| lease.agent == name);
        Ok(Core {
            sys: sys.clone(),
            runner: format!("{name}/{:016x}", sys.chance.u64()),
            name,
            model,
            plan,
            history: self.history,
            flush: self.flush,
            keeps_partial: self.partial == Partial::Keep,
            silence_max: self.silence_max,
            time_max: self.time_max,
            tools_parallel: self.tools_parallel,
            incarnation,
            ages: lease.as_ref().map(|lease| lease.ages.clone()).unwrap_or_default(),
            home: lease.as_ref().map_or(self.home, |lease| lease.home),
            lease,
        })
    }
}

/// What an agent is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// It works: a model or a tool of this process is at it.
    Busy,
    /// It has begun something, and only waits for others: a person who decides on a parked call, or
    /// whoever executes a call elsewhere.
    Waiting {
        /// When it goes on at the latest, if there is such a time.
        until: Option<UnixMs>,
    },
    /// Nothing is under way, and nothing waits in the inbox.
    Idle,
    /// It has ended; why, if that was not asked for.
    Ended(Option<AgentError>),
}

/// An agent that runs. Dropping it ends it as [`stop`](Self::stop) does, in the background.
#[derive(Debug)]
#[must_use = "an agent ends when it is dropped"]
pub struct RunningAgent {
    name: String,
    db: StreamDb,
    canceller: Canceller,
    activity: watch::Receiver<Activity>,
    pulse: PulseHandle,
    task: Task,
}

impl RunningAgent {
    /// Waits until nothing is under way, and nothing waits in the inbox as far as it was read.
    ///
    /// # Errors
    /// If the agent has ended; why, if that was not asked for.
    pub async fn idle(&self) -> Result<(), AgentError> {
        let rests = |activity: &Activity| matches!(activity, Activity::Idle | Activity::Ended(_));
        let mut activity = self.activity.clone();
        match activity.wait_for(rests).await.as_deref() {
            Ok(Activity::Ended(Some(error))) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// What it is doing.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.activity.borrow().clone()
    }

    /// Waits until it does something else than this, and tells what.
    pub async fn activity_after(&self, before: &Activity) -> Activity {
        let mut watched = self.activity.clone();
        match watched.wait_for(|now| now != before).await {
            Ok(now) => now.clone(),
            // Its task is gone without a word.
            Err(_) => Activity::Ended(None),
        }
    }

    /// Others work beside it from here on: its death with the process is not held against it.
    pub fn share(&self) {
        self.pulse.share();
    }

    /// Waits until it need not be alone any more: it has made progress, and that is written down.
    pub async fn shared(&self) {
        self.pulse.shared().await;
    }

    /// Waits until it has something under way, or has ended.
    pub async fn busy(&self) {
        let works = |activity: &Activity| !matches!(activity, Activity::Idle);
        let _ = self.activity.clone().wait_for(works).await;
    }

    /// Waits until a message was answered, and tells by which generation: it is over, whatever
    /// became of it.
    ///
    /// # Errors
    /// If the agent has ended before that.
    pub async fn answer_to(&self, message_id: &str) -> Result<Generation, AgentError> {
        let unreadable = |error: live::DbError| AgentError::Unreadable(error.to_string());
        let messages = self.db.rows::<Message>().map_err(unreadable)?;
        let own = from::<Generation>().filter(Generation::agent_name.eq(self.name.as_str()));
        let over = self.db.live(own).map_err(unreadable)?;
        let mut changes = over.changes().map_err(unreadable)?;
        loop {
            let place = messages.get(message_id).and_then(|message| message.meta().position);
            let answers = |row: &Generation| {
                row.status.is_terminal() && place.is_some_and(|place| row.read_up_to >= place)
            };
            let mut rows = over.rows();
            rows.sort_by_key(|row| row.read_up_to);
            if let Some(row) = rows.iter().find(|row| answers(row)) {
                return Ok((**row).clone());
            }
            tokio::select! {
                biased;
                _ = changes.next() => {}
                ended = self.ended() => {
                    ended?;
                    return Err(AgentError::Stopped);
                }
            }
        }
    }

    /// What the agent said at the end of a generation; nothing, if it came to no end.
    ///
    /// # Errors
    /// If the session cannot be read.
    pub fn text_of(&self, generation: &Generation) -> Result<String, AgentError> {
        let said = from::<Message>().filter(Message::generation_id.eq(generation.id.as_str()));
        let said = self.db.once(said).map_err(|error| AgentError::Unreadable(error.to_string()))?;
        let last = said.iter().max_by_key(|message| message.meta().position);
        Ok(last.map(|message| message.content.clone()).unwrap_or_default())
    }

    /// Waits until it has ended by itself: since another runner has taken it over, or its session
    /// cannot be written to any more.
    ///
    /// # Errors
    /// Why it has ended.
    pub async fn ended(&self) -> Result<(), AgentError> {
        let is_over = |activity: &Activity| matches!(activity, Activity::Ended(_));
        match self.activity.clone().wait_for(is_over).await.as_deref() {
            Ok(Activity::Ended(Some(error))) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Ends it in peace: tools that run may end for a while, and whoever starts it again goes on.
    /// What is left unfinished is no failure.
    ///
    /// # Errors
    /// If it had ended for another reason before.
    pub async fn stop(self) -> Result<(), AgentError> {
        self.canceller.cancel();
        let ended = self.ended().await;
        self.task.join().await;
        ended
    }

    /// Ends it at once and without a word, as a crash would.
    pub fn abort(self) {
        self.task.abort();
    }
}
