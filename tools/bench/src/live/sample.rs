//! The rows of the scenarios, the same on both sides: `tools/bench/node/live.mjs` makes them, too.

use anyhow::Result;
use query::{CollectionId, Database, Record, Row, Schema, Tick, Write};
use serde::{Deserialize, Serialize};

const STATUSES: [&str; 4] = ["pending", "running", "done", "failed"];

/// Chunks that a message has to begin with.
pub(super) const CHUNKS_EACH: usize = 20;

/// How large a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Whole,
    /// A tenth of everything.
    Quick,
}

impl Size {
    pub(super) fn of(self, whole: usize) -> usize {
        match self {
            Self::Whole => whole,
            Self::Quick => whole / 10,
        }
    }

    pub(super) fn rows(self) -> usize {
        self.of(100_000)
    }

    pub(super) fn messages(self) -> usize {
        self.of(10_000)
    }
}

/// Numbers by chance: Mulberry32, which JavaScript can do as well.
pub(super) struct Chance(u32);

impl Chance {
    pub(super) fn new(seed: u32) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, limit: u32) -> usize {
        self.0 = self.0.wrapping_add(0x6d2b_79f5);
        let mut mixed = (self.0 ^ (self.0 >> 15)).wrapping_mul(self.0 | 1);
        mixed ^= mixed.wrapping_add((mixed ^ (mixed >> 7)).wrapping_mul(mixed | 61));
        let part = f64::from(mixed ^ (mixed >> 14)) / 2f64.powi(32);
        (part * f64::from(limit)) as usize
    }

    /// Sixteen letters and digits.
    pub(super) fn key(&mut self) -> String {
        let digit = |number| char::from_digit(number as u32, 36).unwrap_or_default();
        (0..16).map(|_| digit(self.below(36))).collect()
    }
}

pub(super) fn key_of(number: usize) -> String {
    format!("k{number:08}")
}

/// A row of the scenarios a, b, c and e.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) status: &'static str,
    pub(super) priority: usize,
    pub(super) attempt: usize,
    pub(super) number: usize,
}

impl Job {
    pub(super) fn new(number: usize, chance: &mut Chance) -> Self {
        let status = STATUSES[chance.below(4)];
        let priority = chance.below(1_000_000);
        Self { id: key_of(number), status, priority, attempt: 0, number }
    }

    pub(super) fn pending(number: usize, chance: &mut Chance) -> Self {
        Self { status: "pending", ..Self::new(number, chance) }
    }

    pub(super) fn many(count: usize, chance: &mut Chance) -> Vec<Self> {
        (0..count).map(|number| Self::new(number, chance)).collect()
    }

    pub(super) fn is_pending(&self) -> bool {
        self.status == "pending"
    }

    /// The same job as a row of its own type.
    pub(super) fn row(&self) -> JobRow {
        JobRow {
            id: self.id.clone(),
            status: self.status.into(),
            agent: format!("agent-{}", self.number % 100),
            priority: self.priority as u64,
            attempt: self.attempt as u64,
            payload: format!("payload-{}", self.number),
        }
    }

    pub(super) fn json(&self) -> String {
        let Self { id, status, priority, attempt, number } = self;
        let agent = number % 100;
        format!(
            r#"{{"id":"{id}","status":"{status}","agent":"agent-{agent}","priority":{priority},
            "attempt":{attempt},"payload":"payload-{number}"}}"#
        )
    }
}

/// A job, for the scenarios b and f.
#[derive(Clone, Debug, Serialize, Deserialize, Row)]
#[row(name = "job")]
pub(super) struct JobRow {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) agent: String,
    priority: u64,
    attempt: u64,
    payload: String,
}

pub(super) fn count_pending(jobs: &[Job]) -> usize {
    jobs.iter().filter(|job| job.is_pending()).count()
}

/// A message of the scenarios d.
pub(super) fn message(number: usize) -> String {
    let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
    format!(r#"{{"id":"{}","role":"{role}","thread":"t{}"}}"#, key_of(number), number % 50)
}

/// A chunk of a message.
pub(super) fn chunk(number: usize, of: usize, seq: usize) -> String {
    let (id, message) = (key_of(number), key_of(of));
    format!(r#"{{"id":"{id}","messageId":"{message}","seq":{seq},"text":"tok{number} "}}"#)
}

/// A database with one collection, which the scenario writes to.
pub(super) struct Jobs {
    pub(super) db: Database,
    pub(super) collection: CollectionId,
}

impl Jobs {
    pub(super) fn new(jobs: &[Job]) -> Result<Self> {
        let mut db = Database::new();
        let collection = db.collection("jobs", Schema::open("id"))?;
        let mut own = Self { db, collection };
        fill(&mut own.db, collection, jobs.iter().map(Job::json))?;
        Ok(own)
    }

    /// A job as the database wants it.
    pub(super) fn record(&mut self, job: &Job) -> Result<Record> {
        Ok(self.db.record(self.collection, &job.json())?)
    }

    pub(super) fn insert(&mut self, record: Record) -> Result<()> {
        insert(&mut self.db, self.collection, record)
    }

    pub(super) fn update(&mut self, record: Record) -> Result<()> {
        update(&mut self.db, self.collection, record)
    }
}

/// Writes rows in one transaction.
pub(super) fn fill(
    db: &mut Database,
    collection: CollectionId,
    rows: impl Iterator<Item = String>,
) -> Result<()> {
    let insert = |json: String| {
        let record = db.record(collection, &json)?;
        anyhow::Ok((collection, Write::Insert(record, Default::default())))
    };
    let writes = rows.map(insert).collect::<Result<_>>()?;
    db.apply(Tick { writes, retires: Vec::new() })?;
    Ok(())
}

/// Writes one new row, and forgets who was told.
pub(super) fn insert(db: &mut Database, collection: CollectionId, record: Record) -> Result<()> {
    let writes = vec![(collection, Write::Insert(record, Default::default()))];
    db.apply(Tick { writes, retires: Vec::new() })?;
    Ok(())
}

/// Writes one row in place of another, and forgets who was told.
pub(super) fn update(db: &mut Database, collection: CollectionId, record: Record) -> Result<()> {
    let writes = vec![(collection, Write::Put(record, Default::default()))];
    db.apply(Tick { writes, retires: Vec::new() })?;
    Ok(())
}
