//! One change of one stream, as bytes; the same in the write-ahead log and in packs.
//!
//! ```text
//! 0   length  u32   of the whole record
//! 4   crc     u32   over all that follows, seeded with the log's salt
//! 8   kind    u8
//! 9   flags   u8    0; kept for encryption
//! 10  key     u16   0; kept for the id of the key
//! 12  stream  u64
//! 20  body          by kind; messages come last
//! ```

use bytes::Bytes;
use sys::UnixMs;
use wire::{
    Address, ContentType, Epoch, Expiry, Messages, Offset, Producer, ProducerSeq, StreamPath,
    SubOffset, SystemPath, Timestamp, Ttl,
};

use super::codec::{Put, Take};
use crate::{
    Incarnation,
    table::{Change, NewMessages, NewStream, Origin},
};

/// Bytes before the body.
pub(super) const HEADER_BYTES: usize = 20;
/// No record is longer: the largest append, its boundaries, and room for names.
pub(super) const RECORD_BYTES_MAX: usize =
    wire::caps::APPEND_BYTES_MAX + 5 * wire::caps::APPEND_MESSAGES_MAX + 64 * 1024;

/// The log's own seed for checksums, so that no message can pass for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Salt(pub(super) u32);

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Change(Change),
    /// Messages that were regrouped: nothing changes by them.
    Data {
        id: Incarnation,
        start: Offset,
        messages: Messages,
    },
    /// A stream as a checkpoint holds it, beside its regrouped messages: a checkpoint can be made
    /// again from packs.
    Stream {
        id: Incarnation,
        meta: Bytes,
    },
}

impl Salt {
    pub(super) fn checksum(self, bytes: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        hasher.update(bytes);
        hasher.finalize()
    }
}

mod kind {
    //! Kinds are on disks: never reuse one.
    pub(super) const CREATE: u8 = 1;
    pub(super) const APPEND: u8 = 2;
    pub(super) const TOUCH: u8 = 3;
    pub(super) const TRIM: u8 = 4;
    pub(super) const RETIRE: u8 = 5;
    pub(super) const DROP: u8 = 6;
    pub(super) const DATA: u8 = 7;
    pub(super) const STREAM: u8 = 8;
}

/// Writes a change at the end of `buffer`.
pub(super) fn write_change(buffer: &mut Vec<u8>, salt: Salt, change: &Change) {
    let start = begin(buffer, kind_of(change), change.id());
    match change {
        Change::Create(new) => put_create(buffer, new),
        Change::Append(new) => put_append(buffer, new),
        Change::Touch { at, .. } => buffer.put_u64(at.get()),
        Change::Trim { before, .. } => put_offset(buffer, *before),
        Change::Retire { .. } => {}
        Change::Drop { erase, .. } => buffer.put_u8(u8::from(*erase)),
    }
    finish(buffer, salt, start);
}

/// Writes regrouped messages at the end of `buffer`.
pub(super) fn write_data(
    buffer: &mut Vec<u8>,
    salt: Salt,
    id: Incarnation,
    start: Offset,
    messages: &Messages,
) {
    let begun = begin(buffer, kind::DATA, id);
    put_offset(buffer, start);
    put_messages(buffer, messages);
    finish(buffer, salt, begun);
}

/// Writes a stream, as a checkpoint holds it, at the end of `buffer`.
pub(super) fn write_stream(buffer: &mut Vec<u8>, salt: Salt, id: Incarnation, meta: &[u8]) {
    let begun = begin(buffer, kind::STREAM, id);
    buffer.put(meta);
    finish(buffer, salt, begun);
}

/// A quick look: true for every record that is longer than its head, and for little else.
pub(super) fn may_be_record(bytes: &[u8]) -> bool {
    let kind_and_flags = bytes.get(8..12).unwrap_or_default();
    matches!(kind_and_flags, [kind::CREATE..=kind::STREAM, 0, 0, 0]) && length(bytes).is_some()
}

/// The length of the record at the front of `bytes`, if it can be one.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    (HEADER_BYTES..=RECORD_BYTES_MAX).contains(&length).then_some(length)
}

/// Reads the record that `bytes` hold whole; none if they are not what was written.
pub(super) fn read(bytes: &Bytes, salt: Salt) -> Option<Record> {
    if length(bytes)? != bytes.len() {
        return None;
    }
    let crc = u32::from_le_bytes(bytes[4..8].try_into().ok()?);
    if crc != salt.checksum(&bytes[8..]) {
        return None;
    }
    decode(bytes)
}

