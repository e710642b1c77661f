//! The commands.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

/// One line.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Command {
    /// Forgets everything.
    Reset,
    Collection {
        name: String,
        #[serde(default = "id")]
        key: String,
        #[serde(default)]
        init: Vec<Map<String, Json>>,
    },
    Query {
        name: String,
        ir: Json,
    },
    Effect {
        name: String,
        ir: Json,
        #[serde(default, rename = "skipInitial")]
        skips_initial: bool,
    },
    Sync {
        col: String,
        #[serde(default)]
        writes: Vec<SyncWrite>,
        #[serde(default)]
        truncate: bool,
    },
    Begin {
        tx: String,
    },
    Mutate {
        tx: String,
        muts: Vec<Mut>,
    },
    Commit {
        tx: String,
    },
    Settle {
        tx: String,
        ok: bool,
    },
    Rollback {
        tx: String,
    },
    Dump {
        what: Vec<String>,
    },
}

fn id() -> String {
    "id".into()
}

/// A synced write.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum SyncWrite {
    Insert { value: Map<String, Json> },
    Update { value: Map<String, Json> },
    Delete { key: Json },
}

/// An optimistic write.
#[derive(Deserialize)]
pub(crate) struct Mut {
    pub(crate) col: String,
    #[serde(flatten)]
    pub(crate) write: MutWrite,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum MutWrite {
    Insert { value: Map<String, Json> },
    Update { key: Json, set: Map<String, Json> },
    Delete { key: Json },
}
