//! Runs a generation for each row that asks for one.

use std::{fmt, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use live::{Find, HandlerError};
use sys::{Cancellation, Sys};

use crate::{
    caps::{
        GENERATION_GRACE, GENERATION_TIME_DEFAULT, GENERATOR_CONCURRENCY_DEFAULT,
        LEASE_MARGIN_DEFAULT,
    },
    claims::{Claims, Known, Phase},
    contract::{CancelledBy, GenerationRow, GenerationStatus, is_over, step_generation},
    foreman::{Foreman, Job, Trade},
    rows::{Claim, Stop, now},
    stops::{Stoppable, Stops, reason_of},
    table::{Table, TableError},
};

/// Calls a function for each row that enters a query, once: the row says `generating` before the
/// function is called, and how it ended afterwards.
///
/// [`dispose`](Self::dispose) cancels what is under way and waits for it.
#[derive(Debug)]
#[must_use = "a generator begins nothing more once it is dropped"]
pub struct Generator {
    foreman: Foreman,
}

/// A generator on its way, whose function comes to a `T`.
#[must_use = "a generator does nothing before it is started"]
pub struct GeneratorBuilder<G, T> {
    table: Table<G>,
    query: Find<G>,
    claims: Option<Table<Claim>>,
    concurrency: usize,
    work: Work<G, T>,
}

/// What a generation learns of itself.
#[derive(Clone, Debug)]
pub struct GenerationContext {
    cancellation: Cancellation,
    attempt: u32,
}

type Made<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Generate<G, T> =
    Arc<dyn Fn(G, GenerationContext) -> Made<Result<T, HandlerError>> + Send + Sync>;
type Called = Made<()>;
type Callback<G, T> = Arc<dyn Fn(G, T) -> Called + Send + Sync>;
type WriteResult<G, T> = Arc<dyn Fn(&mut G, &T) + Send + Sync>;

/// All that a generation needs.
struct Work<G, T> {
    table: Table<G>,
    claims: Option<Claims>,
    sys: Sys,
    generate: Generate<G, T>,
    time_max: Duration,
    margin: Duration,
    restarts: bool,
    stops: Option<Stops>,
    result: Option<WriteResult<G, T>>,
    on_complete: Option<Callback<G, T>>,
    on_error: Option<Callback<G, String>>,
    on_cancelled: Option<Callback<G, CancelledBy>>,
}

/// How a generation ended.
enum End<T> {
    Completed(T),
    Failed(String),
    Cancelled(CancelledBy, String),
}

impl GenerationContext {
    /// Tells when the generation is over: cancelled, deleted, out of time, or the generator ends.
    /// Give it to `Chat::cancellation`.
    #[must_use]
    pub const fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// Which attempt this is, from 1.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl Generator {
    /// A generator for the rows of a query. It always looks at confirmed rows alone. Let the query
    /// show rows that are `generating` as well as pending ones, or nobody will notice if a
    /// generator dies.
    pub fn builder<G, T, F, A>(
        table: impl Into<Table<G>>,
        query: Find<G>,
        generate: F,
    ) -> GeneratorBuilder<G, T>
    where
        G: GenerationRow,
        T: Send + 'static,
        F: Fn(G, GenerationContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<T, HandlerError>> + Send + 'static,
    {
        let table = table.into();
        let sys = table.sys().clone();
        GeneratorBuilder {
            table: table.clone(),
            query,
            claims: None,
            concurrency: GENERATOR_CONCURRENCY_DEFAULT,
            work: Work {
                table,
                claims: None,
                sys,
                generate: Arc::new(move |row, context| Box::pin(generate(row, context))),
                time_max: GENERATION_TIME_DEFAULT,
                margin: LEASE_MARGIN_DEFAULT.saturating_add(GENERATION_GRACE),
                restarts: false,
                stops: None,
                result: None,
                on_complete: None,
                on_error: None,
                on_cancelled: None,
            },
        }
    }

    /// Begins nothing more, cancels what is under way, and waits for it.
    pub async fn dispose(self) {
        self.foreman.dispose().await;
    }
}

impl<G: GenerationRow, T: Send + 'static> GeneratorBuilder<G, T> {
    /// Claims each row before it is run, so that several generators may see the same ones. The
    /// claims must be rows of a stream, best of the same one as the rows.
    ///
    /// Without, the generator must be the only one that sees its rows.
    pub fn claims(mut self, claims: impl Into<Table<Claim>>) -> Self {
        self.claims = Some(claims.into());
        self
    }

    /// Runs so many generations at the same time.
    pub fn concurrency(mut self, generations: usize) -> Self {
        self.concurrency = generations.max(1);
        self
    }

    /// Cancels a generation that takes longer.
    pub fn time_max(mut self, time_max: Duration) -> Self {
        self.work.time_max = time_max;
        self
    }

    /// Runs generations again whose generator has died. Otherwise they are cancelled by an error.
    pub fn restarts_interrupted(mut self) -> Self {
        self.work.restarts = true;
        self
    }

    /// Where to see whether somebody says stop: a stop of a generation cancels it by user, and so
    /// does one that names no generation, if it stands behind the row in their stream and means its
    /// agent or all.
    pub fn stops(mut self, stops: impl Into<Table<Stop>>) -> Self {
        self.work.stops = Some(Stops(stops.into()));
        self
    }

    /// Writes what the function came to into the row, together with its end.
    pub fn result(mut self, write: impl Fn(&mut G, &T) + Send + Sync + 'static) -> Self {
        self.work.result = Some(Arc::new(write));
        self
    }

    /// Called when it has been written that a generation is completed.
    pub fn on_complete<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(G, T) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.work.on_complete = Some(Arc::new(move |row, value| Box::pin(callback(row, value))));
        self
    }

    /// Called when it has been written that a generation failed.
    pub fn on_error<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(G, String) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.work.on_error = Some(Arc::new(move |row, why| Box::pin(callback(row, why))));
        self
    }

    /// Called when a generation has ended since it was cancelled, or its row deleted.
    pub fn on_cancelled<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(G, CancelledBy) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.work.on_cancelled = Some(Arc::new(move |row, by| Box::pin(callback(row, by))));
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If the query cannot be run.
    pub fn start(self) -> Result<Generator, TableError> {
        let Self { table, query, claims, concurrency, mut work } = self;
        let by = format!("generator-{:016x}", work.sys.chance.u64());
        work.claims = claims.map(|claims| Claims::new(claims, by));
        let claims = work.claims.clone();
        let foreman = Foreman::start(Arc::new(work), table, query, claims, concurrency)?;
        Ok(Generator { foreman })
    }
}

