//! Framing: messages with their lengths, so that boundaries survive a body of bytes.
//!
//! The protocol carries the messages of a stream end to end, or as one JSON array. Between
//! ourselves a body may be framed instead: each message after its length in four bytes, the most
//! significant first. `Stream-Framing: length` says so.

use bytes::{BufMut as _, Bytes, BytesMut};
use smallvec::SmallVec;

use crate::{BadMessages, Messages, caps::APPEND_MESSAGES_MAX};

/// The one value of the header `Stream-Framing`.
pub const LENGTH: &str = "length";

/// Bytes before each message.
pub const PREFIX_BYTES: usize = 4;

/// A body that is not made of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFraming {
    /// It ends inside a frame.
    #[error("the body ends inside a frame; each message follows its length in four bytes")]
    Torn,
    /// What it holds is no run of messages.
    #[error(transparent)]
    Messages(#[from] BadMessages),
}

/// Writes runs of messages as frames.
#[must_use]
pub fn join<'a>(runs: impl IntoIterator<Item = &'a Messages, IntoIter: Clone>) -> Bytes {
    let runs = runs.into_iter();
    let mut framed = BytesMut::with_capacity(framed_len(runs.clone()));
    for message in runs.flat_map(Messages::iter) {
        framed.put_u32(u32::try_from(message.len()).expect("a message is at most 32 MiB"));
        framed.put_slice(message);
    }
    framed.freeze()
}

/// Bytes that these runs take as frames.
#[must_use]
pub fn framed_len<'a>(runs: impl IntoIterator<Item = &'a Messages>) -> usize {
    runs.into_iter().map(|run| run.data().len() + PREFIX_BYTES * run.len()).sum()
}

/// Reads what [`join`] wrote.
///
/// # Errors
/// [`BadFraming`] if the body is torn, or holds an empty message, too many, or too large ones.
pub fn split(mut body: &[u8]) -> Result<Messages, BadFraming> {
    let mut data = BytesMut::with_capacity(body.len());
    let mut ends = SmallVec::<[u32; 2]>::new();
    while !body.is_empty() {
        if ends.len() == APPEND_MESSAGES_MAX {
            return Err(BadMessages::TooMany.into());
        }
        let (message, rest) = first(body).ok_or(BadFraming::Torn)?;
        Messages::check_message(message.len())?;
        data.put_slice(message);
        ends.push(u32::try_from(data.len()).map_err(|_| BadMessages::TooLarge)?);
        body = rest;
    }
    Ok(Messages::from_parts(data.freeze(), ends)?)
}

fn first(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = body.split_first_chunk::<PREFIX_BYTES>()?;
    rest.split_at_checked(u32::from_be_bytes(*prefix) as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn split_undoes_join(
            list in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9), 0..20),
        ) {
            let messages = Messages::copied(list.iter().map(Vec::as_slice)).unwrap();
            let cut = messages.len() / 2;
            let runs = [messages.slice(0, cut), messages.slice(cut, messages.len())];
            let framed = join(&runs);
            prop_assert_eq!(framed.len(), framed_len(&runs));
            prop_assert_eq!(split(&framed).unwrap(), messages);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(messages) = split(&bytes) {
                prop_assert_eq!(&join([&messages])[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn broken_frames_are_refused() {
        for bad in [&b"\0"[..], b"\0\0\0\x01", b"\0\0\0\x02a", b"\xff\xff\xff\xffa"] {
            assert_eq!(split(bad), Err(BadFraming::Torn), "{bad:?}");
        }
        assert_eq!(split(b"\0\0\0\0"), Err(BadMessages::EmptyMessage.into()));
    }
}
