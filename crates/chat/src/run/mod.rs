//! `chat(model)`: a run in memory, as a stream of events, a text, or a typed value.

mod drive;
mod handle;
mod middleware;
mod summarize;

use std::{
    convert::Infallible,
    fmt,
    future::{Future, pending},
    pin::pin,
    sync::{Arc, Weak, atomic::AtomicBool},
};

use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sys::{Cancellation, Canceller, Sys};
use tokio::sync::{mpsc, oneshot};

use self::drive::{ClientTool, Decide, Driver};
pub use self::handle::{Finished, Run};
pub use self::middleware::{BeforeTool, Middleware};
pub use self::summarize::{Summarize, Summary, SummaryStyle, summarize};
use crate::{
    BadSchema, BadToolbox, Id, Message, Model, OutputSpec, Role, Schema, Settings, Tool,
    ToolChoice, ToolOutcome, Toolbox,
    agui::{Event, ResumeEntry},
    caps::{EVENTS_WAITING_MAX, TOOLS_PARALLEL_DEFAULT},
    machine::{
        Call, Decision, Failure, Machine, Misfed, NoMessages, Output, Plan, Saved, Start, Strategy,
    },
};

/// A run of this model, to be set up and started.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # use std::sync::Arc;
/// # use chat::*;
/// # #[derive(Debug)] struct Parrot(ModelName);
/// # impl Model for Parrot {
/// #     fn name(&self) -> &ModelName { &self.0 }
/// #     fn abilities(&self) -> Abilities { Abilities { structured: Structured::Prompted } }
/// #     fn call(&self, request: Arc<Request>, _: sys::Cancellation) -> ModelStream {
/// #         let block = Block(0);
/// #         let delta = request.messages.last().unwrap().text_content();
/// #         Box::pin(futures_util::stream::iter([
/// #             Ok(ModelEvent::Open { block, kind: BlockKind::Text }),
/// #             Ok(ModelEvent::More { block, delta }),
/// #         ]))
/// #     }
/// # }
/// # let parrot = Arc::new(Parrot(ModelName { provider: "parrot".into(), model: "p".into() }));
/// let text = chat(parrot).user("Hello!").text(&sys::Sys::real()).await?;
/// assert_eq!(text, "Hello!");
/// # Ok::<(), ChatError>(()) }).unwrap();
/// ```
pub fn chat(model: Arc<dyn Model>) -> Chat {
    Chat {
        thread_id: None,
        run_id: None,
        parent_run_id: None,
        messages: Vec::new(),
        system: Vec::new(),
        tools: Vec::new(),
        choice: ToolChoice::Auto,
        settings: Settings::default(),
        strategy: Strategy::default(),
        output: None,
        tools_parallel: TOOLS_PARALLEL_DEFAULT,
        middleware: Vec::new(),
        decide: None,
        client_tool: None,
        cancellation: None,
        model,
    }
}

/// A run that is being set up.
#[derive(Clone)]
#[must_use = "a run does nothing before it is started"]
pub struct Chat {
    model: Arc<dyn Model>,
    thread_id: Option<Id>,
    run_id: Option<Id>,
    parent_run_id: Option<Id>,
    messages: Vec<Message>,
    system: Vec<String>,
    tools: Vec<Tool>,
    choice: ToolChoice,
    settings: Settings,
    strategy: Strategy,
    output: Option<OutputSpec>,
    tools_parallel: usize,
    middleware: Vec<Arc<dyn Middleware>>,
    decide: Option<Decide>,
    client_tool: Option<ClientTool>,
    cancellation: Option<Cancellation>,
}

