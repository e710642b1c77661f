//! The loop that follows a shape.

use std::{marker::PhantomData, time::Duration};

use http::{HeaderMap, HeaderValue, header};
use live::{Loading, Retry, Row, Sink, Source, SourceError};
use sys::Sys;

use crate::{
    builder::{Definition, Following, ShapeBuilder},
    caps::{QUICK_ANSWER, SHORT_LIFE, SHORT_LIVES_MAX},
    demand::Demands,
    failure::Failure,
    message::{self, Change, Message},
    pending::Pending,
    position::{Accepted, Phase, Position, Start, required},
    schema::Columns,
    seen::ShapeHandle,
    sse::Events,
    transport::{Answer, Body, Http},
};

/// A source of the rows of one shape.
///
/// The key of a row is the primary key of its table, and its columns have the names that serde
/// gives to its fields. Numbers, truths, JSON and arrays of them come as such, everything else as
/// the text that Postgres writes; so `numeric` and times are texts. A row that is no `R` is left
/// out and reported; it comes back when all of it is sent again and fits.
#[derive(Debug)]
pub struct Shape<R> {
    pub(crate) sys: Sys,
    pub(crate) http: Http,
    pub(crate) definition: Definition,
    pub(crate) following: Following,
    pub(crate) loading: Loading,
    pub(crate) retry: Retry,
    pub(crate) handle: ShapeHandle,
    pub(crate) row: PhantomData<fn() -> R>,
}

impl<R: Row> Shape<R> {
    /// A shape of the server whose shapes are at `url`.
    pub fn builder(sys: &Sys, url: &str) -> ShapeBuilder<R> {
        ShapeBuilder::new(sys, url)
    }

    /// What knows which transactions have come.
    #[must_use]
    pub fn handle(&self) -> ShapeHandle {
        self.handle.clone()
    }
}

impl<R: Row> Source for Shape<R> {
    fn loading(&self) -> Loading {
        self.loading
    }

    async fn run(self, sink: Sink) -> Result<(), SourceError> {
        let table = self.definition.table.clone();
        let why = Follower::new(self, sink).run().await;
        Err(SourceError(format!("the shape of {table:?} cannot be followed: {why}")))
    }
}

/// A shape that is being followed.
pub(crate) struct Follower<R> {
    pub(crate) shape: Shape<R>,
    pub(crate) sink: Sink,
    pub(crate) position: Position,
    pub(crate) columns: Option<Columns>,
    pub(crate) pending: Pending<R>,
    /// What queries ask for, if only that is brought.
    pub(crate) demands: Option<Demands>,
    is_ready: bool,
    /// Logs that were given up since anything was shown.
    rotations: u32,
    /// Live answers in a row that did not wait.
    quick_answers: u32,
    /// Live streams in a row that ended at once.
    short_lives: u32,
}

/// What messages have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Led {
    On,
    UpToDate,
    Refetch,
}

impl<R: Row> Follower<R> {
    fn new(shape: Shape<R>, sink: Sink) -> Self {
        let (start, demands) = match shape.loading {
            Loading::Everything => (Start::Beginning, None),
            Loading::OnDemand => (Start::Now, Some(Demands::new::<R>())),
        };
        Self {
            shape,
            sink,
            demands,
            position: Position::at(start),
            columns: None,
            pending: Pending::default(),
            is_ready: false,
            rotations: 0,
            quick_answers: 0,
            short_lives: 0,
        }
    }

    /// Goes on until nothing more can be done, and says why.
    async fn run(mut self) -> String {
        let mut failures = 0;
        loop {
            let (why, after) = match self.turn().await {
                Ok(()) => {
                    failures = 0;
                    continue;
                }
                Err(Failure::Final(why)) => return why,
                Err(Failure::Passing { why, after }) => (why, after),
            };
            failures += 1;
            if failures >= self.shape.retry.attempts_max {
                return format!("{why}; given up after {failures} attempts");
            }
            let table = &self.shape.definition.table;
            match failures {
                1 => tracing::warn!(table, why, "asking for a shape again after a pause"),
                _ => tracing::debug!(table, why, failures, "asking again after a pause"),
            }
            self.rest(failures, after).await;
        }
    }

