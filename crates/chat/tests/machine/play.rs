//! A world for a machine: a model that follows a script, and tools that answer in any order.

use chat::{
    Block, BlockKind, CallEnd, Id, Message, ModelError, ModelEvent, ModelName, Part, Request, Role,
    Settings, StopReason, Tool, ToolBuilder, ToolChoice, ToolResult, Toolbox, Usage, Verifier,
    agui::{Content, Event},
    machine::{Call, Decision, Done, Input, Machine, Output, Plan, Saved, Start, Step, Strategy},
};
use serde_json::{Value, json};

/// What a model does in one turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) events: Vec<ModelEvent>,
    pub(crate) failure: Option<ModelError>,
}

/// A small source of numbers, so that a failing run can be told by its seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// What a whole run came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Played {
    pub(crate) messages: Vec<Message>,
    pub(crate) events: Vec<Event>,
    pub(crate) done: Option<Done>,
    pub(crate) requests: usize,
}

/// How a run is played.
pub(crate) struct Play {
    pub(crate) plan: Plan,
    pub(crate) start: Vec<Message>,
    pub(crate) turns: Vec<Script>,
    /// Decides in which order outcomes arrive.
    pub(crate) arrivals: Dice,
    /// Whether the machine is saved and restored after every input.
    pub(crate) stops: bool,
}

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    pub(crate) const fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

impl Play {
    pub(crate) fn new(turns: Vec<Script>) -> Self {
        Self {
            plan: plan(),
            start: vec![Message::text("u1", Role::User, "Hello?")],
            turns,
            arrivals: Dice::new(7),
            stops: false,
        }
    }

    /// Plays until the run is over or nobody can go on.
    pub(crate) fn play(mut self) -> Played {
        let messages = std::mem::take(&mut self.start);
        let start =
            Start { thread_id: "t".into(), run_id: "run".into(), parent_run_id: None, messages };
        let (mut machine, mut events) = Machine::start(self.plan.clone(), start).unwrap();
        let mut turns = std::mem::take(&mut self.turns).into_iter();
        let mut requests = 0;
        let done = loop {
            match machine.next_step() {
                Step::Done(done) => break Some(done),
                Step::CallModel(request) => {
                    check_history(&request);
                    requests += 1;
                    let script = turns.next().unwrap_or_else(|| text_turn("The end."));
                    for event in script.events {
                        self.feed(&mut machine, Input::Model(event), &mut events);
                    }
                    let end = script.failure.map_or(Input::ModelEnded, Input::ModelFailed);
                    self.feed(&mut machine, end, &mut events);
                }
                Step::CallTools(calls) | Step::AwaitClientTools(calls) => {
                    let call = self.pick(&calls);
                    self.feed(&mut machine, Input::Tool(outcome(call)), &mut events);
                }
                Step::AwaitApproval(calls) => {
                    let call = self.pick(&calls);
                    let input =
                        Input::Decided { call_id: call.id.clone(), decision: decision(call) };
                    self.feed(&mut machine, input, &mut events);
                }
                step => panic!("{step:?}"),
            }
        };
        verify(&events);
        let messages = machine.messages().iter().map(|message| (**message).clone()).collect();
        Played { messages, events, done, requests }
    }

    fn pick<'a>(&mut self, calls: &'a [Call]) -> &'a Call {
        assert!(!calls.is_empty());
        &calls[usize::try_from(self.arrivals.below(calls.len() as u64)).unwrap()]
    }

    fn feed(&self, machine: &mut Machine, input: Input, events: &mut Vec<Event>) {
        machine.feed(input, events).unwrap();
        if self.stops {
            let saved = serde_json::to_string(&machine.save()).unwrap();
            let saved: Saved = serde_json::from_str(&saved).unwrap();
            *machine = Machine::restore(self.plan.clone(), saved);
        }
    }
}

/// The events are in the order that AG-UI asks for.
fn verify(events: &[Event]) {
    let mut verifier = Verifier::new();
    for event in events {
        verifier.push(event).unwrap();
    }
    verifier.finish().unwrap();
}

