//! The scripted model as a run meets it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod demo;
mod script;

use std::sync::Arc;

use chat::{
    BlockKind, CallEnd, Id, Message, Model, ModelError, ModelEvent, Part, Request, Role,
    StopReason, Thinking, ToolCall, ToolResult, agui::Content,
};
use futures_util::StreamExt;
use providers::scripted::Scripted;
use sys::{Cancellation, Sys, UnixMs, disk};

fn simulated() -> Sys {
    let disk = disk::SimDisk::new(1, disk::SimFaults::default());
    Sys::simulated(1, disk, UnixMs::new(0))
}

fn asks(text: &str) -> Request {
    let question = Message::text("m1", Role::User, text);
    Request { messages: [question].into(), ..Request::default() }
}

/// What it streams until it ends or fails.
async fn stream(model: &Scripted, request: Request) -> Vec<Result<ModelEvent, ModelError>> {
    let (_canceller, cancellation) = Cancellation::new();
    model.call(Arc::new(request), cancellation).collect().await
}

/// A whole answer as the message it makes, and why it ends. Every block is opened and closed once.
async fn answer(model: &Scripted, request: Request) -> (Message, Option<StopReason>) {
    let mut parts: Vec<(Part, bool)> = Vec::new();
    let mut stop = None;
    let at = |block: chat::Block| usize::try_from(block.0).unwrap();
    for event in stream(model, request).await {
        match event.unwrap() {
            ModelEvent::Open { block, kind } => {
                assert_eq!(at(block), parts.len(), "blocks are numbered in order");
                let part = match kind {
                    BlockKind::Text => Part::from(String::new()),
                    BlockKind::Thinking => Part::Thinking(Thinking::default()),
                    BlockKind::Call { id, name } => {
                        let id = id.unwrap();
                        Part::ToolCall(ToolCall { id, name, ..ToolCall::default() })
                    }
                    kind => panic!("{kind:?}"),
                };
                parts.push((part, true));
            }
            ModelEvent::More { block, delta } => match &mut parts[at(block)] {
                (Part::Text(text), true) => text.text.push_str(&delta),
                (Part::Thinking(thinking), true) => thinking.text.push_str(&delta),
                (Part::ToolCall(call), true) => call.arguments.push_str(&delta),
                part => panic!("{part:?}"),
            },
            ModelEvent::Close { block } => {
                assert!(std::mem::replace(&mut parts[at(block)].1, false), "closed once");
            }
            ModelEvent::Stop(reason) => stop = Some(reason),
            _ => {}
        }
    }
    assert!(parts.iter().all(|(_, is_open)| !is_open));
    let parts = parts.into_iter().map(|(part, _)| part).collect();
    (Message::new("m2", Role::Assistant, parts), stop)
}

/// The same conversation with an answer to each call of the last message.
fn answered(mut request: Request, message: Message, text: impl Fn(&ToolCall) -> String) -> Request {
    let results = message.calls().map(|call| {
        let content = Content::Text(text(call));
        Part::ToolResult(ToolResult { call_id: call.id.clone(), content, end: CallEnd::Done })
    });
    let results = Message::new("m3", Role::Tool, results.collect());
    request.messages.extend([Arc::new(message), Arc::new(results)]);
    request
}

fn calls(message: &Message) -> Vec<(Id, String)> {
    message.calls().map(|call| (call.name.clone(), call.arguments.clone())).collect()
}

fn thoughts(message: &Message) -> String {
    let parts = message.parts.iter();
    let thoughts = parts.filter_map(|part| match part {
        Part::Thinking(thinking) => Some(thinking.text.as_str()),
        _ => None,
    });
    thoughts.collect()
}