/// A run that could not be started. Nothing has happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadChat {
    /// There is nothing to answer.
    #[error(transparent)]
    NoMessages(#[from] NoMessages),
    /// Two tools of one name, or too many.
    #[error(transparent)]
    BadToolbox(#[from] BadToolbox),
    /// The schema of the output is none.
    #[error("the schema of the output {name:?} is none: {why}")]
    BadOutput {
        /// What the output is called.
        name: Id,
        /// What is wrong with its schema.
        why: BadSchema,
    },
    /// A run that is resumed has its conversation, and cannot be given more of it.
    #[error("a run that is resumed takes no messages; let it end, and start another with them")]
    MessagesOnResume,
    /// A run that is resumed waits for a tool that it was not given again.
    #[error("the run waits for the tool {name:?}; give it again, as when it was started")]
    MissingTool {
        /// The tool.
        name: Id,
    },
    /// An answer that does not fit what the run waits for.
    #[error(transparent)]
    BadAnswer(#[from] Misfed),
}

/// A run that did not give what was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// It could not be started.
    #[error(transparent)]
    Bad(#[from] BadChat),
    /// It failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// It waits for somebody; start it as a stream to be able to answer.
    #[error(
        "the run waits for an approval or a tool of the client; set `decide` or `client_tools`, or \
         start it with `stream` and answer"
    )]
    Suspended,
    /// Somebody stopped it.
    #[error("the run was stopped")]
    Cancelled,
    /// The model would go on, but the strategy does not.
    #[error("the run has made all the turns it may; allow more by its strategy")]
    TurnsExhausted,
    /// The value is not what its type says, though it fits the schema.
    #[error("the answer fits the schema, but not its type: {why}")]
    OtherType {
        /// What is wrong with it.
        why: String,
    },
}

impl Chat {
    /// The id of the conversation, instead of a random one.
    pub fn thread_id(mut self, id: impl Into<Id>) -> Self {
        self.thread_id = Some(id.into());
        self
    }

    /// The id of the run, instead of a random one.
    pub fn run_id(mut self, id: impl Into<Id>) -> Self {
        self.run_id = Some(id.into());
        self
    }

    /// The run that this one goes on from.
    pub fn parent_run_id(mut self, id: impl Into<Id>) -> Self {
        self.parent_run_id = Some(id.into());
        self
    }

