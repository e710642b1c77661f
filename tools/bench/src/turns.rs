//! How fast answers of models become AG-UI events: bytes of each wire, cut, decoded and put through
//! the turn machine, on one core; what a token costs in a whole run; what a long run keeps.

use std::{
    fmt::Write as _,
    fs,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result};
use chat::{
    Abilities, Block, BlockKind, Message, Model, ModelError, ModelEvent, ModelName, ModelStream,
    Request, Role, Settings, StopReason, Structured, Tool, ToolChoice, Toolbox,
    agui::Event,
    machine::{Input, Machine, Plan, Start, Strategy},
};
use futures_util::{StreamExt as _, stream};
use providers::{
    Decoder,
    anthropic::AnthropicDecoder,
    gemini::GeminiDecoder,
    lines::Lines,
    ollama::OllamaDecoder,
    openai::{ChatDecoder, ResponsesDecoder},
    sse::{BadFrame, Sse},
};
use serde_json::json;
use sys::{Cancellation, Sys};

/// Tokens of one answer.
const TOKENS: usize = 200_000;
/// Bytes that a connection gives at once.
const READ_BYTES: usize = 16 * 1024;
/// Turns of the long run.
const TURNS: u32 = 1_000;
/// Events in a second that a wire should give.
const EVENTS_GOAL: f64 = 1_000_000.0;
/// Nanoseconds that a token should take at most, whatever becomes of it.
const TOKEN_NS_GOAL: f64 = 2_000.0;
/// Bytes that a turn of the long run should keep at most for each byte of its conversation: what
/// grows is the conversation, in memory, and nothing beside it.
const KEPT_RATIO_GOAL: i64 = 4;
/// The first turn at which its memory is looked at.
const TURNS_WARM: u32 = 100;

/// What is done with the events.
#[derive(Clone, Copy)]
enum Fate {
    Dropped,
    Written,
}

/// How a wire cuts its bytes into events.
#[derive(Clone, Copy)]
enum Cut {
    Sse,
    Lines,
}

/// One wire: what it is called, an answer in its words, and who reads that.
struct Wire {
    name: &'static str,
    cut: Cut,
    answer: String,
    decoder: fn() -> Box<dyn Decoder>,
}

