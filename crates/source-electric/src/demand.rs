//! Shapes that are loaded on demand: the log brings changes alone, and rows are asked for.

use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use live::{Demand, Load, Row, SourceError};
use query::Subset;
use serde_json::{Map, Value};

use crate::{
    failure::Failure,
    pending::Pending,
    position::Phase,
    shape::Follower,
    snapshot::{Snapshot, Snapshots},
    sql::Sql,
    transport::Answer,
    wanted::Wanted,
};

/// What queries ask for.
#[derive(Debug)]
pub(crate) struct Demands {
    pub(crate) wanted: Wanted,
    pub(crate) snapshots: Snapshots,
    /// Subsets of a log that was given up: until they are read again, nothing else is shown.
    pub(crate) stale: VecDeque<Subset>,
    /// Subsets that somebody waits for.
    waiting: VecDeque<Load>,
}

/// What came of a request for a subset.
enum Fetched {
    Rows,
    /// The log was given up meanwhile.
    Gone,
}

impl Demands {
    pub(crate) fn new<R: Row>() -> Self {
        Self {
            wanted: Wanted::new::<R>(),
            snapshots: Snapshots::default(),
            stale: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn start_again(&mut self) {
        self.stale = self.wanted.subsets().collect();
        self.snapshots.clear();
    }
}

impl<R: Row> Follower<R> {
    /// Whether somebody who asks for rows is heard: between two batches, and when all that was
    /// asked for before is there.
    pub(crate) fn may_interrupt(&self) -> bool {
        self.demands.is_some() && self.is_between_batches()
    }

    fn is_between_batches(&self) -> bool {
        self.position.phase() == Phase::Live && self.pending.is_empty()
    }

    pub(crate) fn take_demand(&mut self, demand: Demand) -> Result<(), Failure> {
        let Some(demands) = &mut self.demands else { return Ok(()) };
        match demand {
            Demand::Load(load) => {
                demands.waiting.push_back(load);
                Ok(())
            }
            Demand::Unload(subset) => {
                demands.waiting.retain(|load| *load.subset() != subset);
                demands.wanted.remove(&subset);
                for key in demands.wanted.shown() {
                    let row = self.sink.row::<R>(key.clone()).ok().flatten();
                    if !row.is_some_and(|row| demands.wanted.wants(&*row)) {
                        self.pending.remove(key, &self.sink);
                    }
                }
                self.show()
            }
        }
    }

    /// Asks for the next rows that somebody waits for; false if nobody does, or not now.
    pub(crate) async fn serve_demand(&mut self) -> Result<bool, Failure> {
        if self.position.phase() != Phase::Live {
            return Ok(false);
        }
        let is_between = self.is_between_batches();
        let Some(demands) = &mut self.demands else { return Ok(false) };
        if let Some(subset) = demands.stale.front().cloned() {
            if let Fetched::Rows = self.fetch(&subset).await? {
                self.end_stale()?;
            }
            return Ok(true);
        }
        if !is_between {
            return Ok(false);
        }
        let Some(subset) = demands.waiting.front().map(|load| load.subset().clone()) else {
            return Ok(false);
        };
        let fetched = match demands.wanted.add::<R>(&subset) {
            Ok(()) => self.fetch(&subset).await,
            Err(error) => Err(Failure::Final(error.to_string())),
        };
        match fetched {
            Ok(Fetched::Rows) => {
                self.show()?;
                self.end_load(Load::done);
            }
            Ok(Fetched::Gone) => {}
            // The log can be followed all the same, and other subsets be loaded.
            Err(Failure::Final(why)) => {
                self.pending = Pending::default();
                if let Some(demands) = &mut self.demands {
                    demands.wanted.remove(&subset);
                }
                self.end_load(|load| load.failed(&SourceError(why)));
            }
            Err(passing) => return Err(passing),
        }
        Ok(true)
    }

    fn end_load(&mut self, end: impl FnOnce(Load)) {
        let load = self.demands.as_mut().and_then(|demands| demands.waiting.pop_front());
        if let Some(load) = load {
            end(load);
        }
    }

    fn end_stale(&mut self) -> Result<(), Failure> {
        if let Some(demands) = &mut self.demands {
            demands.stale.pop_front();
        }
        self.show()
    }

    /// Takes the rows of a subset in.
    async fn fetch(&mut self, subset: &Subset) -> Result<Fetched, Failure> {
        let columns = self.columns.get_or_insert_default();
        let body = body(&Sql::of(subset, columns, R::KEY));
        let mut headers = self.shape.definition.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let uri = self.shape.definition.uri(&self.position.subset_params());
        let uri = uri.map_err(|error| Failure::Final(format!("the URL cannot be: {error}")))?;
        let body = match self.shape.http.ask(Method::POST, uri, headers, body).await? {
            Answer::Log { body, .. } => body.whole().await?,
            Answer::Nothing => return Err(Failure::Final("the server sends no rows".to_owned())),
            Answer::Gone { handle } => return self.rotate(handle).map(|()| Fetched::Gone),
        };
        let snapshot = Snapshot::parse(&body).map_err(|bad| Failure::Final(bad.to_string()))?;
        let Some(demands) = &mut self.demands else { return Ok(Fetched::Rows) };
        for change in demands.snapshots.add(snapshot) {
            self.take_change(change)?;
        }
        Ok(Fetched::Rows)
    }
}

fn body(sql: &Sql) -> Bytes {
    let mut body = Map::new();
    body.insert("where".to_owned(), Value::from(sql.condition.as_str()));
    if !sql.params.is_empty() {
        let numbered = sql.params.iter().enumerate();
        let params =
            numbered.map(|(index, value)| ((index + 1).to_string(), value.as_str().into()));
        body.insert("params".to_owned(), Value::Object(params.collect()));
    }
    if let Some((order_by, limit)) = &sql.window {
        body.insert("order_by".to_owned(), Value::from(order_by.as_str()));
        body.insert("limit".to_owned(), Value::from(*limit));
    }
    Value::Object(body).to_string().into()
}