impl<G: GenerationRow, T: Send + 'static> Trade for Work<G, T> {
    type Row = G;

    fn id(row: &G) -> &str {
        row.id()
    }

    fn known(&self, row: &G) -> Known {
        let phase = match row.status() {
            GenerationStatus::Pending => Phase::Open,
            GenerationStatus::Generating => Phase::UnderWay,
            GenerationStatus::Completed
            | GenerationStatus::Failed
            | GenerationStatus::Cancelled => Phase::Over,
        };
        Known { phase, attempt: 0, is_ours: true }
    }

    fn lease(&self, _row: &G) -> Duration {
        self.time_max.saturating_add(self.margin)
    }

    async fn work(self: Arc<Self>, row: G, job: Job) -> Result<(), TableError> {
        if job.turn.is_recovery && !self.restarts {
            let why = "whoever made it is gone".to_owned();
            return self.end(&row, &job, End::Cancelled(CancelledBy::Error, why)).await;
        }
        if let Some(stop) = self.stopped(&row)? {
            let end = End::Cancelled(CancelledBy::User, reason_of(&stop));
            return self.end(&row, &job, end).await;
        }
        let at = now(&self.sys);
        let generating =
            step_generation(&row, GenerationStatus::Generating, |row| row.set_generating(&at));
        let row = match generating {
            Ok(row) => row,
            Err(broken) => {
                self.end(&row, &job, End::Failed(broken.to_string())).await?;
                return Err(broken.into());
            }
        };
        // What is written may be on its way for long, so nothing is that is too late already.
        if !self.may_begin(row.id(), &job) {
            return Ok(());
        }
        self.table.replace(row.clone()).await?;
        let has_ended = self.table.get(row.id())?.is_some_and(|row| is_over(row.status()));
        if has_ended || !self.may_begin(row.id(), &job) {
            return Ok(());
        }
        let end = self.run(&row, &job).await;
        self.end(&row, &job, end).await
    }
}

