//! Rows of users: other names, more fields; and rows that do not keep to the contract.

use std::sync::Arc;

use agent::{
    Asking, Generator, StreamTo, ToolExecutor, ToolExt as _,
    contract::{
        CallStatus, CancelledBy, ChunkRow, GenerationRow, GenerationStatus, NewCall, Start,
        ToolCallRow, admits_call, admits_generation,
    },
    durable_chat,
    rows::{Chunk, ChunkType},
    stream_to_collection,
};
use chat::{
    ToolContext, ToolOutcome,
    agui::{Content, RunFinished, TextMessageChunk},
};
use futures_util::stream;
use live::{Collection, Db, Row, StreamDb, from};
use providers::scripted::{Scripted, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sys::Cancellation;

use crate::support::{Said, double, simulate};

/// Everything is called otherwise, the answer is a text, and nothing is known of attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Errand {
    #[row(key)]
    no: String,
    what: String,
    with: String,
    state: String,
    said: Option<String>,
    priority: u8,
}

impl ToolCallRow for Errand {
    fn pending(call: NewCall) -> Self {
        Self {
            no: call.id,
            what: call.name,
            with: call.args.to_string(),
            state: "new".into(),
            said: None,
            priority: 3,
        }
    }
    fn id(&self) -> &str {
        &self.no
    }
    fn name(&self) -> &str {
        &self.what
    }
    fn args(&self) -> Value {
        serde_json::from_str(&self.with).unwrap_or_default()
    }
    fn status(&self) -> CallStatus {
        match self.state.as_str() {
            "new" => CallStatus::Pending,
            "busy" => CallStatus::Executing,
            "done" => CallStatus::Completed,
            "off" => CallStatus::Cancelled,
            _ => CallStatus::Failed,
        }
    }
    fn set_executing(&mut self, _: &Start) {
        self.state = "busy".into();
    }
    fn complete(&mut self, answer: &Content, _: &str) {
        self.state = "done".into();
        if let Content::Text(text) = answer {
            self.said = Some(text.clone());
        }
    }
    fn fail(&mut self, why: &str, _: &str) {
        self.state = "failed".into();
        self.said = Some(why.to_owned());
    }
    fn cancel(&mut self, _: CancelledBy, _: Option<&Content>, _: &str) {
        self.state = "off".into();
    }
    fn result(&self) -> Option<Content> {
        self.said.clone().map(Content::Text)
    }
    fn error(&self) -> Option<&str> {
        self.said.as_deref()
    }
}

