//! Helpers of a run that do what they should not.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use chat::{BeforeTool, Middleware, Tool, ToolContext, ToolResult, machine::Call};
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use sys::Sys;

use super::{ask, call, text};

/// Takes one call for another.
#[derive(Debug)]
struct Confused;

impl Middleware for Confused {
    fn before_tool<'a>(&'a self, call: &'a mut Call) -> BoxFuture<'a, BeforeTool> {
        call.id = "another".into();
        async { BeforeTool::Call }.boxed()
    }

    fn after_tool<'a>(&'a self, _: &'a Call, result: &'a mut ToolResult) -> BoxFuture<'a, ()> {
        result.call_id = "a third".into();
        async {}.boxed()
    }
}

#[tokio::test]
async fn a_middleware_cannot_have_a_tool_run_for_ever() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let tool = Tool::builder("count", "Counts.").run(move |_: Value, context: ToolContext| {
        assert_eq!(counted.fetch_add(1, Ordering::SeqCst), 0, "it runs again");
        async move { Ok(context.call_id().to_string()) }
    });
    let chat = ask(vec![vec![call("count", "{}")], vec![text("Done.")]]);
    let run = chat.tool(tool.unwrap()).middleware(Arc::new(Confused)).stream(&Sys::real()).unwrap();
    let finished = run.finish().await;
    assert_eq!(finished.text(), "Done.");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let result = finished.messages[2].results().next().unwrap();
    assert_eq!(result.content, "call_0_0".into());
}
