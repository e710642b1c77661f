//! Runs of the scripted model that no provider's wire leads to: decisions, interrupts, stops,
//! repairs, what tools say of their progress, subagents. Their events go where all others go.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use chat::{
    Chat, Finished, Middleware, OutputSpec, Run, Structured, Tool, ToolContext, ToolError,
    Verifier,
    agui::{
        Event, EventKind, ResumeEntry, SubagentError, SubagentFinished, SubagentStarted,
        TextMessageContent, TextMessageEnd, TextMessageStart,
    },
    chat,
    machine::{Call, Decision},
};
use providers::scripted::{Scripted, Turn};
use serde_json::{Value, json};
use sys::Sys;

use crate::run::Ran;

/// How a play is told apart, and what whoever reads it must see.
struct Play {
    name: &'static str,
    script: Vec<Turn>,
    text: &'static str,
    /// The calls, as the model made them.
    calls: Value,
    /// How each of its runs ends.
    ends: &'static [&'static str],
    set: fn(Chat) -> Chat,
    /// What is answered when it waits; nothing if it does not.
    answer: Option<fn(&Finished) -> Vec<ResumeEntry>>,
}

/// Plays them all.
pub(crate) async fn plays(sys: &Sys) -> Result<Vec<Ran>> {
    let mut all = Vec::new();
    for play in talks().into_iter().chain(decisions()).chain(outputs()) {
        let name = play.name;
        all.push(play.play(sys).await.context(name)?);
    }
    Ok(all)
}

impl Play {
    fn new(name: &'static str, script: impl Into<Vec<Turn>>, text: &'static str) -> Self {
        let (calls, ends) = (json!([]), &["success"][..]);
        Self { name, script: script.into(), text, calls, ends, set: |chat| chat, answer: None }
    }

    fn calls(mut self, name: &str, arguments: &Value) -> Self {
        self.calls = json!([{ "name": name, "arguments": arguments }]);
        self
    }

    const fn ends(mut self, ends: &'static [&'static str]) -> Self {
        self.ends = ends;
        self
    }

    const fn set(mut self, set: fn(Chat) -> Chat) -> Self {
        self.set = set;
        self
    }

    const fn answer(mut self, answer: fn(&Finished) -> Vec<ResumeEntry>) -> Self {
        self.answer = Some(answer);
        self
    }

    async fn play(self, sys: &Sys) -> Result<Ran> {
        let how =
            if self.name.starts_with("final") { Structured::Final } else { Structured::Combined };
        let model = Arc::new(Scripted::script(self.script, sys.clone()).structured(how));
        let chat = || (self.set)(chat(model.clone()).thread_id("thread")).tools(tools());
        let first = chat().user("Go on.").run_id(self.name).stream(sys)?;
        let (mut events, finished) = follow(first).await;
        let mut broken = broken(&events);
        if let Some(answer) = self.answer {
            let answers = answer(&finished);
            ensure!(!answers.is_empty(), "it waits for nothing");
            let saved = finished.saved.context("it does not wait")?;
            let run = chat().run_id(format!("{}-2", self.name)).resume(saved, &answers, sys)?;
            let (more, _) = follow(run).await;
            broken = broken.or_else(|| self::broken(&more));
            events.extend(more);
        }
        let line = json!({
            "provider": "scripted", "scenario": self.name, "text": self.text, "calls": self.calls,
            "ends": self.ends, "broken": broken,
        });
        Ok(Ran { line, events })
    }
}

fn talks() -> Vec<Play> {
    let weather = || Turn::new().call("weather", json!({ "city": "Oslo" }));
    let broken = || Turn::new().call("breaks", json!({}));
    let slow = || Turn::new().text("Well").pause_ms(600_000);
    vec![
        Play::new("text", [Turn::new().think("Hm.").text("Hello there.")], "Hello there."),
        Play::new("progress", [weather(), Turn::new().text("Cold.")], "Cold.")
            .calls("weather", &json!({ "city": "Oslo" })),
        Play::new("failed", [broken(), Turn::new().text("Pity.")], "Pity.")
            .calls("breaks", &json!({})),
        Play::new("fails", [Turn::new().text("Well").disconnect()], "Well").ends(&["error"]),
        Play::new("cancelled", [slow()], "Well").ends(&["cancelled"]),
        Play::new("subagents", [Turn::new().text("Done.")], "Looking.Done.")
            .set(|chat| chat.middleware(Arc::new(Subagents))),
    ]
}