impl<G: GenerationRow, T: Send + 'static> Work<G, T> {
    /// Calls the function, and tells it when it is over.
    async fn run(&self, row: &G, job: &Job) -> End<T> {
        let (canceller, cancellation) = Cancellation::new();
        let context = GenerationContext { cancellation, attempt: job.turn.attempt };
        let made = AssertUnwindSafe((self.generate)(row.clone(), context)).catch_unwind();
        tokio::pin!(made);
        let ended = async {
            match self.table.wait_for(row.id(), |row| is_over(row.status())).await {
                Ok(Some(row)) => row.cancelled_by().unwrap_or(CancelledBy::User),
                Ok(None) => CancelledBy::User,
                Err(_) => std::future::pending().await,
            }
        };
        let stopped = async {
            match (&self.stops, self.stoppable(row)) {
                (Some(stops), Ok(work)) => reason_of(&stops.wait(&work).await),
                _ => std::future::pending().await,
            }
        };
        let (by, why) = tokio::select! {
            biased;
            made = &mut made => return ended_by(made),
            by = ended => (by, "its row was cancelled or deleted".to_owned()),
            why = stopped => (CancelledBy::User, why),
            () = job.cancellation.cancelled() => {
                (CancelledBy::Error, "its generator was ended".to_owned())
            }
            () = self.sys.clock.sleep(self.time_max) => {
                (CancelledBy::Timeout, "it took too long".to_owned())
            }
        };
        canceller.cancel();
        // What it comes to now is not what was asked for, but it may have something to put away.
        let _ = self.sys.clock.timeout(GENERATION_GRACE, made).await;
        End::Cancelled(by, why)
    }

    /// Writes how a generation ended, unless somebody else has.
    async fn end(&self, row: &G, job: &Job, end: End<T>) -> Result<(), TableError> {
        let newest = self.table.get(row.id())?;
        let Some(newest) = newest.filter(|newest| !is_over(newest.status())) else {
            return self.came_late(row).await;
        };
        if !self.is_ours(row.id(), job) {
            return Ok(());
        }
        let base = if newest.status() == row.status() { &*newest } else { row };
        let at = now(&self.sys);
        let ended = match &end {
            End::Completed(value) => step_generation(base, GenerationStatus::Completed, |row| {
                if let Some(write) = &self.result {
                    write(row, value);
                }
                row.complete(&at);
            }),
            End::Failed(why) => {
                step_generation(base, GenerationStatus::Failed, |row| row.fail(why, &at))
            }
            End::Cancelled(by, why) => {
                step_generation(base, GenerationStatus::Cancelled, |row| row.cancel(*by, why, &at))
            }
        }?;
        self.table.replace(ended.clone()).await?;
        // Somebody else's end may stand before it.
        let is_other = |newest: &G| is_over(newest.status()) && newest.status() != ended.status();
        if self.table.get(row.id())?.is_some_and(|newest| is_other(&newest)) {
            return self.came_late(row).await;
        }
        let told = match end {
            End::Completed(value) => {
                self.on_complete.as_ref().map(|callback| callback(ended, value))
            }
            End::Failed(why) => self.on_error.as_ref().map(|callback| callback(ended, why)),
            End::Cancelled(by, _) => self.on_cancelled.as_ref().map(|callback| callback(ended, by)),
        };
        self.tell(told).await;
        Ok(())
    }

    /// Somebody else has ended it, or deleted it.
    async fn came_late(&self, row: &G) -> Result<(), TableError> {
        let newest = self.table.get(row.id())?.map_or_else(|| row.clone(), |row| (*row).clone());
        let by = newest.cancelled_by().unwrap_or(CancelledBy::User);
        if newest.status() == GenerationStatus::Cancelled || !is_over(newest.status()) {
            self.tell(self.on_cancelled.as_ref().map(|callback| callback(newest, by))).await;
        }
        Ok(())
    }

    fn stopped(&self, row: &G) -> Result<Option<Stop>, TableError> {
        let Some(stops) = &self.stops else { return Ok(None) };
        Ok(stops.find(&self.stoppable(row)?)?)
    }

    /// What a stop must be about to be about this generation.
    fn stoppable(&self, row: &G) -> Result<Stoppable, TableError> {
        let position = self.table.get(row.id())?.and_then(|row| row.meta().position);
        let agent = row.agent_name().map(str::to_owned);
        Ok(Stoppable { generation: Some(row.id().to_owned()), agent, position })
    }

    /// Whether an attempt may be made still.
    fn may_begin(&self, id: &str, job: &Job) -> bool {
        let is_early = job.until.is_none_or(|until| self.sys.clock.unix_ms() < until);
        is_early && self.is_ours(id, job)
    }

    fn is_ours(&self, id: &str, job: &Job) -> bool {
        let Some(claims) = &self.claims else { return true };
        claims.is_newest(id, job.turn.attempt).unwrap_or(false)
    }

    /// A callback that panics breaks nothing but itself.
    async fn tell(&self, called: Option<Called>) {
        if let Some(called) = called
            && AssertUnwindSafe(called).catch_unwind().await.is_err()
        {
            tracing::error!("a callback of a generator has panicked");
        }
    }
}

type Caught<T> = Result<Result<T, HandlerError>, Box<dyn std::any::Any + Send>>;

fn ended_by<T>(made: Caught<T>) -> End<T> {
    match made {
        Ok(Ok(value)) => End::Completed(value),
        Ok(Err(error)) => End::Failed(error.to_string()),
        Err(_) => End::Failed("the function that makes it has panicked".to_owned()),
    }
}

impl<G, T> fmt::Debug for GeneratorBuilder<G, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratorBuilder")
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}
