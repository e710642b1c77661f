//! A turn as the events it becomes: words, blocks, what it costs, and where it is cut.

use std::{collections::VecDeque, time::Duration};

use chat::{
    Block, BlockKind, Id, ModelError, ModelErrorKind, ModelEvent, Part, Request, StopReason, Usage,
    agui::{Content, ContentPart},
};
use serde_json::Value;

use super::{
    caps::PIECE_LETTERS,
    script::{Call, Fail, Say, Turn},
};

/// Whose failures they are.
pub(super) const PROVIDER: &str = "scripted";

/// One thing that happens.
#[derive(Debug)]
pub(super) enum Beat {
    Event(ModelEvent),
    Pause(Duration),
    Fail(ModelError),
}

/// Makes beats of a turn. A token is a word, or a piece of arguments.
#[derive(Debug)]
pub(super) struct Plan {
    beats: VecDeque<Beat>,
    /// The conversation's length, which makes ids its own.
    messages: usize,
    blocks: u32,
    calls: usize,
    tokens_left: u64,
    written: u64,
    thought: u64,
    read: u64,
    is_over: bool,
}

impl Plan {
    /// What happens when a model that says this is asked that.
    pub(super) fn of(turn: &Turn, request: &Request, model: &Id) -> VecDeque<Beat> {
        let tokens_max = request.settings.tokens_max.map_or(u64::MAX, u64::from);
        let mut plan = Self {
            beats: VecDeque::new(),
            messages: request.messages.len(),
            blocks: 0,
            calls: 0,
            tokens_left: tokens_max,
            written: 0,
            thought: 0,
            read: words_of(request),
            is_over: false,
        };
        plan.event(ModelEvent::Answering { model: model.clone() });
        for say in &turn.says {
            plan.say(say, model);
            if plan.is_over {
                return plan.beats;
            }
        }
        let reason = if plan.calls == 0 { StopReason::End } else { StopReason::ToolCalls };
        plan.end(Some(reason), model);
        plan.beats
    }

    fn say(&mut self, say: &Say, model: &Id) {
        let is_cut = match say {
            Say::Text(text) => self.block(BlockKind::Text, words(text)),
            Say::Think(thoughts) => self.block(BlockKind::Thinking, words(thoughts)),
            Say::Call(call) => self.calls(std::slice::from_ref(call)),
            Say::Calls(calls) => self.calls(calls),
            Say::Event(event) => {
                self.event(event.clone());
                false
            }
            Say::PauseMs(ms) => {
                self.beats.push_back(Beat::Pause(Duration::from_millis(*ms)));
                false
            }
            Say::Stop(reason) => return self.end(reason.clone(), model),
            Say::Fail(fail) => return self.fail(fail.error()),
            Say::Disconnect => {
                let why = "the connection broke, as the script says; ask again";
                let error = ModelError::new(PROVIDER, ModelErrorKind::Truncated, why);
                return self.fail(error);
            }
        };
        if is_cut {
            self.end(Some(StopReason::Length), model);
        }
    }

    fn fail(&mut self, error: ModelError) {
        self.beats.push_back(Beat::Fail(error));
        self.is_over = true;
    }

    fn end(&mut self, reason: Option<StopReason>, model: &Id) {
        let written = self.written + self.thought;
        self.event(ModelEvent::Usage(Usage {
            provider: Some(PROVIDER.to_owned()),
            model: Some(model.to_string()),
            input_tokens: Some(self.read),
            output_tokens: Some(written),
            total_tokens: Some(self.read + written),
            reasoning_tokens: (self.thought > 0).then_some(self.thought),
            ..Usage::default()
        }));
        if let Some(reason) = reason {
            self.event(ModelEvent::Stop(reason));
        }
        self.is_over = true;
    }

