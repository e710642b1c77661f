//! What the fuzz targets may reach.

use bytes::Bytes;

use super::record::{self, Record, Salt};

/// Reads bytes as a record without checking their checksum; what is read must survive a round trip.
///
/// # Panics
/// If it does not.
pub fn record(input: &[u8]) {
    if input.len() < record::HEADER_BYTES {
        return;
    }
    let bytes = Bytes::copy_from_slice(input);
    let Some(Record::Change(change)) = record::decode(&bytes) else { return };
    let mut written = Vec::new();
    record::write_change(&mut written, Salt(7), &change);
    let again = record::read(&written.into(), Salt(7));
    assert_eq!(again, Some(Record::Change(change)), "a round trip changed the record");
}

/// Reads bytes as an entry of a checkpoint.
pub fn checkpoint_entry(input: &[u8]) {
    let _ = super::checkpoint::entry(Bytes::copy_from_slice(input));
}

/// Reads bytes as the records of a frame whose head vouches for them.
pub fn frame(input: &[u8]) {
    let Some((&count, body)) = input.split_first() else { return };
    super::segment::read_vouched(body, u32::from(count), Salt(7));
}
