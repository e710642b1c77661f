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
