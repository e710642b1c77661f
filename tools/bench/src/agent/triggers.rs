//! How soon a row sets something off: an effect, or a tool of an executor.

use std::{path::Path, time::Instant};

use agent::{
    ToolExecutor,
    rows::{self, CallStatus, Claim, Message, ToolCall},
};
use anyhow::{Context as _, Result};
use chat::{Effect, Tool, ToolContext};
use live::{Row, StreamDb, from};
use log::Append;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wire::Address;

use super::{
    figures::{Figures, Latency, Samples},
    models::TOOL,
    place::Place,
    steps,
};

/// What an effect is.
#[derive(Clone, Copy)]
enum Kind {
    Passing,
    Durable,
}

/// Who may run a call.
#[derive(Clone, Copy)]
enum Rivals {
    None,
    Others,
}

/// A session, and the moments at which something was set off in it.
struct Stage {
    place: Place,
    address: Address,
    db: StreamDb,
    ran: UnboundedSender<Instant>,
    runs: UnboundedReceiver<Instant>,
}

pub(super) async fn measure(root: &Path, rows: u32) -> Result<Figures> {
    let mut figures = Figures::default();
    figures.latencies.extend(effect(root, rows, Kind::Passing).await?);
    figures.latencies.extend(effect(root, rows, Kind::Durable).await?);
    figures.latencies.extend(executor(root, rows, Rivals::None).await?);
    figures.latencies.extend(executor(root, rows, Rivals::Others).await?);
    Ok(figures)
}

async fn effect(root: &Path, rows: u32, kind: Kind) -> Result<[Latency; 2]> {
    let mut stage = Stage::open(root).await?;
    let ran = stage.ran.clone();
    let (effect, name) = match kind {
        Kind::Passing => (stage.db.effect(from::<Message>().synced()), "effect"),
        Kind::Durable => (stage.db.durable_effect("bench", from::<Message>()), "durable effect"),
    };
    let effect = effect.on_enter(move |_, _| {
        let _ = ran.send(Instant::now());
        async { Ok(()) }
    });
    let effect = effect.start()?;
    let (mut begun, mut acknowledged) = (Samples::default(), Samples::default());
    for number in 0..rows {
        let row = stage.place.question(&format!("m{number}"), "nobody");
        let (began, acked) = stage.append(&row).await?;
        let ran = stage.runs.recv().await.context("the effect has ended")?;
        begun.push(began, ran);
        acknowledged.push(acked, ran);
    }
    effect.dispose().await;
    stage.close().await;
    tell(name, &begun, &acknowledged)
}

async fn executor(root: &Path, rows: u32, rivals: Rivals) -> Result<[Latency; 2]> {
    let mut stage = Stage::open(root).await?;
    let (ran, done) = (stage.ran.clone(), stage.ran.clone());
    let tool = Tool::builder(TOOL, "Does nothing.").effect(Effect::Pure);
    let tool = tool.run(move |_: Value, _: ToolContext| {
        let _ = ran.send(Instant::now());
        async { Ok("Done.") }
    })?;
    let executor = ToolExecutor::builder(stage.db.rows::<ToolCall>()?).tool(tool);
    let executor = executor.on_complete(move |_, _| {
        let _ = done.send(Instant::now());
        async {}
    });
    let (executor, name) = match rivals {
        Rivals::None => (executor, "tool, its executor alone"),
        Rivals::Others => {
            (executor.claims(stage.db.rows::<Claim>()?), "tool, its executor with claims")
        }
    };
    let executor = executor.start()?;
    let (mut begun, mut acknowledged) = (Samples::default(), Samples::default());
    for number in 0..rows {
        let row = call(number, &rows::now(&stage.place.sys));
        let (began, acked) = stage.append(&row).await?;
        let ran = stage.runs.recv().await.context("the executor has ended")?;
        begun.push(began, ran);
        acknowledged.push(acked, ran);
        // Its end is written before the next call.
        stage.runs.recv().await.context("the executor has ended")?;
    }
    executor.dispose().await;
    stage.close().await;
    tell(name, &begun, &acknowledged)
}

fn tell(name: &str, begun: &Samples, acknowledged: &Samples) -> Result<[Latency; 2]> {
    let acknowledged = acknowledged.latency(&format!("acknowledged row to {name}"), None)?;
    let floor = Some(steps::FLOOR);
    Ok([acknowledged, begun.latency(&format!("begin of the append to {name}"), floor)?])
}

fn call(number: u32, now: &str) -> ToolCall {
    ToolCall {
        id: format!("call-{number}"),
        generation_id: None,
        message_id: None,
        call_id: None,
        name: TOOL.to_owned(),
        args: json!({}),
        raw_args: None,
        status: CallStatus::Pending,
        effect: rows::Effect::Pure,
        is_background: false,
        attempt: 0,
        failures: 0,
        deaths: 0,
        executor: None,
        lease_until: None,
        result: None,
        result_parts: None,
        error: None,
        cancelled_by: None,
        is_late: false,
        created_at: now.to_owned(),
        updated_at: now.to_owned(),
        started_at: None,
        completed_at: None,
    }
}

impl Stage {
    async fn open(root: &Path) -> Result<Self> {
        let place = Place::open(root).await?;
        let address = place.session("triggers").await?;
        let db = place.db(&address).await?;
        let (ran, runs) = unbounded_channel();
        Ok(Self { place, address, db, ran, runs })
    }

    /// Appends a row; when that began, and when it was acknowledged.
    async fn append<R: Row>(&self, row: &R) -> Result<(Instant, Instant)> {
        let messages = self.place.transaction(std::slice::from_ref(row))?;
        let began = Instant::now();
        let _ = self.place.log.append(&self.address, Append::messages(messages)).await?;
        Ok((began, Instant::now()))
    }

    async fn close(self) {
        self.db.close().await;
        self.place.close().await;
    }
}
