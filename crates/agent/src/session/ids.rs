//! The ids under which people wrote: each is taken once, however long a session gets.
//!
//! ```text
//! index stream   │ page page page … │ page page │ page │ snapshot │
//!                └─ run of 90,000 ──┘└ 3,000 ───┘└ 200 ┘
//! ```
//!
//! A *run* is sorted by keys, which are hashes, so that a key is found by where it would stand. A
//! new run takes those before it in unless they are much larger, so there are few runs, and an
//! id is written again a few times only.

use std::collections::HashMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use wire::{Offset, caps::ORDINAL_MAX};

use crate::caps::{IDS_PER_PAGE, IDS_RUN_RATIO};

/// What stands for a type and an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdKey(u128);

/// What stands for what was written under an id, but for the time it was written at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Print(u64);

/// What was written under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entered {
    /// What stands for it.
    pub print: Print,
    /// The offset after it, as it was then.
    pub offset: Offset,
}

/// One id, on disk.
const ENTRY_BYTES: usize = 40;
/// The checksum at the end of a page.
const SUM_BYTES: usize = 4;
/// A page, on disk; the last one of a run may be shorter.
pub(super) const PAGE_BYTES: usize = IDS_PER_PAGE * ENTRY_BYTES + SUM_BYTES;

/// Sorted entries in the index stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Where its first page begins.
    pub(super) start: Offset,
    pub(super) entries: u64,
}

/// The entries of a run, or of a part of one, in order.
pub(super) type Entries = Vec<(IdKey, Entered)>;

impl IdKey {
    /// The key of an id of this type.
    #[must_use]
    pub fn of(type_name: &str, id: &str) -> Self {
        let digest = Sha256::new().chain_update(type_name).chain_update([0]).chain_update(id);
        let digest: [u8; 32] = digest.finalize().into();
        Self(u128::from_be_bytes(first(&digest)))
    }
}

impl Print {
    /// The print of a row.
    #[must_use]
    pub fn of(mut row: Value) -> Self {
        if let Some(row) = row.as_object_mut() {
            row.remove("createdAt");
            row.sort_keys();
        }
        let digest: [u8; 32] = Sha256::digest(row.to_string()).into();
        Self(u64::from_be_bytes(first(&digest)))
    }
}

impl Run {
    pub(super) const fn pages(&self) -> u64 {
        self.entries.div_ceil(IDS_PER_PAGE as u64)
    }

    /// The page in which a key would stand if all were spread evenly.
    pub(super) fn guess(&self, key: IdKey) -> u64 {
        let share = (key.0 >> 64) * u128::from(self.pages());
        u64::try_from(share >> 64).unwrap_or(u64::MAX)
    }

    /// Where a page begins. All are of one size but the last.
    pub(super) fn page(&self, number: u64) -> Offset {
        self.start.after(number, number * PAGE_BYTES as u64)
    }
}

/// The runs that a new one takes in: from which on.
pub(super) fn merged_from(runs: &[Run], entries: usize) -> usize {
    let mut size = entries as u64;
    let mut first = runs.len();
    while first > 0 && runs[first - 1].entries <= size.saturating_mul(IDS_RUN_RATIO) {
        first -= 1;
        size += runs[first].entries;
    }
    first
}

/// The entries of a map and of runs, in order.
pub(super) fn sorted(recent: &HashMap<IdKey, Entered>, older: Entries) -> Entries {
    let mut entries = older;
    entries.extend(recent.iter().map(|(key, entered)| (*key, *entered)));
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries.dedup_by_key(|(key, _)| *key);
    entries
}

