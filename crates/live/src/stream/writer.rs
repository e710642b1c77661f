//! Writing to a stream: what is shown first lasts when it comes back.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use query::{CollectionId, Key, TransactionId, Value};
use smol_str::SmolStr;
use state::{Control, Draft, Entry, Json, Start, TxId, TypeName};
use sys::{Cancellation, Sys};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};
use wire::{Messages, Offset, Position};

use super::{Codec, Stream, Types, outlet::Outgoing, seen::Seen};
use crate::{
    caps::{OUTGOING_MAX, TXID_WAIT_DEFAULT},
    error::PersistError,
    retry::Retry,
    transaction::{Shown, TransactionState, Writer, Written, WrittenKind},
};

/// Appends transactions to a stream.
pub(crate) struct StreamWriter {
    outlet: mpsc::Sender<Outgoing>,
    /// What the txids of this client begin with.
    client: String,
    sys: Sys,
    stream: Stream,
    cancellation: Cancellation,
    seen: Arc<Seen>,
    types: OnceLock<Types>,
    count: AtomicU64,
    /// Held for moments, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Transactions that are shown, by the txid they will come back with.
    shown: HashMap<Box<str>, TransactionId, FixedState>,
    /// Fields of rows that their types do not know.
    others: HashMap<(SmolStr, SmolStr), Json, FixedState>,
}

impl StreamWriter {
    pub(super) fn new(
        stream: Stream,
        outlet: mpsc::Sender<Outgoing>,
        client: String,
        seen: Arc<Seen>,
        (sys, cancellation): (&Sys, Cancellation),
    ) -> Self {
        let (types, count, state) = (OnceLock::new(), AtomicU64::new(0), Mutex::default());
        let sys = sys.clone();
        Self { stream, outlet, client, sys, cancellation, seen, types, count, state }
    }

    pub(super) fn learn(&self, types: Types) {
        let _ = self.types.set(types);
    }

    /// The transaction that came back under this txid.
    pub(super) fn retired(&self, txid: &str) -> Option<TransactionId> {
        self.state.lock().shown.remove(txid)
    }

    /// Remembers the fields of rows that nobody here knows, so that they survive an update.
    /// Those of writes that came too late are not theirs.
    pub(super) fn note(&self, tick: &state::Tick, late: &[Position]) {
        if tick.start == Start::Snapshot {
            self.state.lock().others.clear();
        }
        for (position, entry) in tick.entries() {
            match entry {
                Entry::Write(_) if late.contains(position) => {}
                Entry::Write(write) => {
                    let (type_name, key) = (write.type_name.as_str(), write.key.as_str());
                    self.note_row(type_name, key, write.value.as_ref());
                }
                Entry::Control(Control::Reset, _) => self.state.lock().others.clear(),
                Entry::Control(..) | Entry::Skipped(_) => {}
            }
        }
    }

    pub(super) fn note_row(&self, type_name: &str, key: &str, value: Option<&Json>) {
        let Some((_, codec)) = self.types().and_then(|types| types.get(type_name)) else { return };
        let others = value.and_then(|value| codec.others(value));
        let mut state = self.state.lock();
        if others.is_none() && state.others.is_empty() {
            return;
        }
        match others {
            Some(others) => drop(state.others.insert((type_name.into(), key.into()), others)),
            None => drop(state.others.remove(&(type_name.into(), key.into()))),
        }
    }

    fn messages(&self, txid: &TxId, writes: &[Written]) -> Result<Messages, PersistError> {
        let drafts = writes.iter().map(|write| self.draft(write));
        let drafts = drafts.collect::<Result<Vec<_>, _>>()?;
        state::transaction(txid, drafts).map_err(PersistError::fatal)
    }

    fn draft(&self, write: &Written) -> Result<Draft, PersistError> {
        let (name, codec) = self.codec(write.collection)?;
        let type_name: TypeName = name.parse().map_err(PersistError::fatal)?;
        let key = key_text(&write.key);
        let others = self.others(name, &key);
        let key: state::Key = key.parse().map_err(PersistError::fatal)?;
        let Some(record) = &write.row else { return Ok(Draft::delete(type_name, key)) };
        let no_json = || PersistError::fatal("the row cannot be written as JSON");
        let value = codec.encode(record, others.as_ref()).ok_or_else(no_json)?;
        Ok(match write.kind {
            WrittenKind::Insert => Draft::insert(type_name, key, value),
            _ => Draft::update(type_name, key, value),
        })
    }

    pub(super) fn sys(&self) -> &Sys {
        &self.sys
    }

    pub(super) fn types(&self) -> Option<&Types> {
        self.types.get()
    }

    /// The type of a collection's rows.
    pub(super) fn codec(&self, id: CollectionId) -> Result<(&SmolStr, &Codec), PersistError> {
        let found = self.types().and_then(|types| types.iter().find(|(_, (own, _))| *own == id));
        let (name, (_, codec)) =
            found.ok_or_else(|| PersistError::fatal("an unknown collection"))?;
        Ok((name, codec))
    }

    /// The collection of rows of a type.
    pub(super) fn type_of(&self, name: &str) -> Result<(CollectionId, &Codec), PersistError> {
        let unknown = || PersistError::fatal(format!("there are no rows of the type {name:?}"));
        let (id, codec) = self.types().and_then(|types| types.get(name)).ok_or_else(unknown)?;
        Ok((*id, codec))
    }