/// Reads a record that is known to be whole, as those in memory are.
pub(super) fn decode(bytes: &Bytes) -> Option<Record> {
    let mut take = Take::new(bytes.slice(8..));
    let kind = take.u8()?;
    let (flags, key) = (take.u8()?, take.u16()?);
    if (flags, key) != (0, 0) {
        return None;
    }
    let id = Incarnation(take.u64()?);
    let record = match kind {
        kind::CREATE => Record::Change(Change::Create(Box::new(take_create(&mut take, id)?))),
        kind::APPEND => Record::Change(Change::Append(Box::new(take_append(&mut take, id)?))),
        kind::TOUCH => Record::Change(Change::Touch { id, at: UnixMs::new(take.u64()?) }),
        kind::TRIM => Record::Change(Change::Trim { id, before: take_offset(&mut take)? }),
        kind::RETIRE => Record::Change(Change::Retire { id }),
        kind::DROP => Record::Change(Change::Drop { id, erase: take.u8()? != 0 }),
        kind::DATA => {
            let start = take_offset(&mut take)?;
            Record::Data { id, start, messages: take_messages(&mut take)? }
        }
        kind::STREAM => Record::Stream { id, meta: take.rest() },
        _ => return None,
    };
    take.is_empty().then_some(record)
}

impl Record {
    /// The stream it speaks of.
    pub(super) fn id(&self) -> Incarnation {
        match self {
            Self::Change(change) => change.id(),
            Self::Data { id, .. } | Self::Stream { id, .. } => *id,
        }
    }

    /// The messages it holds, and where they stand in their stream.
    pub(super) fn messages(&self) -> Option<(Offset, &Messages)> {
        match self {
            Self::Change(change) => change.messages(),
            Self::Data { start, messages, .. } => Some((*start, messages)),
            Self::Stream { .. } => None,
        }
    }
}

fn kind_of(change: &Change) -> u8 {
    match change {
        Change::Create(_) => kind::CREATE,
        Change::Append(_) => kind::APPEND,
        Change::Touch { .. } => kind::TOUCH,
        Change::Trim { .. } => kind::TRIM,
        Change::Retire { .. } => kind::RETIRE,
        Change::Drop { .. } => kind::DROP,
    }
}

fn begin(buffer: &mut Vec<u8>, kind: u8, id: Incarnation) -> usize {
    let start = buffer.len();
    buffer.put_u64(0);
    buffer.put_u8(kind);
    buffer.put_u8(0);
    buffer.put_u16(0);
    buffer.put_u64(id.0);
    start
}

