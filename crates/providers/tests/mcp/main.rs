//! Tools of a real MCP server, over its standard streams and over HTTP.
#![cfg(feature = "mcp")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod served;

use std::{env, sync::Arc};

use chat::{
    Effect, Tool, ToolContext, ToolOutcome, Toolbox,
    agui::{Content, ContentPart, Source},
};
use providers::mcp::{McpError, McpPlace, McpServer};
use serde_json::{Value, json};
use sys::{Cancellation, Sys};

/// Set for the process that is the server.
const IS_SERVER: &str = "HEADWATER_TEST_IS_MCP_SERVER";

/// This program once more, as a server. What the test harness says besides is no JSON, and MCP
/// clients pass over that.
fn process() -> McpPlace {
    let program = env::current_exe().unwrap();
    McpPlace::command(program, ["--exact", "a_server_if_it_is_told_so", "--nocapture"])
        .env(IS_SERVER, "1")
}

#[tokio::test]
async fn a_server_if_it_is_told_so() {
    if env::var_os(IS_SERVER).is_some() {
        served::over_stdio().await;
        // Nobody is left to hear how the test went.
        std::process::exit(0);
    }
}

async fn call(tools: &[Tool], name: &str, arguments: Value) -> ToolOutcome {
    let tools = Toolbox::new(tools.iter().cloned()).unwrap();
    let (_canceller, cancellation) = Cancellation::new();
    let context = ToolContext::new("call-1", cancellation);
    tools.get(name).unwrap().call(arguments, context, &Sys::real()).await
}

fn done(text: &str) -> ToolOutcome {
    ToolOutcome::Done { content: Content::Text(text.to_owned()) }
}

fn failed(why: &str) -> ToolOutcome {
    ToolOutcome::Failed { why: why.to_owned() }
}

/// What must hold of the tools, wherever they are.
async fn check(tools: &[Tool]) {
    let names: Vec<_> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert_eq!(names, ["add", "paint_a_square", "fail", "refuse", "wait"]);
    let add = &tools[0];
    assert_eq!(add.spec().description, "Adds two numbers.");
    let bad = add.check(r#"{"a": 1}"#).unwrap_err().to_string();
    assert_eq!(bad, "the arguments of \"add\" do not fit: \"b\" is required");
    assert_eq!(call(tools, "add", json!({"a": 1, "b": 2})).await, done("3"));
    let ToolOutcome::Done { content: Content::Parts(parts) } =
        call(tools, "paint_a_square", json!({})).await
    else {
        panic!("it paints")
    };
    let kinds: Vec<_> = parts
        .iter()
        .map(|part| match part {
            ContentPart::Text(text) => text.text.as_str(),
            ContentPart::Image(media) => match &media.source {
                Source::Data { value, mime_type } if mime_type == "image/png" => value,
                source => panic!("{source:?}"),
            },
            ContentPart::Document(_) => "document",
            part => panic!("{part:?}"),
        })
        .collect();
    assert_eq!(
        kinds,
        ["a square", "iVBORw==", "notes", "document", "[resource plan: file:///plan.txt]"]
    );
    assert_eq!(call(tools, "fail", json!({})).await, failed("there is no paint left"));
    assert_eq!(call(tools, "refuse", json!({})).await, failed("not today"));
}

#[tokio::test]
async fn a_process_has_tools() {
    let server = McpServer::connect(process(), &Sys::real()).await.unwrap();
    let tools = server.tools().await.unwrap();
    drop(server);
    check(&tools).await;
}

#[tokio::test]
async fn a_server_elsewhere_has_tools() {
    let address = served::over_http().await;
    let place = McpPlace::http(format!("http://{address}/mcp")).bearer("secret");
    let server = McpServer::connect(place, &Sys::real()).await.unwrap();
    check(&server.tools().await.unwrap()).await;
}

#[tokio::test]
async fn hints_are_believed_if_they_are_trusted() {
    let server = McpServer::connect(process(), &Sys::real()).await.unwrap();
    let server = server.only(["add", "fail"]);
    let effects = |tools: Vec<Tool>| -> Vec<_> {
        let effect = |tool: &Tool| (tool.spec().effect, tool.needs_approval(&json!({})));
        tools.iter().map(effect).collect()
    };
    let unsure = [(Effect::Once, false), (Effect::Once, false)];
    assert_eq!(effects(server.tools().await.unwrap()), unsure);
    let server = server.trusting_hints();
    let sure = [(Effect::Pure, false), (Effect::Once, true)];
    assert_eq!(effects(server.tools().await.unwrap()), sure);
}

#[tokio::test]
async fn a_call_that_is_cancelled_leaves_the_server_at_work() {
    let server = McpServer::connect(process(), &Sys::real()).await.unwrap();
    let tools = Arc::new(server.tools().await.unwrap());
    let (canceller, cancellation) = Cancellation::new();
    let context = ToolContext::new("call-1", cancellation);
    let sys = Sys::real();
    let wait = tools.iter().find(|tool| tool.spec().name == "wait").unwrap();
    let waiting = wait.call(json!({}), context, &sys);
    let (outcome, ()) = tokio::join!(waiting, async { canceller.cancel() });
    assert_eq!(outcome, ToolOutcome::Cancelled);
    assert_eq!(call(&tools, "add", json!({"a": 2, "b": 2})).await, done("4"));
}

#[tokio::test]
async fn what_is_no_server_is_told() {
    let sys = Sys::real();
    let error = async |place| McpServer::connect(place, &sys).await.unwrap_err();
    let none = McpPlace::command("no-such-program-anywhere", [""; 0]);
    let missing = error(none).await;
    assert!(matches!(missing, McpError::Start { .. }) && !missing.is_retryable(), "{missing}");
    let silent = error(McpPlace::command("true", [""; 0])).await;
    assert!(matches!(silent, McpError::Connect { .. }), "{silent}");
    // Nobody listens on a port that was just given back.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let nobody = error(McpPlace::http(format!("http://{address}/mcp"))).await;
    assert!(nobody.is_retryable() && nobody.to_string().contains(&address.to_string()), "{nobody}");
    let open = error(McpPlace::http("http://example.org/mcp").bearer("secret")).await;
    assert!(open.to_string().contains("use https"), "{open}");
}
