//! What stands in the files of a log that refuses to open: its repair must keep all of it.
//!
//! The files are searched for whole records, as `headwater doctor --salvage` does, before the
//! repair and after it. This asks neither recovery nor the repair what they think the log holds.

use std::{collections::BTreeSet, path::Path};

use log::file::{OpenError, doctor};
use sys::Disk as _;

use super::{DIR, Scene, damage::Damage, history::Written, judge::Readable};
use crate::oracle::{Verdict, Violation, demand};

/// Messages, by their text: no two that were written are the same.
pub(super) type Texts = BTreeSet<String>;

/// A frame is not longer: one commit, and the append that makes it full. A frame that is torn takes
/// what stands before the damage in it along.
const FRAME_BYTES_MAX: u64 = 8 * 1024;
/// Messages that are told of a violation.
const TOLD_MAX: usize = 3;

/// Messages of live streams that can be read in the files of a log.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// In the log or in `lost+found` after a repair.
    kept: Texts,
    /// In the log after a repair: they stand before the damage.
    served: Texts,
}

impl Standing {
    /// What stands in the files now; none if no format file says how to read them. `packed` is what
    /// stood in packs before any damage: a copy of such a message that is left in a file of the
    /// write-ahead log is not part of the log, and may be written over.
    pub(super) fn of(
        scene: &Scene,
        written: &Written,
        packed: &Texts,
        damage: Option<&Damage>,
    ) -> Verdict<Option<Self>> {
        if !salt_is_known(scene) {
            return Ok(None);
        }
        let (packs, mut wal) = (texts_in(scene, "packs")?, texts_in(scene, "wal")?);
        wal.retain(|text| !packed.contains(text));
        let live: BTreeSet<&str> = written.live_texts().collect();
        let mut standing = Self::default();
        if let Some(damage) = damage.filter(|damage| damage.is_of_segment()) {
            standing.served.extend(packs.iter().cloned());
            for path in &damage.older {
                standing.served.extend(texts_of(scene, path)?);
            }
            standing.served.extend(texts_before(scene, damage)?);
            standing.served.retain(|text| live.contains(text.as_str()));
        }
        standing.kept = packs.into_iter().chain(wal).collect();
        standing.kept.retain(|text| live.contains(text.as_str()));
        Ok(Some(standing))
    }

    pub(super) fn count(&self) -> usize {
        self.kept.len()
    }

    /// Everything that stood there is in the log, or was set aside.
    pub(super) fn judge(&self, scene: &Scene, log: &Readable) -> Verdict {
        let in_log = log.texts();
        let lost: Vec<&String> = self.served.difference(&in_log).take(TOLD_MAX).collect();
        demand(lost.is_empty(), || format!("it stood before the damage, and is gone: {lost:?}"))?;
        let aside = texts_in(scene, "lost+found")?;
        self.judge_kept(&in_log.union(&aside).cloned().collect())
    }

    /// A repair that gave up has changed nothing that matters.
    pub(super) fn judge_untouched(&self, scene: &Scene) -> Verdict {
        let mut found = Texts::new();
        for folder in ["packs", "wal", "lost+found"] {
            found.extend(texts_in(scene, folder)?);
        }
        self.judge_kept(&found)
    }

    fn judge_kept(&self, found: &Texts) -> Verdict {
        let lost: Vec<&String> = self.kept.difference(found).take(TOLD_MAX).collect();
        demand(lost.is_empty(), || format!("it could be read, and the repair lost it: {lost:?}"))
    }
}

/// False if both format files are lost, or cannot be read: then no checksum can be verified.
fn salt_is_known(scene: &Scene) -> bool {
    let reserve = Path::new(DIR).join("RESERVE");
    match doctor::salvage(&scene.sys, Path::new(DIR), &reserve, |_| Ok(())) {
        Err(OpenError::NoLog(_) | OpenError::Damaged { .. }) => false,
        Err(OpenError::Io { path, .. }) => path == reserve,
        _ => true,
    }
}

/// Every message that can be read in the files of a folder.
pub(super) fn texts_in(scene: &Scene, folder: &str) -> Verdict<Texts> {
    let folder = Path::new(DIR).join(folder);
    let names = scene.disk.list(&folder).unwrap_or_default();
    let mut texts = Texts::new();
    for name in names {
        texts.extend(texts_of(scene, &folder.join(name))?);
    }
    Ok(texts)
}

/// Every message that can be read in a file, in the order in which they stand there.
fn texts_of(scene: &Scene, path: &Path) -> Verdict<Vec<String>> {
    let mut texts = Vec::new();
    let done = doctor::salvage(&scene.sys, Path::new(DIR), path, |found| {
        texts.push(String::from_utf8_lossy(&found.message).into_owned());
        Ok(())
    });
    match done {
        // A checkpoint has none.
        Ok(()) | Err(OpenError::NoMessages(_)) => Ok(texts),
        Err(error) => Err(Violation(format!("salvaging {}: {error}", path.display()))),
    }
}

/// The messages of frames that end before the damage of their segment.
fn texts_before(scene: &Scene, damage: &Damage) -> Verdict<Vec<String>> {
    let (Some(at), Ok(file)) = (damage.first_byte(), scene.disk.open(damage.path())) else {
        return Ok(Vec::new());
    };
    let safe = at.saturating_sub(FRAME_BYTES_MAX).min(file.len().unwrap_or_default());
    let mut bytes = vec![0; safe as usize];
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return Ok(Vec::new());
    }
    let mut from = 0;
    let mut texts = texts_of(scene, damage.path())?;
    texts.retain(|text| {
        let found = bytes[from..].windows(text.len()).position(|window| window == text.as_bytes());
        from = found.map_or(from, |at| from + at + text.len());
        found.is_some()
    });
    Ok(texts)
}
