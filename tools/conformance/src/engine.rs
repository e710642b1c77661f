//! The log engines a server can be started with.

use std::{error::Error, fmt, str::FromStr};

/// The log engine the server under test stores its streams in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Streams on disk.
    File,
    /// Streams in memory, gone with the process.
    Memory,
}

impl Engine {
    /// Every engine the suite must pass on.
    pub const ALL: [Self; 2] = [Self::File, Self::Memory];

    /// The word the server's `--engine` flag takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(word: &str) -> Result<Self, UnknownEngine> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == word);
        found.ok_or_else(|| UnknownEngine(word.to_owned()))
    }
}

/// A word that names no engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEngine(String);

impl fmt::Display for UnknownEngine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}` is no engine; there are: file, memory", self.0)
    }
}

impl Error for UnknownEngine {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_parsed_from_its_name() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        assert_eq!("disk".parse::<Engine>(), Err(UnknownEngine("disk".to_owned())));
    }
}
