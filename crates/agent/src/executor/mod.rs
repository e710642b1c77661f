//! Runs the calls that rows ask for, by the names of their tools.

mod bench;
mod parents;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use chat::{BadToolbox, Tool, Toolbox, agui::Content};
use live::Find;

pub(crate) use self::bench::checked;
use self::{
    bench::{Bench, Callbacks},
    parents::{Check, Generations, Parents},
};
use crate::{
    caps::{EXECUTOR_CONCURRENCY_DEFAULT, LEASE_MARGIN_DEFAULT},
    claims::Claims,
    contract::{CancelledBy, GenerationRow, ToolCallRow},
    foreman::Foreman,
    rows::{Claim, Stop},
    stops::Stops,
    table::{Table, TableError},
};

/// Watches for calls and runs them. It and whoever asks for calls know nothing of each other: they
/// meet in the rows.
///
/// | row | what happens |
/// |---|---|
/// | pending | it is claimed, said to be executing, and run |
/// | executing, and its claim has lapsed | run again if that does no harm, else parked |
/// | completed, failed, cancelled | nothing, ever |
///
/// Dropping it lets the calls under way come to their end and begins no more;
/// [`dispose`](Self::dispose) waits for them, too.
#[derive(Debug)]
#[must_use = "an executor begins nothing more once it is dropped"]
pub struct ToolExecutor {
    foreman: Foreman,
}

/// What becomes of an answer that comes after its generation or its call was cancelled. Nobody goes
/// on with it either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatePolicy {
    /// It is thrown away, and the tool is stopped as soon as it can be.
    #[default]
    Discard,
    /// The tool comes to its end, and the answer is kept, marked as late. The call stays cancelled.
    Store,
}

