//! The turn machine: what a run does next, decided without doing anything.
//!
//! ```text
//!            ┌───────────── all calls answered, and the strategy goes on ─────────────┐
//!            ▼                                                                        │
//!       CallModel ── calls ──► AwaitApproval ──► CallTools ──► AwaitClientTools ──────┤
//!            │                                                                        │
//!            └── none ───────────────────────► Done ◄─────────────────────────────────┘
//! ```
//!
//! [`Machine::next_step`] tells the step; whoever drives the machine takes it and feeds back what
//! came of it with [`Machine::feed`], in any order and at any pace. The machine answers with
//! AG-UI events. It never awaits, reads a clock or draws a number, so the same inputs give the same
//! run: in memory, from a log, or in a test. It can be saved between any two inputs.

mod calls;
mod discovery;
mod history;
mod misfed;
mod names;
mod output;
mod resume;
mod state;
mod strategy;
mod told;
mod turn;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use self::{
    calls::{Batch, Decided, Whole},
    history::History,
    names::CallNames,
    state::{Goal, Phase, State},
    told::{custom, edited},
    turn::Turn,
};
pub use self::{
    calls::{Call, Decision},
    discovery::DISCOVERY_TOOL,
    misfed::{BadModelEvent, Misfed},
    output::Output,
    state::{Done, Failure, Saved},
    strategy::{LoopState, Strategy},
};
use crate::{
    Conversation, Id, Message, ModelError, ModelEvent, ModelName, Place, Request, Role, Settings,
    StopReason, Structured, ToolChoice, ToolResult, Toolbox, Usage,
    agui::{Event, Outcome, TextMessageContent, TextMessageEnd, TextMessageStart, TextRole},
    caps::REPAIRS_MAX,
};

/// What a run is made of that is no data: it is given again when a saved machine goes on.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model.
    pub model: ModelName,
    /// What the model should know before anything else.
    pub system: Vec<String>,
    /// The tools it may call.
    pub tools: Toolbox,
    /// Which of them it should call in the first turn.
    pub choice: ToolChoice,
    /// How it should answer.
    pub settings: Settings,
    /// When the run goes on after tools have answered.
    pub strategy: Strategy,
    /// The shape of its answer.
    pub output: Option<Output>,
}

/// Where a run begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// The conversation.
    pub thread_id: Id,
    /// The run. Ids of messages begin with it.
    pub run_id: Id,
    /// The run that this one goes on from.
    pub parent_run_id: Option<Id>,
    /// The conversation so far. Calls at its end that nobody has answered are made first.
    pub messages: Vec<Message>,
}

/// A run that has nothing to begin with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are no messages; give at least one, such as what the user said")]
pub struct NoMessages;

/// A run that cannot begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another run can begin when this one is over and something was said since")]
pub struct NotOver;

/// What a run does next.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Ask the model, and feed what it streams.
    CallModel(Arc<Request>),
    /// Make these calls, several at a time, and feed what comes of each.
    CallTools(Vec<Call>),
    /// Ask somebody whether these may be made.
    AwaitApproval(Vec<Call>),
    /// Let whoever started the run make these.
    AwaitClientTools(Vec<Call>),
    /// It is over.
    Done(Done),
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// The model streamed something.
    Model(ModelEvent),
    /// The model has said all it will.
    ModelEnded,
    /// The model failed.
    ModelFailed(ModelError),
    /// A call has its outcome.
    Tool(ToolResult),
    /// Somebody has decided on a call.
    Decided {
        /// The call.
        call_id: Id,
        /// The decision.
        decision: Decision,
    },
    /// Nobody is here to decide or to make a call: the run ends with an interrupt, to be resumed.
    Suspend,
    /// Somebody has stopped the run.
    Cancel {
        /// Why.
        reason: Option<String>,
    },
}

/// One run of a model and its tools.
#[derive(Clone, Debug)]
pub struct Machine {
    plan: Plan,
    state: State,
    names: CallNames,
}

