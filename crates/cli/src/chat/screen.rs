//! A conversation on a terminal: what is said on the standard output, everything else beside it.
//!
//! A program that pipes questions in wants their answers, and finds nothing else on that output:
//! what was said before, and the questions, are beside it too. If a program reads the answers, it
//! gets each of them when it is whole, since what was only begun may be taken back.

use std::io::{self, IsTerminal as _, Write as _};

use sessions::SessionId;

use super::talk::{News, Talk};
use crate::{failure::Failure, output};

/// Characters of a tool's call and answer that are shown.
const ASIDE_LEN_MAX: usize = 200;

/// Where the cursor is, and what was typed here.
pub(super) struct Screen {
    is_terminal: bool,
    /// Whether answers are shown as they grow.
    is_watched: bool,
    is_colourful: bool,
    /// Whether the answer ends in the middle of a line.
    is_open: bool,
    has_prompt: bool,
    is_past: bool,
}

impl Screen {
    pub(super) fn new(is_terminal: bool) -> Self {
        Self {
            is_terminal,
            is_watched: io::stdout().is_terminal(),
            is_colourful: output::is_colourful(&io::stderr()),
            is_open: false,
            has_prompt: false,
            is_past: true,
        }
    }

    pub(super) fn open(&mut self, session: &SessionId, about: &str) -> Result<(), Failure> {
        self.beside(&format!("session {session}; {about}"))
    }

    /// What was said before.
    pub(super) fn show_past(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        // Pieces of an answer are told once: as pieces while it grows, as a whole when it is over.
        let mut news = Vec::new();
        while let Some(new) = talk.news() {
            match new {
                News::Again => {
                    while matches!(news.last(), Some(News::More(_))) {
                        news.pop();
                    }
                }
                new => news.push(new),
            }
        }
        // An answer that still grows is not past.
        let grows = news.iter().rev().take_while(|new| matches!(new, News::More(_))).count();
        let present = news.split_off(news.len() - grows);
        for new in news {
            self.tell(new)?;
        }
        self.end_line()?;
        self.is_past = false;
        present.into_iter().try_for_each(|new| self.tell(new))
    }

    pub(super) fn show(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        while let Some(new) = talk.news() {
            self.tell(new)?;
        }
        Ok(())
    }

    pub(super) fn prompt(&mut self) -> Result<(), Failure> {
        if !self.is_terminal || self.has_prompt {
            return Ok(());
        }
        self.end_line()?;
        self.has_prompt = true;
        output::raw(b"> ")
    }

    /// A line was typed to its end: the cursor is on a new one.
    pub(super) fn entered(&mut self) {
        self.has_prompt = false;
    }

    /// Leaves the terminal as it was found.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        if self.has_prompt {
            self.is_open = true;
        }
        self.end_line()
    }

    fn tell(&mut self, news: News) -> Result<(), Failure> {
        match news {
            // What was typed here stands here already.
            News::Said { is_ours: true, .. } if self.is_terminal => Ok(()),
            News::Said { text, .. } if self.is_terminal => {
                self.end_line()?;
                self.answer(&format!("> {text}\n"))
            }
            News::Said { text, .. } => self.beside(&format!("> {text}")),
            News::More(text) if self.is_watched => self.answer(&text),
            News::More(_) => Ok(()),
            News::Again => {
                self.end_line()?;
                self.beside("the answer begins again")
            }
            News::Whole { text, is_told } => {
                let is_shown = is_told && self.is_watched;
                self.answer(if is_shown { "" } else { &text })?;
                self.end_line()
            }
            News::Calls(what) => self.beside(&format!("→ {what}")),
            News::Answers(what) => self.beside(&format!("← {what}")),
            News::Ended(how) => {
                self.end_line()?;
                self.beside(&how)
            }
        }
    }

    fn answer(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        if self.has_prompt {
            self.has_prompt = false;
            self.put("\n")?;
        }
        self.is_open = !text.ends_with('\n');
        self.put(&plain(text))
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_open) {
            true => self.put("\n"),
            false => Ok(()),
        }
    }

    fn put(&self, text: &str) -> Result<(), Failure> {
        if self.is_terminal || !self.is_past {
            return output::raw(text.as_bytes());
        }
        // With nobody left to read it, there is nobody to tell that either.
        let _ = io::stderr().lock().write_all(text.as_bytes());
        Ok(())
    }

    /// Says something that is not part of the conversation.
    pub(super) fn beside(&mut self, line: &str) -> Result<(), Failure> {
        self.is_open |= std::mem::take(&mut self.has_prompt);
        self.end_line()?;
        let (on, off) = if self.is_colourful { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        let line = match line.char_indices().nth(ASIDE_LEN_MAX) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line.to_owned(),
        };
        let line = plain(&line).replace('\n', " ");
        // With nobody left to read it, there is nobody to tell that either.
        let _ = writeln!(io::stderr().lock(), "{on}{line}{off}");
        Ok(())
    }
}

/// A text without what a terminal would obey.
fn plain(text: &str) -> String {
    let is_obeyed = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    text.chars().filter(|letter| !is_obeyed(*letter)).collect()
}
