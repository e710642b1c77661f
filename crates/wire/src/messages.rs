//! A run of messages: their bytes, end to end, and where each one ends.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use crate::caps::{APPEND_BYTES_MAX, APPEND_MESSAGES_MAX, MESSAGE_BYTES_MAX};

/// Adjacent messages of one stream. The bytes are shared, so clones and slices are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    data: Bytes,
    ends: SmallVec<[u32; 2]>,
}

/// Messages that no append may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadMessages {
    /// A message without bytes.
    #[error("a message must have at least one byte")]
    EmptyMessage,
    /// One message too large.
    #[error("a message must have at most {MESSAGE_BYTES_MAX} bytes; split it")]
    MessageTooLarge,
    /// All of them together too large.
    #[error("one append must have at most {APPEND_BYTES_MAX} bytes; split it")]
    TooLarge,
    /// Too many of them.
    #[error("one append must have at most {APPEND_MESSAGES_MAX} messages; split it")]
    TooMany,
    /// Boundaries that do not fit the bytes.
    #[error("the message boundaries do not fit the bytes")]
    Boundaries,
}

impl Messages {
    /// No messages at all, as a close without a final append carries.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// One message.
    ///
    /// # Errors
    /// If it is empty or too large.
    pub fn one(message: impl Into<Bytes>) -> Result<Self, BadMessages> {
        let data = message.into();
        Self::check_message(data.len())?;
        let end = u32::try_from(data.len()).map_err(|_| BadMessages::TooLarge)?;
        Ok(Self { data, ends: SmallVec::from_slice(&[end]) })
    }

    /// Several messages, copied end to end.
    ///
    /// # Errors
    /// If one of them is empty, or they are too many or too large.
    pub fn copied<'a>(
        messages: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    ) -> Result<Self, BadMessages> {
        let messages = messages.into_iter();
        let mut total = 0usize;
        for message in messages.clone() {
            Self::check_message(message.len())?;
            total += message.len();
            if total > APPEND_BYTES_MAX {
                return Err(BadMessages::TooLarge);
            }
        }
        let mut data = BytesMut::with_capacity(total);
        let mut ends = SmallVec::new();
        for message in messages {
            if ends.len() == APPEND_MESSAGES_MAX {
                return Err(BadMessages::TooMany);
            }
            data.extend_from_slice(message);
            ends.push(u32::try_from(data.len()).map_err(|_| BadMessages::TooLarge)?);
        }
        Ok(Self { data: data.freeze(), ends })
    }

    /// Messages whose boundaries are known: `ends` holds the end of each one in `data`.
    ///
    /// # Errors
    /// If the ends do not grow strictly from above 0 to the length of `data`.
    pub fn from_parts(
        data: Bytes,
        ends: impl IntoIterator<Item = u32>,
    ) -> Result<Self, BadMessages> {
        let ends: SmallVec<[u32; 2]> = ends.into_iter().collect();
        let growing = ends.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = ends.last().map_or(0, |&end| end as usize) == data.len();
        if growing && fits && ends.first() != Some(&0) {
            Ok(Self { data, ends })
        } else {
            Err(BadMessages::Boundaries)
        }
    }

    pub(crate) fn check_message(len: usize) -> Result<(), BadMessages> {
        match len {
            0 => Err(BadMessages::EmptyMessage),
            1..=MESSAGE_BYTES_MAX => Ok(()),
            _ => Err(BadMessages::MessageTooLarge),
        }
    }

    /// How many messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All bytes, end to end.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The end of each message in [`Messages::data`].
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The messages, first to last.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|index| &self.data[self.start(index)..self.ends[index] as usize])
    }

    /// Bytes before message `index`; all bytes if `index` is the count.
    ///
    /// # Panics
    /// If there is no such message.
    #[must_use]
    pub fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }

    /// Messages `from..to`, sharing the bytes.
    ///
    /// # Panics
    /// If the range does not lie within the messages.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Self {
        let base = self.start(from);
        Self {
            data: self.data.slice(base..self.start(to)),
            ends: self.ends[from..to].iter().map(|end| end - base as u32).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slices_agree_with_a_vector(
            list in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9), 1..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let all = Messages::copied(list.iter().map(Vec::as_slice)).unwrap();
            let cut = cut.index(list.len());
            let tail = all.slice(cut, all.len());
            prop_assert!(tail.iter().eq(list[cut..].iter().map(Vec::as_slice)));
            prop_assert_eq!(
                Messages::from_parts(tail.data().clone(), tail.ends().iter().copied()).unwrap(),
                tail
            );
        }
    }

    #[test]
    fn wrong_boundaries_are_refused() {
        for ends in [vec![], vec![2], vec![4], vec![2, 2, 3], vec![3, 2], vec![0, 3]] {
            assert!(Messages::from_parts(Bytes::from_static(b"abc"), ends).is_err());
        }
        assert_eq!(Messages::one(""), Err(BadMessages::EmptyMessage));
    }
}
