//! What was said, as everybody holds it who has to do with it.

use std::{
    fmt,
    ops::{Index, Range},
    sync::Arc,
    vec,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Message;

/// Messages in one block. Copies share blocks, so a copy of a long conversation is a short list.
const BLOCK_LEN: usize = 128;

/// The messages of a conversation, oldest first. A copy shares them all, and what is said
/// afterwards to one of the two does not reach the other.
///
/// ```
/// use std::sync::Arc;
/// use chat::{Conversation, Message, Role};
///
/// let mut conversation = Conversation::from([Message::text("m1", Role::User, "Hello?")]);
/// let asked = conversation.clone();
/// conversation.push(Arc::new(Message::text("m2", Role::Assistant, "Hello!")));
///
/// assert_eq!((asked.len(), conversation.len()), (1, 2));
/// assert_eq!(conversation[1].text_content(), "Hello!");
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct Conversation {
    /// All of them full but the last.
    blocks: Vec<Arc<Vec<Arc<Message>>>>,
}

impl Conversation {
    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.blocks.split_last() {
            Some((last, full)) => full.len() * BLOCK_LEN + last.len(),
            None => 0,
        }
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The message of this number, from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Arc<Message>> {
        self.blocks.get(index / BLOCK_LEN)?.get(index % BLOCK_LEN)
    }

    /// The same, to be changed here and in no copy.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Message> {
        let block = Arc::make_mut(self.blocks.get_mut(index / BLOCK_LEN)?);
        block.get_mut(index % BLOCK_LEN).map(Arc::make_mut)
    }

    /// What was said last.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.blocks.last()?.last()
    }

    /// All messages.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.since(0)
    }

    /// The messages from this number on.
    #[must_use]
    pub fn since(&self, index: usize) -> Iter<'_> {
        let len = self.len();
        Iter { conversation: self, range: index.min(len)..len }
    }

    /// Adds a message.
    pub fn push(&mut self, message: Arc<Message>) {
        match self.blocks.last_mut().filter(|block| block.len() < BLOCK_LEN) {
            Some(block) => Arc::make_mut(block).push(message),
            None => self.blocks.push(Arc::new(vec![message])),
        }
    }
}

impl Index<usize> for Conversation {
    type Output = Arc<Message>;

    fn index(&self, index: usize) -> &Arc<Message> {
        &self.blocks[index / BLOCK_LEN][index % BLOCK_LEN]
    }
}

impl Extend<Arc<Message>> for Conversation {
    fn extend<I: IntoIterator<Item = Arc<Message>>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl FromIterator<Arc<Message>> for Conversation {
    fn from_iter<I: IntoIterator<Item = Arc<Message>>>(messages: I) -> Self {
        let mut this = Self::default();
        this.extend(messages);
        this
    }
}

impl FromIterator<Message> for Conversation {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        messages.into_iter().map(Arc::new).collect()
    }
}

impl<const N: usize> From<[Message; N]> for Conversation {
    fn from(messages: [Message; N]) -> Self {
        messages.into_iter().collect()
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Message>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// Messages of a conversation, in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    conversation: &'a Conversation,
    range: Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<Message>;

    fn next(&mut self) -> Option<Self::Item> {
        self.conversation.get(self.range.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.conversation.get(self.range.next_back()?)
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> IntoIterator for &'a Conversation {
    type Item = &'a Arc<Message>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl IntoIterator for Conversation {
    type Item = Arc<Message>;
    type IntoIter = IntoIter;

    fn into_iter(self) -> IntoIter {
        IntoIter { blocks: self.blocks.into_iter(), block: Vec::new().into_iter() }
    }
}

/// The messages of a conversation, taken out of it.
#[derive(Debug)]
pub struct IntoIter {
    blocks: vec::IntoIter<Arc<Vec<Arc<Message>>>>,
    block: vec::IntoIter<Arc<Message>>,
}

impl Iterator for IntoIter {
    type Item = Arc<Message>;

    fn next(&mut self) -> Option<Arc<Message>> {
        self.block.next().or_else(|| {
            self.block = Arc::unwrap_or_clone(self.blocks.next()?).into_iter();
            self.block.next()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn said(count: usize) -> Conversation {
        (0..count).map(|n| Message::text(n.to_string(), Role::User, "x")).collect()
    }

    fn ids(conversation: &Conversation) -> Vec<String> {
        conversation.iter().map(|message| message.id.to_string()).collect()
    }

    #[test]
    fn it_holds_what_was_said_in_order() {
        for count in [0, 1, 127, 128, 129, 256, 1_000] {
            let conversation = said(count);
            let all: Vec<_> = (0..count).map(|n| n.to_string()).collect();
            assert_eq!(ids(&conversation), all);
            assert_eq!((conversation.len(), conversation.is_empty()), (count, count == 0));
            assert_eq!(conversation.last().map(|last| last.id.to_string()), all.last().cloned());
            let backwards: Vec<_> = conversation.iter().rev().map(|it| it.id.to_string()).collect();
            assert_eq!(backwards, all.iter().rev().cloned().collect::<Vec<_>>());
            assert_eq!(conversation.since(count / 2).len(), count - count / 2);
            assert_eq!(conversation.since(count + 1).len(), 0);
            assert!(conversation.get(count).is_none());
            assert!(conversation.iter().eq(&conversation.clone().into_iter().collect::<Vec<_>>()));
            let json = serde_json::to_string(&conversation).unwrap();
            assert_eq!(serde_json::from_str::<Conversation>(&json).unwrap(), conversation);
        }
    }

    #[test]
    fn copies_share_the_past_and_not_the_future() {
        for count in [1, 127, 128, 300] {
            let mut one = said(count);
            let mut two = one.clone();
            one.push(Arc::new(Message::text("one", Role::User, "x")));
            two.push(Arc::new(Message::text("two", Role::User, "x")));
            assert_eq!((one[count].id.as_str(), two[count].id.as_str()), ("one", "two"));
            let shared = one.iter().zip(&two).filter(|(one, two)| Arc::ptr_eq(one, two)).count();
            assert_eq!(shared, count);
        }
    }
}