/// The pages of a run.
pub(super) fn pages(entries: &Entries) -> impl Iterator<Item = Vec<u8>> {
    entries.chunks(IDS_PER_PAGE).map(|page| {
        let mut bytes = Vec::with_capacity(page.len() * ENTRY_BYTES + SUM_BYTES);
        for (key, Entered { print, offset }) in page {
            bytes.extend_from_slice(&key.0.to_be_bytes());
            for number in [print.0, offset.position.get(), offset.byte.get()] {
                bytes.extend_from_slice(&number.to_be_bytes());
            }
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        bytes
    })
}

/// The entries of a page; none if it is no page, or damaged.
pub(super) fn read_page(bytes: &[u8]) -> Option<Entries> {
    let (bytes, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
    if crc32fast::hash(bytes).to_be_bytes() != *sum {
        return None;
    }
    let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    let entry = |bytes: &[u8; ENTRY_BYTES]| {
        let key = IdKey(u128::from_be_bytes(first(bytes)));
        let [print, position, byte] =
            [16, 24, 32].map(|at| u64::from_be_bytes(first(&bytes[at..])));
        let is_offset = position <= ORDINAL_MAX && byte <= ORDINAL_MAX;
        let offset = is_offset.then(|| Offset::new(position, byte))?;
        Some((key, Entered { print: Print(print), offset }))
    };
    let entries: Entries = entries.iter().map(entry).collect::<Option<_>>()?;
    let is_sorted = entries.is_sorted_by(|one, next| one.0 < next.0);
    (rest.is_empty() && is_sorted && !entries.is_empty()).then_some(entries)
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    taken.copy_from_slice(&bytes[..N]);
    taken
}

/// Reads bytes as a page of ids: what is read must come back as it was.
#[cfg(fuzzing)]
pub fn fuzz_page(bytes: &[u8]) {
    let Some(entries) = read_page(bytes) else { return };
    let back: Entries =
        pages(&entries).flat_map(|page| read_page(&page).expect("a page")).collect();
    assert_eq!(back, entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(entries: u64) -> Run {
        Run { start: Offset::START, entries }
    }

    fn entered(number: u64) -> Entered {
        Entered { print: Print(number), offset: Offset::new(number, number * 9) }
    }

    #[test]
    fn a_print_tells_rows_apart_but_for_their_time() {
        let print = |text: &str| Print::of(serde_json::from_str(text).unwrap());
        let one = print(r#"{"a":1,"b":2,"createdAt":"x"}"#);
        assert_eq!(one, print(r#"{"b":2,"createdAt":"y","a":1}"#));
        assert_ne!(one, print(r#"{"a":1,"b":3}"#));
        assert_ne!(IdKey::of("message", "1"), IdKey::of("stop", "1"));
    }

    #[test]
    fn small_runs_are_taken_in_and_large_ones_stay() {
        let runs = [run(100_000), run(3_000), run(200)];
        assert_eq!(merged_from(&runs, 10), 3);
        assert_eq!(merged_from(&runs, 50), 2);
        assert_eq!(merged_from(&runs, 700), 1);
        assert_eq!(merged_from(&runs, 30_000), 0);
    }

    #[test]
    fn runs_stay_few_and_an_id_is_written_a_few_times() {
        let (mut runs, mut written) = (Vec::<Run>::new(), 0);
        for _ in 0..2_000 {
            let first = merged_from(&runs, 50);
            let entries = 50 + runs.drain(first..).map(|run| run.entries).sum::<u64>();
            written += entries;
            runs.push(run(entries));
            assert!(runs.len() <= 8, "{runs:?}");
        }
        assert!(written <= 100_000 * 12, "{written}");
    }

    #[test]
    fn a_page_comes_back_as_it_was_or_not_at_all() {
        let entries: Entries =
            (0..400).map(|n| (IdKey::of("message", &n.to_string()), entered(n))).collect();
        let entries = sorted(&entries.into_iter().collect(), Vec::new());
        let written: Vec<_> = pages(&entries).collect();
        let back: Entries = written.iter().flat_map(|page| read_page(page).unwrap()).collect();
        assert_eq!(back, entries);
        for bit in 0..8 * written[0].len() {
            let mut damaged = written[0].clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_page(&damaged), None, "bit {bit} of the page is flipped");
        }
        assert_eq!(read_page(&written[0][1..]), None);
        assert_eq!(read_page(&[written[1].as_slice(), &written[0]].concat()), None);
        assert_eq!(read_page(&[]), None);
    }
}
