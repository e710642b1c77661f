//! Writes that wait in an outbox for a stream.

use std::{collections::BTreeMap, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use log::{Append, AppendError};
use query::{Database, Mutation, MutationKind, View};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;
use state::{Draft, Json, TypeName};
use wire::{Epoch, Messages, Offset, Producer, ProducerId, ProducerSeq};

use super::{
    Stream,
    seen::Seen,
    writer::{StreamWriter, key_text},
};
use crate::{
    caps::{OUTGOING_BYTES_MAX, TXID_WAIT_DEFAULT},
    db::{Db, WeakDb},
    error::PersistError,
    outbox::{Courier, Entry, Letterbox, Post, Sending, Sent},
    status::settled,
    transaction::{OpenTransaction, Shown, TransactionState, Writer, Written, WrittenKind},
};

/// The action of entries that are writes to a stream.
const WRITE: &str = "write";

/// One write, as it waits. Without a row or a patch, the row is deleted.
#[derive(Debug, Serialize, Deserialize)]
struct Waiting {
    #[serde(rename = "type")]
    type_name: SmolStr,
    key: String,
    /// The row is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    insert: Option<Box<RawValue>>,
    /// Some fields have other values. What others do to the rest meanwhile stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    update: Option<Box<RawValue>>,
    /// Another row is in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replace: Option<Box<RawValue>>,
}

/// Writes to a stream by way of an outbox.
pub(super) struct OutboxWriter {
    pub(super) writer: Arc<StreamWriter>,
    pub(super) letterbox: Letterbox,
}

impl Writer for OutboxWriter {
    fn persist(&self, shown: Shown, writes: Vec<Written>) {
        let waiting = writes.iter().map(|write| waiting(&self.writer, write));
        let body = waiting.collect::<Result<Vec<_>, _>>();
        match body.and_then(|all| Json::of(&all).map_err(PersistError::fatal)) {
            Ok(body) => self.letterbox.post(Post { action: WRITE.into(), body, shown }),
            Err(error) => shown.settle(Err(error)),
        }
    }
}

fn waiting(writer: &StreamWriter, write: &Written) -> Result<Waiting, PersistError> {
    let (name, codec) = writer.codec(write.collection)?;
    let (type_name, key) = (name.clone(), key_text(&write.key));
    let mut waiting = Waiting { type_name, key, insert: None, update: None, replace: None };
    let Some(record) = &write.row else { return Ok(waiting) };
    let no_json = || PersistError::fatal("the row cannot be written as JSON");
    let row = codec.encode(record, None).ok_or_else(no_json)?;
    let raw =
        |json: &Json| RawValue::from_string(json.as_str().to_owned()).map_err(PersistError::fatal);
    match &write.kind {
        WrittenKind::Insert => waiting.insert = Some(raw(&row)?),
        WrittenKind::Update(columns) => {
            let mut fields: serde_json::Map<String, serde_json::Value> =
                row.read().map_err(PersistError::fatal)?;
            fields.retain(|name, _| columns.iter().any(|column| column == name));
            // A field that is left out has the value that it is left out for.
            for column in columns.iter().filter(|column| row.field(column).is_none()) {
                let value = serde_json::to_value(&*record.get(column));
                fields.insert(column.to_string(), value.map_err(PersistError::fatal)?);
            }
            waiting.update = Some(raw(&Json::of(&fields).map_err(PersistError::fatal)?)?);
        }
        WrittenKind::Replace | WrittenKind::Delete => waiting.replace = Some(raw(&row)?),
    }
    Ok(waiting)
}

/// Appends what waits to the stream.
pub(super) struct StreamCourier {
    stream: Stream,
    db: WeakDb,
    writer: Arc<StreamWriter>,
    seen: Arc<Seen>,
}

impl StreamCourier {
    pub(super) fn new(stream: Stream, db: &Db, writer: Arc<StreamWriter>, seen: Arc<Seen>) -> Self {
        Self { stream, db: db.downgrade(), writer, seen }
    }

    fn parcel(&self, outbox: &str) -> Parcel {
        Parcel {
            stream: self.stream.clone(),
            db: self.db.clone(),
            writer: self.writer.clone(),
            seen: self.seen.clone(),
            outbox: outbox.to_owned(),
        }
    }
}

impl Courier for StreamCourier {
    fn purpose(&self) -> String {
        format!("the stream {}", self.stream.address)
    }

    fn ready(&self) -> Sending {
        let parcel = self.parcel("");
        Box::pin(async move {
            parcel.caught_up().await;
            Sent::Ready
        })
    }

    fn show(&self, entry: &Entry) -> Option<Shown> {
        let db = self.db.upgrade()?;
        let mut open = OpenTransaction::new(db.clone());
        let shown = read(entry).and_then(|all| {
            let mutations = db.prepare(|database| {
                let mutations = all.iter().map(|own| mutation(&self.writer, own, database));
                mutations.collect::<Result<Vec<_>, _>>()
            })?;
            open.mutate(mutations).map_err(PersistError::fatal)
        });
        match shown {
            Ok(()) => {
                let (shown, _) = open.show(TransactionState::Queued);
                db.forget_shown(shown.id());
                Some(shown)
            }
            // Its row may be here already, or not yet; it is sent all the same.
            Err(error) => {
                tracing::debug!(%error, "a queued write is not shown");
                None
            }
        }
    }

    fn expect(&self, outbox: &str, entry: &Entry, shown: &Shown) {
        if let Ok(txid) = self.writer.outbox_txid(outbox, entry.number) {
            self.writer.expect(&txid, shown);
        }
    }

    fn send(&self, outbox: &str, entries: Vec<Entry>) -> Sending {
        let parcel = self.parcel(outbox);
        Box::pin(async move { parcel.send(entries).await })
    }

    fn refused(&self, outbox: &str, entry: &Entry) {
        if let Ok(txid) = self.writer.outbox_txid(outbox, entry.number) {
            self.writer.retired(txid.as_str());
        }
    }

    fn arrived(&self, outbox: &str, entry: &Entry, shown: Shown) {
        let Ok(txid) = self.writer.outbox_txid(outbox, entry.number) else {
            return shown.settle(Ok(()));
        };
        let (writer, sys) = (self.writer.clone(), shown.db().sys().clone());
        let stream = self.stream.clone();
        sys.spawn.task("transaction", async move {
            let head = stream.log.head(&stream.address).await;
            writer.come_back(&txid, head.ok().map(|head| head.tail), shown).await;
        });
    }
}

fn read(entry: &Entry) -> Result<Vec<Waiting>, PersistError> {
    entry.body.read().map_err(PersistError::fatal)
}

fn mutation(
    writer: &StreamWriter,
    waiting: &Waiting,
    database: &mut Database,
) -> Result<Mutation, PersistError> {
    let (collection, codec) = writer.type_of(&waiting.type_name)?;
    let row = waiting.insert.as_ref().or(waiting.replace.as_ref());
    let write = match (row, &waiting.update) {
        (Some(row), _) => {
            let row = Json::from(&**row);
            let record = codec.decode(&waiting.key, &row, (collection, database));
            MutationKind::Insert(record.map_err(PersistError::fatal)?)
        }
        (None, Some(patch)) => {
            let fields: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(patch.get()).map_err(PersistError::fatal)?;
            let columns = fields.into_iter().map(|(name, value)| (name.into(), value.into()));
            let key = codec.key(&waiting.key, (collection, database));
            MutationKind::Update(key, columns.collect())
        }
        (None, None) => MutationKind::Delete(codec.key(&waiting.key, (collection, database))),
    };
    Ok(Mutation { collection, write })
}

/// Entries on their way.
struct Parcel {
    stream: Stream,
    db: WeakDb,
    writer: Arc<StreamWriter>,
    seen: Arc<Seen>,
    outbox: String,
}

/// What is appended at once.
struct Load {
    messages: Messages,
    /// The number of its last entry.
    last: u64,
    /// The place in the stream up to which the rows are known that its updates lie on.
    base: Option<Offset>,
}

/// How often an update is made again because the stream has moved on meanwhile. Then it is
/// appended all the same: the rows of a stream have one writer at a time.
const REBASES_MAX: usize = 8;

impl Parcel {
    /// Appends entries: as many as fit, or the first alone if one of them is to blame.
    ///
    /// The producer of an outbox begins a new epoch with every append: the number of the last
    /// entry in it. So a repeated append is a duplicate, and an entry of an earlier life that has
    /// arrived long ago is fenced, and by that known.
    async fn send(&self, entries: Vec<Entry>) -> Sent {
        let mut tried = None;
        let outcome = match self.append_all(&entries, &mut tried).await {
            Err(error) if entries.len() > 1 && !error.is_retryable => {
                self.append_all(&entries[..1], &mut tried).await
            }
            outcome => outcome,
        };
        match outcome {
            Ok(through) => {
                self.seen.hurry();
                Sent::Through(through)
            }
            Err(error) if error.is_retryable => Sent::NotNow { error, tried },
            Err(error) => Sent::Refused(error),
        }
    }

    async fn append_all(
        &self,
        entries: &[Entry],
        tried: &mut Option<u64>,
    ) -> Result<u64, PersistError> {
        if entries.iter().any(has_update) {
            self.reach_tail().await?;
        }
        for rebases in 0..=REBASES_MAX {
            let load = self.load(entries)?;
            let expected = load.base.filter(|_| rebases < REBASES_MAX);
            *tried = Some(load.last);
            match self.append(load, expected).await? {
                Appended::Through(number) => return Ok(number),
                Appended::Moved(tail) => self.reach(tail).await?,
            }
        }
        Err(PersistError::retryable("the stream moves on too fast"))
    }

    /// Waits until everything is shown that is in the stream now.
    async fn reach_tail(&self) -> Result<(), PersistError> {
        match self.stream.log.head(&self.stream.address).await {
            Ok(head) => self.reach(head.tail).await,
            Err(error) => {
                let is_retryable = error.is_retryable();
                Err(PersistError { why: error.to_string(), is_retryable })
            }
        }
    }

    async fn reach(&self, tail: Offset) -> Result<(), PersistError> {
        self.seen.hurry();
        let reached = self.writer.sys().clock.timeout(TXID_WAIT_DEFAULT, self.seen.reaches(tail));
        let late = |_| PersistError::retryable("the stream cannot be read to its end");
        reached.await.map_err(late)
    }

    /// Waits until the stream was read, or cannot be.
    async fn caught_up(&self) {
        let Some(db) = self.db.upgrade() else { return };
        let Some((id, _)) = self.writer.types().and_then(|types| types.values().next()) else {
            return;
        };
        let status = db.status(*id);
        drop(db);
        // Whichever it is, it is known now.
        let _ = settled(status).await;
    }

    /// As many entries as fit one append.
    fn load(&self, entries: &[Entry]) -> Result<Load, PersistError> {
        let is_able = self.stream.log.capabilities().expected_offset;
        let (mut all, mut bytes, mut last) = (Vec::new(), 0, 0);
        let (mut base, mut written) = (None, Rows::default());
        // Before the rows are looked at: they may be newer than this, and never older.
        let reached = self.seen.reached();
        for entry in entries {
            let own = self.messages(entry, &mut written)?;
            bytes += own.data().len();
            if !all.is_empty() && bytes > OUTGOING_BYTES_MAX {
                break;
            }
            if is_able && has_update(entry) {
                base = reached;
            }
            all.push(own);
            last = entry.number;
        }
        let messages = Messages::copied(all.iter().flat_map(Messages::iter));
        let messages = messages.map_err(PersistError::fatal)?;
        Ok(Load { messages, last, base })
    }

    async fn append(&self, load: Load, expected: Option<Offset>) -> Result<Appended, PersistError> {
        let Load { messages, last, .. } = load;
        if messages.is_empty() {
            return Ok(Appended::Through(last));
        }
        let id: ProducerId =
            format!("outbox/{}", self.outbox).parse().map_err(PersistError::fatal)?;
        let producer = Producer { id, epoch: Epoch::new(last), seq: ProducerSeq::FIRST };
        let append = Append { producer: Some(producer), expected, ..Append::messages(messages) };
        match self.stream.log.append(&self.stream.address, append).await {
            Ok(_) => Ok(Appended::Through(last)),
            Err(AppendError::Fenced(fenced)) => Ok(Appended::Through(fenced.current.get())),
            Err(AppendError::ExpectedOffset(moved)) => Ok(Appended::Moved(moved.tail)),
            Err(error) => {
                let is_retryable = error.is_retryable();
                Err(PersistError { why: error.to_string(), is_retryable })
            }
        }
    }

    fn messages(&self, entry: &Entry, written: &mut Rows) -> Result<Messages, PersistError> {
        let txid = self.writer.outbox_txid(&self.outbox, entry.number)?;
        let all = read(entry)?;
        let drafts = all.iter().filter_map(|waiting| self.draft(waiting, written).transpose());
        let drafts = drafts.collect::<Result<Vec<_>, _>>()?;
        if drafts.is_empty() {
            return Ok(Messages::none());
        }
        state::transaction(&txid, drafts).map_err(PersistError::fatal)
    }

    /// What a write is by now; nothing if its row is gone.
    fn draft(&self, waiting: &Waiting, rows: &mut Rows) -> Result<Option<Draft>, PersistError> {
        let type_name: TypeName = waiting.type_name.parse().map_err(PersistError::fatal)?;
        let key: state::Key = waiting.key.parse().map_err(PersistError::fatal)?;
        let place = (waiting.type_name.clone(), waiting.key.clone());
        if let Some(row) = &waiting.insert {
            let row = Json::from(&**row);
            rows.insert(place, Some(row.clone()));
            return Ok(Some(Draft::insert(type_name, key, row)));
        }
        let row = match (&waiting.replace, &waiting.update) {
            (Some(row), _) => Json::from(&**row),
            (None, Some(patch)) => {
                let base = match rows.get(&place) {
                    Some(row) => row.clone(),
                    None => self.base(waiting)?,
                };
                let Some(base) = base else { return Ok(None) };
                patched(base, patch)?
            }
            (None, None) => {
                rows.insert(place, None);
                return Ok(Some(Draft::delete(type_name, key)));
            }
        };
        rows.insert(place, Some(row.clone()));
        Ok(Some(Draft::update(type_name, key, row)))
    }

    /// The row as the stream has it.
    fn base(&self, waiting: &Waiting) -> Result<Option<Json>, PersistError> {
        let gone = || PersistError::retryable("the database is closing");
        let db = self.db.upgrade().ok_or_else(gone)?;
        let (collection, codec) = self.writer.type_of(&waiting.type_name)?;
        let entry = db.look(|database| {
            let key = codec.key(&waiting.key, (collection, database));
            database.get(collection, &key, View::Synced).cloned()
        });
        let Some(entry) = entry else { return Ok(None) };
        let others = self.writer.others(&waiting.type_name, &waiting.key);
        Ok(codec.encode(&entry.record, others.as_ref()))
    }
}

/// Rows as they are after what is appended before.
type Rows = HashMap<(SmolStr, String), Option<Json>, FixedState>;

fn has_update(entry: &Entry) -> bool {
    read(entry).is_ok_and(|all| all.iter().any(|waiting| waiting.update.is_some()))
}

fn patched(row: Json, patch: &RawValue) -> Result<Json, PersistError> {
    let fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(patch.get()).map_err(PersistError::fatal)?;
    fields.iter().try_fold(row, |row, (name, value)| {
        row.set(name, &Json::from(&**value)).map_err(PersistError::fatal)
    })
}

/// What came of an append.
enum Appended {
    /// All entries up to this number are in the stream.
    Through(u64),
    /// The stream has more than is shown here.
    Moved(Offset),
}