    /// The fields of a row that its type does not know.
    pub(super) fn others(&self, type_name: &SmolStr, key: &str) -> Option<Json> {
        self.state.lock().others.get(&(type_name.clone(), key.into())).cloned()
    }

    /// What a transaction of an outbox is called in the stream.
    pub(super) fn outbox_txid(&self, outbox: &str, number: u64) -> Result<TxId, PersistError> {
        format!("{}.{outbox}.{number:x}", self.client).parse().map_err(PersistError::fatal)
    }

    fn next_txid(&self) -> Result<TxId, PersistError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        // The time tells the lives of a client with a name of its own apart.
        let life = self.sys.clock.unix_ms().get();
        format!("{}.{life:x}.{number:x}", self.client).parse().map_err(PersistError::fatal)
    }

    /// Takes note of what will come back under a txid.
    pub(super) fn expect(&self, txid: &TxId, shown: &Shown) {
        shown.name(txid.as_str());
        self.state.lock().shown.insert(txid.as_str().into(), shown.id());
    }

    /// Waits for a transaction that lasts to come back; its rows are retired when it does. It is
    /// before `tail`, if that is known: a compaction may have left nothing that has its name.
    pub(super) async fn come_back(&self, txid: &TxId, tail: Option<Offset>, shown: Shown) {
        let passed = async {
            match tail {
                Some(tail) => self.seen.reaches(tail).await,
                None => std::future::pending().await,
            }
        };
        let back = async {
            let is_seen = tokio::select! {
                biased;
                seen = self.seen.wait(txid.as_str(), TXID_WAIT_DEFAULT, &self.sys) => seen.is_ok(),
                () = passed => true,
            };
            if !is_seen {
                // It lasts all the same, and when all of the stream is shown, so is it.
                shown.set(TransactionState::Completed);
                self.reach_tail().await;
            }
        };
        let is_back = tokio::select! {
            biased;
            () = self.cancellation.cancelled() => false,
            () = back => true,
        };
        self.retired(txid.as_str());
        if is_back { shown.settle(Ok(())) } else { shown.completed() }
    }

    /// Waits until everything is shown that is in the stream now.
    async fn reach_tail(&self) {
        let mut failures = 0;
        loop {
            match self.stream.log.head(&self.stream.address).await {
                Ok(head) => return self.seen.reaches(head.tail).await,
                Err(_) => {
                    failures += 1;
                    let pause = Retry::default().pause(failures, &self.sys.chance);
                    self.sys.clock.sleep(pause).await;
                }
            }
        }
    }

    /// Removes the rows of a key of types that no collection has, in one transaction.
    pub(super) async fn remove<const N: usize>(
        &self,
        types: [&str; N],
        key: &str,
    ) -> Result<(), PersistError> {
        let key: state::Key = key.parse().map_err(PersistError::fatal)?;
        let delete =
            |name: &str| name.parse().map(|name: TypeName| Draft::delete(name, key.clone()));
        let drafts = types.into_iter().map(delete).collect::<Result<Vec<_>, _>>();
        let txid = self.next_txid()?;
        let messages = state::transaction(&txid, drafts.map_err(PersistError::fatal)?);
        let stored = self.hand_over(txid, messages.map_err(PersistError::fatal)?)?;
        stored.await.unwrap_or_else(|_| Err(PersistError::fatal("the database is closing")))
    }

    /// Hands a transaction over; its place among others is the order of these calls.
    fn hand_over(&self, txid: TxId, messages: Messages) -> Result<Stored, PersistError> {
        let (reply, stored) = oneshot::channel();
        match self.outlet.try_send(Outgoing { txid, messages, reply }) {
            Ok(()) => Ok(stored),
            Err(TrySendError::Full(_)) => Err(PersistError {
                why: format!("{OUTGOING_MAX} writes wait for the stream; try again later"),
                is_retryable: true,
            }),
            Err(TrySendError::Closed(_)) => Err(PersistError::fatal("the database is closing")),
        }
    }
}

type Stored = oneshot::Receiver<Result<(), PersistError>>;

/// The writer of all collections of a stream.
pub(super) struct SharedWriter(pub(super) Arc<StreamWriter>);

impl Writer for SharedWriter {
    fn persist(&self, shown: Shown, writes: Vec<Written>) {
        let this = self.0.clone();
        let txid = this.next_txid();
        let handed = txid.and_then(|txid| {
            let messages = this.messages(&txid, &writes)?;
            this.expect(&txid, &shown);
            Ok((txid.clone(), this.hand_over(txid, messages)?))
        });
        let (txid, stored) = match handed {
            Ok(handed) => handed,
            Err(error) => return shown.settle(Err(error)),
        };
        let sys = this.sys.clone();
        sys.spawn.task("transaction", async move {
            let gone = |_| Err(PersistError::fatal("the database is closing"));
            match stored.await.unwrap_or_else(gone) {
                Ok(()) => this.come_back(&txid, None, shown).await,
                Err(error) => {
                    this.retired(txid.as_str());
                    shown.settle(Err(error));
                }
            }
        });
    }
}

/// The key on the wire.
pub(super) fn key_text(key: &Key) -> String {
    match key {
        Value::Text(text) => text.to_string(),
        other => other.to_string(),
    }
}
