//! A run on a terminal: the answer on the standard output, everything else beside it.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use chat::{
    Id,
    agui::{Content, Event, EventKind},
};

use crate::{failure::Failure, output};

const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";
/// Characters of a tool's answer that are shown.
const RESULT_LEN_MAX: usize = 200;

/// What is shown, and where the cursor is.
pub(super) struct Screen {
    is_colourful: bool,
    /// Names and arguments of calls under way.
    calls: BTreeMap<Id, (String, String)>,
    aside: Aside,
    /// Whether the answer ends in the middle of a line.
    answer_is_open: bool,
}

/// What was last said beside the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aside {
    /// Nothing, or whole lines.
    Closed,
    Thinking,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            is_colourful: output::is_colourful(&io::stderr()),
            calls: BTreeMap::new(),
            aside: Aside::Closed,
            answer_is_open: false,
        }
    }

    pub(super) fn show(&mut self, event: &Event) -> Result<(), Failure> {
        match &event.kind {
            EventKind::TextMessageContent(content) => self.answer(&content.delta),
            EventKind::TextMessageEnd(_) => self.end_line(),
            EventKind::ReasoningMessageContent(content) => self.think(&content.delta),
            EventKind::ReasoningMessageEnd(_) => {
                self.close_aside();
                Ok(())
            }
            EventKind::ToolCallStart(start) => {
                let call = (start.tool_call_name.clone(), String::new());
                self.calls.insert(start.tool_call_id.clone(), call);
                Ok(())
            }
            EventKind::ToolCallArgs(args) => {
                if let Some((_, arguments)) = self.calls.get_mut(&args.tool_call_id) {
                    arguments.push_str(&args.delta);
                }
                Ok(())
            }
            EventKind::ToolCallEnd(end) => {
                let call = self.calls.get(&end.tool_call_id);
                let line = call.map(|(name, arguments)| format!("→ {name} {arguments}"));
                self.beside(&line.unwrap_or_default())
            }
            EventKind::ToolCallResult(result) => {
                // Answers come in any order, so each says what it is the answer to.
                let call = self.calls.remove(&result.tool_call_id);
                let asked = call.map(|(name, arguments)| format!("{name} {arguments}"));
                let answer = shortened(&result.content);
                self.beside(&format!("← {} {answer}", asked.unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// Leaves the terminal as it was found.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        self.close_aside();
        self.end_line()
    }

    fn answer(&mut self, delta: &str) -> Result<(), Failure> {
        self.close_aside();
        self.answer_is_open = !delta.ends_with('\n');
        output::raw(delta.as_bytes())
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.answer_is_open) {
            output::raw(b"\n")?;
        }
        Ok(())
    }

    fn think(&mut self, delta: &str) -> Result<(), Failure> {
        self.end_line()?;
        if self.aside == Aside::Closed {
            self.say(if self.is_colourful { DIM } else { "" });
            self.aside = Aside::Thinking;
        }
        self.say(delta);
        Ok(())
    }

    /// A line beside the answer.
    fn beside(&mut self, line: &str) -> Result<(), Failure> {
        self.close_aside();
        self.end_line()?;
        let (on, off) = if self.is_colourful { (DIM, PLAIN) } else { ("", "") };
        self.say(&format!("{on}{line}{off}\n"));
        Ok(())
    }

    fn close_aside(&mut self) {
        if self.aside == Aside::Thinking {
            self.say(if self.is_colourful { "\x1b[0m\n" } else { "\n" });
            self.aside = Aside::Closed;
        }
    }

    #[allow(clippy::unused_self, reason = "it says it beside this screen's answer")]
    fn say(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        // With nobody left to read it, there is nobody to tell that either.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

/// The start of an answer, on one line.
fn shortened(content: &Content) -> String {
    let text = match content {
        Content::Text(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        Content::Parts(parts) => format!("({} parts)", parts.len()),
    };
    match text.char_indices().nth(RESULT_LEN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