    async fn rest(&self, failures: u32, after: Option<Duration>) {
        let pause = self.shape.retry.pause(failures, &self.shape.sys.chance);
        self.shape.sys.clock.sleep(pause.max(after.unwrap_or_default())).await;
    }

    /// One request, and what it brings.
    async fn turn(&mut self) -> Result<(), Failure> {
        if self.serve_demand().await? {
            return Ok(());
        }
        let is_live = self.position.phase() == Phase::Live;
        let wants_events = is_live
            && self.shape.following == Following::Events
            && self.demands.is_none()
            && self.short_lives < SHORT_LIVES_MAX;
        let asked_at = self.shape.sys.clock.elapsed();
        let Some(answer) = self.ask_or_demand(wants_events).await? else { return Ok(()) };
        let (headers, body) = match answer {
            Answer::Gone { handle } => return self.rotate(handle),
            Answer::Nothing => return self.show(),
            Answer::Log { headers, body } => (headers, body),
        };
        let before = self.position.offset().to_owned();
        if wants_events && is_type(&headers, "text/event-stream") {
            return self.follow(&headers, body).await;
        }
        let body = body.whole().await?;
        if !is_type(&headers, "application/json") {
            return Err(no_log(&headers));
        }
        let messages = message::parse_all(&body).map_err(|bad| Failure::Final(bad.to_string()))?;
        let is_silent = messages.iter().all(|message| !matches!(message, Message::Change(_)));
        if !self.accept(&headers)? {
            return Ok(());
        }
        let mut led = Led::On;
        for message in messages {
            led = self.take(message)?;
            if led == Led::Refetch {
                return self.rotate(None);
            }
        }
        if led == Led::On && is_silent && self.position.offset() == before {
            return Err(Failure::passing("the server sends nothing new, and says there is more"));
        }
        let is_quick = self.shape.sys.clock.elapsed().saturating_sub(asked_at) < QUICK_ANSWER;
        self.quick_answers =
            if is_live && is_silent && is_quick { self.quick_answers + 1 } else { 0 };
        if self.quick_answers > 0 {
            self.rest(self.quick_answers, None).await;
        }
        Ok(())
    }

    /// The answer to the next request, unless somebody asks for rows meanwhile.
    async fn ask_or_demand(&mut self, wants_events: bool) -> Result<Option<Answer>, Failure> {
        let may_interrupt = self.may_interrupt();
        let mut sink = self.sink.clone();
        let demand = tokio::select! {
            biased;
            demand = sink.demand(), if may_interrupt => demand,
            answer = self.ask(wants_events) => return answer.map(Some),
        };
        self.take_demand(demand)?;
        Ok(None)
    }

    async fn ask(&self, wants_events: bool) -> Result<Answer, Failure> {
        let mut params = self.position.params();
        let mut headers = self.shape.definition.headers.clone();
        if wants_events {
            params.push(("live_sse", "true".to_owned()));
            let events = HeaderValue::from_static("text/event-stream");
            headers.insert(header::ACCEPT, events);
        }
        let uri = self.shape.definition.uri(&params);
        let uri = uri.map_err(|error| Failure::Final(format!("the URL cannot be: {error}")))?;
        self.shape.http.get(uri, headers).await
    }

    /// Takes the headers of an answer in; false if they are those of another log.
    fn accept(&mut self, headers: &HeaderMap) -> Result<bool, Failure> {
        let accepted = self.position.accept(headers, self.shape.sys.chance.u64())?;
        if let Accepted::Other { handle } = accepted {
            return self.rotate(Some(handle)).map(|()| false);
        }
        if self.columns.is_none() {
            let schema = required(headers, "electric-schema")?;
            let columns = Columns::parse(schema).map_err(|_| {
                Failure::Final("the header electric-schema is no list of columns".to_owned())
            })?;
            self.columns = Some(columns);
        }
        Ok(true)
    }