/// Every call in what a model is shown has one result, right behind its message and in order.
pub(crate) fn check_history(request: &Request) {
    let mut expected: Vec<Id> = Vec::new();
    for message in &request.messages {
        if message.role == Role::Tool {
            for result in message.results() {
                assert!(!expected.is_empty(), "a result nobody asked for: {result:?}");
                assert_eq!(expected.remove(0), result.call_id);
            }
            continue;
        }
        assert!(expected.is_empty(), "calls without a result: {expected:?}");
        expected = message.calls().map(|call| call.id.clone()).collect();
    }
    assert!(expected.is_empty(), "calls without a result: {expected:?}");
}

/// What a tool answers depends on its call alone.
pub(crate) fn outcome(call: &Call) -> ToolResult {
    let end = if call.name == "fails" { CallEnd::Failed } else { CallEnd::Done };
    let content = Content::Text(format!("{} of {}", call.name, call.arguments));
    ToolResult { call_id: call.id.clone(), content, end }
}

/// What a person decides depends on the call alone.
pub(crate) fn decision(call: &Call) -> Decision {
    match call.arguments["n"].as_u64().unwrap_or(0) % 4 {
        0 => Decision::Deny { answer: None },
        1 => Decision::Approve { edited: Some(json!({ "n": 100 })) },
        2 => Decision::Cancel,
        _ => Decision::Approve { edited: None },
    }
}

pub(crate) fn plan() -> Plan {
    Plan {
        model: ModelName { provider: "test".into(), model: "scripted".into() },
        system: vec!["Be kind.".to_owned()],
        tools: toolbox(),
        choice: ToolChoice::Auto,
        settings: Settings::default(),
        strategy: Strategy::default(),
        output: None,
    }
}

pub(crate) fn toolbox() -> Toolbox {
    let tool = |name: &str| {
        let input = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        Tool::builder(name, "A tool.").input_schema(input)
    };
    let server = |tool: ToolBuilder<Value>| tool.run(|_, _| async { Ok("never run") }).unwrap();
    Toolbox::new([
        server(tool("add")),
        server(tool("fails")),
        server(tool("ask").needs_approval()),
        server(tool("odd").approve_when(|call| call["n"].as_u64().unwrap_or(0) % 2 == 1)),
        tool("screen").client().unwrap(),
        tool("camera").needs_approval().client().unwrap(),
    ])
    .unwrap()
}

pub(crate) fn with_output(how: chat::Structured) -> Plan {
    let schema = json!({
        "type": "object",
        "properties": { "n": { "type": "integer" } },
        "required": ["n"],
    });
    let spec = chat::OutputSpec { name: "answer".into(), schema };
    Plan { output: Some(Output::new(spec, how).unwrap()), ..plan() }
}

pub(crate) fn text_turn(text: &str) -> Script {
    let mut events = block(0, BlockKind::Text, text);
    events.push(ModelEvent::Stop(StopReason::End));
    Script { events, failure: None }
}

pub(crate) fn call_turn(calls: &[(&str, &str)]) -> Script {
    let mut events = Vec::new();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let id = Some(Id::from(format!("call_{index}")));
        let kind = BlockKind::Call { id, name: Id::from(*name) };
        events.extend(block(u32::try_from(index).unwrap(), kind, arguments));
    }
    events.push(ModelEvent::Stop(StopReason::ToolCalls));
    Script { events, failure: None }
}

/// A block that streams its text in two pieces.
pub(crate) fn block(number: u32, kind: BlockKind, text: &str) -> Vec<ModelEvent> {
    let block = Block(number);
    let middle = (0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap();
    let (first, second) = text.split_at(middle);
    let more = |delta: &str| ModelEvent::More { block, delta: delta.to_owned() };
    let open = ModelEvent::Open { block, kind };
    vec![open, more(first), more(second), ModelEvent::Close { block }]
}

pub(crate) fn usage(input: u64, output: u64) -> ModelEvent {
    ModelEvent::Usage(Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        ..Usage::default()
    })
}

/// A run by chance: models that mix everything, break off, lie about why they stop.
pub(crate) fn random_turns(dice: &mut Dice) -> Vec<Script> {
    (0..1 + dice.below(4)).map(|_| random_turn(dice)).collect()
}

