//! Gives out work: watches the rows of a query, claims those that need somebody, and calls
//! whoever does it; each row once at a time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use live::{Changes, Find, Row};
use sys::{Cancellation, Canceller, Sys, Task, UnixMs};

use crate::{
    caps::{ATTEMPTS_REMEMBERED_MAX, CLAIM_SLACK, FOREMAN_PAUSE},
    claims::{self, ClaimError, Claimed, Claims, Known, Next, Phase, Rivals, Turn},
    table::{Table, TableError},
};

/// Work that rows ask for.
pub(crate) trait Trade: Send + Sync + 'static {
    type Row: Row;

    fn id(row: &Self::Row) -> &str;

    /// What is known of a row.
    fn known(&self, row: &Self::Row) -> Known;

    /// How long an attempt may take, with all that belongs to it.
    fn lease(&self, row: &Self::Row) -> Duration;

    /// Makes an attempt. It is called for a row once at a time, and after its claim has won.
    fn work(
        self: Arc<Self>,
        row: Self::Row,
        job: Job,
    ) -> impl Future<Output = Result<(), TableError>> + Send;
}

/// An attempt that is ours.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) turn: Turn,
    /// Until when it is ours, if others could take it.
    pub(crate) until: Option<UnixMs>,
    /// Over when the foreman is told to end.
    pub(crate) cancellation: Cancellation,
}

/// A foreman at work. Dropping it lets what is under way come to its end, and begins no more.
#[derive(Debug)]
pub(crate) struct Foreman {
    canceller: Canceller,
    task: Task,
}

impl Foreman {
    /// Watches a query of confirmed rows.
    pub(crate) fn start<T: Trade>(
        trade: Arc<T>,
        table: Table<T::Row>,
        query: Find<T::Row>,
        claims: Option<Claims>,
        concurrency: usize,
    ) -> Result<Self, TableError> {
        let changes = table.db().changes(query.synced())?;
        let (canceller, cancellation) = Cancellation::new();
        let sys = table.sys().clone();
        let made = table.is_written_elsewhere().then(Made::default);
        let floor = Floor {
            trade,
            table,
            claims: claims.map(Arc::new),
            concurrency,
            sys: sys.clone(),
            cancellation,
            rows: BTreeMap::new(),
            waiting: VecDeque::new(),
            queued: BTreeSet::new(),
            busy: BTreeSet::new(),
            looks: BTreeMap::new(),
            made,
            running: FuturesUnordered::new(),
        };
        let task = sys.spawn.task("foreman", floor.run(changes));
        Ok(Self { canceller, task })
    }

    /// Begins nothing more, tells what is under way, and waits for it.
    pub(crate) async fn dispose(self) {
        self.canceller.cancel();
        self.task.join().await;
    }
}

/// The rows of the query, and what is being done about them.
struct Floor<T: Trade> {
    trade: Arc<T>,
    table: Table<T::Row>,
    claims: Option<Arc<Claims>>,
    concurrency: usize,
    sys: Sys,
    cancellation: Cancellation,
    rows: BTreeMap<String, T::Row>,
    waiting: VecDeque<String>,
    /// The same, to be found.
    queued: BTreeSet<String>,
    busy: BTreeSet<String>,
    /// When to look at a row again.
    looks: BTreeMap<String, UnixMs>,
    /// Attempts that were made, where rows may be brought late and tell of them as if they were
    /// not.
    made: Option<Made>,
    running: FuturesUnordered<Running>,
}

/// The last attempts that were made, by row.
#[derive(Default)]
struct Made {
    attempts: BTreeMap<String, u32>,
    order: VecDeque<String>,
}

/// An attempt under way: the row, and when to look at it again.
type Running = Pin<Box<dyn Future<Output = (String, u32, Option<UnixMs>)> + Send>>;

