//! A database whose rows come from a durable stream, and whose writes go there.

mod admit;
mod codec;
mod copy;
mod courier;
mod outlet;
mod reader;
mod seen;
mod writer;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use log::Log;
use parking_lot::Mutex;
use query::{CollectionId, Dynamic, Row, Schema};
use smol_str::SmolStr;
use sys::{Cancellation, Canceller, Sys, Task};
use tokio::sync::watch;
use wire::{Address, Offset, Position};

pub(crate) use self::{
    admit::{Rule, Rules, late_in},
    codec::Codec,
    reader::{Read, Reader, Unreadable, left_out},
};
use self::{
    copy::{Copy, Resume},
    courier::{OutboxWriter, StreamCourier},
    outlet::{Identity, Outlet},
    seen::Seen,
    writer::{SharedWriter, StreamWriter},
};
use crate::{
    collection::{Collection, SourceFailed},
    db::Db,
    effect::{CLAIM_TYPE, CURSOR_TYPE, EffectBuilder},
    error::{DbError, PersistError},
    outbox::{self, Letterbox, OutboxStatus},
    status::{Status, settled},
    transaction::Writer,
};

#[cfg(fuzzing)]
pub use self::copy::fuzz as fuzz_copy;
pub use self::seen::TxIdTimeout;

/// Collections of all types of one stream. Every transaction in it is one tick, over all
/// collections; every write is shown at once and lasts when it comes back by the stream.
///
/// Dereferences to [`Db`]. Cheap to clone; when the last clone is gone, reading ends.
#[derive(Clone)]
pub struct StreamDb {
    shared: Arc<Shared>,
}

struct Shared {
    db: Db,
    stream: Stream,
    seen: Arc<Seen>,
    types: Types,
    outbox: Option<Letterbox>,
    writer: Arc<StreamWriter>,
    reader: Mutex<Option<Task>>,
    /// Dropped with the database, which tells the reader to stop.
    canceller: Canceller,
}

/// Where a stream is.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) address: Address,
}

/// The types of a stream that a database knows.
pub(crate) type Types = Arc<HashMap<SmolStr, (CollectionId, Arc<Codec>), FixedState>>;

/// A stream database on its way.
#[must_use]
pub struct StreamDbBuilder {
    stream: Stream,
    sys: Sys,
    client: Option<String>,
    outbox: Option<Stream>,
    copy: Option<PathBuf>,
    since: Option<Since>,
    adds: Vec<Add>,
    rules: Rules,
}

/// Where a database begins that shows only what was written from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The life of the stream that the place is in: of another life, everything is shown.
    pub life: u64,
    /// The first message to be read.
    pub offset: Offset,
    /// Nothing before this position is shown.
    pub position: Position,
}

type Add =
    Box<dyn FnOnce(&Db, &Arc<dyn Writer>) -> Result<(SmolStr, CollectionId, Codec), DbError>>;

impl StreamDb {
    /// A database over this stream of a log, which must hold State Protocol messages.
    pub fn builder(log: Arc<dyn Log>, address: impl Into<Address>, sys: &Sys) -> StreamDbBuilder {
        let stream = Stream { log, address: address.into() };
        StreamDbBuilder {
            stream,
            sys: sys.clone(),
            client: None,
            outbox: None,
            copy: None,
            since: None,
            adds: Vec::new(),
            rules: Rules::default(),
        }
    }

    /// The collection of these rows.
    ///
    /// # Errors
    /// If it was not added to the builder.
    pub fn rows<R: Row>(&self) -> Result<Collection<R>, DbError> {
        Ok(Collection::new(self.shared.db.clone(), self.shared.db.find(R::NAME)?))
    }

    /// The collection of rows that are data.
    ///
    /// # Errors
    /// If it was not added to the builder.
    pub fn rows_dynamic(&self, name: &str) -> Result<Collection<Dynamic>, DbError> {
        Ok(Collection::new(self.shared.db.clone(), self.shared.db.find(name)?))
    }