fn random_turn(dice: &mut Dice) -> Script {
    let mut events = Vec::new();
    let mut open = Vec::new();
    let mut next = 0;
    for _ in 0..dice.below(12) {
        match dice.below(3) {
            0 => {
                let kind = random_kind(dice);
                events.push(ModelEvent::Open { block: Block(next), kind: kind.clone() });
                if matches!(kind, BlockKind::Call { .. }) {
                    events.push(ModelEvent::More { block: Block(next), delta: arguments(dice) });
                }
                open.push((next, kind));
                next += 1;
            }
            1 if !open.is_empty() => {
                let at = usize::try_from(dice.below(open.len() as u64)).unwrap();
                let (block, kind) = open[at].clone();
                events.extend(random_growth(Block(block), &kind, dice));
            }
            _ if !open.is_empty() => {
                let at = usize::try_from(dice.below(open.len() as u64)).unwrap();
                let (block, _) = open.remove(at);
                events.push(ModelEvent::Close { block: Block(block) });
            }
            _ => events.push(usage(dice.below(100), dice.below(100))),
        }
    }
    if dice.one_in(2) {
        let reasons = [StopReason::End, StopReason::ToolCalls, StopReason::Length];
        let at = usize::try_from(dice.below(3)).unwrap();
        events.push(ModelEvent::Stop(reasons[at].clone()));
    }
    let failure = dice
        .one_in(12)
        .then(|| ModelError::new("test", chat::ModelErrorKind::Truncated, "the answer broke off"));
    Script { events, failure }
}

fn random_kind(dice: &mut Dice) -> BlockKind {
    let names = ["add", "fails", "ask", "odd", "screen", "camera", "nobody"];
    let name = Id::from(names[usize::try_from(dice.below(7)).unwrap()]);
    // Ids come back in later turns, or are missing.
    let id = (!dice.one_in(3)).then(|| Id::from(format!("call_{}", dice.below(4))));
    match dice.below(6) {
        0 => BlockKind::Text,
        1 => BlockKind::Thinking,
        2 => BlockKind::RedactedThinking,
        3 => BlockKind::ProviderCall { id, name },
        _ => BlockKind::Call { id, name },
    }
}

fn arguments(dice: &mut Dice) -> String {
    match dice.below(8) {
        0 => String::new(),
        1 => "{\"n\": \"no number\"}".to_owned(),
        2 => "{\"n\":".to_owned(),
        _ => format!("{{\"n\":{}}}", dice.below(9)),
    }
}

fn random_growth(block: Block, kind: &BlockKind, dice: &mut Dice) -> Option<ModelEvent> {
    let delta = ["", "Hello", " wörld", "\n"][usize::try_from(dice.below(4)).unwrap()].to_owned();
    match kind {
        BlockKind::ProviderCall { .. } if dice.one_in(2) => {
            Some(ModelEvent::ProviderResult { block, result: json!({ "found": dice.below(9) }) })
        }
        BlockKind::Call { .. } => None,
        _ if dice.one_in(4) => Some(ModelEvent::Sign { block, signature: "sig".to_owned() }),
        _ => Some(ModelEvent::More { block, delta }),
    }
}

/// A conversation by chance, as careless clients send them.
pub(crate) fn random_start(dice: &mut Dice) -> Vec<Message> {
    let mut messages = vec![Message::text("u1", Role::User, "Hello?")];
    for number in 0..dice.below(4) {
        let mut parts = vec![Part::from("Let me see.".to_owned())];
        let calls: Vec<_> =
            (0..dice.below(3)).map(|n| Id::from(format!("old_{number}_{n}"))).collect();
        parts.extend(calls.iter().map(|id| {
            Part::ToolCall(chat::ToolCall {
                id: id.clone(),
                name: "add".into(),
                arguments: "{\"n\":3}".to_owned(),
                ..chat::ToolCall::default()
            })
        }));
        messages.push(Message::new(format!("a{number}"), Role::Assistant, parts));
        for id in &calls {
            if dice.one_in(3) {
                continue;
            }
            let content = Content::Text("3".to_owned());
            let result = ToolResult { call_id: id.clone(), content, end: CallEnd::Done };
            let at = if dice.one_in(4) { 0 } else { messages.len() };
            let part = vec![Part::ToolResult(result)];
            messages.insert(at, Message::new(format!("r{id}"), Role::Tool, part));
        }
        if dice.one_in(2) {
            messages.push(Message::text(format!("u{}", number + 2), Role::User, "And now?"));
        }
    }
    messages
}
