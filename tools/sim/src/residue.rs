//! What a log leaves on its disk: what is deleted gives its bytes back within a bound, what is
//! erased leaves nothing behind.

use std::{collections::BTreeMap, path::Path};

use log::Delete;
use sys::Disk;

use crate::{
    client::{Client, Patience},
    coverage::Event,
    oracle::{TAG_BYTES, Verdict, demand},
};

/// Files of the write-ahead log that an idle log may keep: one in use, two spare, one on its way.
const SLOTS_MAX: u64 = 4;
/// A checkpoint of no streams, and one that was being replaced.
const CHECKPOINT_BYTES_MAX: u64 = 2 * 4_096;

/// Bytes of the files of a log, in whole pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) slots: u64,
    pub(crate) slot_largest: u64,
    pub(crate) packs: u64,
    pub(crate) checkpoints: u64,
}

impl Usage {
    pub(crate) fn total(self) -> u64 {
        self.slots + self.packs + self.checkpoints
    }
}

/// How much the log takes now.
pub(crate) fn usage(client: &Client) -> Usage {
    let sizes = |folder: &str| sizes_in(client, &client.world.dir.join(folder));
    let slots = sizes("wal");
    Usage {
        slots: slots.iter().sum(),
        slot_largest: slots.into_iter().max().unwrap_or_default(),
        packs: sizes("packs").iter().sum(),
        checkpoints: sizes("checkpoints").iter().sum(),
    }
}

fn sizes_in(client: &Client, dir: &Path) -> Vec<u64> {
    let disk = client.witness.sim();
    let names = disk.list(dir).unwrap_or_default();
    let length = |name: &String| disk.open(&dir.join(name)).and_then(|file| file.len()).ok();
    names.iter().filter_map(length).map(|bytes| bytes.next_multiple_of(4_096)).collect()
}

/// Nothing that was erased is on the disk.
pub(crate) fn check_erased(client: &Client) -> Verdict {
    let on_disk = tags_on_disk(client);
    let oracle = client.world.oracle();
    for stream in oracle.streams().filter(|stream| oracle.is_erased(stream.incarnation)) {
        let tags = oracle.tags_of(stream.incarnation);
        let left = tags.iter().find_map(|tag| Some((tag, on_disk.get(tag)?)));
        demand(left.is_none(), || format!("{stream} was erased, but leaves behind {left:?}"))?;
        if !tags.is_empty() {
            client.world.met(Event::ErasedFromDisk);
        }
    }
    Ok(())
}

/// Deletes every stream that is there; those past their time go by themselves.
pub(crate) async fn delete_everything(client: &Client) -> Verdict {
    let live = client.world.oracle().live(client.now());
    for (address, _) in live {
        client.delete(&address, Delete::Stream, Patience::Waits).await?;
    }
    Ok(())
}

/// The disk holds no more than that of a log without streams.
pub(crate) fn check_reclaimed(client: &Client, before: Usage) -> Verdict {
    let after = usage(client);
    client.note(&format!("{before:?} became {after:?}"));
    let is_small = after.slots <= SLOTS_MAX * after.slot_largest
        && after.packs == 0
        && after.checkpoints <= CHECKPOINT_BYTES_MAX;
    demand(is_small, || format!("all is deleted, but the disk still holds {after:?}"))?;
    if after.total() < before.total() {
        client.world.met(Event::Reclaimed);
    }
    Ok(())
}

/// The tags of all messages in all files, as [`crate::oracle`] writes them, and where they stand.
fn tags_on_disk(client: &Client) -> BTreeMap<String, String> {
    let disk = client.witness.sim();
    let mut tags = BTreeMap::new();
    for folder in ["wal", "packs", "checkpoints"] {
        let dir = client.world.dir.join(folder);
        for name in disk.list(&dir).unwrap_or_default() {
            let Ok(file) = disk.open(&dir.join(&name)) else { continue };
            let mut bytes = vec![0; file.len().unwrap_or_default() as usize];
            if file.read_exact_at(&mut bytes, 0).is_ok() {
                let windows = bytes.windows(TAG_BYTES).enumerate();
                let found = windows.filter_map(|(at, bytes)| Some((tag(bytes)?, at)));
                tags.extend(found.map(|(tag, at)| (tag, format!("{folder}/{name} at {at}"))));
            }
        }
    }
    tags
}

fn tag(window: &[u8]) -> Option<String> {
    let is_tag =
        window[6] == b'.' && window[9] == b':' && window[..6].iter().all(u8::is_ascii_digit);
    is_tag.then(|| String::from_utf8_lossy(window).into_owned())
}