    /// Waits until everything that was in the stream is shown.
    ///
    /// # Errors
    /// If the stream cannot be read.
    pub async fn ready(&self) -> Result<(), SourceFailed> {
        let Some((id, _)) = self.shared.types.values().next() else { return Ok(()) };
        settled(self.shared.db.status(*id)).await
    }

    /// How many rows of the stream were left out since they do not fit their types. Each was
    /// reported in the log of the process.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.shared.seen.misfits()
    }

    /// How many writes of the stream were not applied since they came too late, by the rules of
    /// [`StreamDbBuilder::admits`]. Each was reported in the log of the process.
    #[must_use]
    pub fn late_writes(&self) -> u64 {
        self.shared.seen.late()
    }

    /// Ends the database: reading stops, and the copy of the rows is written, if there is one.
    /// Other clones go on showing what they show. Whoever just drops it leaves that to the
    /// background.
    pub async fn close(self) {
        let Some(task) = self.shared.reader.lock().take() else { return };
        self.shared.canceller.cancel();
        task.join().await;
    }

    /// Waits until a transaction has come by the stream, whoever wrote it.
    ///
    /// # Errors
    /// If it has not come in time.
    pub async fn await_txid(&self, txid: &str, within: Duration) -> Result<(), TxIdTimeout> {
        self.shared.seen.wait(txid, within, self.shared.db.sys()).await
    }

    /// Everything before this is shown, and changes of it were told; none if nothing was read yet.
    #[must_use]
    pub fn reached(&self) -> Option<Offset> {
        self.shared.seen.reached()
    }

    /// How its outbox is doing, if it has one.
    #[must_use]
    pub fn outbox(&self) -> Option<watch::Receiver<OutboxStatus>> {
        self.shared.outbox.as_ref().map(Letterbox::status)
    }

    /// Tries at once what waits for its next attempt, reading or sending, for example since the
    /// network is back.
    pub fn hurry(&self) {
        self.shared.seen.hurry();
        self.shared.outbox.iter().for_each(Letterbox::hurry);
    }

    /// Runs code when rows enter, change in or leave a query, and goes on after a crash where it
    /// was: every transition since the effect was first started is delivered until its handler
    /// has succeeded. `name` names the effect for ever.
    pub fn durable_effect<R: Send + 'static>(
        &self,
        name: &str,
        query: query::Find<R>,
    ) -> EffectBuilder<R> {
        let stream = (self.shared.stream.clone(), self.shared.types.clone());
        EffectBuilder::durable(self.shared.db.clone(), query.into(), name, stream)
    }

    /// Forgets how far a durable effect is, so that it holds no history back; it must not run. One
    /// that is started under this name later begins anew.
    ///
    /// # Errors
    /// If that cannot be written to the stream.
    pub async fn forget_effect(&self, name: &str) -> Result<(), PersistError> {
        self.shared.writer.remove([CURSOR_TYPE, CLAIM_TYPE], name).await
    }
}

impl std::ops::Deref for StreamDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.shared.db
    }
}

