//! Whose signature it is.
//!
//! A provider refuses what another has signed, and a conversation may move. So a signature leaves
//! here with the name of its provider before it, and only its provider sees it again, as it was.
//! One without a name is nobody's and is sent to whoever is asked.

use std::{collections::BTreeSet, sync::Arc};

use chat::{Block, Message, ModelEvent, Part, Request};

/// Stands before the name of the provider in a signature, and a colon behind it.
pub const SIGNATURE_MARK: &str = "headwater-signed:";

/// Marks the signatures of one answer.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// Blocks whose signature has begun: it may come in pieces.
    begun: BTreeSet<Block>,
}

impl Marked {
    pub(crate) fn mark(&mut self, provider: &str, event: &mut ModelEvent) {
        match event {
            ModelEvent::Open { block, .. } => {
                self.begun.remove(block);
            }
            ModelEvent::Sign { block, signature } if !signature.is_empty() => {
                let is_first = self.begun.insert(*block);
                let mark = if is_first { mark(provider) } else { String::new() };
                signature.insert_str(0, &mark);
            }
            _ => {}
        }
    }
}

/// The request with the signatures of this provider as it gave them, and none of others.
pub(crate) fn only_of(provider: &str, mut request: Arc<Request>) -> Arc<Request> {
    let is_marked = |message: &Message| message.parts.iter().any(is_marked);
    if !request.messages.iter().any(|message| is_marked(message)) {
        return request;
    }
    let mark = mark(provider);
    let unmarked = |message: &Arc<Message>| {
        if !is_marked(message) {
            return Arc::clone(message);
        }
        let mut message = Message::clone(message);
        for part in &mut message.parts {
            let Some(signature) = signature_of(part) else { continue };
            let theirs = signature.take();
            *signature = theirs.and_then(|theirs| match theirs.strip_prefix(&mark) {
                Some(own) => Some(own.to_owned()),
                None => Some(theirs).filter(|theirs| !theirs.starts_with(SIGNATURE_MARK)),
            });
        }
        Arc::new(message)
    };
    let messages = request.messages.iter().map(unmarked).collect();
    Arc::make_mut(&mut request).messages = messages;
    request
}

fn mark(provider: &str) -> String {
    format!("{SIGNATURE_MARK}{provider}:")
}

fn is_marked(part: &Part) -> bool {
    let signature = match part {
        Part::Text(text) => &text.signature,
        Part::Thinking(thinking) => &thinking.signature,
        Part::ToolCall(call) => &call.signature,
        _ => return false,
    };
    signature.as_ref().is_some_and(|signature| signature.starts_with(SIGNATURE_MARK))
}

const fn signature_of(part: &mut Part) -> Option<&mut Option<String>> {
    match part {
        Part::Text(text) => Some(&mut text.signature),
        Part::Thinking(thinking) => Some(&mut thinking.signature),
        Part::ToolCall(call) => Some(&mut call.signature),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use chat::{BlockKind, Role, Thinking};

    use super::*;

    fn thought(signature: &str) -> Part {
        let signature = Some(signature.to_owned());
        Part::Thinking(Thinking { signature, ..Thinking::default() })
    }

    fn told(provider: &str, signature: &str) -> Option<String> {
        let message = Message::new("m", Role::Assistant, vec![thought(signature)]);
        let request = Request { messages: [message].into(), ..Request::default() };
        let request = only_of(provider, Arc::new(request));
        let Part::Thinking(thinking) = &request.messages[0].parts[0] else { panic!() };
        thinking.signature.clone()
    }

    #[test]
    fn a_signature_is_seen_again_by_its_provider_alone() {
        let mut marked = Marked::default();
        let block = Block(0);
        let mut signature = String::new();
        for piece in ["", "ab", "cd"] {
            let mut event = ModelEvent::Sign { block, signature: piece.to_owned() };
            marked.mark("anthropic", &mut event);
            let ModelEvent::Sign { signature: piece, .. } = event else { panic!() };
            signature.push_str(&piece);
        }
        assert_eq!(told("anthropic", &signature).as_deref(), Some("abcd"));
        assert_eq!(told("openai", &signature), None);
        assert_eq!(told("anthropic-2", &signature), None);
        assert_eq!(told("openai", "raw").as_deref(), Some("raw"));
    }

    #[test]
    fn another_block_of_the_same_number_is_marked_anew() {
        let mut marked = Marked::default();
        let block = Block(0);
        for _ in 0..2 {
            marked.mark("p", &mut ModelEvent::Open { block, kind: BlockKind::Thinking });
            let mut event = ModelEvent::Sign { block, signature: "s".to_owned() };
            marked.mark("p", &mut event);
            let signature = format!("{SIGNATURE_MARK}p:s");
            assert_eq!(event, ModelEvent::Sign { block, signature });
        }
    }
}
