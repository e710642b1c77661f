//! What can happen when a model is asked.

use std::{fmt, str::FromStr};

use crate::Wire;

macro_rules! scenarios {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What happens when a model is asked. Its name is the name of the model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Scenario { $($(#[$doc])* $variant,)* }

        impl Scenario {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name of the model that stands for it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

scenarios! {
    /// A text in a few pieces.
    Text = "text",
    /// Two calls at once, interleaved where the wire allows it.
    ParallelTools = "parallel-tools",
    /// A call whose arguments come one character per event.
    SplitArguments = "split-arguments",
    /// A text and a call; the body comes one byte per chunk.
    SplitBytes = "split-bytes",
    /// Thoughts, with a signature where the wire has one, then a text.
    Thinking = "thinking",
    /// Thoughts, a text, thoughts again, a call.
    InterleavedThinking = "interleaved-thinking",
    /// A text that is JSON by a schema.
    Structured = "structured",
    /// The model does not want to.
    Refusal = "refusal",
    /// The provider does not let the answer through.
    ContentFilter = "content-filter",
    /// The answer becomes too long.
    MaxTokens = "max-tokens",
    /// A text, then a call.
    ToolsThenText = "tools-then-text",
    /// A call without arguments.
    NoArguments = "no-arguments",
    /// The provider runs a tool itself, then answers.
    ProviderTools = "provider-tools",
    /// Letters of every length; characters are cut across chunks, half of the events are escaped.
    Unicode = "unicode",
    /// A character whose two halves are escaped in two events.
    Surrogates = "surrogates",
    /// No word on why the answer ends, but a proper end. Some compatible servers do this.
    MissingFinish = "missing-finish",
    /// The connection breaks in the middle of an event.
    Disconnect = "disconnect",
    /// The body ends well in the middle of the answer, as a proxy ends it.
    EarlyEnd = "early-end",
    /// One event is no JSON.
    Malformed = "malformed",
    /// The provider fails after half of the answer and says so.
    FailsMidway = "fails-midway",
    /// A call, but the reason given is that of an answer without calls.
    LyingFinish = "lying-finish",
    /// Nothing is said at all.
    Empty = "empty",
    /// A text of 100 MB.
    Huge = "huge",
    /// An event of 100 MB that does not end.
    HugeFrame = "huge-frame",
    /// A refusal with `Retry-After: 0`, then a text. Any ending (`rate-limited-7`) begins anew.
    RateLimited = "rate-limited",
    /// A key that is refused.
    BadKey = "bad-key",
    /// A provider that has too much to do.
    Overloaded = "overloaded",
    /// A model that does not exist.
    UnknownModel = "unknown-model",
}

impl Scenario {
    /// Whether the wire can say it.
    #[must_use]
    pub const fn is_on(self, wire: Wire) -> bool {
        match self {
            Self::Refusal => !matches!(wire, Wire::Gemini | Wire::Ollama),
            Self::ContentFilter => matches!(wire, Wire::Chat | Wire::Responses | Wire::Gemini),
            Self::InterleavedThinking => !matches!(wire, Wire::Chat | Wire::Ollama),
            Self::ProviderTools => !matches!(wire, Wire::Chat | Wire::Ollama),
            // The others have no reason of their own for calls.
            Self::LyingFinish => matches!(wire, Wire::Chat | Wire::Anthropic),
            // The end of a response is its status; Gemini has no end but the reason.
            Self::MissingFinish => !matches!(wire, Wire::Responses | Wire::Gemini),
            _ => true,
        }
    }

    /// Whether it is far too long to be read.
    #[must_use]
    pub const fn is_huge(self) -> bool {
        matches!(self, Self::Huge | Self::HugeFrame)
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(model: &str) -> Result<Self, UnknownScenario> {
        let found = Self::ALL.iter().find(|one| one.name() == model).copied();
        found
            .or_else(|| model.starts_with("rate-limited-").then_some(Self::RateLimited))
            .ok_or(UnknownScenario)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No scenario has this name. The model is one that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownScenario;

impl fmt::Display for UnknownScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no scenario has this name")
    }
}

impl std::error::Error for UnknownScenario {}
