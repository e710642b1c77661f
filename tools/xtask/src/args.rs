//! The few words a command is given.

use std::{env, str::FromStr};

use anyhow::{Result, anyhow, ensure};

/// Words not yet taken, in order.
pub(crate) struct Args(Vec<String>);

impl Args {
    pub(crate) fn from_env() -> Self {
        Self(env::args().skip(1).collect())
    }

    /// Takes the next word that is not an option.
    pub(crate) fn positional(&mut self) -> Option<String> {
        let next_is_word = self.0.first().is_some_and(|word| !word.starts_with('-'));
        next_is_word.then(|| self.0.remove(0))
    }

    /// Takes `--name VALUE` from anywhere among the words.
    pub(crate) fn option(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.0.iter().position(|word| word == name) else {
            return Ok(None);
        };
        ensure!(at + 1 < self.0.len(), "{name} needs a value");
        self.0.remove(at);
        Ok(Some(self.0.remove(at)))
    }

    /// Everything not taken, to be handed on.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0
    }

    /// Ends the parsing: a word nobody took is a mistake.
    pub(crate) fn finish(self) -> Result<()> {
        ensure!(self.0.is_empty(), "cannot make sense of `{}`", self.0.join(" "));
        Ok(())
    }
}

/// Reads `word`, saying what it should have been if it cannot be read.
pub(crate) fn parse<T: FromStr>(word: &str, expected: &str) -> Result<T> {
    word.parse().map_err(|_| anyhow!("`{word}` is not {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn options_are_found_anywhere() {
        let mut args = args("json --seconds 20");
        assert_eq!(args.option("--seconds").unwrap().as_deref(), Some("20"));
        assert_eq!(args.positional().as_deref(), Some("json"));
        assert_eq!(args.positional(), None);
        args.finish().unwrap();
    }

    #[test]
    fn mistakes_are_named() {
        let no_value = args("--stage").option("--stage").unwrap_err();
        assert_eq!(no_value.to_string(), "--stage needs a value");
        let unknown = args("--loud").finish().unwrap_err();
        assert_eq!(unknown.to_string(), "cannot make sense of `--loud`");
        let no_number = parse::<u32>("ten", "a number of seconds").unwrap_err();
        assert_eq!(no_number.to_string(), "`ten` is not a number of seconds");
    }
}
