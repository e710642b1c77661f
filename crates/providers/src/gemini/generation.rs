//! What a model of Gemini allows, as far as its name tells.

use chat::Structured;

/// The version in a model's name; none if there is none that we can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(Option<u32>);

impl Generation {
    pub(super) fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let version = name.strip_prefix("gemini-");
        let major = version.and_then(|version| version.split(['-', '.']).next());
        Self(major.and_then(|major| major.parse().ok()))
    }

    /// Models since the third take levels of thinking, media in the answers of tools, and tools
    /// beside a schema, and want their signatures back. A name without a number is a new one.
    pub(super) fn is_new(self) -> bool {
        self.0.is_none_or(|major| major >= 3)
    }

    /// How the model answers by a schema.
    pub(super) fn structured(self) -> Structured {
        match self.is_new() {
            true => Structured::Combined,
            false => Structured::Final,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_versions() {
        let rows = [
            ("gemini-2.5-flash", Some(2)),
            ("gemini-3-pro-preview", Some(3)),
            ("models/gemini-3.1-flash", Some(3)),
            ("gemini-flash-latest", None),
            ("tunedModels/mine", None),
        ];
        for (model, version) in rows {
            assert_eq!(Generation::of(model), Generation(version), "of {model}");
        }
    }
}
