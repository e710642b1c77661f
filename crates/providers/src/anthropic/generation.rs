//! What a model of Anthropic allows, as far as its name tells.

use chat::Structured;

use crate::caps::{ANTHROPIC_TOKENS_DEFAULT, ANTHROPIC_TOKENS_DEFAULT_OLD};

/// The version in a model's name; none if there is none that we can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(Option<(u32, u32)>);

impl Generation {
    pub(super) fn of(model: &str) -> Self {
        if !model.contains("claude") {
            return Self(None);
        }
        // Longer numbers are dates.
        let short = |word: &&str| word.len() <= 2;
        let mut numbers =
            model.split(['-', '.']).filter(short).filter_map(|word| word.parse::<u32>().ok());
        Self(numbers.next().map(|major| (major, numbers.next().unwrap_or(0))))
    }

    /// Whether the model decides itself how long it thinks.
    pub(super) fn thinks_as_needed(self) -> bool {
        self.0.is_none_or(|version| version >= (4, 6))
    }

    /// Whether the model can be told how many tokens it may think.
    pub(super) fn takes_thinking_tokens(self) -> bool {
        self.0.is_none_or(|version| version <= (4, 6))
    }

    /// Whether the model can be told how freely to choose words.
    pub(super) fn takes_sampling(self) -> bool {
        self.0.is_none_or(|version| version <= (4, 6))
    }

    /// How the model answers by a schema.
    pub(super) fn structured(self) -> Structured {
        match self.0.is_none_or(|version| version >= (4, 1)) {
            true => Structured::Combined,
            false => Structured::Prompted,
        }
    }

    /// Tokens of an answer, if the request does not say.
    pub(super) fn tokens_default(self) -> u32 {
        match self.0.is_none_or(|version| version >= (3, 7)) {
            true => ANTHROPIC_TOKENS_DEFAULT,
            false => ANTHROPIC_TOKENS_DEFAULT_OLD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_versions() {
        let rows = [
            ("claude-3-5-haiku-20241022", Some((3, 5))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-opus-4.6", Some((4, 6))),
            ("claude-sonnet-5", Some((5, 0))),
            ("anthropic.claude-opus-4-8-v1:0", Some((4, 8))),
            ("claude-mythos-preview", None),
            ("my-proxy-4-2", None),
        ];
        for (model, version) in rows {
            assert_eq!(Generation::of(model), Generation(version), "of {model}");
        }
    }
}