/// Measures everything; the table of the medians.
pub(crate) fn play(rounds: u64) -> Result<String> {
    let mut table = String::from(
        "| what | events/s | ns/event | goal | verdict |\n| --- | ---: | ---: | --- | --- |\n",
    );
    for wire in wires() {
        for (fate, what) in [(Fate::Dropped, "events"), (Fate::Written, "events written as JSON")] {
            let seconds = median(rounds, || read(&wire, fate))?;
            let bytes = wire.answer.len() / TOKENS;
            let name = format!("{}, {bytes} B a token, {what}", wire.name);
            let goal = match fate {
                Fate::Dropped => Goal::Events,
                Fate::Written => Goal::Token,
            };
            row(&mut table, &name, seconds, goal)?;
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seconds = median(rounds, || runtime.block_on(drive()))?;
    row(&mut table, "a whole run: model, machine, driver, reader", seconds, Goal::Token)?;
    let (kept, told) = runtime.block_on(remember())?;
    writeln!(
        table,
        "\nA run of {TURNS} turns, each with a tool call: {kept} B more memory for each turn after \
         the first {TURNS_WARM}, {told} B of which are the conversation as JSON; at most \
         {KEPT_RATIO_GOAL} times that: {}.",
        verdict(kept <= told * KEPT_RATIO_GOAL)
    )?;
    Ok(table)
}

/// What a row should reach.
#[derive(Clone, Copy)]
enum Goal {
    /// So many events in a second.
    Events,
    /// So little time for a token.
    Token,
}

impl Goal {
    fn is_met(self, rate: f64) -> bool {
        match self {
            Self::Events => rate >= EVENTS_GOAL,
            Self::Token => 1e9 / rate < TOKEN_NS_GOAL,
        }
    }

    fn cell(self) -> String {
        match self {
            Self::Events => format!(">= {EVENTS_GOAL:.0}/s"),
            Self::Token => format!("< {TOKEN_NS_GOAL:.0} ns"),
        }
    }
}

fn row(table: &mut String, name: &str, seconds: f64, goal: Goal) -> Result<()> {
    let rate = TOKENS as f64 / seconds;
    eprintln!("{name}: {rate:.0}/s");
    let (cell, verdict) = (goal.cell(), verdict(goal.is_met(rate)));
    writeln!(table, "| {name} | {rate:.0} | {:.0} | {cell} | {verdict} |", 1e9 / rate)?;
    Ok(())
}

const fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

fn median(rounds: u64, mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut seconds = (0..rounds).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// Reads an answer as a run does, without a connection; the seconds it took.
fn read(wire: &Wire, fate: Fate) -> Result<f64> {
    let began = Instant::now();
    let mut machine = machine()?;
    let mut decoder = (wire.decoder)();
    let (mut decoded, mut events, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let (mut sse, mut lines) = (Sse::default(), Lines::default());
    for bytes in wire.answer.as_bytes().chunks(READ_BYTES) {
        let mut each = |name: Option<&str>, data: &str| -> Result<(), Broken> {
            decoder.push(name, data, &mut decoded)?;
            feed(&mut machine, &mut decoded, &mut events)
        };
        match wire.cut {
            Cut::Sse => sse.push(bytes, each)?,
            Cut::Lines => lines.push(bytes, |line| each(None, line))?,
        }
        keep(&mut events, fate, &mut written)?;
    }
    decoder.finish(&mut decoded)?;
    feed(&mut machine, &mut decoded, &mut events)?;
    machine.feed(Input::ModelEnded, &mut events)?;
    keep(&mut events, fate, &mut written)?;
    black_box(machine.messages().len());
    Ok(began.elapsed().as_secs_f64())
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Frame(#[from] BadFrame),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Misfed(#[from] chat::machine::Misfed),
}

fn feed(
    machine: &mut Machine,
    decoded: &mut Vec<ModelEvent>,
    events: &mut Vec<Event>,
) -> Result<(), Broken> {
    for event in decoded.drain(..) {
        machine.feed(Input::Model(event), events)?;
    }
    Ok(())
}

fn keep(events: &mut Vec<Event>, fate: Fate, written: &mut Vec<u8>) -> Result<()> {
    for event in events.drain(..) {
        match fate {
            Fate::Dropped => drop(black_box(event)),
            Fate::Written => serde_json::to_writer(&mut *written, &event)?,
        }
    }
    black_box(written.len());
    written.clear();
    Ok(())
}

fn machine() -> Result<Machine> {
    let plan = Plan {
        model: ModelName { provider: "bench".into(), model: "bench".into() },
        system: Vec::new(),
        tools: Toolbox::default(),
        choice: ToolChoice::Auto,
        settings: Settings::default(),
        strategy: Strategy::default(),
        output: None,
    };
    let start = Start {
        thread_id: "thread".into(),
        run_id: "run".into(),
        parent_run_id: None,
        messages: vec![Message::text("m", Role::User, "Count.")],
    };
    Ok(Machine::start(plan, start)?.0)
}

/// A model that says words without thinking, or calls a tool for ever.
#[derive(Debug)]
struct Talker {
    name: ModelName,
    calls_tools: bool,
    turns: AtomicU32,
}

impl Talker {
    fn new(calls_tools: bool) -> Self {
        let name = ModelName { provider: "bench".into(), model: "talker".into() };
        Self { name, calls_tools, turns: AtomicU32::new(0) }
    }
}

impl Model for Talker {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: Structured::Prompted }
    }

    fn call(&self, _: Arc<Request>, _: Cancellation) -> ModelStream {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let block = Block(0);
        let (kind, count) = match self.calls_tools {
            true => {
                let id = Some(format!("call_{turn}").into());
                (BlockKind::Call { id, name: "note".into() }, 0)
            }
            false => (BlockKind::Text, TOKENS),
        };
        let more = move |_| Ok(ModelEvent::More { block, delta: "word ".to_owned() });
        stream::iter([Ok(ModelEvent::Open { block, kind })])
            .chain(stream::iter((0..count).map(more)))
            .chain(stream::iter([
                Ok(ModelEvent::Close { block }),
                Ok(ModelEvent::Stop(StopReason::End)),
            ]))
            .boxed()
    }
}

/// Reads a whole run; the seconds it took.
async fn drive() -> Result<f64> {
    let began = Instant::now();
    let mut run = chat::chat(Arc::new(Talker::new(false))).user("Talk.").stream(&Sys::real())?;
    while let Some(event) = run.next().await {
        drop(black_box(event));
    }
    Ok(began.elapsed().as_secs_f64())
}

/// A long run; bytes of memory and of the conversation for each turn after the first ones.
async fn remember() -> Result<(i64, i64)> {
    let note = Tool::builder("note", "Notes.").input_schema(json!({ "type": "object" }));
    let note = note.run(|_, _| async { Ok("Noted, as always, with care.") })?;
    let run = chat::chat(Arc::new(Talker::new(true))).user("Go on.").tool(note);
    let mut run = run.strategy(Strategy::TurnsMax(TURNS)).stream(&Sys::real())?;
    let (mut turns, mut warm) = (0, 0);
    while let Some(event) = run.next().await {
        if event.name() == "TOOL_CALL_RESULT" {
            turns += 1;
            if turns == TURNS_WARM {
                warm = resident_bytes()?;
            }
        }
    }
    let later = i64::from(TURNS - TURNS_WARM);
    let kept = (resident_bytes()? - warm) / later;
    let conversation = serde_json::to_vec(&run.finish().await.messages)?.len();
    Ok((kept, i64::try_from(conversation)? / i64::from(TURNS)))
}

fn resident_bytes() -> Result<i64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: i64 = kilobytes.context("no VmRSS in /proc/self/status")?.parse()?;
    Ok(kilobytes * 1024)
}

fn wires() -> [Wire; 5] {
    [
        Wire {
            name: "OpenAI Chat Completions",
            cut: Cut::Sse,
            answer: chat_completions(),
            decoder: || Box::new(ChatDecoder::new("openai".into())),
        },
        Wire {
            name: "OpenAI Responses",
            cut: Cut::Sse,
            answer: responses(),
            decoder: || Box::new(ResponsesDecoder::new("openai".into())),
        },
        Wire {
            name: "Anthropic",
            cut: Cut::Sse,
            answer: anthropic(),
            decoder: || Box::new(AnthropicDecoder::default()),
        },
        Wire {
            name: "Gemini",
            cut: Cut::Sse,
            answer: gemini(),
            decoder: || Box::new(GeminiDecoder::default()),
        },
        Wire {
            name: "Ollama",
            cut: Cut::Lines,
            answer: ollama(),
            decoder: || Box::new(OllamaDecoder::new("ollama".into())),
        },
    ]
}

/// Server-sent events with these data.
fn frames(data: impl IntoIterator<Item = String>) -> String {
    data.into_iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// Server-sent events that are named by their type.
fn named_frames(data: impl IntoIterator<Item = serde_json::Value>) -> String {
    let frame = |data: serde_json::Value| {
        format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
    };
    data.into_iter().map(frame).collect()
}

fn chat_completions() -> String {
    let chunk = |delta: serde_json::Value, reason: serde_json::Value| {
        json!({ "id": "chatcmpl-BenchBenchBenchBench", "object": "chat.completion.chunk",
                "created": 1_700_000_000, "model": "gpt-4o-2024-08-06",
                "service_tier": "default", "system_fingerprint": "fp_0123456789",
                "choices": [{ "index": 0, "delta": delta, "logprobs": null,
                              "finish_reason": reason }] })
        .to_string()
    };
    let words = (0..TOKENS).map(|_| chunk(json!({ "content": "word " }), json!(null)));
    let end = [chunk(json!({}), json!("stop")), "[DONE]".to_owned()];
    frames(words.chain(end))
}

fn responses() -> String {
    let created = json!({ "type": "response.created", "sequence_number": 0,
                          "response": { "id": "resp_1", "model": "gpt-5", "output": [] } });
    let item = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [] });
    let added = json!({ "type": "response.output_item.added", "output_index": 0, "item": item });
    let part = json!({ "type": "output_text", "text": "", "annotations": [] });
    let part = json!({ "type": "response.content_part.added", "item_id": "msg_1",
                       "output_index": 0, "content_index": 0, "part": part });
    let word = |number| {
        json!({ "type": "response.output_text.delta", "sequence_number": number,
                "item_id": "msg_0123456789abcdef0123456789abcdef", "output_index": 0,
                "content_index": 0, "delta": "word ", "logprobs": [], "obfuscation": "aBcDeFgH" })
    };
    let usage = json!({ "input_tokens": 9, "output_tokens": TOKENS, "total_tokens": TOKENS + 9 });
    let completed = json!({ "type": "response.completed", "response": {
        "id": "resp_1", "model": "gpt-5", "status": "completed", "output": [], "usage": usage } });
    let begin = [created, added, part];
    named_frames(begin.into_iter().chain((0..TOKENS).map(word)).chain([completed]))
}

fn anthropic() -> String {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant",
                          "model": "claude-sonnet-4-5", "content": [], "stop_reason": null,
                          "usage": { "input_tokens": 9, "output_tokens": 1 } });
    let start = json!({ "type": "message_start", "message": message });
    let block = json!({ "type": "text", "text": "" });
    let open = json!({ "type": "content_block_start", "index": 0, "content_block": block });
    let delta = json!({ "type": "text_delta", "text": "word " });
    let word = json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    let close = json!({ "type": "content_block_stop", "index": 0 });
    let usage = json!({ "output_tokens": TOKENS });
    let stop = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
                       "usage": usage });
    let end = [close, stop, json!({ "type": "message_stop" })];
    let words = std::iter::repeat_n(word, TOKENS);
    named_frames([start, open].into_iter().chain(words).chain(end))
}