    /// A block of these pieces; whether it was cut.
    fn block<'a>(&mut self, kind: BlockKind, pieces: impl Iterator<Item = &'a str>) -> bool {
        let is_thinking = kind == BlockKind::Thinking;
        let block = self.open(kind);
        let mut is_cut = false;
        for piece in pieces {
            is_cut = !self.more(block, piece, is_thinking);
            if is_cut {
                break;
            }
        }
        self.event(ModelEvent::Close { block });
        is_cut
    }

    /// Calls whose pieces come in turn; whether they were cut.
    fn calls(&mut self, calls: &[Call]) -> bool {
        let mut open: Vec<_> = calls
            .iter()
            .map(|call| {
                let made = || Id::from(format!("call-{}-{}", self.messages, self.calls));
                let id = Some(call.id.clone().unwrap_or_else(made));
                self.calls += 1;
                let block = self.open(BlockKind::Call { id, name: call.name.clone() });
                (block, pieces(&call.arguments).into_iter())
            })
            .collect();
        let mut is_cut = false;
        let mut is_more = true;
        while is_more && !is_cut {
            is_more = false;
            for (block, pieces) in &mut open {
                let Some(piece) = pieces.next() else { continue };
                is_more = true;
                is_cut |= !self.more(*block, &piece, false);
            }
        }
        for (block, _) in open {
            self.event(ModelEvent::Close { block });
        }
        is_cut
    }

    fn open(&mut self, kind: BlockKind) -> Block {
        let block = Block(self.blocks);
        self.blocks += 1;
        self.event(ModelEvent::Open { block, kind });
        block
    }

    /// One more token, if there is one left.
    fn more(&mut self, block: Block, delta: &str, is_thinking: bool) -> bool {
        let Some(left) = self.tokens_left.checked_sub(1) else { return false };
        self.tokens_left = left;
        *(if is_thinking { &mut self.thought } else { &mut self.written }) += 1;
        self.event(ModelEvent::More { block, delta: delta.to_owned() });
        true
    }

    fn event(&mut self, event: ModelEvent) {
        self.beats.push_back(Beat::Event(event));
    }
}

impl Fail {
    fn error(&self) -> ModelError {
        let message = self.message.clone();
        let message =
            message.unwrap_or_else(|| format!("the script fails here with {:?}", self.kind.code()));
        let mut error = ModelError::new(PROVIDER, self.kind, message);
        error.retry_after = self.retry_after_ms.map(Duration::from_millis);
        error
    }
}

/// Text with the blanks after them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_word = |letter: char| !letter.is_whitespace();
        let Some(word) = rest.find(is_word) else { return Some(std::mem::take(&mut rest)) };
        let blank = rest[word..].find(char::is_whitespace).map_or(rest.len(), |at| word + at);
        let next = rest[blank..].find(is_word);
        let end = next.map_or(rest.len(), |at| blank + at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Arguments as a model writes them, a few letters at a time.
fn pieces(arguments: &Value) -> Vec<String> {
    let text = match arguments {
        Value::String(text) => text.clone(),
        Value::Null => return Vec::new(),
        arguments => arguments.to_string(),
    };
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(PIECE_LETTERS).map(|piece| piece.iter().collect()).collect()
}

/// Text that a model reads.
fn words_of(request: &Request) -> u64 {
    let count = |text: &str| text.split_whitespace().count();
    let system: usize = request.system.iter().map(|text| count(text)).sum();
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let parts: usize = parts
        .map(|part| match part {
            Part::Text(text) => count(&text.text),
            Part::Thinking(thinking) => count(&thinking.text),
            Part::ToolCall(call) => count(&call.arguments),
            Part::ToolResult(result) => text_of(&result.content).map(count).sum(),
            _ => 1,
        })
        .sum();
    u64::try_from(system + parts).unwrap_or(u64::MAX)
}

/// The texts of an answer.
pub(super) fn text_of(content: &Content) -> impl Iterator<Item = &str> {
    let (text, parts) = match content {
        Content::Text(text) => (Some(text.as_str()), &[][..]),
        Content::Parts(parts) => (None, parts.as_slice()),
    };
    text.into_iter().chain(parts.iter().filter_map(|part| match part {
        ContentPart::Text(text) => Some(text.text.as_str()),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_all_of_a_text() {
        for (text, expected) in [
            ("", vec![]),
            ("one", vec!["one"]),
            (" \n", vec![" \n"]),
            (" one  two\nthree ", vec![" one  ", "two\n", "three "]),
            ("ein größeres", vec!["ein ", "größeres"]),
        ] {
            assert_eq!(words(text).collect::<Vec<_>>(), expected);
        }
    }
}