    /// Something that the model should know before anything else.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.system.push(text.into());
        self
    }

    /// Something that a user says.
    pub fn user(self, text: impl Into<String>) -> Self {
        let id = format!("user-{}", self.messages.len() + 1);
        self.message(Message::text(id, Role::User, text))
    }

    /// One more message.
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// More messages.
    pub fn messages(mut self, messages: impl IntoIterator<Item: Into<Message>>) -> Self {
        self.messages.extend(messages.into_iter().map(Into::into));
        self
    }

    /// One more tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// More tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// Which tools the model should call in its first turn.
    pub fn choice(mut self, choice: ToolChoice) -> Self {
        self.choice = choice;
        self
    }

    /// How many tools run at the same time.
    pub const fn tools_parallel(mut self, count: usize) -> Self {
        self.tools_parallel = count;
        self
    }

    /// How the model should answer.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// When the run goes on after tools have answered.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// The shape of the answer; it stands in the result of the event that ends the run.
    pub fn output(mut self, spec: OutputSpec) -> Self {
        self.output = Some(spec);
        self
    }

    /// One more middleware.
    pub fn middleware(mut self, middleware: Arc<dyn Middleware>) -> Self {
        self.middleware.push(middleware);
        self
    }

    /// Who decides on calls that need it. Without, such a call suspends the run.
    pub fn decide<F>(mut self, decide: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Decision> + Send + 'static,
    {
        self.decide = Some(Arc::new(move |call| decide(call).boxed()));
        self
    }

    /// Who makes the calls of the client's tools. Without, such a call suspends the run.
    pub fn client_tools<F>(mut self, make: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ToolOutcome> + Send + 'static,
    {
        self.client_tool = Some(Arc::new(move |call| make(call).boxed()));
        self
    }

    /// Stops the run when this is over.
    pub fn cancellation(mut self, cancellation: Cancellation) -> Self {
        self.cancellation = Some(cancellation);
        self
    }

    /// Starts the run, as a stream of events.
    ///
    /// # Errors
    /// If it cannot be started.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn stream(mut self, sys: &Sys) -> Result<Run, BadChat> {
        let messages = std::mem::take(&mut self.messages);
        let start = Start {
            thread_id: self.thread_id.take().unwrap_or_else(|| random_id("thread", sys)),
            run_id: self.run_id.take().unwrap_or_else(|| random_id("run", sys)),
            parent_run_id: self.parent_run_id.take(),
            messages,
        };
        let (machine, events) = Machine::start(self.plan()?, start)?;
        Ok(self.launch(machine, events, sys))
    }

    /// Goes on with a run that was suspended, with answers to what it waits for. If some are
    /// missing, the run is suspended again.
    ///
    /// Only the conversation and the calls are in what was saved: tools, system prompts, settings,
    /// strategy, output and middleware must be given as when the run was started.
    ///
    /// # Errors
    /// If an answer does not fit, or the run is not suspended.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn resume(
        mut self,
        saved: Saved,
        answers: &[ResumeEntry],
        sys: &Sys,
    ) -> Result<Run, BadChat> {
        if !self.messages.is_empty() {
            return Err(BadChat::MessagesOnResume);
        }
        let mut machine = Machine::restore(self.plan()?, saved);
        if let Some(name) = machine.missing_tool() {
            return Err(BadChat::MissingTool { name });
        }
        let run_id = self.run_id.take().unwrap_or_else(|| random_id("run", sys));
        let mut events = machine.resume(run_id)?;
        for answer in answers {
            let input = machine.read_answer(answer)?;
            machine.feed(input, &mut events)?;
        }
        Ok(self.launch(machine, events, sys))
    }

    /// Runs to the end; the text of the last message. It may be cut, or a refusal: why the model
    /// stopped is told by [`stream`](Self::stream) and [`Run::finish`].
    ///
    /// # Errors
    /// If the run cannot be started, fails, or is not finished.
    pub async fn text(self, sys: &Sys) -> Result<String, ChatError> {
        let finished = self.stream(sys)?.finish().await;
        let text = finished.text();
        finished.check()?;
        Ok(text)
    }

    /// Runs to the end; an answer of this type.
    ///
    /// # Errors
    /// If the run cannot be started, fails, or is not finished.
    pub async fn typed<T: DeserializeOwned + JsonSchema>(self, sys: &Sys) -> Result<T, ChatError> {
        let spec =
            OutputSpec { name: T::schema_name().as_ref().into(), schema: Schema::value_of::<T>() };
        let finished = self.output(spec).stream(sys)?.finish().await;
        let value = finished.check()?.unwrap_or(Value::Null);
        serde_json::from_value(value)
            .map_err(|error| ChatError::OtherType { why: error.to_string() })
    }

    fn plan(&mut self) -> Result<Plan, BadChat> {
        let how = self.model.abilities().structured;
        let output = match self.output.take() {
            None => None,
            Some(spec) => {
                let name = spec.name.clone();
                let output = Output::new(spec, how);
                Some(output.map_err(|why| BadChat::BadOutput { name, why })?)
            }
        };
        Ok(Plan {
            model: self.model.name().clone(),
            system: std::mem::take(&mut self.system),
            tools: Toolbox::new(std::mem::take(&mut self.tools))?,
            choice: self.choice.clone(),
            settings: self.settings.clone(),
            strategy: self.strategy.clone(),
            output,
        })
    }

    fn launch(self, machine: Machine, first: Vec<Event>, sys: &Sys) -> Run {
        let (canceller, cancellation) = Cancellation::new();
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let (end, ended) = oneshot::channel();
        let driver = Driver {
            sys: sys.clone(),
            model: self.model,
            tools: machine.tools().clone(),
            tools_parallel: self.tools_parallel,
            middleware: self.middleware,
            decide: self.decide,
            client_tool: self.client_tool,
            cancellation,
            events: sender,
            has_ended: AtomicBool::new(false),
        };
        let canceller = Arc::new(canceller);
        let stopper = Arc::downgrade(&canceller);
        let outer = self.cancellation;
        sys.spawn.task("chat", async move {
            let mut machine = machine;
            {
                let run = pin!(driver.drive(&mut machine, first));
                let stop = pin!(pass_on(outer, stopper));
                let Either::Left(((), _)) = select(run, stop).await;
            }
            drop(driver);
            // Nobody may want to know.
            let _ = end.send(machine);
        });
        Run { events, ended, canceller }
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("model", self.model.name())
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

/// Stops the run when something outside is over. Never ends.
async fn pass_on(outer: Option<Cancellation>, canceller: Weak<Canceller>) -> Infallible {
    if let Some(outer) = outer {
        outer.cancelled().await;
        if let Some(canceller) = canceller.upgrade() {
            canceller.cancel();
        }
    }
    pending().await
}

fn random_id(what: &str, sys: &Sys) -> Id {
    Id::from(format!("{what}-{:016x}", sys.chance.u64()))
}