/// An executor that cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadExecutor {
    /// Two tools of one name, or too many.
    #[error(transparent)]
    Toolbox(#[from] BadToolbox),
    /// The query cannot be run.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// An executor on its way.
#[must_use = "an executor does nothing before it is started"]
pub struct ToolExecutorBuilder<R> {
    calls: Table<R>,
    query: Option<Find<R>>,
    answers_unknown: bool,
    tools: Vec<Tool>,
    claims: Option<Table<Claim>>,
    name: Option<String>,
    key_prefix: String,
    concurrency: usize,
    margin: Duration,
    parents: Option<Arc<dyn Parents>>,
    stops: Option<Stops>,
    late: LatePolicy,
    callbacks: Callbacks<R>,
}

type Called = Pin<Box<dyn Future<Output = ()> + Send>>;

impl ToolExecutor {
    /// An executor for these calls.
    pub fn builder<R: ToolCallRow>(calls: impl Into<Table<R>>) -> ToolExecutorBuilder<R> {
        ToolExecutorBuilder {
            calls: calls.into(),
            query: None,
            answers_unknown: false,
            tools: Vec::new(),
            claims: None,
            name: None,
            key_prefix: String::new(),
            concurrency: EXECUTOR_CONCURRENCY_DEFAULT,
            margin: LEASE_MARGIN_DEFAULT,
            parents: None,
            stops: None,
            late: LatePolicy::default(),
            callbacks: Callbacks::default(),
        }
    }

    /// Begins no further call, and waits for those under way.
    pub async fn dispose(self) {
        self.foreman.dispose().await;
    }
}

impl<R: ToolCallRow> ToolExecutorBuilder<R> {
    /// One more tool that it runs.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// More tools.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// The calls it cares for. Let it show executing ones as well as pending ones, or nobody will
    /// notice if an executor dies. A call of a tool that is not here fails, and says so. It always
    /// looks at confirmed rows alone.
    pub fn query(mut self, query: Find<R>) -> Self {
        self.query = Some(query);
        self
    }

    /// Claims each call before it is run, so that several executors may see the same ones. The
    /// claims must be rows of a stream, best of the same one as the calls.
    ///
    /// Without, the executor must be the only one that sees its calls.
    pub fn claims(mut self, claims: impl Into<Table<Claim>>) -> Self {
        self.claims = Some(claims.into());
        self
    }

    /// What it is called in the rows. With a name that it keeps, an executor without claims knows
    /// the calls again that it was at when it died.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Put in front of the id of a row, this is the idempotency key of a call. Give it what tells
    /// this stream from others of its name, such as the incarnation that `Log::head` tells.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Runs so many calls at the same time.
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.concurrency = calls.max(1);
        self
    }

    /// A claim holds for as long as the tool may take, and so much longer.
    pub fn lease_margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Where to see whether the generation of a call was cancelled.
    pub fn generations<G: GenerationRow>(mut self, generations: impl Into<Table<G>>) -> Self {
        self.parents = Some(Arc::new(Generations(generations.into())));
        self
    }

    /// Who tells whether a generation was cancelled, and by whom. It is asked before a call is run
    /// and before its answer is written.
    pub fn cancelled_when(
        mut self,
        check: impl Fn(&str) -> Option<CancelledBy> + Send + Sync + 'static,
    ) -> Self {
        self.parents = Some(Arc::new(Check(check)));
        self
    }

    /// Where to see whether somebody says stop: a stop of the generation of a call cancels the call
    /// by user, and so does one that names no generation and no agent, if it stands behind the call
    /// in their stream.
    pub fn stops(mut self, stops: impl Into<Table<Stop>>) -> Self {
        self.stops = Some(Stops(stops.into()));
        self
    }

    /// What becomes of answers that come late.
    pub fn late(mut self, policy: LatePolicy) -> Self {
        self.late = policy;
        self
    }

    /// Called when a call is about to be run.
    pub fn on_executing<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(R) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.callbacks.executing = Some(Arc::new(move |row| Box::pin(callback(row))));
        self
    }

    /// Called when an answer has been written, for example to tell of it in the conversation.
    pub fn on_complete<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(R, Content) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.callbacks.complete =
            Some(Arc::new(move |row, answer| Box::pin(callback(row, answer))));
        self
    }

    /// Called when it has been written that a call failed, or was parked.
    pub fn on_error<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(R, String) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.callbacks.error = Some(Arc::new(move |row, why| Box::pin(callback(row, why))));
        self
    }

    /// Fails calls of tools that nobody here knows, too. Only for the one executor that sees all.
    pub fn answers_unknown(mut self) -> Self {
        self.answers_unknown = true;
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// If two tools have one name, or the query cannot be run.
    pub fn start(self) -> Result<ToolExecutor, BadExecutor> {
        let tools = Toolbox::new(self.tools)?;
        let answers_unknown = self.answers_unknown || self.query.is_some();
        let query = self.query.unwrap_or_else(|| {
            let names: Vec<_> = tools.specs().map(|spec| spec.name.to_string()).collect();
            R::open((!answers_unknown).then_some(&names))
        });
        let sys = self.calls.sys().clone();
        // Two processes of one name must not take each other's claims for their own.
        let life = format!("{:016x}", sys.chance.u64());
        let name = self.name.unwrap_or_else(|| format!("executor-{life}"));
        let claims = self.claims.map(|table| Claims::new(table, format!("{name}-{life}")));
        let bench = Bench {
            calls: self.calls.clone(),
            tools,
            answers_unknown,
            name: claims.as_ref().map_or(name, |claims| claims.by().to_owned()),
            claims: claims.clone(),
            key_prefix: self.key_prefix,
            margin: self.margin,
            parents: self.parents,
            stops: self.stops,
            late: self.late,
            callbacks: self.callbacks,
            sys,
        };
        let foreman = Foreman::start(Arc::new(bench), self.calls, query, claims, self.concurrency)?;
        Ok(ToolExecutor { foreman })
    }
}

impl<R> fmt::Debug for ToolExecutorBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolExecutorBuilder")
            .field("tools", &self.tools)
            .field("answers_unknown", &self.answers_unknown)
            .finish_non_exhaustive()
    }
}
