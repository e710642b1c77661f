//! Calls that are rows of a table: an executor sees them by a shape, and a service writes them.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use agent::{
    Table, ToolExecutor, Write,
    contract::{CallStatus, CancelledBy, NewCall, Start, ToolCallRow},
};
use chat::{Effect, Tool, ToolContext, agui::Content};
use electric_fixture::{Cells, Fixture, Operation};
use live::{Collection, Db, Row};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use source_electric::{Replica, Shape};
use sys::Sys;

/// A row of the table as a call: `text` is its id, `owner` how far it is, `meta` the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
struct Errand {
    id: i64,
    #[row(key)]
    text: String,
    owner: Option<String>,
    meta: Option<Value>,
}

impl Errand {
    fn end(&mut self, status: &str, said: &str) {
        self.owner = Some(status.to_owned());
        let mut meta = self.meta.take().unwrap_or_default();
        meta["said"] = json!(said);
        self.meta = Some(meta);
    }

    fn said(&self) -> Option<&str> {
        self.meta.as_ref()?["said"].as_str()
    }

    /// What the service is told to store.
    fn cells(&self) -> Cells {
        let cell = |name: &str, text: Option<String>| (name.to_owned(), text);
        Cells::from([
            cell("id", Some(self.id.to_string())),
            cell("text", Some(self.text.clone())),
            cell("done", Some("f".to_owned())),
            cell("owner", self.owner.clone()),
            cell("meta", self.meta.as_ref().map(Value::to_string)),
        ])
    }
}

impl ToolCallRow for Errand {
    fn pending(call: NewCall) -> Self {
        let meta = Some(json!({"name": call.name, "args": call.args}));
        Self { id: 1, text: call.id, owner: Some("pending".into()), meta }
    }
    fn id(&self) -> &str {
        &self.text
    }
    fn name(&self) -> &str {
        self.meta.as_ref().and_then(|meta| meta["name"].as_str()).unwrap_or_default()
    }
    fn args(&self) -> Value {
        self.meta.as_ref().map(|meta| meta["args"].clone()).unwrap_or_default()
    }
    fn status(&self) -> CallStatus {
        serde_json::from_value(json!(self.owner)).unwrap_or(CallStatus::Failed)
    }
    fn set_executing(&mut self, _: &Start) {
        self.owner = Some("executing".to_owned());
    }
    fn complete(&mut self, answer: &Content, _: &str) {
        let Content::Text(text) = answer else { return };
        self.end("completed", text);
    }
    fn fail(&mut self, why: &str, _: &str) {
        self.end("failed", why);
    }
    fn cancel(&mut self, _: CancelledBy, _: Option<&Content>, _: &str) {
        self.owner = Some("cancelled".to_owned());
    }
    fn result(&self) -> Option<Content> {
        self.said().map(|said| Content::Text(said.to_owned()))
    }
    fn error(&self) -> Option<&str> {
        self.said()
    }
}

fn double(runs: &Arc<AtomicUsize>) -> Tool {
    let runs = Arc::clone(runs);
    Tool::builder("double", "Doubles a number.")
        .input_schema(json!({"type": "object"}))
        .effect(Effect::Pure)
        .run(move |args: Value, _: ToolContext| {
            runs.fetch_add(1, Ordering::SeqCst);
            async move { Ok(json!({"n": args["n"].as_i64().unwrap_or_default() * 2})) }
        })
        .unwrap()
}

async fn ended(errands: &Collection<Errand>, id: &str) -> Errand {
    let mut changes = errands.changes().unwrap();
    loop {
        if let Some(row) = errands.get(id).filter(|row| row.status().is_terminal()) {
            return (*row).clone();
        }
        changes.next().await;
    }
}

#[tokio::test]
async fn an_executor_runs_calls_of_a_shape_once_and_writes_them_by_a_service() {
    let sys = Sys::real();
    let fixture = Arc::new(Fixture::start(&sys).await.unwrap());
    let shape = Shape::<Errand>::builder(&sys, &fixture.url())
        .table("todos")
        .replica(Replica::Full)
        .build()
        .unwrap();
    let errands = Db::new(&sys).collection::<Errand>(shape).unwrap();
    errands.ready().await.unwrap();
    let service = Arc::clone(&fixture);
    let calls = Table::written_by(&errands, move |write: Write<Errand>| {
        if let Write::Replace(row) = write {
            let (id, set) = (row.id.to_string(), row.cells());
            service.transact(vec![Operation::Update { id, set }]);
        }
        async { Ok(()) }
    });
    let runs = Arc::default();
    let executor =
        ToolExecutor::builder(&calls).name("worker").tool(double(&runs)).start().unwrap();
    for (id, name, n) in [(1, "a", 2), (2, "b", 21)] {
        let call = NewCall {
            id: name.to_owned(),
            call_id: None,
            generation_id: None,
            name: "double".to_owned(),
            args: json!({"n": n}),
            effect: agent::rows::Effect::Pure,
            is_background: false,
            at: String::new(),
        };
        let row = Errand { id, ..Errand::pending(call) };
        fixture.transact(vec![Operation::Insert(row.cells())]);
        let row = ended(&errands, name).await;
        let said = json!({"n": n * 2}).to_string();
        assert_eq!((row.status(), row.said()), (CallStatus::Completed, Some(said.as_str())));
    }
    executor.dispose().await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
