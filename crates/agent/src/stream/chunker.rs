//! Cuts the events of a run into chunks. Pure: the caller says when they are taken away.

use std::collections::BTreeMap;

use chat::{
    Id,
    agui::{Chunks, Event, EventKind, Expanded, ours},
};
use serde_json::Value;

use crate::{
    caps::{
        CHUNK_BYTES_LARGE, CHUNK_BYTES_MAX, CHUNK_BYTES_MIDDLE, CHUNKER_BLOCKS_MAX,
        CHUNKS_MIDDLE_MAX, CHUNKS_SMALL_MAX, CHUNKS_WAITING_BYTES_MAX, CHUNKS_WAITING_MAX,
    },
    rows::{Chunk, ChunkType},
};

/// Turns AG-UI events into chunks of one generation: indexes without gaps, ids that follow from
/// them, pieces of at most [`CHUNK_BYTES_MAX`] bytes. What waits grows; what was taken never does.
#[derive(Debug)]
pub(crate) struct Chunker {
    generation_id: String,
    next_index: u64,
    waiting: Vec<Chunk>,
    /// Bytes of those.
    bytes: usize,
    /// Where the last piece of each block waits, for as long as more of it may go there.
    growing: BTreeMap<Block, usize>,
    /// The message of each block that has begun, where it has one.
    messages: BTreeMap<Block, Option<Id>>,
    expander: Chunks,
}

/// What pieces belong to. Ids are unique only among blocks of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Block {
    Text(Id),
    Thinking(Id),
    Call(Id),
}

impl Chunker {
    /// A chunker for a generation whose next chunk has this index.
    pub(crate) fn new(generation_id: impl Into<String>, next_index: u64) -> Self {
        Self {
            generation_id: generation_id.into(),
            next_index,
            waiting: Vec::new(),
            bytes: 0,
            growing: BTreeMap::new(),
            messages: BTreeMap::new(),
            expander: Chunks::default(),
        }
    }

