//! Blocks of an answer: their numbers, and the text or thought that is open.

use chat::{Block, BlockKind, ModelEvent};

/// Gives numbers to blocks, and keeps one text or thought open at a time.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    next: u32,
    open: Option<(Block, Prose)>,
}

/// A block of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prose {
    Text,
    Thinking,
}

impl Blocks {
    /// Opens a block.
    pub(crate) fn open(&mut self, kind: BlockKind, out: &mut Vec<ModelEvent>) -> Block {
        let block = Block(self.next);
        self.next += 1;
        out.push(ModelEvent::Open { block, kind });
        block
    }

    /// How many there were.
    pub(crate) const fn count(&self) -> usize {
        self.next as usize
    }

    /// Adds words to the open block, or to a new one if those are of the other kind.
    pub(crate) fn add(&mut self, prose: Prose, delta: String, out: &mut Vec<ModelEvent>) {
        let block = match self.open {
            Some((block, open)) if open == prose => block,
            _ => {
                self.close(out);
                let kind = match prose {
                    Prose::Text => BlockKind::Text,
                    Prose::Thinking => BlockKind::Thinking,
                };
                let block = self.open(kind, out);
                self.open = Some((block, prose));
                block
            }
        };
        out.push(ModelEvent::More { block, delta });
    }

    /// Signs the open thought, or a new one that has no words.
    #[cfg(feature = "genai")]
    pub(crate) fn sign_thinking(&mut self, signature: String, out: &mut Vec<ModelEvent>) {
        let block = match self.open {
            Some((block, Prose::Thinking)) => block,
            _ => {
                self.close(out);
                let block = self.open(BlockKind::Thinking, out);
                self.open = Some((block, Prose::Thinking));
                block
            }
        };
        out.push(ModelEvent::Sign { block, signature });
    }

    /// Closes the open text or thought.
    pub(crate) fn close(&mut self, out: &mut Vec<ModelEvent>) {
        if let Some((block, _)) = self.open.take() {
            out.push(ModelEvent::Close { block });
        }
    }
}