fn decisions() -> Vec<Play> {
    let pay = || [Turn::new().call("pay", json!({ "amount": 9 })), Turn::new().text("Settled.")];
    let play = |name| Play::new(name, pay(), "Settled.").calls("pay", &json!({ "amount": 9 }));
    let screen = [Turn::new().call("screen", json!({})), Turn::new().text("Seen.")];
    let waits = &["interrupt", "success"][..];
    vec![
        play("denied").set(|chat| {
            chat.decide(|_: Call| async { Decision::Deny { answer: Some("Too much.".to_owned()) } })
        }),
        play("edited").set(|chat| {
            let edited = Some(json!({ "amount": 1 }));
            chat.decide(move |_: Call| {
                let edited = edited.clone();
                async { Decision::Approve { edited } }
            })
        }),
        play("interrupt").ends(waits).answer(|it| vec![it.interrupts[0].approve()]),
        play("interrupt-edited")
            .ends(waits)
            .answer(|it| vec![it.interrupts[0].approve_with(json!({ "amount": 1 }))]),
        play("interrupt-denied").ends(waits).answer(|it| vec![it.interrupts[0].deny("Not now.")]),
        Play::new("client-tool", screen, "Seen.")
            .calls("screen", &json!({}))
            .ends(waits)
            .answer(|it| vec![it.interrupts[0].resolve("a wide screen")]),
    ]
}

fn outputs() -> Vec<Play> {
    let weather = || Turn::new().call("weather", json!({ "city": "Oslo" }));
    let shaped = || Turn::new().text(r#"{"degrees":3}"#);
    let with_output: fn(Chat) -> Chat = |chat| {
        let schema = json!({
            "type": "object", "properties": { "degrees": { "type": "number" } },
            "required": ["degrees"], "additionalProperties": false,
        });
        chat.output(OutputSpec { name: "weather".into(), schema })
    };
    let oslo = || json!({ "city": "Oslo" });
    vec![
        Play::new("repair", [Turn::new().text("Cold."), shaped()], r#"Cold.{"degrees":3}"#)
            .set(with_output),
        Play::new("combined-with-tools", [weather(), shaped()], r#"{"degrees":3}"#)
            .calls("weather", &oslo())
            .set(with_output),
        Play::new(
            "final-with-tools",
            [weather(), Turn::new().text("Cold."), shaped()],
            r#"Cold.{"degrees":3}"#,
        )
        .calls("weather", &oslo())
        .set(with_output),
    ]
}

/// All events of a run; one that only hangs is stopped.
async fn follow(mut run: Run) -> (Vec<Event>, Finished) {
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        let stops =
            matches!(&event.kind, EventKind::TextMessageContent(text) if text.delta == "Well");
        if stops && is_named(&events, "cancelled") {
            run.cancel();
        }
        events.push(event);
    }
    (events, run.finish().await)
}

fn is_named(events: &[Event], name: &str) -> bool {
    let started = events.first().map(|event| &event.kind);
    matches!(started, Some(EventKind::RunStarted(started)) if started.run_id == name)
}

/// Which rule of AG-UI the events break.
fn broken(events: &[Event]) -> Option<String> {
    let mut verifier = Verifier::new();
    let all = events.iter().try_for_each(|event| verifier.push(event));
    all.and_then(|()| verifier.finish()).err().map(|error| error.to_string())
}

fn tools() -> Vec<Tool> {
    let input = |name: &str, field: &str, kind: &str| {
        let schema = json!({ "type": "object", "properties": { field: { "type": kind } } });
        Tool::builder(name, format!("The tool {name}.")).input_schema(schema)
    };
    let weather =
        input("weather", "city", "string").run(|_: Value, context: ToolContext| async move {
            context.progress("looking").await;
            context.custom("sky", json!({ "clouds": 3 })).await;
            Ok("cold")
        });
    let pay = input("pay", "amount", "number").needs_approval();
    let pay = pay.run(|_: Value, _: ToolContext| async { Ok("paid") });
    let breaks = input("breaks", "why", "string");
    let breaks = breaks
        .run(|_: Value, _: ToolContext| async { Err::<String, _>(ToolError::new("it is broken")) });
    let screen = input("screen", "size", "number").client();
    [weather, pay, breaks, screen].into_iter().filter_map(Result::ok).collect()
}

/// Tells of two subagents before anything else: one that says something, and one that fails.
#[derive(Debug)]
struct Subagents;

impl Middleware for Subagents {
    fn on_event(&self, event: Event, pass_on: &mut Vec<Event>) {
        let is_start = matches!(event.kind, EventKind::RunStarted(_));
        pass_on.push(event);
        if !is_start {
            return;
        }
        let mut say = |who: &str, event: Event| {
            let mut event = event;
            event.common.subagent_run_id = Some(who.into());
            pass_on.push(event);
        };
        let started = |name: &str| SubagentStarted {
            name: name.to_owned(),
            description: None,
            parent_subagent_run_id: None,
            parent_tool_call_id: None,
            parent_message_id: None,
        };
        say("one", started("searcher").into());
        let message_id = chat::Id::from("of-one");
        let start = TextMessageStart { message_id: message_id.clone(), role: None, name: None };
        say("one", start.into());
        let delta = "Looking.".to_owned();
        say("one", TextMessageContent { message_id: message_id.clone(), delta }.into());
        say("one", TextMessageEnd { message_id }.into());
        let outcome = Some(chat::agui::SubagentOutcome::Success);
        say("one", SubagentFinished { result: Some(json!("found")), outcome }.into());
        say("two", started("writer").into());
        let message = "it has no pen".to_owned();
        say("two", SubagentError { message, code: Some("no-pen".to_owned()) }.into());
    }
}
