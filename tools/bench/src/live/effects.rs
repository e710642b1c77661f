//! Scenarios b: ten thousand jobs, and effects that wait for some of them.
//!
//! They are effects as anybody writes them: a [`live::Db`], a source that brings rows, and a
//! handler that is called by a task of its own, all on one thread.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, Result};
use live::{Batch, Db, Effect, Find, Sink, Source, SourceError, from};
use sys::Sys;
use tokio::{
    runtime::Builder,
    sync::{Notify, oneshot},
};

use super::{
    figure::{Figure, Outcome, Whole, spread},
    sample::{Chance, Job, JobRow, Size},
};

/// What an effect waits for.
#[derive(Clone, Copy)]
pub(super) enum Waits {
    /// Any job that is pending.
    Pending,
    /// A pending job of one of this many agents, each in turn.
    PendingOf { agents: usize },
}

impl Waits {
    fn query(self, number: usize) -> Find<JobRow> {
        let pending = JobRow::status.eq("pending");
        match self {
            Self::Pending => from().filter(pending),
            Self::PendingOf { agents } => {
                let agent = format!("agent-{}", number % agents);
                from().filter(JobRow::agent.eq(agent).and(pending))
            }
        }
    }
}

/// One more row, which `wanted` of the effects are told of.
pub(super) fn effects(size: Size, total: usize, waits: Waits, wanted: usize) -> Result<Outcome> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut chance, rows) = (Chance::new(4), size.of(10_000));
        let (db, sink) = database(Job::many(rows, &mut chance)).await?;
        let handlers = Arc::new(Handlers::new(wanted));
        let (create, effects) = create(&db, total, waits, &handlers).await?;
        let (mut times, count) = (Vec::new(), size.of(1_200));
        for number in 0..count {
            let batch = Batch::begin().put(Job::pending(rows + number, &mut chance).row());
            let began = Instant::now();
            sink.commit(batch)?;
            let ended = handlers.all_called().await?;
            if number >= count / 6 {
                times.push((ended - began).as_secs_f64() * 1e6);
            }
        }
        let ok = handlers.calls.load(Ordering::Relaxed) == count * wanted;
        drop(effects);
        let insert = spread("insert, all handlers", times)?;
        Ok(Outcome { ok, figures: vec![insert, create], heap: None })
    })
}

/// Effects that listen: each has been started, and its task has run once.
async fn create(
    db: &Db,
    total: usize,
    waits: Waits,
    handlers: &Arc<Handlers>,
) -> Result<(Figure, Vec<Effect>)> {
    let began = Whole::begin();
    let start = |number| {
        let handlers = Arc::clone(handlers);
        let effect = db.effect(waits.query(number)).skip_initial();
        let effect = effect.on_enter(move |_, _| {
            handlers.called();
            async { Ok(()) }
        });
        Ok(effect.start()?)
    };
    let effects = (0..total).map(start).collect::<Result<_>>()?;
    // Tasks run in the order they were started.
    db.sys().spawn.task("the last one", async {}).join().await;
    Ok((began.end(&format!("create {total}")), effects))
}

/// What all handlers share.
struct Handlers {
    wanted: usize,
    calls: AtomicUsize,
    /// When the last one that a row concerns was called. Held for moments.
    ended: Mutex<Option<Instant>>,
    news: Notify,
}

impl Handlers {
    fn new(wanted: usize) -> Self {
        let (calls, ended, news) = (AtomicUsize::new(0), Mutex::new(None), Notify::new());
        Self { wanted, calls, ended, news }
    }

    fn called(&self) {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if calls.is_multiple_of(self.wanted) {
            *self.ended.lock().expect("nobody panics with it") = Some(Instant::now());
            self.news.notify_one();
        }
    }

    async fn all_called(&self) -> Result<Instant> {
        self.news.notified().await;
        let ended = self.ended.lock().expect("nobody panics with it").take();
        ended.context("a handler was called too often")
    }
}

/// A database with these jobs, and what brings more.
async fn database(jobs: Vec<Job>) -> Result<(Db, Sink)> {
    let db = Db::new(&Sys::real());
    let (giver, sink) = oneshot::channel();
    let collection = db.collection::<JobRow>(Given(giver))?;
    let sink: Sink = sink.await?;
    sink.commit(jobs.iter().fold(Batch::begin(), |batch, job| batch.put(job.row())))?;
    sink.ready();
    collection.ready().await?;
    Ok((db, sink))
}

/// A source that leaves its work to whoever has the sink.
struct Given(oneshot::Sender<Sink>);

impl Source for Given {
    async fn run(self, sink: Sink) -> Result<(), SourceError> {
        self.0.send(sink).map_err(|_| SourceError("nobody wants the sink".into()))
    }
}
