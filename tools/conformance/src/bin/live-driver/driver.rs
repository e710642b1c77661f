//! The database behind the lines.

use std::collections::BTreeMap;

use query::{
    Change, ChangeKind, CollectionId, Database, Entry, Meta, Mutation, MutationKind, Published,
    Query, QueryId, Record, Schema, Semantics, Tick, TransactionId, Value, View, Write,
};
use serde_json::{Map, Value as Json, json};

use crate::{
    commands::{Command, Mut, MutWrite, SyncWrite},
    errors::{bad_query, query_error, write_error},
};

/// Everything that has been made so far, by name.
pub(crate) struct Driver {
    db: Database,
    queries: BTreeMap<String, QueryId>,
    /// Who wants to hear of a query: its name, and in which words.
    listeners: BTreeMap<QueryId, (String, Words)>,
    transactions: BTreeMap<String, Transaction>,
    changes: BTreeMap<String, Vec<Json>>,
    effects: BTreeMap<String, Vec<Json>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Words {
    Changes,
    Effects,
}

struct Transaction {
    id: TransactionId,
    state: State,
    has_writes: bool,
    /// How it was settled before it was committed.
    early: Option<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Pending,
    Persisting,
    Completed,
    Failed,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Persisting => "persisting",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// What a command comes to; an error is the name of its class.
type Reply = Result<Json, &'static str>;

impl Default for Driver {
    fn default() -> Self {
        Self {
            db: Database::with_semantics(Semantics::Tanstack),
            queries: BTreeMap::new(),
            listeners: BTreeMap::new(),
            transactions: BTreeMap::new(),
            changes: BTreeMap::new(),
            effects: BTreeMap::new(),
        }
    }
}

impl Driver {
    pub(crate) fn run(&mut self, command: Command) -> Json {
        let reply = self.obey(command);
        let mut reply = reply.unwrap_or_else(|class| json!({"error": class}));
        for (name, told) in [("changes", &mut self.changes), ("effects", &mut self.effects)] {
            if !told.is_empty() {
                reply[name] = json!(std::mem::take(told));
            }
        }
        reply
    }

    fn obey(&mut self, command: Command) -> Reply {
        match command {
            Command::Reset => *self = Self::default(),
            Command::Collection { name, key, init } => self.collection(&name, &key, init)?,
            Command::Query { name, ir } => self.query(name, ir)?,
            Command::Effect { name, ir, skips_initial } => self.effect(name, ir, skips_initial)?,
            Command::Sync { col, writes, truncate } => return self.sync(&col, writes, truncate),
            Command::Begin { tx } => self.begin(tx),
            Command::Mutate { tx, muts } => return self.mutate(&tx, muts),
            Command::Commit { tx } => self.commit(&tx)?,
            Command::Settle { tx, ok } => return self.settle(&tx, ok),
            Command::Rollback { tx } => return self.rollback(&tx),
            Command::Dump { what } => return self.dump(&what),
        }
        Ok(json!({}))
    }

    fn collection(
        &mut self,
        name: &str,
        key: &str,
        init: Vec<Map<String, Json>>,
    ) -> Result<(), &'static str> {
        let id = self.db.collection(name, Schema::open(key)).map_err(|_| "DuplicateName")?;
        let writes = init.into_iter().map(|value| SyncWrite::Insert { value }).collect();
        self.write(id, writes, false)
    }

    fn query(&mut self, name: String, ir: Json) -> Result<(), &'static str> {
        let id = self.db.live(&read(ir)?).map_err(|error| query_error(&error))?;
        let rows: Vec<_> = self
            .db
            .result(id)
            .map(|entry| json!({"type": "insert", "key": entry.key, "value": row(entry)}))
            .collect();
        self.changes.insert(name.clone(), vec![Json::Array(rows)]);
        self.listeners.insert(id, (name.clone(), Words::Changes));
        self.queries.insert(name, id);
        Ok(())
    }