impl Machine {
    /// A run that begins, and its first events.
    ///
    /// # Errors
    /// If there are no messages.
    pub fn start(plan: Plan, start: Start) -> Result<(Self, Vec<Event>), NoMessages> {
        let history = History::of(start.messages);
        let Some(last) = history.messages.last() else { return Err(NoMessages) };
        let asked = last.id.clone();
        let names = CallNames::of(history.messages.iter().map(AsRef::as_ref));
        let state =
            State::new(start.thread_id, start.run_id, history.messages.into_iter().collect());
        let mut machine = Self { plan, state, names };
        let mut events = vec![machine.run_started(start.parent_run_id)];
        if history.open.is_empty() {
            machine.begin_turn();
        } else {
            let calls = history.open.iter().map(|(call, result)| (call, result.clone()));
            let batch = Batch::admit(&asked, calls, Whole::Yes, &machine.plan.tools, &mut events);
            machine.state.phase = Phase::Tools(batch);
            machine.go_on_after_tools(&mut events);
        }
        Ok((machine, events))
    }

    /// A run that goes on where it was saved.
    #[must_use]
    pub fn restore(plan: Plan, saved: Saved) -> Self {
        let names = CallNames::of(saved.0.messages.iter().map(AsRef::as_ref));
        let names = names.with(saved.0.phase.calls_in_turn());
        Self { plan, state: saved.0, names }
    }

    /// Begins another run of the same conversation with what was said since, and tells its first
    /// events. It costs what is new, not what was said before.
    ///
    /// # Errors
    /// If the run is not over, or nothing was said. Then nothing has changed.
    pub fn begin_again(&mut self, run_id: Id, said: Vec<Message>) -> Result<Vec<Event>, NotOver> {
        if !matches!(self.state.phase, Phase::Done(_)) || said.is_empty() {
            return Err(NotOver);
        }
        let parent = std::mem::replace(&mut self.state.run_id, run_id);
        self.state.begin_again(said);
        self.begin_turn();
        Ok(vec![self.run_started(Some(parent))])
    }

    /// Ends a turn that was written down, with what is known of its calls: their answers, or that
    /// they are open. What was admitted is not looked at again, whatever tools there are now.
    ///
    /// # Errors
    /// If no model call is the next step. Then nothing has changed.
    pub fn end_turn_as(
        &mut self,
        recorded: &BTreeMap<Id, Option<ToolResult>>,
        events: &mut Vec<Event>,
    ) -> Result<(), Misfed> {
        if !self.state.is_running || !matches!(self.state.phase, Phase::Model { .. }) {
            return Err(self.not_now(&Input::ModelEnded));
        }
        self.end_turn(Some(recorded), events);
        Ok(())
    }

    /// Forgets what the model has said in this turn, so that it can be asked again. Does nothing
    /// unless a model call is the next step.
    pub fn ask_again(&mut self) {
        let Phase::Model { goal, .. } = self.state.phase else { return };
        self.begin_turn_for(goal);
        self.names = CallNames::of(self.state.messages.iter().map(AsRef::as_ref));
    }

    /// The answer to a call, if it has one. The latest call of this id counts.
    #[must_use]
    pub fn answer_to(&self, call_id: &str) -> Option<&ToolResult> {
        let is_its = |result: &&ToolResult| result.call_id.as_str() == call_id;
        if let Phase::Tools(batch) = &self.state.phase
            && let Some(answer) = batch.answers().find(is_its)
        {
            return Some(answer);
        }
        for message in self.state.messages.iter().rev() {
            if let Some(answer) = message.results().find(is_its) {
                return Some(answer);
            }
            // Answers stand behind their calls, so nothing before it can be one.
            if message.calls().any(|call| call.id.as_str() == call_id) {
                return None;
            }
        }
        None
    }

    /// All that the run is, as data.
    #[must_use]
    pub fn save(&self) -> Saved {
        Saved(self.state.clone())
    }

    /// The conversation so far, without the turn that is being read.
    #[must_use]
    pub const fn messages(&self) -> &Conversation {
        &self.state.messages
    }

    /// The tools of the run.
    #[must_use]
    pub const fn tools(&self) -> &Toolbox {
        &self.plan.tools
    }

    /// What the run has cost, by model.
    #[must_use]
    pub fn usage(&self) -> &[Usage] {
        &self.state.usage
    }

