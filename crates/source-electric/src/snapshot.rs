//! Snapshots: rows that were asked for, and which changes of the log they have in them already.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use serde::Deserialize;

use crate::{
    caps::SNAPSHOTS_MAX,
    message::{self, BadMessages, Change, Message},
};

/// An answer to a request for a subset.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) changes: Vec<Change>,
    seen: Seen,
}

/// What a snapshot has seen of the database.
#[derive(Debug)]
struct Seen {
    /// Every transaction before this has ended.
    xmin: u64,
    /// No transaction from here on is in it.
    xmax: u64,
    /// These had not ended.
    xip: Vec<u64>,
    /// How far the log of the database had come.
    lsn: u64,
    keys: HashSet<String, FixedState>,
}

#[derive(Deserialize)]
struct Raw {
    metadata: Metadata,
    data: Box<serde_json::value::RawValue>,
}

#[derive(Deserialize)]
struct Metadata {
    xmin: String,
    xmax: String,
    xip_list: Vec<String>,
    database_lsn: String,
}

impl Snapshot {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, BadMessages> {
        let raw: Raw = serde_json::from_slice(body).map_err(|error| BadMessages::of(&error))?;
        let messages = message::parse_all(raw.data.get().as_bytes())?;
        let changes: Vec<_> = messages
            .into_iter()
            .filter_map(|message| match message {
                Message::Change(change) => Some(change),
                _ => None,
            })
            .collect();
        let number = |text: &String| text.parse().map_err(|_| BadMessages::number());
        let Metadata { xmin, xmax, xip_list, database_lsn } = raw.metadata;
        let xip = xip_list.iter().map(number).collect::<Result<_, _>>()?;
        let keys = changes.iter().map(|change| change.key.clone()).collect();
        let (xmin, xmax, lsn) = (number(&xmin)?, number(&xmax)?, number(&database_lsn)?);
        Ok(Self { changes, seen: Seen { xmin, xmax, xip, lsn, keys } })
    }
}

impl Seen {
    /// Whether what these transactions did is in the snapshot.
    fn has(&self, txids: &[u64]) -> bool {
        let latest = txids.iter().map(|txid| whole(*txid, self.xmax)).max();
        latest
            .is_some_and(|txid| txid < self.xmin || (txid < self.xmax && !self.xip.contains(&txid)))
    }
}

/// The snapshots that the log has not passed yet.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(VecDeque<Seen>);

impl Snapshots {
    pub(crate) fn add(&mut self, snapshot: Snapshot) -> Vec<Change> {
        // Without the oldest, changes are shown again that it had; the last word stays the same.
        if self.0.len() >= SNAPSHOTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(snapshot.seen);
        snapshot.changes
    }

    /// Whether the change is in a snapshot already.
    pub(crate) fn have(&mut self, change: &Change) -> bool {
        if let Some(lsn) = change.lsn {
            self.pass(lsn);
        }
        let is_after =
            |seen: &Seen| change.txids.iter().any(|txid| whole(*txid, seen.xmax) >= seen.xmax);
        self.0.retain(|seen| !is_after(seen));
        self.0.iter().any(|seen| seen.keys.contains(&change.key) && seen.has(&change.txids))
    }

    /// The log has come to here.
    pub(crate) fn pass(&mut self, lsn: u64) {
        self.0.retain(|seen| seen.lsn > lsn);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// A transaction of the log, which counts with 32 bits, as the one next to a whole number.
fn whole(txid: u64, near: u64) -> u64 {
    const MASK: u64 = u32::MAX as u64;
    let ahead = (txid & MASK).wrapping_sub(near & MASK) & MASK;
    match ahead <= MASK / 2 {
        true => near.wrapping_add(ahead),
        false => near.wrapping_sub(MASK + 1 - ahead),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(xmin: u64, xmax: u64, xip: &[u64]) -> Snapshot {
        let xip: Vec<_> = xip.iter().map(|txid| format!("\"{txid}\"")).collect();
        let json = format!(
            r#"{{"metadata":{{"snapshot_mark":1,"database_lsn":"50","xmin":"{xmin}",
                "xmax":"{xmax}","xip_list":[{}]}},"data":[{}]}}"#,
            xip.join(","),
            change_json("k", 0)
        );
        Snapshot::parse(json.as_bytes()).unwrap()
    }

    fn change_json(key: &str, txid: u64) -> String {
        format!(
            r#"{{"key":"{key}","value":{{}},"headers":{{"operation":"insert","txids":[{txid}]}}}}"#
        )
    }

    fn change(key: &str, txid: u64) -> Change {
        match message::parse_one(&change_json(key, txid)).unwrap() {
            Message::Change(change) => change,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn changes_that_a_snapshot_has_are_known() {
        let mut snapshots = Snapshots::default();
        assert_eq!(snapshots.add(snapshot(10, 15, &[12])).len(), 1);
        for (txid, is_in) in [(9, true), (11, true), (12, false), (14, true)] {
            assert_eq!(snapshots.have(&change("k", txid)), is_in, "{txid}");
            assert!(!snapshots.have(&change("other", txid)));
        }
        // From here on nothing can be in it.
        assert!(!snapshots.have(&change("k", 15)));
        assert!(!snapshots.have(&change("k", 11)));
    }

    #[test]
    fn transactions_are_counted_across_the_end_of_32_bits() {
        let mut snapshots = Snapshots::default();
        let xmax = (5 << 32) + 3;
        snapshots.add(snapshot(xmax - 10, xmax, &[]));
        assert!(snapshots.have(&change("k", 2)));
        assert!(snapshots.have(&change("k", u64::from(u32::MAX))));
        assert!(!snapshots.have(&change("k", 3)));
    }

    #[test]
    fn a_log_that_has_passed_a_snapshot_forgets_it() {
        let mut snapshots = Snapshots::default();
        snapshots.add(snapshot(10, 15, &[]));
        snapshots.pass(49);
        assert!(snapshots.have(&change("k", 11)));
        snapshots.pass(50);
        assert!(!snapshots.have(&change("k", 11)));
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for body in ["[]", "{}", r#"{"metadata":{},"data":[]}"#, ""] {
            assert!(Snapshot::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