fn finish(buffer: &mut [u8], salt: Salt, start: usize) {
    let length = u32::try_from(buffer.len() - start).expect("a record is bounded");
    let crc = salt.checksum(&buffer[start + 8..]);
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
    buffer[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

fn put_create(buffer: &mut Vec<u8>, new: &NewStream) {
    buffer.put_u64(new.at.get());
    put_address(buffer, &new.address);
    buffer.put_text(new.content_type.as_str());
    put_expiry(buffer, new.expiry);
    put_origin(buffer, new.origin.as_ref());
    buffer.put_u8(u8::from(new.closed));
    put_messages(buffer, &new.messages);
}

fn take_create(take: &mut Take, id: Incarnation) -> Option<NewStream> {
    Some(NewStream {
        id,
        at: UnixMs::new(take.u64()?),
        address: take_address(take)?,
        content_type: take_content_type(take)?,
        expiry: take_expiry(take)?,
        origin: take_origin(take)?,
        closed: take.u8()? != 0,
        messages: take_messages(take)?,
    })
}

mod append_flag {
    pub(super) const PRODUCER: u8 = 1;
    pub(super) const SEQ: u8 = 2;
    pub(super) const CLOSE: u8 = 4;
}

fn put_append(buffer: &mut Vec<u8>, new: &NewMessages) {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    buffer.put_u64(new.at.get());
    put_offset(buffer, new.start);
    buffer.put_u8(
        flag(new.producer.is_some(), append_flag::PRODUCER)
            | flag(new.seq.is_some(), append_flag::SEQ)
            | flag(new.close, append_flag::CLOSE),
    );
    if let Some(producer) = &new.producer {
        put_producer(buffer, producer);
    }
    if let Some(seq) = &new.seq {
        buffer.put_text(seq.as_str());
    }
    put_messages(buffer, &new.messages);
}

fn take_append(take: &mut Take, id: Incarnation) -> Option<NewMessages> {
    let at = UnixMs::new(take.u64()?);
    let start = take_offset(take)?;
    let flags = take.u8()?;
    let producer = match flags & append_flag::PRODUCER {
        0 => None,
        _ => Some(take_producer(take)?),
    };
    let seq = match flags & append_flag::SEQ {
        0 => None,
        _ => Some(take.text()?.parse().ok()?),
    };
    let close = flags & append_flag::CLOSE != 0;
    Some(NewMessages { id, at, start, producer, seq, close, messages: take_messages(take)? })
}

pub(super) fn put_producer(buffer: &mut Vec<u8>, producer: &Producer) {
    buffer.put_text(producer.id.as_str());
    buffer.put_varint(producer.epoch.get());
    buffer.put_varint(producer.seq.get());
}

pub(super) fn take_producer(take: &mut Take) -> Option<Producer> {
    Some(Producer {
        id: take.text()?.parse().ok()?,
        epoch: Epoch::new(take.varint()?),
        seq: ProducerSeq::new(take.varint()?),
    })
}

pub(super) fn put_offset(buffer: &mut Vec<u8>, offset: Offset) {
    buffer.put_varint(offset.position.get());
    buffer.put_varint(offset.byte.get());
}

pub(super) fn take_offset(take: &mut Take) -> Option<Offset> {
    let (position, byte) = (take.varint()?, take.varint()?);
    let fits = position.max(byte) <= wire::caps::ORDINAL_MAX;
    fits.then(|| Offset::new(position, byte))
}

pub(super) fn put_address(buffer: &mut Vec<u8>, address: &Address) {
    match address {
        Address::Stream(path) => {
            buffer.put_u8(0);
            buffer.put_text(path.as_str());
        }
        Address::System(path) => {
            buffer.put_u8(1);
            buffer.put_text(path.as_str());
        }
    }
}

pub(super) fn take_address(take: &mut Take) -> Option<Address> {
    match take.u8()? {
        0 => Some(take.text()?.parse::<StreamPath>().ok()?.into()),
        1 => Some(take.text()?.parse::<SystemPath>().ok()?.into()),
        _ => None,
    }
}

pub(super) fn take_content_type(take: &mut Take) -> Option<ContentType> {
    take.text()?.parse().ok()
}

pub(super) fn put_expiry(buffer: &mut Vec<u8>, expiry: Expiry) {
    let (tag, value) = match expiry {
        Expiry::Never => (0, 0),
        Expiry::Sliding(ttl) => (1, ttl.seconds()),
        Expiry::At(time) => (2, time.unix_ms()),
    };
    buffer.put_u8(tag);
    buffer.put_varint(value);
}

pub(super) fn take_expiry(take: &mut Take) -> Option<Expiry> {
    match (take.u8()?, take.varint()?) {
        (0, _) => Some(Expiry::Never),
        (1, seconds) => Some(Expiry::Sliding(Ttl::from_seconds(seconds))),
        (2, unix_ms) => Some(Expiry::At(Timestamp::from_unix_ms(unix_ms))),
        _ => None,
    }
}

pub(super) fn put_origin(buffer: &mut Vec<u8>, origin: Option<&Origin>) {
    let Some(origin) = origin else { return buffer.put_u8(0) };
    buffer.put_u8(if origin.offset.is_some() { 2 } else { 1 });
    buffer.put_u64(origin.parent.0);
    put_offset(buffer, origin.end);
    put_offset(buffer, origin.earliest);
    buffer.put_varint(origin.sub_offset.get());
    if let Some(offset) = origin.offset {
        put_offset(buffer, offset);
    }
}

/// The outer none is bad bytes, the inner one a stream that is no fork.
#[expect(clippy::option_option, reason = "two facts: readable, and a fork")]
pub(super) fn take_origin(take: &mut Take) -> Option<Option<Origin>> {
    let tag = take.u8()?;
    if tag == 0 {
        return Some(None);
    }
    let parent = Incarnation(take.u64()?);
    let (end, earliest) = (take_offset(take)?, take_offset(take)?);
    let sub_offset = SubOffset::new(take.varint()?);
    let offset = match tag {
        1 => None,
        2 => Some(take_offset(take)?),
        _ => return None,
    };
    Some(Some(Origin { parent, end, earliest, offset, sub_offset }))
}

fn put_messages(buffer: &mut Vec<u8>, messages: &Messages) {
    buffer.reserve(messages.data().len() + 2 * messages.len() + 4);
    buffer.put_varint(messages.len() as u64);
    for message in messages.iter() {
        buffer.put_varint(message.len() as u64);
    }
    buffer.put(messages.data());
}

/// Messages are the end of every record that has them.
fn take_messages(take: &mut Take) -> Option<Messages> {
    let count = take.varint()?;
    let mut end = 0u64;
    let mut ends = smallvec::SmallVec::<[u32; 2]>::new();
    for _ in 0..count {
        end = end.checked_add(take.varint()?)?;
        ends.push(u32::try_from(end).ok()?);
    }
    Messages::from_parts(take.rest(), ends).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn any_messages() -> impl Strategy<Value = Messages> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8)
            .prop_map(|list| Messages::copied(list.iter().map(Vec::as_slice)).unwrap())
    }

    fn any_offset() -> impl Strategy<Value = Offset> {
        (0..=wire::caps::ORDINAL_MAX, 0..=wire::caps::ORDINAL_MAX)
            .prop_map(|(a, b)| Offset::new(a, b))
    }

    fn any_origin() -> impl Strategy<Value = Option<Origin>> {
        let parts = (
            any::<u64>(),
            any_offset(),
            any_offset(),
            prop::option::of(any_offset()),
            any::<u64>(),
        );
        prop::option::of(parts.prop_map(|(parent, end, earliest, offset, sub)| Origin {
            parent: Incarnation(parent),
            end,
            earliest,
            offset,
            sub_offset: SubOffset::new(sub),
        }))
    }

    fn any_create() -> impl Strategy<Value = Change> {
        let expiry = prop_oneof![
            Just(Expiry::Never),
            (0..1000u64).prop_map(|s| Expiry::Sliding(Ttl::from_seconds(s))),
            (0..1000u64).prop_map(|ms| Expiry::At(Timestamp::from_unix_ms(ms))),
        ];
        let parts =
            ("[a-z]{1,9}", any::<bool>(), any::<u64>(), expiry, any_origin(), any_messages());
        parts.prop_map(|(name, system, at, expiry, origin, messages)| {
            let address = match system {
                true => name.parse::<SystemPath>().unwrap().into(),
                false => name.parse::<StreamPath>().unwrap().into(),
            };
            Change::Create(Box::new(NewStream {
                id: Incarnation(at / 2),
                address,
                content_type: ContentType::json(),
                expiry,
                at: UnixMs::new(at),
                origin,
                messages,
                closed: system,
            }))
        })
    }

    fn any_append() -> impl Strategy<Value = Change> {
        let producer =
            ("[a-z]{1,9}", any::<u64>(), any::<u64>()).prop_map(|(id, epoch, seq)| Producer {
                id: id.parse().unwrap(),
                epoch: Epoch::new(epoch),
                seq: ProducerSeq::new(seq),
            });
        let parts = (
            any::<u64>(),
            any_offset(),
            prop::option::of(producer),
            prop::option::of("[a-z]{1,5}"),
            any::<bool>(),
            any_messages(),
        );
        parts.prop_map(|(at, start, producer, seq, close, messages)| {
            Change::Append(Box::new(NewMessages {
                id: Incarnation(at / 3),
                at: UnixMs::new(at),
                start,
                messages,
                producer,
                seq: seq.map(|seq| seq.parse().unwrap()),
                close,
            }))
        })
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let id = any::<u64>().prop_map(Incarnation);
        prop_oneof![
            any_create(),
            any_append(),
            (any::<u64>().prop_map(Incarnation), any::<u64>())
                .prop_map(|(id, at)| Change::Touch { id, at: UnixMs::new(at) }),
            (any::<u64>().prop_map(Incarnation), any_offset())
                .prop_map(|(id, before)| Change::Trim { id, before }),
            any::<u64>().prop_map(|id| Change::Retire { id: Incarnation(id) }),
            (id, any::<bool>()).prop_map(|(id, erase)| Change::Drop { id, erase }),
        ]
    }

    const SALT: Salt = Salt(0x5eed);

    proptest! {
        #[test]
        fn changes_round_trip(change in any_change()) {
            let mut buffer = Vec::new();
            write_change(&mut buffer, SALT, &change);
            prop_assert_eq!(length(&buffer), Some(buffer.len()));
            prop_assert_eq!(read(&buffer.into(), SALT), Some(Record::Change(change)));
        }

        #[test]
        fn any_flipped_bit_is_noticed(change in any_append(), bit in any::<prop::sample::Index>()) {
            let mut buffer = Vec::new();
            write_change(&mut buffer, SALT, &change);
            let bit = bit.index(buffer.len() * 8);
            buffer[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(read(&buffer.into(), SALT), None);
        }

        #[test]
        fn rubbish_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 20..80)) {
            let length = bytes.len() as u32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            let _ = decode(&bytes.into());
        }
    }

    #[test]
    fn another_log_s_salt_does_not_fit() {
        let mut buffer = Vec::new();
        write_change(&mut buffer, SALT, &Change::Retire { id: Incarnation(1) });
        assert_eq!(read(&buffer.into(), Salt(1)), None);
    }
}