    /// Model turns made.
    #[must_use]
    pub const fn turns(&self) -> u32 {
        self.state.turns
    }

    /// What the run does next.
    #[must_use]
    pub fn next_step(&self) -> Step {
        match &self.state.phase {
            Phase::Model { goal, .. } => Step::CallModel(Arc::new(self.request(*goal))),
            Phase::Done(done) => Step::Done(done.clone()),
            Phase::Tools(batch) => {
                let undecided = batch.undecided();
                let ready = batch.ready(Place::Server);
                if !undecided.is_empty() {
                    Step::AwaitApproval(undecided)
                } else if !ready.is_empty() {
                    Step::CallTools(ready)
                } else {
                    Step::AwaitClientTools(batch.ready(Place::Client))
                }
            }
        }
    }

    /// Takes what came of a step and adds what it means to `events`.
    ///
    /// # Errors
    /// If it does not fit. Then nothing has changed.
    pub fn feed(&mut self, input: Input, events: &mut Vec<Event>) -> Result<(), Misfed> {
        if !self.state.is_running {
            return Err(self.not_now(&input));
        }
        match (input, &mut self.state.phase) {
            (Input::Model(event), Phase::Model { turn, .. }) => {
                turn.take(event, &mut self.names, events)?;
            }
            (Input::ModelEnded, Phase::Model { .. }) => self.end_turn(None, events),
            (Input::ModelFailed(error), Phase::Model { .. }) => {
                self.stop_here(Done::Failed(Failure::Model(error)), events);
            }
            (Input::Tool(result), Phase::Tools(batch)) => {
                batch.answer(result, &self.plan.tools, events)?;
                self.go_on_after_tools(events);
            }
            (Input::Decided { call_id, decision }, Phase::Tools(batch)) => {
                let decided = batch.decide(&call_id, decision, &self.plan.tools, events)?;
                if let Decided::Edited(arguments) = decided {
                    self.state.edit_call(&call_id, &arguments);
                    events.push(edited(&call_id, &arguments));
                }
                self.go_on_after_tools(events);
            }
            (Input::Suspend, Phase::Tools(batch)) if batch.waits() => self.suspend(events),
            (Input::Cancel { reason }, Phase::Model { .. } | Phase::Tools(_)) => {
                self.stop_here(Done::Cancelled { reason }, events);
            }
            (input, _) => return Err(self.not_now(&input)),
        }
        Ok(())
    }

    fn not_now(&self, input: &Input) -> Misfed {
        let step = match (&self.state.phase, self.state.is_running) {
            (Phase::Done(_), _) => "none: the run is over",
            (_, false) => "to resume the run",
            (Phase::Model { .. }, _) => "a model call",
            (Phase::Tools(_), _) => "a batch of tool calls",
        };
        let input = match input {
            Input::Model(_) | Input::ModelEnded | Input::ModelFailed(_) => "a model event",
            Input::Tool(_) => "a tool result",
            Input::Decided { .. } => "a decision",
            Input::Suspend => "a suspension",
            Input::Cancel { .. } => "a cancellation",
        };
        Misfed::NotNow { input, step }
    }

    /// Begins the next turn of the loop, or the one that only asks for the output.
    fn begin_turn(&mut self) {
        let only_output = match &self.plan.output {
            Some(output) => {
                output.how() == Structured::Final && self.plan.tools.specs().next().is_none()
            }
            None => false,
        };
        self.begin_turn_for(if only_output { Goal::Output } else { Goal::Loop });
    }

    fn begin_turn_for(&mut self, goal: Goal) {
        let turn = Turn::new(self.state.message_id());
        self.state.phase = Phase::Model { turn: Box::new(turn), goal };
    }

    fn request(&self, goal: Goal) -> Request {
        let plan = &self.plan;
        let mut request = Request {
            system: plan.system.clone(),
            messages: self.state.messages.clone(),
            settings: plan.settings.clone(),
            ..Request::default()
        };
        if goal == Goal::Loop {
            request.tools = discovery::offered(&plan.tools, &self.state.messages);
            // A model that must call a tool in every turn would never answer.
            if self.state.turns == 0 && !request.tools.is_empty() {
                request.choice = plan.choice.clone();
            }
        }
        if let Some(output) = &plan.output {
            match output.how() {
                Structured::Combined => request.output = Some(output.spec().clone()),
                Structured::Final if goal == Goal::Output => {
                    request.output = Some(output.spec().clone());
                }
                Structured::Final => {}
                Structured::Prompted => request.system.push(output.prompt()),
            }
        }
        request
    }