#[test]
fn rows_of_users_work_with_all_primitives() {
    simulate(|world| async move {
        let errands: Collection<Errand> = Db::new(&world.sys).local().unwrap();
        let said = Said::default();
        let query = from::<Errand>().filter(Errand::priority.gte(3));
        let executor =
            ToolExecutor::builder(&errands).query(query).tool(double(&said)).start().unwrap();
        let tool = double(&said).durable(&errands, &Asking::of_generation("g")).unwrap();
        let (_canceller, cancellation) = Cancellation::new();
        let context = ToolContext::new("c", cancellation);
        let outcome = tool.call(json!({"n": 4}), context, &world.sys).await;
        assert_eq!(outcome, ToolOutcome::Done { content: r#"{"n":8}"#.into() });
        assert_eq!(errands.get("g:c").unwrap().state, "done");
        // The query lets through what is not a tool here, so it fails, and says why.
        let mut other = (*errands.get("g:c").unwrap()).clone();
        (other.no, other.state) = ("x".into(), "new".into());
        other.what = "fly".into();
        errands.insert(other.clone()).unwrap().settled().await.unwrap();
        let mut changes = errands.changes().unwrap();
        while errands.get("x").unwrap().state == "new" {
            changes.next().await;
        }
        let why = errands.get("x").unwrap().said.clone().unwrap();
        assert_eq!(why, r#"there is no tool "fly"; here are: double"#);
        // And what it does not let through is left alone.
        (other.no, other.state, other.priority) = ("y".into(), "new".into(), 1);
        errands.insert(other).unwrap().settled().await.unwrap();
        world.rest(10_000).await;
        assert_eq!(errands.get("y").unwrap().state, "new");
        executor.dispose().await;
    });
}

/// A row that does not do what it is told.
macro_rules! broken {
    ($name:ident, |$call:ident| $make:expr, $start:expr) => {
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
        struct $name {
            id: String,
            name: String,
            status: CallStatus,
            why: Option<String>,
        }

        impl ToolCallRow for $name {
            fn pending($call: NewCall) -> Self {
                $make
            }
            fn id(&self) -> &str {
                &self.id
            }
            fn name(&self) -> &str {
                &self.name
            }
            fn args(&self) -> Value {
                json!({})
            }
            fn status(&self) -> CallStatus {
                self.status
            }
            fn set_executing(&mut self, _: &Start) {
                self.status = $start;
            }
            fn complete(&mut self, _: &Content, _: &str) {
                self.status = CallStatus::Pending;
            }
            fn fail(&mut self, why: &str, _: &str) {
                self.status = CallStatus::Failed;
                self.why = Some(why.to_owned());
            }
            fn cancel(&mut self, _: CancelledBy, _: Option<&Content>, _: &str) {
                self.status = CallStatus::Cancelled;
            }
            fn result(&self) -> Option<Content> {
                None
            }
            fn error(&self) -> Option<&str> {
                self.why.as_deref()
            }
        }
    };
}

broken!(
    NoId,
    |call| Self { id: String::new(), name: call.name, status: CallStatus::Pending, why: None },
    CallStatus::Executing
);
broken!(
    Done,
    |call| Self { id: call.id, name: call.name, status: CallStatus::Completed, why: None },
    CallStatus::Executing
);
broken!(
    Stuck,
    |call| Self { id: call.id, name: call.name, status: CallStatus::Pending, why: None },
    CallStatus::Pending
);

async fn refusal<R: ToolCallRow>(world: &crate::support::World) -> String {
    let calls: Collection<R> = Db::new(&world.sys).local().unwrap();
    let tool = double(&Said::default()).durable(&calls, &Asking::default()).unwrap();
    let executor = ToolExecutor::builder(&calls).tool(double(&Said::default())).start().unwrap();
    let (_canceller, cancellation) = Cancellation::new();
    let outcome = tool.call(json!({}), ToolContext::new("c", cancellation), &world.sys).await;
    executor.dispose().await;
    match outcome {
        ToolOutcome::Failed { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_that_breaks_the_contract_is_refused_in_words() {
    simulate(|world| async move {
        let check = |why: String, expected: &str| {
            let whole = format!("the row \"c\" breaks the contract of a tool call: {expected}");
            assert_eq!(why, whole);
        };
        check(refusal::<NoId>(&world).await, "its id is empty");
        check(refusal::<Done>(&world).await, "`pending` made it Completed");
        let expected = "it was to become [Executing], and is Pending";
        check(refusal::<Stuck>(&world).await, expected);
    });
}

/// Counts as it likes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Odd {
    id: String,
    generation: String,
    index: u64,
}

impl ChunkRow for Odd {
    fn of(piece: Chunk) -> Self {
        Self { id: piece.id, generation: piece.generation_id, index: piece.index * 2 }
    }
    fn id(&self) -> &str {
        &self.id
    }
    fn generation_id(&self) -> &str {
        &self.generation
    }
    fn index(&self) -> u64 {
        self.index
    }
}

#[test]
fn a_gap_between_chunks_is_refused_in_words() {
    simulate(|world| async move {
        let chunks: Collection<Odd> = Db::new(&world.sys).local().unwrap();
        let (role, name) = (None, None);
        let text = |delta: &str| {
            let delta = Some(delta.to_owned());
            TextMessageChunk { message_id: Some("m".into()), role, delta, name: name.clone() }
        };
        let (result, outcome, usage) = (None, None, None);
        let end = RunFinished { thread_id: "t".into(), run_id: "r".into(), result, outcome, usage };
        let events = [text("a").into(), end.into()];
        let how = StreamTo::generation("g").final_only();
        let error = stream_to_collection(stream::iter(events), &chunks, how).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the row \"g:c1\" breaks the contract of a chunk: its index is 2, and 1 would be the \
             next"
        );
        assert!(!error.is_retryable() && chunks.is_empty());
    });
}

/// A wish that somebody has, with fields of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Wish {
    #[row(key)]
    no: String,
    topic: String,
    state: String,
    words: Option<usize>,
}

impl GenerationRow for Wish {
    fn id(&self) -> &str {
        &self.no
    }
    fn status(&self) -> GenerationStatus {
        match self.state.as_str() {
            "new" => GenerationStatus::Pending,
            "busy" => GenerationStatus::Generating,
            "done" => GenerationStatus::Completed,
            "off" => GenerationStatus::Cancelled,
            _ => GenerationStatus::Failed,
        }
    }
    fn set_generating(&mut self, _: &str) {
        self.state = "busy".into();
    }
    fn complete(&mut self, _: &str) {
        self.state = "done".into();
    }
    fn fail(&mut self, why: &str, _: &str) {
        self.state = why.to_owned();
    }
    fn cancel(&mut self, _: CancelledBy, _: &str, _: &str) {
        self.state = "off".into();
    }
}

/// A piece of an answer, under other names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Scrap {
    #[row(key)]
    no: String,
    wish: String,
    place: u64,
    text: Option<String>,
}

impl ChunkRow for Scrap {
    fn of(piece: Chunk) -> Self {
        let text = (piece.kind == ChunkType::Text).then_some(piece.content);
        Self { no: piece.id, wish: piece.generation_id, place: piece.index, text }
    }
    fn id(&self) -> &str {
        &self.no
    }
    fn generation_id(&self) -> &str {
        &self.wish
    }
    fn index(&self) -> u64 {
        self.place
    }
}

#[test]
fn generations_calls_and_chunks_of_users_work_over_a_stream() {
    simulate(|world| async move {
        let db = StreamDb::builder(world.log.clone(), world.stream.clone(), &world.sys)
            .with::<Wish>()
            .with::<Scrap>()
            .with::<Errand>()
            .admits::<Wish>(admits_generation)
            .admits::<Errand>(admits_call)
            .open()
            .unwrap();
        db.ready().await.unwrap();
        let (wishes, scraps) = (db.rows::<Wish>().unwrap(), db.rows::<Scrap>().unwrap());
        let errands = db.rows::<Errand>().unwrap();
        let said = Said::default();
        let executor = ToolExecutor::builder(&errands).tool(double(&said)).start().unwrap();
        let (sys, pieces, tool) = (world.sys.clone(), scraps.clone(), double(&said));
        let generator = Generator::builder(&wishes, from::<Wish>(), move |wish: Wish, context| {
            let turns = [
                Turn::new().text("Let me see. ").call("double", json!({"n": 3})),
                Turn::new().text(format!("About {}.", wish.topic)),
            ];
            let model = Arc::new(Scripted::script(turns, sys.clone()));
            let run = durable_chat(model, wish.no, &errands, &pieces)
                .chat(|chat| chat.user("Tell me."))
                .durable([tool.clone()])
                .cancellation(context.cancellation().clone());
            let sys = sys.clone();
            async move { Ok(run.run(&sys).await?.text) }
        })
        .result(|wish: &mut Wish, text: &String| wish.words = Some(text.split(' ').count()))
        .start()
        .unwrap();
        let (no, topic) = ("w1".to_owned(), "tea".to_owned());
        let wish = Wish { no, topic, state: "new".into(), words: None };
        wishes.insert(wish).unwrap().settled().await.unwrap();
        let mut changes = wishes.changes().unwrap();
        while wishes.get("w1").unwrap().state != "done" {
            changes.next().await;
        }
        assert_eq!(wishes.get("w1").unwrap().words, Some(2));
        let mut rows = scraps.rows();
        rows.sort_by_key(|row| row.place);
        assert!(rows.iter().enumerate().all(|(index, row)| row.place == index as u64));
        let text: String = rows.iter().filter_map(|row| row.text.clone()).collect();
        assert_eq!(text, "Let me see. About tea.");
        // An end is for ever in their fold, too.
        let again = wishes.update("w1", |row| row.state = "new".into()).unwrap();
        again.settled().await.unwrap();
        assert_eq!((wishes.get("w1").unwrap().state.as_str(), db.late_writes()), ("done", 1));
        assert_eq!(said.lock().len(), 1);
        generator.dispose().await;
        executor.dispose().await;
    });
}