    fn effect(&mut self, name: String, ir: Json, skips_initial: bool) -> Result<(), &'static str> {
        let (id, rows) = self.db.watch(&read(ir)?).map_err(|error| query_error(&error))?;
        self.listeners.insert(id, (name, Words::Effects));
        if !skips_initial && !rows.is_empty() {
            self.tell(Published { queries: vec![(id, rows)], ..Published::default() });
        }
        Ok(())
    }

    fn sync(&mut self, col: &str, writes: Vec<SyncWrite>, truncate: bool) -> Reply {
        let id = self.find(col)?;
        self.write(id, writes, truncate)?;
        Ok(json!({"applied": true}))
    }

    fn write(
        &mut self,
        id: CollectionId,
        writes: Vec<SyncWrite>,
        truncate: bool,
    ) -> Result<(), &'static str> {
        let mut tick = Tick::default();
        if truncate {
            tick.writes.push((id, Write::Truncate));
        }
        for write in writes {
            let write = match write {
                SyncWrite::Insert { value } => {
                    Write::Insert(self.record(id, value)?, Meta::default())
                }
                SyncWrite::Update { value } => Write::Put(self.record(id, value)?, Meta::default()),
                SyncWrite::Delete { key } => Write::Delete(key.into()),
            };
            tick.writes.push((id, write));
        }
        let published = self.db.apply(tick).map_err(|error| write_error(&error, true))?;
        self.tell(published);
        Ok(())
    }

    fn begin(&mut self, tx: String) {
        let id = self.db.begin();
        let transaction = Transaction { id, state: State::Pending, has_writes: false, early: None };
        self.transactions.insert(tx, transaction);
    }

    fn mutate(&mut self, tx: &str, muts: Vec<Mut>) -> Reply {
        let transaction = self.transactions.get(tx).ok_or("TypeError")?;
        if transaction.state != State::Pending {
            return Err("TransactionNotPendingMutateError");
        }
        let id = transaction.id;
        let mut mutations = Vec::with_capacity(muts.len());
        for Mut { col, write } in muts {
            let collection = self.find(&col)?;
            let write = match write {
                MutWrite::Insert { value } => MutationKind::Insert(self.record(collection, value)?),
                MutWrite::Update { key, set } => MutationKind::Update(
                    key.into(),
                    set.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
                ),
                MutWrite::Delete { key } => MutationKind::Delete(key.into()),
            };
            mutations.push(Mutation { collection, write });
        }
        let has_writes = !mutations.is_empty();
        let published = self.db.mutate(id, mutations);
        let published = published.map_err(|error| write_error(&error, false))?;
        self.tell(published);
        let transaction = self.transactions.get_mut(tx).ok_or("TypeError")?;
        transaction.has_writes |= has_writes;
        Ok(json!({"state": transaction.state.name()}))
    }

    fn commit(&mut self, tx: &str) -> Result<(), &'static str> {
        let transaction = self.transactions.get_mut(tx).ok_or("TypeError")?;
        if transaction.state != State::Pending {
            return Ok(());
        }
        transaction.state = State::Persisting;
        let early = if transaction.has_writes { transaction.early } else { Some(true) };
        if let Some(ok) = early {
            self.settle(tx, ok)?;
        }
        Ok(())
    }

    fn settle(&mut self, tx: &str, ok: bool) -> Reply {
        let transaction = self.transactions.get_mut(tx).ok_or("TypeError")?;
        match transaction.state {
            State::Pending => drop(transaction.early.get_or_insert(ok)),
            State::Persisting => {
                transaction.state = if ok { State::Completed } else { State::Failed };
                let published = self.db.end(transaction.id);
                self.tell(published);
            }
            State::Completed | State::Failed => {}
        }
        Ok(json!({"state": self.transactions[tx].state.name()}))
    }

    fn rollback(&mut self, tx: &str) -> Reply {
        let transaction = self.transactions.get_mut(tx).ok_or("TypeError")?;
        if transaction.state == State::Completed {
            return Err("TransactionAlreadyCompletedRollbackError");
        }
        transaction.state = State::Failed;
        let published = self.db.end(transaction.id);
        self.tell(published);
        Ok(json!({"state": State::Failed.name()}))
    }

    fn dump(&self, what: &[String]) -> Reply {
        let mut rows = Map::new();
        for name in what {
            let list: Vec<_> = match self.queries.get(name) {
                Some(id) => self.db.result(*id).map(|entry| row(entry)).collect(),
                None => {
                    let id = self.find(name)?;
                    self.db.rows(id, View::Visible).map(|entry| row(entry)).collect()
                }
            };
            rows.insert(name.clone(), Json::Array(list));
        }
        Ok(json!({"rows": rows}))
    }

    fn find(&self, col: &str) -> Result<CollectionId, &'static str> {
        self.db.find(col).ok_or("TypeError")
    }

    fn record(
        &mut self,
        id: CollectionId,
        value: Map<String, Json>,
    ) -> Result<Record, &'static str> {
        let text = Json::Object(value).to_string();
        self.db.record(id, &text).map_err(|error| write_error(&error, false))
    }

    fn tell(&mut self, published: Published) {
        for (id, changes) in published.queries {
            let Some((name, words)) = self.listeners.get(&id) else { continue };
            let batch: Vec<_> = changes.iter().map(|change| told(change, *words)).collect();
            let told = match words {
                Words::Changes => &mut self.changes,
                Words::Effects => &mut self.effects,
            };
            told.entry(name.clone()).or_default().push(Json::Array(batch));
        }
    }
}

fn read(ir: Json) -> Result<Query, &'static str> {
    serde_json::from_value(ir).map_err(|error| bad_query(&error))
}

fn told(change: &Change, words: Words) -> Json {
    let kind = match (change.kind(), words) {
        (ChangeKind::Enter, Words::Changes) => "insert",
        (ChangeKind::Update, _) => "update",
        (ChangeKind::Exit, Words::Changes) => "delete",
        (ChangeKind::Enter, Words::Effects) => "enter",
        (ChangeKind::Exit, Words::Effects) => "exit",
    };
    let mut told = json!({"type": kind, "key": change.key});
    if let Some(entry) = change.new.as_ref().or(change.old.as_ref()) {
        told["value"] = row(entry);
    }
    if change.kind() == ChangeKind::Update
        && let Some(old) = &change.old
    {
        told["prev"] = row(old);
    }
    told
}

/// A row with its fields in alphabetical order.
fn row(entry: &Entry) -> Json {
    let tuple = entry.record.to_tuple();
    let field = |(name, value): (&str, &Value)| (name.to_owned(), json!(value));
    Json::Object(tuple.present().map(field).collect())
}
