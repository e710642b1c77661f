//! A model for tests that says its lines.

use std::sync::{Arc, Mutex};

use chat::{
    Abilities, Block, BlockKind, Id, Model, ModelError, ModelEvent, ModelName, ModelStream,
    Request, StopReason, Structured, Usage,
};
use futures_util::{StreamExt as _, stream};
use sys::Cancellation;
use tokio::sync::Notify;

/// Something that a model does.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Text(String),
    Call(String, String),
    Fail(ModelError),
    Usage(Usage),
    /// Says nothing more, for ever.
    Hang,
}

#[derive(Debug)]
pub(crate) struct StandIn {
    name: ModelName,
    structured: Structured,
    turns: Mutex<(usize, Vec<Vec<Line>>)>,
    hung_up: Arc<Notify>,
    last_request: Mutex<Arc<Request>>,
}

/// Tells when a stream is dropped.
struct HangUp(Arc<Notify>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

pub(crate) fn text(text: &str) -> Line {
    Line::Text(text.to_owned())
}

pub(crate) fn call(name: &str, arguments: &str) -> Line {
    Line::Call(name.to_owned(), arguments.to_owned())
}

impl StandIn {
    pub(crate) fn new(mut turns: Vec<Vec<Line>>) -> Self {
        turns.reverse();
        Self {
            name: ModelName { provider: "stand-in".into(), model: "lines".into() },
            structured: Structured::default(),
            turns: Mutex::new((0, turns)),
            hung_up: Arc::default(),
            last_request: Mutex::default(),
        }
    }

    pub(crate) fn structured(mut self, how: Structured) -> Self {
        self.structured = how;
        self
    }

    pub(crate) fn last_request(&self) -> Arc<Request> {
        Arc::clone(&self.last_request.lock().unwrap())
    }

    pub(crate) async fn hung_up(&self) {
        self.hung_up.notified().await;
    }
}

impl Model for StandIn {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { structured: self.structured }
    }

    fn call(&self, request: Arc<Request>, _: Cancellation) -> ModelStream {
        *self.last_request.lock().unwrap() = request;
        let (turn, lines) = {
            let mut turns = self.turns.lock().unwrap();
            turns.0 += 1;
            (turns.0 - 1, turns.1.pop().unwrap_or_default())
        };
        let hangs = matches!(lines.last(), Some(Line::Hang));
        let mut said = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            said.extend(say(turn, index, line));
        }
        said.push(Ok(ModelEvent::Stop(StopReason::End)));
        let hang_up = HangUp(Arc::clone(&self.hung_up));
        let said = stream::iter(said).map(move |event| {
            let _held = &hang_up;
            event
        });
        if hangs { said.chain(stream::pending()).boxed() } else { said.boxed() }
    }
}

fn say(turn: usize, index: usize, line: Line) -> Vec<Result<ModelEvent, ModelError>> {
    let block = Block(u32::try_from(index).unwrap());
    let (kind, delta) = match line {
        Line::Text(text) => (BlockKind::Text, text),
        Line::Call(name, arguments) => {
            let id = Some(Id::from(format!("call_{turn}_{index}")));
            (BlockKind::Call { id, name: name.into() }, arguments)
        }
        Line::Fail(error) => return vec![Err(error)],
        Line::Usage(usage) => return vec![Ok(ModelEvent::Usage(usage))],
        Line::Hang => return Vec::new(),
    };
    vec![
        Ok(ModelEvent::Open { block, kind }),
        Ok(ModelEvent::More { block, delta }),
        Ok(ModelEvent::Close { block }),
    ]
}