    /// Follows a live answer for as long as it goes on.
    async fn follow(&mut self, headers: &HeaderMap, mut body: Body) -> Result<(), Failure> {
        if !self.accept(headers)? {
            return Ok(());
        }
        let began_at = self.shape.sys.clock.elapsed();
        let ended = self.take_events(&mut body).await;
        if let Ok(Led::Refetch) = ended {
            return self.rotate(None);
        }
        // What was not finished is sent again from the last offset.
        self.pending = Pending::default();
        let lived = self.shape.sys.clock.elapsed().saturating_sub(began_at);
        self.short_lives = if lived < SHORT_LIFE { self.short_lives + 1 } else { 0 };
        ended?;
        if self.short_lives > 0 {
            return Err(Failure::passing("a live answer ended at once"));
        }
        Ok(())
    }

    async fn take_events(&mut self, body: &mut Body) -> Result<Led, Failure> {
        let mut events = Events::default();
        while let Some(piece) = body.next().await? {
            let whole = events.push(&piece).map_err(|bad| Failure::Final(bad.to_string()))?;
            for event in whole {
                let message = message::parse_one(&event);
                let message = message.map_err(|bad| Failure::Final(bad.to_string()))?;
                if let Message::UpToDate { lsn: Some(lsn) } = message {
                    self.position.reach(lsn);
                }
                if self.take(message)? == Led::Refetch {
                    return Ok(Led::Refetch);
                }
            }
        }
        Ok(Led::On)
    }

    fn take(&mut self, message: Message) -> Result<Led, Failure> {
        match message {
            Message::Change(change) => {
                let snapshots = self.demands.as_mut().map(|demands| &mut demands.snapshots);
                if snapshots.is_some_and(|snapshots| snapshots.have(&change)) {
                    self.pending.note(&change.txids);
                } else {
                    self.take_change(change)?;
                }
                Ok(Led::On)
            }
            Message::UpToDate { lsn } => {
                if let (Some(demands), Some(lsn)) = (&mut self.demands, lsn) {
                    demands.snapshots.pass(lsn);
                }
                self.show().map(|()| Led::UpToDate)
            }
            Message::MustRefetch => Ok(Led::Refetch),
            Message::Moved => {
                let why = "its condition has a subquery, and following those is not supported; \
                           write the condition with columns of its own table";
                Err(Failure::Final(why.to_owned()))
            }
            Message::SnapshotEnd | Message::Unknown => Ok(Led::On),
        }
    }

    pub(crate) fn take_change(&mut self, change: Change) -> Result<(), Failure> {
        let (key, columns) = (change.key.clone(), self.columns.get_or_insert_default());
        let demands = &mut self.demands;
        let is_wanted = |row: &R| demands.as_mut().is_none_or(|own| own.wanted.wants(row));
        if let Err(why) = self.pending.take(change, columns, &self.sink, is_wanted)? {
            let table = &self.shape.definition.table;
            tracing::warn!(table, key, %why, "a row of a shape does not fit; left out");
        }
        Ok(())
    }

    /// Shows everything that has come.
    pub(crate) fn show(&mut self) -> Result<(), Failure> {
        self.position.up_to_date();
        if let Some(demands) = &mut self.demands {
            if !demands.stale.is_empty() {
                return Ok(());
            }
            self.pending.tell(&mut demands.wanted);
        }
        let (batch, txids) = self.pending.end();
        if let Some(batch) = batch {
            self.sink.commit(batch).map_err(|error| Failure::Final(error.to_string()))?;
        }
        self.rotations = 0;
        if !self.is_ready {
            self.is_ready = true;
            self.sink.ready();
        }
        self.shape.handle.add(txids);
        Ok(())
    }

    /// The log is given up: reads another from its start. What is shown stays until that is read.
    pub(crate) fn rotate(&mut self, handle: Option<String>) -> Result<(), Failure> {
        self.position.rotate(handle, self.shape.sys.chance.u64());
        if let Some(demands) = &mut self.demands {
            demands.start_again();
        }
        self.columns = None;
        self.pending.truncate();
        self.rotations += 1;
        match self.rotations {
            1 => Ok(()),
            _ => Err(Failure::passing("the server gives up one log after the other")),
        }
    }
}

fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(wanted)
}

fn no_log(headers: &HeaderMap) -> Failure {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.unwrap_or("of no type");
    Failure::Final(format!("the answer is {given} and no log; is the URL that of /v1/shape?"))
}