    /// The model has said all it will: calls decide what comes next, not what it says of itself.
    fn end_turn(
        &mut self,
        recorded: Option<&BTreeMap<Id, Option<ToolResult>>>,
        events: &mut Vec<Event>,
    ) {
        let Some((goal, message)) = self.keep_turn(events) else { return };
        let calls: Vec<_> = message.iter().flat_map(|message| message.calls()).collect();
        if goal == Goal::Output {
            self.refuse_calls(message.as_deref(), events);
        } else if let (Some(message), false) = (&message, calls.is_empty()) {
            let whole = match self.state.stop {
                Some(StopReason::Length) => Whole::Unknown,
                _ => Whole::Yes,
            };
            let calls = calls.into_iter().map(|call| (call, None));
            let batch = match recorded {
                Some(recorded) => Batch::recorded(&message.id, calls, recorded, &self.plan.tools),
                None => Batch::admit(&message.id, calls, whole, &self.plan.tools, events),
            };
            self.state.calls += batch.len();
            self.state.calls_of_last_turn = batch.len();
            self.state.phase = Phase::Tools(batch);
            self.go_on_after_tools(events);
            return;
        }
        self.state.calls_of_last_turn = 0;
        if self.state.stop == Some(StopReason::Pause) && self.goes_on() {
            return self.begin_turn_for(goal);
        }
        match self.plan.output.clone() {
            None => {
                let done = Done::Finished { stop: self.state.stop.clone(), output: None };
                self.finish(done, events);
            }
            Some(output) if output.how() == Structured::Final && goal == Goal::Loop => {
                self.begin_turn_for(Goal::Output);
            }
            Some(output) => self.read_output(&output, goal, message.as_deref(), events),
        }
    }

    /// Answers calls of a turn in which no tool was offered; none of them is made.
    fn refuse_calls(&mut self, message: Option<&Message>, events: &mut Vec<Event>) {
        let Some(message) = message else { return };
        let batch = Batch::refused(&message.id, message.calls(), events);
        self.state.calls += batch.len();
        self.state.messages.extend(batch.into_results().map(Arc::new));
    }

    /// Puts the message of the turn into the conversation.
    fn keep_turn(&mut self, events: &mut Vec<Event>) -> Option<(Goal, Option<Arc<Message>>)> {
        let Phase::Model { turn, goal } = &mut self.state.phase else { return None };
        let (mut turn, goal) = (std::mem::replace(&mut **turn, Turn::new(Id::default())), *goal);
        turn.end(events);
        self.state.turns += 1;
        self.state.stop = turn.stop.take();
        let model = turn.model.take();
        self.state.spend(&self.plan.model, model.as_ref(), turn.usage.take());
        self.state.model = model.or_else(|| self.state.model.take());
        let message = turn.into_message().map(Arc::new);
        self.state.messages.extend(message.clone());
        Some((goal, message))
    }

    fn read_output(
        &mut self,
        output: &Output,
        goal: Goal,
        message: Option<&Message>,
        events: &mut Vec<Event>,
    ) {
        let text = message.map(Message::text_content).unwrap_or_default();
        let stop = self.state.stop.clone();
        let complaint = match output.read(&text) {
            _ if matches!(stop, Some(StopReason::Refusal | StopReason::ContentFilter)) => {
                "the model refused to answer".to_owned()
            }
            // A number that was cut is still a number.
            Ok(Value::Number(_)) if stop == Some(StopReason::Length) => {
                "the answer was cut off".to_owned()
            }
            Ok(value) => {
                let told = json!({ "object": value, "raw": text });
                events.push(custom("structured-output.complete", told));
                return self.finish(Done::Finished { stop, output: Some(value) }, events);
            }
            Err(complaint) => complaint,
        };
        let may_repair = !matches!(
            stop,
            Some(StopReason::Refusal | StopReason::ContentFilter | StopReason::Length)
        );
        if !may_repair || self.state.repairs == REPAIRS_MAX || !self.has_turns_left() {
            return self.finish(Done::Failed(Failure::NoOutput { complaint, text, stop }), events);
        }
        self.state.repairs += 1;
        self.complain(&complaint, events);
        self.begin_turn_for(goal);
    }