impl<T: Trade> Floor<T> {
    async fn run(mut self, mut changes: Changes<T::Row>) {
        while !self.cancellation.is_cancelled() {
            self.start_what_may();
            let (clock, cancellation) = (self.sys.clock.clone(), self.cancellation.clone());
            let look = self.looks.values().min().copied();
            let next_look = async move {
                match look {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancellation.cancelled() => break,
                Some((id, attempt, look)) = self.running.next(), if !self.running.is_empty() => {
                    self.done(id, attempt, look);
                }
                news = changes.next() => news.iter().for_each(|change| self.take(change)),
                () = next_look => self.look_again(),
            }
        }
        drop(changes);
        while self.running.next().await.is_some() {}
    }

    fn take(&mut self, change: &live::Change) {
        let row = change.new.as_ref().and_then(|entry| entry.record.as_typed::<T::Row>());
        match (row, change.old.as_ref()) {
            (Some(row), _) => {
                let id = T::id(row).to_owned();
                self.looks.remove(&id);
                if self.trade.known(row).phase == Phase::Over {
                    self.rows.remove(&id);
                } else {
                    self.rows.insert(id.clone(), row.clone());
                    self.wait(id);
                }
            }
            (None, Some(old)) => {
                if let Some(row) = old.record.as_typed::<T::Row>() {
                    self.rows.remove(T::id(row));
                    self.looks.remove(T::id(row));
                }
            }
            (None, None) => {}
        }
    }

    fn wait(&mut self, id: String) {
        if !self.busy.contains(&id) && self.queued.insert(id.clone()) {
            self.waiting.push_back(id);
        }
    }

    fn look_again(&mut self) {
        let now = self.sys.clock.unix_ms();
        let due: Vec<_> =
            self.looks.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        for id in due {
            self.looks.remove(&id);
            self.wait(id);
        }
    }

    fn done(&mut self, id: String, attempt: u32, look: Option<UnixMs>) {
        self.busy.remove(&id);
        if let (Some(made), None) = (&mut self.made, look) {
            made.push(&id, attempt);
        }
        if let (Some(at), true) = (look, self.rows.contains_key(&id)) {
            self.looks.insert(id, at);
        }
    }

    fn start_what_may(&mut self) {
        while self.running.len() < self.concurrency
            && let Some(id) = self.waiting.pop_front()
        {
            self.queued.remove(&id);
            let Some(row) = self.rows.get(&id) else { continue };
            if self.made.as_ref().is_some_and(|made| made.is_known(row, &*self.trade)) {
                continue;
            }
            match self.decide(row) {
                Ok(Next::Leave) => {}
                Ok(Next::LookAt(at)) => drop(self.looks.insert(id, at)),
                Ok(Next::Take(turn)) => {
                    let attempt = self.attempt(row.clone(), turn);
                    self.busy.insert(id);
                    self.running.push(attempt);
                }
                Err(error) => {
                    tracing::error!(row = id, %error, "work cannot be given out");
                    self.looks.insert(id, self.sys.clock.unix_ms().plus(FOREMAN_PAUSE));
                }
            }
        }
    }

    fn decide(&self, row: &T::Row) -> Result<Next, ClaimError> {
        let rivals = match &self.claims {
            Some(claims) => Rivals::Claims(claims.standing(T::id(row))?),
            None => Rivals::None,
        };
        Ok(claims::next(self.trade.known(row), rivals, self.sys.clock.unix_ms()))
    }

    fn attempt(&self, row: T::Row, turn: Turn) -> Running {
        let id = T::id(&row).to_owned();
        let (trade, table, claims) = (self.trade.clone(), self.table.clone(), self.claims.clone());
        let (sys, cancellation) = (self.sys.clone(), self.cancellation.clone());
        Box::pin(async move {
            let later = sys.clock.unix_ms().plus(FOREMAN_PAUSE);
            let look = match claims {
                None => {
                    let job = Job { turn, until: None, cancellation };
                    trade.work(row, job).await.map(|()| None).map_err(ClaimError::from)
                }
                Some(claims) => {
                    claimed(trade, &table, &claims, row, Job { turn, until: None, cancellation })
                        .await
                }
            };
            let look = look.unwrap_or_else(|error| {
                tracing::error!(row = id, %error, "an attempt was given up");
                Some(later)
            });
            (id, turn.attempt, look)
        })
    }
}

impl Made {
    fn push(&mut self, id: &str, attempt: u32) {
        if self.attempts.insert(id.to_owned(), attempt).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > ATTEMPTS_REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.attempts.remove(&oldest);
        }
    }

    /// Whether a row tells of nothing that came after an attempt which was made.
    fn is_known<T: Trade>(&self, row: &T::Row, trade: &T) -> bool {
        let known = trade.known(row);
        self.attempts.get(T::id(row)).is_some_and(|made| match known.phase {
            Phase::Open => known.attempt < *made,
            Phase::UnderWay => known.attempt <= *made,
            Phase::Over => true,
        })
    }
}

/// Claims an attempt, and makes it if the claim wins. Otherwise, when to look again.
async fn claimed<T: Trade>(
    trade: Arc<T>,
    table: &Table<T::Row>,
    claims: &Claims,
    row: T::Row,
    mut job: Job,
) -> Result<Option<UnixMs>, ClaimError> {
    let id = T::id(&row).to_owned();
    let lapses = |until: UnixMs| Some(until.plus(CLAIM_SLACK));
    let until = match claims.claim(&id, job.turn.attempt, trade.lease(&row)).await? {
        Claimed::Lost { until } => return Ok(lapses(until)),
        Claimed::Won { until } => until,
    };
    // The row is as new as the claim: whoever had it before has said that it begins, or will find
    // our claim before it does.
    let row = match table.get(&id).map_err(TableError::from)? {
        Some(row) => (*row).clone(),
        None => return Ok(None),
    };
    match trade.known(&row).phase {
        Phase::Over => return Ok(None),
        Phase::UnderWay => job.turn.is_recovery = true,
        Phase::Open => {}
    }
    job.until = Some(until);
    trade.work(row, job).await?;
    Ok(lapses(until))
}
