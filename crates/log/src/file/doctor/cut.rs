//! Ending a write-ahead log at its damage: what stands before it is kept, the rest is set aside.

use std::{io, path::Path, sync::Arc};

use sys::disk::is_unreadable;
use wire::Offset;

use super::{
    at,
    lost_and_found::{free_path, keep_copy, set_aside},
};
use crate::{
    file::{
        checkpoint::{self, CheckpointWriter},
        files::{Files, copy_file},
        frames::{Survey, each_frame},
        hot::Hot,
        open_error::OpenError,
        reader::Reader,
        record::Salt,
        records::Records,
        recovery::Recovery,
        segment::SegmentHeader,
        stream::Stream,
        wal::{Slot, write_zeros},
    },
    table::Meta,
};

/// Ends the log at the damage. What can be read of it is what stands before.
pub(super) fn cut(
    files: &Files,
    recovery: &Recovery,
    path: &Path,
    offset: u64,
) -> Result<Vec<String>, OpenError> {
    let Survey { segments, .. } = recovery.survey()?;
    let is_damaged = |slot: &Slot| files.layout.slot(slot.number) == path;
    let damaged = segments.iter().position(|(_, slot)| is_damaged(slot));
    let mut done = Vec::new();
    // What is damaged may be no segment: then those that are sound stay.
    for (index, (header, slot)) in segments.iter().enumerate().skip(damaged.unwrap_or(usize::MAX)) {
        let name = format!("segment-{}", header.number);
        let path = files.layout.slot(slot.number);
        let told = match Some(index) == damaged && offset > 0 {
            true => clear(files, slot, &name, offset),
            false => set_aside(files, &path, &name),
        };
        done.push(told.map_err(at(&path))?);
    }
    if let (None, Some((header, slot))) = (damaged, segments.last()) {
        done.extend(keep_torn(files, header.number, slot, recovery.salt)?);
    }
    Ok(done)
}

/// Keeps a copy of the newest segment if records stand after its last whole frame: they may be of
/// one that was acknowledged, and the log goes on in their place.
fn keep_torn(
    files: &Files,
    number: u32,
    slot: &Slot,
    salt: Salt,
) -> Result<Option<String>, OpenError> {
    let path = files.layout.slot(slot.number);
    let end = each_frame(slot, &path, number, salt, |_, _, _| Ok(()))?;
    let mut records = Records::new(slot.file.clone(), salt).map_err(at(&path))?;
    while let Some(found) = records.next().map_err(at(&path))? {
        if found.offset >= u64::from(end) {
            let name = format!("segment-{number}");
            return keep_copy(files, &path, &name).map(Some).map_err(at(&path));
        }
    }
    Ok(None)
}

/// Writes the head of a segment again that has lost it: each of its frames tells its number.
pub(super) fn write_head(files: &Files, recovery: &Recovery) -> Result<Vec<String>, OpenError> {
    let Survey { segments, headless, .. } = recovery.survey()?;
    let Some((number, slot)) = recovery.find_headless(&segments, &headless)? else {
        return Ok(Vec::new());
    };
    let path = files.layout.slot(slot.number);
    let kept = keep_copy(files, &path, &format!("slot-{}", slot.number)).map_err(at(&path))?;
    let before = segments.iter().find(|(header, _)| header.number + 1 == number);
    let previous_end = before.map_or(Ok(0), |(header, slot)| {
        let path = files.layout.slot(slot.number);
        each_frame(slot, &path, header.number, recovery.salt, |_, _, _| Ok(()))
    })?;
    let head = SegmentHeader { number, previous_end }.encode(recovery.salt);
    slot.file.write_all_at(&head, 0).and_then(|()| slot.file.sync()).map_err(at(&path))?;
    Ok(vec![kept, format!("the head of {} was written again", path.display())])
}

/// Copies a file, then overwrites it from here on; what was done, in words.
fn clear(files: &Files, slot: &Slot, name: &str, from: u64) -> io::Result<String> {
    let aside = free_path(files, name)?;
    copy_file(files.disk.as_ref(), slot.file.as_ref(), &aside)?;
    files.disk.sync_dir(&files.layout.lost_and_found())?;
    write_zeros(slot.file.as_ref(), from..slot.file.len()?)?;
    slot.file.sync()?;
    let path = files.layout.slot(slot.number);
    Ok(format!("{} was cut at byte {from}; a copy of it is {}", path.display(), aside.display()))
}

/// Writes a checkpoint that speaks of nothing beyond the end of the log. A stream that lost
/// messages ends at its last one; its producers are forgotten, so that a retry of what was lost is
/// refused as a gap rather than taken for a duplicate.
pub(super) fn restate(files: &Arc<Files>, salt: Salt) -> Result<Vec<String>, OpenError> {
    let mut recovery = Recovery::new(files.clone(), salt);
    let Some(newest) = recovery.load_checkpoint()? else { return Ok(Vec::new()) };
    let (segments, _) = recovery.find_segments()?;
    recovery.replay(segments)?;
    let [path, _] = files.layout.checkpoint(newest.number);
    let again = checkpoint::newest(files, salt)?.and_then(|newest| newest.checkpoint);
    let Some(checkpoint) = again else { return Ok(Vec::new()) };
    let reader = Reader { files: files.clone(), hot: Arc::new(Hot::new(0)), salt };
    let mut writer = CheckpointWriter::create(files, checkpoint.through, checkpoint.owes, salt)
        .map_err(at(&path))?;
    let mut shortened = Vec::new();
    for mut entry in checkpoint.entries {
        if entry.meta.applied >= recovery.end
            && let Some(stream) = recovery.state.streams.get(&entry.id)
        {
            shorten(&mut entry.meta, stream, &reader, recovery.end).map_err(at(&path))?;
            shortened.push(format!("{} ends at {} now", stream.address, entry.meta.tail));
        }
        let meta = checkpoint::encode_meta(entry.id, &entry.meta);
        writer.add(&meta, &entry.extents).map_err(at(&path))?;
    }
    let whole = writer.finish(checkpoint.last_id).map_err(at(&path))?;
    whole.publish(files, newest.number + 1).map_err(at(&path))?;
    Ok(shortened)
}

fn is_damage(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof, io::ErrorKind::NotFound];
    is_unreadable(error) || kinds.contains(&error.kind())
}

fn shorten(meta: &mut Meta, stream: &Stream, reader: &Reader, log_end: u64) -> io::Result<()> {
    let inherited = meta.origin.as_ref().map_or(Offset::START, |origin| origin.end);
    meta.tail = match stream.extents().0.last() {
        Some(last) => match reader.messages(stream, last) {
            Ok(messages) => last.start.after(messages.len() as u64, messages.data().len() as u64),
            // Where it ends cannot be told, so that all from there on is refused to readers.
            Err(error) if is_damage(&error) => meta.tail,
            Err(error) => return Err(error),
        },
        None => inherited.max(meta.earliest).min(meta.tail),
    };
    meta.earliest = meta.earliest.min(meta.tail);
    (meta.closed, meta.closer, meta.seq) = (false, None, None);
    meta.producers.clear();
    meta.applied = log_end - 1;
    Ok(())
}