    /// Tells the model what is wrong with its answer. It is a message like any other.
    fn complain(&mut self, complaint: &str, events: &mut Vec<Event>) {
        let id = Id::from(format!("{}:repair", self.state.message_id()));
        let text = format!(
            "Your answer does not fit the schema: {complaint}. Answer again with JSON that fits, \
             and nothing else."
        );
        let role = Some(TextRole::Developer);
        events.push(TextMessageStart { message_id: id.clone(), role, name: None }.into());
        let delta = text.clone();
        events.push(TextMessageContent { message_id: id.clone(), delta }.into());
        events.push(TextMessageEnd { message_id: id.clone() }.into());
        self.state.messages.push(Arc::new(Message::text(id, Role::Developer, text)));
    }

    /// Goes on if all calls of the batch are answered.
    fn go_on_after_tools(&mut self, events: &mut Vec<Event>) {
        let Phase::Tools(batch) = &self.state.phase else { return };
        if !batch.is_answered() {
            return;
        }
        self.keep_results();
        let is_final = self.plan.output.as_ref().map(Output::how) == Some(Structured::Final);
        if self.goes_on() {
            self.begin_turn();
        } else if is_final && self.has_turns_left() {
            self.begin_turn_for(Goal::Output);
        } else {
            self.finish(Done::TurnsExhausted, events);
        }
    }

    fn keep_results(&mut self) {
        let over = Phase::Done(Done::TurnsExhausted);
        if let Phase::Tools(batch) = std::mem::replace(&mut self.state.phase, over) {
            self.state.messages.extend(batch.into_results().map(Arc::new));
        }
    }

    fn goes_on(&self) -> bool {
        self.plan.strategy.goes_on(&self.state.loop_state())
    }

    fn has_turns_left(&self) -> bool {
        Strategy::All(Vec::new()).goes_on(&self.state.loop_state())
    }

    /// Ends a run that cannot go on, wherever it is, also if it seemed over: its end was not told.
    pub(crate) fn fail(&mut self, failure: Failure, events: &mut Vec<Event>) {
        self.stop_here(Done::Failed(failure), events);
    }

    /// Ends the run in the middle of things: what was said stays, open calls are cancelled.
    fn stop_here(&mut self, done: Done, events: &mut Vec<Event>) {
        if let Some((_, Some(message))) = self.keep_turn(events) {
            let calls = message.calls().map(|call| (call, None));
            let batch = Batch::admit(&message.id, calls, Whole::Yes, &self.plan.tools, events);
            self.state.phase = Phase::Tools(batch);
        }
        if let Phase::Tools(batch) = &mut self.state.phase {
            batch.cancel_all(events);
            self.keep_results();
        }
        self.finish(done, events);
    }

    fn finish(&mut self, done: Done, events: &mut Vec<Event>) {
        events.push(match &done {
            Done::Failed(failure) => self.run_error(failure),
            Done::Cancelled { .. } => self.run_finished(Outcome::Cancelled, self.stop_word(), None),
            Done::TurnsExhausted => {
                // To a client this is an answer that ends too soon.
                let success = Outcome::Success { pending_tool_call_ids: None };
                self.run_finished(success, StopReason::Length.word(), None)
            }
            Done::Finished { output, .. } => {
                let success = Outcome::Success { pending_tool_call_ids: None };
                self.run_finished(success, self.stop_word(), output.clone())
            }
        });
        self.state.phase = Phase::Done(done);
    }

    /// Ends the run, to be resumed when somebody has answered.
    fn suspend(&mut self, events: &mut Vec<Event>) {
        let interrupts = self.interrupts();
        events.push(self.run_finished(Outcome::Interrupt { interrupts }, "tool_calls", None));
        self.state.is_running = false;
    }
}