fn gemini() -> String {
    let chunk = |text: &str, reason: Option<&str>| {
        let content = json!({ "parts": [{ "text": text }], "role": "model" });
        let mut candidate = json!({ "content": content, "index": 0 });
        if let Some(reason) = reason {
            candidate["finishReason"] = json!(reason);
        }
        json!({ "candidates": [candidate], "modelVersion": "gemini-2.5-flash",
                "responseId": "abcdefghijklmnop",
                "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 5,
                                   "totalTokenCount": 14 } })
        .to_string()
    };
    let words = (0..TOKENS).map(|_| chunk("word ", None));
    frames(words.chain([chunk("", Some("STOP"))]))
}

fn ollama() -> String {
    let word = json!({ "model": "qwen3", "created_at": "2026-01-01T00:00:00.000000000Z",
                       "message": { "role": "assistant", "content": "word " }, "done": false });
    let done = json!({ "model": "qwen3", "created_at": "2026-01-01T00:00:00.000000000Z",
                       "message": { "role": "assistant", "content": "" }, "done": true,
                       "done_reason": "stop", "prompt_eval_count": 9, "eval_count": TOKENS });
    let words = std::iter::repeat_n(word, TOKENS);
    words.chain([done]).map(|line| format!("{line}\n")).collect()
}