impl fmt::Debug for StreamDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamDb")
            .field("address", &self.shared.stream.address)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StreamDbBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamDbBuilder").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl StreamDbBuilder {
    /// Knows rows of this type, too.
    pub fn with<R: Row>(mut self) -> Self {
        self.adds.push(Box::new(|db, writer| {
            let id = db.add(R::NAME, R::schema(), Some(writer.clone()), Status::Loading)?;
            Ok((R::NAME.into(), id, Codec::of::<R>()))
        }));
        self
    }

    /// Knows rows of this type, too: they are data, with a schema that is known at run time.
    pub fn with_dynamic(mut self, name: &str, schema: Schema) -> Self {
        let name = SmolStr::new(name);
        self.adds.push(Box::new(move |db, writer| {
            let codec = Codec::dynamic(&schema);
            let id = db.add(&name, schema, Some(writer.clone()), Status::Loading)?;
            Ok((name, id, codec))
        }));
        self
    }

    /// Applies a write to a row of this type only if the rule says so, given the row that is there
    /// and the one that would take its place: for rows that come to an end which nobody may undo,
    /// such as a writer whose bytes were on their way for too long. A write that is not applied is
    /// reported, and counted by [`StreamDb::late_writes`]. Rows that are deleted are gone all the
    /// same, and a new row is never too late.
    ///
    /// All readers of the stream must have the same rule, and whoever compacts it, too
    /// ([`Compaction::admits`](crate::Compaction::admits)). The last one given counts.
    pub fn admits<R: Row>(mut self, rule: fn(&R, &R) -> bool) -> Self {
        self.rules.insert(R::NAME.into(), Rule::of(rule));
        self
    }

    /// Names this client, so that it knows its own writes again after a restart. Otherwise it
    /// draws a name, and shares its producer with others that have none: they fence each other off
    /// now and then, which costs a look at what came of the last write.
    pub fn client(mut self, name: &str) -> Self {
        self.client = Some(name.into());
        self
    }

    /// Keeps writes in an outbox: they are written down in a stream of their own before they count
    /// as queued, and appended to the stream in order as soon as that can be, also after a crash;
    /// each once. The log should be one on this machine. Give the client a name, so that it knows
    /// what it wrote in an earlier life.
    pub fn outbox(mut self, log: Arc<dyn Log>, address: impl Into<Address>) -> Self {
        self.outbox = Some(Stream { log, address: address.into() });
        self
    }

    /// Keeps a copy of the rows in a file, and the place in the stream they are from: the next life
    /// shows them at once, also without a network, and reads only what came since.
    pub fn copy_at(mut self, path: impl Into<PathBuf>) -> Self {
        self.copy = Some(path.into());
        self
    }

    /// Shows only rows that were written at this place or after it: for long streams of which the
    /// end is needed. A row that was made before and changed since is shown. If the stream does
    /// not hold the place any more, everything is shown that it holds.
    pub const fn since(mut self, since: Since) -> Self {
        self.since = Some(since);
        self
    }

    /// Opens the database and begins to read.
    ///
    /// # Errors
    /// If two types have one name, or the client's name is none.
    pub fn open(self) -> Result<StreamDb, DbError> {
        let Self { stream, sys, client, outbox, copy, since, adds, mut rules } = self;
        let db = Db::new(&sys);
        let identity = Identity::of(client.as_deref(), &sys)
            .map_err(|error| DbError::BadClient { why: error.why })?;
        let client = client.unwrap_or_else(|| format!("{:016x}", sys.chance.u64()));
        let seen = Arc::new(Seen::default());
        let (canceller, cancellation) = Cancellation::new();
        let (outlet, out) = Outlet::new(stream.clone(), identity, &sys, cancellation.clone());
        sys.spawn.task("writer of a stream database", outlet.run());
        let times = (&sys, cancellation.clone());
        let writer = StreamWriter::new(stream.clone(), out, client.clone(), seen.clone(), times);
        let writer = Arc::new(writer);
        let outbox = outbox.map(|own| {
            let courier = StreamCourier::new(stream.clone(), &db, writer.clone(), seen.clone());
            outbox::start(own, Arc::new(courier), &sys, cancellation.clone())
        });
        let shared: Arc<dyn Writer> = match &outbox {
            Some(letterbox) => {
                let letterbox = letterbox.clone();
                Arc::new(OutboxWriter { writer: writer.clone(), letterbox })
            }
            None => Arc::new(SharedWriter(writer.clone())),
        };
        let mut types = HashMap::default();
        for add in adds {
            let (name, id, mut codec) = add(&db, &shared)?;
            codec.rule = rules.remove(&name);
            types.insert(name, (id, Arc::new(codec)));
        }
        let types: Types = Arc::new(types);
        writer.learn(types.clone());
        let copy = copy.map(|path| Copy::new(path, &sys, &stream.address, &client, &types));
        let mut reader = Reader::new(stream.clone(), types.clone(), client, seen.clone());
        if let Some(Since { life, offset, position }) = since {
            reader.resume(Resume { life, offset, covered: position });
        }
        let work = reader.feed(db.clone(), writer.clone(), copy, cancellation);
        let reader = Mutex::new(Some(sys.spawn.task("reader of a stream database", work)));
        let shared = Shared { db, stream, seen, types, outbox, writer, reader, canceller };
        Ok(StreamDb { shared: Arc::new(shared) })
    }
}
