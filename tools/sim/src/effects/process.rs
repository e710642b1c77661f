//! One process: an effect over its own view of the stream, and the log as it reaches it.

use std::sync::Arc;

use live::{ChangeKind, Context, Effect, Event, HandlerError, StreamDb, from};
use log::{Log, file::FileLog};
use sys::Sys;

use super::{
    Scene,
    life::{Answer, Message, NAME, address},
};
use crate::{
    dice::Dice,
    line::Line,
    oracle::{Verdict, Violation},
};

/// A process that runs the effect.
#[derive(Debug)]
pub(super) struct Process {
    effect: Effect,
    line: Arc<Line>,
    db: StreamDb,
}

impl Process {
    /// A process that takes the effect over.
    pub(super) fn start(
        scene: &Arc<Scene>,
        sys: &Sys,
        log: &FileLog,
        dice: &Dice,
    ) -> Verdict<Self> {
        let wrong = |error: &dyn std::fmt::Display| Violation(format!("a process: {error}"));
        let line = Line::new(&scene.sys, Arc::new(log.clone()), dice, 0, &scene.tally);
        let reached: Arc<dyn Log> = line.clone();
        let db = StreamDb::builder(reached, address(), sys).with::<Message>().with::<Answer>();
        let db = db.open().map_err(|error| wrong(&error))?;
        let effect = start(scene, &db, dice).map_err(|error| wrong(&error))?;
        Ok(Self { effect, line, db })
    }

    /// It is gone, without a word.
    pub(super) fn kill(self) {
        self.line.kill();
    }

    /// It ends; handlers are told, and what they could not finish is left to others.
    pub(super) async fn dispose(self) {
        self.line.connect();
        self.effect.dispose().await;
        // A reader that was cut off may rest yet, and holds on to the log.
        self.db.close().await;
    }

    /// The log as it reaches it.
    pub(super) fn line(&self) -> &Line {
        &self.line
    }
}

fn start(scene: &Arc<Scene>, db: &StreamDb, dice: &Dice) -> Result<Effect, live::DbError> {
    let query = from::<Message>().filter(Message::is_open.eq(true));
    let (scene, dice) = (scene.clone(), Arc::new(dice.split()));
    let concurrency = usize::try_from(dice.between(1..=3)).unwrap_or(1);
    let handler = move |event, context| answer(scene.clone(), dice.clone(), event, context);
    db.durable_effect(NAME, query)
        .on_enter(handler.clone())
        .on_update(handler.clone())
        .on_exit(handler)
        .concurrency(concurrency)
        .start()
}

/// Takes its time, fails now and then, and answers; or answers, and fails.
async fn answer(
    scene: Arc<Scene>,
    dice: Arc<Dice>,
    event: Event<Message>,
    context: Context,
) -> Result<(), HandlerError> {
    let kind = match event.kind() {
        ChangeKind::Enter => "enter",
        ChangeKind::Update => "update",
        ChangeKind::Exit => "exit",
    };
    let id = format!("{kind} {} {}", event.row().id, event.id().position);
    scene.delivered(&id, context.attempt());
    scene.sys.clock.sleep(dice.pause()).await;
    if !scene.is_calm() && dice.percent(20) {
        scene.met.lock().failed += 1;
        return Err(HandlerError::new("no luck"));
    }
    let committed = context.commit(|rows| rows.put(&Answer { id: id.clone() })).await;
    scene.note(&format!("committed {id}: {committed:?}"));
    if committed.is_err() {
        scene.met.lock().unanswered += 1;
    }
    committed?;
    if !scene.is_calm() && dice.percent(10) {
        scene.met.lock().failed_late += 1;
        return Err(HandlerError::new("too late"));
    }
    Ok(())
}