    /// Takes what an event says. Events that say nothing of a text, thoughts or a call are passed
    /// over.
    pub(crate) fn take(&mut self, event: &Event) {
        let mut events = Vec::new();
        match self.expander.expand(event, &mut events) {
            Ok(Expanded::Kept) => {
                events.iter().for_each(|event| self.take_whole(event));
                self.take_whole(event);
            }
            Ok(Expanded::Replaced) => events.iter().for_each(|event| self.take_whole(event)),
            // It continues nothing, so nobody could tell what it is a piece of.
            Err(error) => tracing::debug!(%error, "an event is passed over"),
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many chunks wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes away what waits.
    pub(crate) fn drain(&mut self) -> Vec<Chunk> {
        self.growing.clear();
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Whether what waits is enough to be written, for a generation that has so many chunks. The
    /// more there are, the larger the next ones: their number has a bound, and text is never lost.
    pub(crate) fn is_worth_writing(&self, written: u64) -> bool {
        let bytes_each = match written {
            ..CHUNKS_SMALL_MAX => return !self.is_empty(),
            CHUNKS_SMALL_MAX..CHUNKS_MIDDLE_MAX => CHUNK_BYTES_MIDDLE,
            CHUNKS_MIDDLE_MAX.. => CHUNK_BYTES_LARGE,
        };
        let is_large = !self.is_empty() && self.bytes >= bytes_each * self.len();
        is_large || self.bytes >= CHUNKS_WAITING_BYTES_MAX || self.len() >= CHUNKS_WAITING_MAX
    }

    /// The index of the next chunk.
    pub(crate) fn next_index(&self) -> u64 {
        self.next_index
    }

    /// The last chunk: it says how the generation ended. What waits comes before it.
    pub(crate) fn finish(&mut self, status: &str) -> Chunk {
        let mut chunk = self.chunk(ChunkType::End, None, None);
        status.clone_into(&mut chunk.content);
        chunk.is_final = true;
        chunk
    }

    fn take_whole(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TextMessageStart(start) => {
                let message = message_of(event).unwrap_or_else(|| start.message_id.clone());
                self.begin(Block::Text(start.message_id.clone()), Some(message));
            }
            EventKind::TextMessageContent(more) => {
                self.grow(ChunkType::Text, &Block::Text(more.message_id.clone()), &more.delta);
            }
            EventKind::ReasoningMessageStart(start) => {
                self.begin(Block::Thinking(start.message_id.clone()), message_of(event));
            }
            EventKind::ReasoningMessageContent(more) => {
                let block = Block::Thinking(more.message_id.clone());
                self.grow(ChunkType::Thinking, &block, &more.delta);
            }
            EventKind::ReasoningMessageEnd(end) => {
                self.messages.remove(&Block::Thinking(end.message_id.clone()));
            }
            EventKind::ToolCallStart(start) => {
                let parent = start.parent_message_id.as_ref().map(|parent| self.message(parent));
                let block = Block::Call(start.tool_call_id.clone());
                self.begin(block.clone(), parent);
                self.mark(ChunkType::ToolCallStart, &block, &start.tool_call_name);
            }
            EventKind::ToolCallArgs(more) => {
                let block = Block::Call(more.tool_call_id.clone());
                self.grow(ChunkType::ToolCallArgs, &block, &more.delta);
            }
            EventKind::ToolCallEnd(end) => {
                let block = Block::Call(end.tool_call_id.clone());
                self.mark(ChunkType::ToolCallEnd, &block, "");
                self.messages.remove(&block);
            }
            // The calls of a turn hang on its texts, so those are kept until the turn is over.
            EventKind::ToolCallResult(_)
            | EventKind::RunStarted(_)
            | EventKind::StepFinished(_) => {
                self.messages.retain(|block, _| !matches!(block, Block::Text(_)));
            }
            _ => {}
        }
    }

    fn begin(&mut self, block: Block, message: Option<Id>) {
        if self.messages.len() >= CHUNKER_BLOCKS_MAX {
            self.messages.pop_first();
        }
        self.messages.insert(block, message);
    }

    /// The message that a text is of, if it is known to be part of a longer one.
    fn message(&self, text: &Id) -> Id {
        let known = self.messages.get(&Block::Text(text.clone())).cloned().flatten();
        known.unwrap_or_else(|| text.clone())
    }

    /// One chunk of its own.
    fn mark(&mut self, kind: ChunkType, block: &Block, content: &str) {
        let mut chunk = self.chunk_of(kind, block);
        let cut = content.floor_char_boundary(CHUNK_BYTES_MAX);
        content[..cut].clone_into(&mut chunk.content);
        // What comes after a mark stays after it.
        self.growing.clear();
        self.bytes += cut;
        self.waiting.push(chunk);
    }

    /// More of a block: to its chunk that waits, as far as there is room, and to others.
    fn grow(&mut self, kind: ChunkType, block: &Block, mut delta: &str) {
        self.bytes += delta.len();
        if let Some(last) = self.growing.get(block).and_then(|at| self.waiting.get_mut(*at)) {
            let room = CHUNK_BYTES_MAX - last.content.len().min(CHUNK_BYTES_MAX);
            let (fits, rest) = delta.split_at(delta.floor_char_boundary(room));
            last.content.push_str(fits);
            delta = rest;
        }
        while !delta.is_empty() {
            let (fits, rest) = delta.split_at(delta.floor_char_boundary(CHUNK_BYTES_MAX));
            let mut chunk = self.chunk_of(kind, block);
            fits.clone_into(&mut chunk.content);
            self.growing.insert(block.clone(), self.waiting.len());
            self.waiting.push(chunk);
            delta = rest;
        }
    }

    fn chunk_of(&mut self, kind: ChunkType, block: &Block) -> Chunk {
        let message = self.messages.get(block).cloned().flatten();
        let call = match block {
            Block::Call(id) => Some(id.clone()),
            Block::Text(_) | Block::Thinking(_) => None,
        };
        self.chunk(kind, message, call)
    }

    fn chunk(&mut self, kind: ChunkType, message: Option<Id>, call: Option<Id>) -> Chunk {
        let index = self.next_index;
        self.next_index += 1;
        Chunk {
            id: format!("{}:c{index}", self.generation_id),
            generation_id: self.generation_id.clone(),
            message_id: message.map(|id| id.to_string()),
            index,
            kind,
            content: String::new(),
            call_id: call.map(|id| id.to_string()),
            is_final: false,
        }
    }
}

fn message_of(event: &Event) -> Option<Id> {
    ours::get(event, ours::MESSAGE_ID).and_then(Value::as_str).map(Id::from)
}

#[cfg(test)]
mod tests {
    use chat::agui::{
        ReasoningMessageContent, ReasoningMessageStart, TextMessageChunk, TextMessageContent,
        TextMessageStart, ToolCallArgs, ToolCallEnd, ToolCallStart,
    };
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::caps::{AGENT_TURN_BYTES_MAX, CHUNKS_PER_GENERATION_MAX};

    fn text_start(id: &str) -> Event {
        TextMessageStart { message_id: id.into(), role: None, name: None }.into()
    }

    fn text(id: &str, delta: &str) -> Event {
        TextMessageContent { message_id: id.into(), delta: delta.into() }.into()
    }

    fn args(id: &str, delta: &str) -> Event {
        ToolCallArgs { tool_call_id: id.into(), delta: delta.into() }.into()
    }

    fn shown(chunks: &[Chunk]) -> Vec<(ChunkType, &str, Option<&str>, Option<&str>)> {
        chunks
            .iter()
            .map(|chunk| {
                let (message, call) = (chunk.message_id.as_deref(), chunk.call_id.as_deref());
                (chunk.kind, chunk.content.as_str(), message, call)
            })
            .collect()
    }

    #[test]
    fn pieces_of_one_block_grow_together_until_they_are_taken() {
        let mut chunker = Chunker::new("g", 7);
        chunker.take(&text_start("m"));
        assert!(chunker.is_empty());
        chunker.take(&text("m", "Hel"));
        chunker.take(&text("m", "lo"));
        let first = chunker.drain();
        assert_eq!(shown(&first), [(ChunkType::Text, "Hello", Some("m"), None)]);
        assert_eq!((first[0].id.as_str(), first[0].index), ("g:c7", 7));
        chunker.take(&text("m", "!"));
        assert_eq!(chunker.drain()[0].id, "g:c8");
        let end = chunker.finish("completed");
        assert_eq!((end.index, end.is_final, end.content.as_str()), (9, true, "completed"));
        assert_eq!((end.kind, chunker.next_index()), (ChunkType::End, 10));
    }

    #[test]
    fn every_piece_says_what_it_is_a_piece_of() {
        let mut chunker = Chunker::new("g", 0);
        let role = "reasoning".to_owned();
        let start = ReasoningMessageStart { message_id: "t".into(), role };
        chunker.take(&ours::with(start.into(), ours::MESSAGE_ID, json!("m")));
        let thought = ReasoningMessageContent { message_id: "t".into(), delta: "hm".into() };
        chunker.take(&thought.into());
        chunker.take(&ours::with(text_start("m-2"), ours::MESSAGE_ID, json!("m")));
        chunker.take(&text("m-2", "I look."));
        for call in ["a", "b"] {
            let parent = Some("m-2".into());
            let (id, name) = (call.into(), format!("tool_{call}"));
            let start =
                ToolCallStart { tool_call_id: id, tool_call_name: name, parent_message_id: parent };
            chunker.take(&start.into());
        }
        chunker.take(&args("a", "{\"x\""));
        chunker.take(&args("a", ":1}"));
        chunker.take(&args("b", "{}"));
        chunker.take(&ToolCallEnd { tool_call_id: "a".into() }.into());
        assert_eq!(
            shown(&chunker.drain()),
            [
                (ChunkType::Thinking, "hm", Some("m"), None),
                (ChunkType::Text, "I look.", Some("m"), None),
                (ChunkType::ToolCallStart, "tool_a", Some("m"), Some("a")),
                (ChunkType::ToolCallStart, "tool_b", Some("m"), Some("b")),
                (ChunkType::ToolCallArgs, "{\"x\":1}", Some("m"), Some("a")),
                (ChunkType::ToolCallArgs, "{}", Some("m"), Some("b")),
                (ChunkType::ToolCallEnd, "", Some("m"), Some("a")),
            ]
        );
    }

    #[test]
    fn events_that_are_three_in_one_are_read_too() {
        let mut chunker = Chunker::new("g", 0);
        let (role, name) = (None, None);
        for (message_id, delta) in [(Some("m".into()), "a"), (None, "b")] {
            let delta = Some(delta.to_owned());
            let name: Option<String> = name.clone();
            chunker.take(&TextMessageChunk { message_id, role, delta, name }.into());
        }
        assert_eq!(shown(&chunker.drain()), [(ChunkType::Text, "ab", Some("m"), None)]);
    }

    #[test]
    fn what_belongs_to_nothing_is_passed_over() {
        let mut chunker = Chunker::new("g", 0);
        let (message_id, role, name) = (None, None, None);
        let delta = Some("lost".to_owned());
        chunker.take(&TextMessageChunk { message_id, role, delta, name }.into());
        assert!(chunker.is_empty());
        assert_eq!(chunker.next_index(), 0);
    }

    #[test]
    fn blocks_that_take_turns_grow_side_by_side_until_they_are_taken() {
        let mut chunker = Chunker::new("g", 0);
        for _ in 0..3 {
            chunker.take(&text("a", "x"));
            chunker.take(&text("b", "y"));
        }
        let contents: Vec<_> = chunker.drain().into_iter().map(|chunk| chunk.content).collect();
        assert_eq!(contents, ["xxx", "yyy"]);
    }

    /// Writes whenever it is worth it; tells how many chunks that makes.
    fn chunks_of_a_turn(bytes: usize, delta: &str, blocks: &[&str]) -> u64 {
        let mut chunker = Chunker::new("g", 0);
        let (mut written, mut said, mut kept) = (0, 0, 0);
        for block in blocks.iter().cycle() {
            chunker.take(&text(block, delta));
            said += delta.len();
            if chunker.is_worth_writing(written) || said >= bytes {
                let chunks = chunker.drain();
                written += chunks.len() as u64;
                kept += chunks.iter().map(|chunk| chunk.content.len()).sum::<usize>();
            }
            if said >= bytes {
                assert_eq!(kept, said, "nothing is lost");
                return written;
            }
        }
        unreachable!("blocks take turns for ever")
    }

    #[test]
    fn a_turn_has_a_bounded_number_of_chunks_however_long_it_is() {
        let long = "x".repeat(3_000);
        for delta in ["to", "token ", long.as_str()] {
            for blocks in [&["a"][..], &["a", "b"], &["a", "b", "c", "d"]] {
                let chunks = chunks_of_a_turn(AGENT_TURN_BYTES_MAX, delta, blocks);
                let what = format!("{} bytes at a time, {} blocks", delta.len(), blocks.len());
                assert!(chunks <= CHUNKS_PER_GENERATION_MAX, "{chunks} chunks of {what}");
            }
        }
        assert_eq!(chunks_of_a_turn(6_000, "token ", &["a"]), 1_000, "few are written at once");
    }

    proptest! {
        #[test]
        fn the_text_is_whole_and_in_order_however_it_is_cut(
            deltas in proptest::collection::vec(("[aü€😀]{0,3000}", any::<bool>()), 0..8),
        ) {
            let mut chunker = Chunker::new("g", 0);
            chunker.take(&text_start("m"));
            let mut chunks = Vec::new();
            for (delta, is_taken) in &deltas {
                chunker.take(&text("m", delta));
                if *is_taken {
                    chunks.extend(chunker.drain());
                }
            }
            chunks.extend(chunker.drain());
            let whole: String = deltas.iter().map(|(delta, _)| delta.as_str()).collect();
            let again: String = chunks.iter().map(|chunk| chunk.content.as_str()).collect();
            prop_assert_eq!(again, whole);
            for (index, chunk) in (0..).zip(&chunks) {
                prop_assert_eq!(chunk.index, index);
                prop_assert!((1..=CHUNK_BYTES_MAX).contains(&chunk.content.len()));
            }
        }
    }
}
