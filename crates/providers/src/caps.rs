//! Every bound of this crate.

use std::time::Duration;

/// Bytes of one answer.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of one event of an answer. Some wires repeat the whole answer in the last one.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of the answer to a request that was refused; what is longer is not read.
pub const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Characters of an answer that an error quotes.
pub const QUOTE_CHARS_MAX: usize = 200;
/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 4 * 1024;
/// A key that is shorter is not looked for in errors: it would be found in any text.
pub const SCRUBBED_KEY_BYTES_MIN: usize = 6;

/// How long a connection may take, unless the settings say otherwise.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long an answer may take to begin, unless the settings say otherwise.
pub const FIRST_BYTE_TIME: Duration = Duration::from_secs(300);
/// How long an answer may be silent, unless the settings say otherwise.
pub const IDLE_TIME: Duration = Duration::from_secs(120);
/// How long the end of a connection is waited for once the answer is whole.
pub const DRAIN_TIME: Duration = Duration::from_millis(20);
/// How often a request is made, unless the settings say otherwise.
pub const ATTEMPTS_MAX: u32 = 4;
/// How long all attempts may take together, unless the settings say otherwise.
pub const RETRY_TIME: Duration = Duration::from_secs(60);
/// The first pause between two attempts, before chance shortens it.
pub const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// The longest pause that we choose.
pub const PAUSE_MAX: Duration = Duration::from_secs(8);
/// The longest pause that a provider may ask for; what is longer counts as this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Connections to one provider that are kept for the next request.
pub const IDLE_CONNECTIONS_MAX: usize = 8;

/// Blocks that one answer may have open or remembered.
pub const BLOCKS_MAX: usize = chat::caps::BLOCKS_PER_TURN_MAX;
/// Nesting of a schema that OpenAI takes as strict.
pub const STRICT_DEPTH_MAX: usize = 10;
/// Properties of all objects of a schema that OpenAI takes as strict.
pub const STRICT_PROPERTIES_MAX: usize = 5_000;
/// Characters of the name of a schema or of a tool, by OpenAI's rules.
pub const OPENAI_NAME_LEN_MAX: usize = 64;
/// Characters of the id of a call, by the rules of Chat Completions.
pub const OPENAI_CALL_ID_LEN_MAX: usize = 40;

/// Nesting of a schema that is put into a provider's words.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// Characters of the id of a call, by Anthropic's rules.
pub const ANTHROPIC_CALL_ID_LEN_MAX: usize = 64;
/// Characters of the name of a tool or of a field of its arguments, by Anthropic's rules.
pub const ANTHROPIC_NAME_LEN_MAX: usize = 64;
/// Tokens of an answer of Anthropic, unless the request says otherwise: it must say something.
pub const ANTHROPIC_TOKENS_DEFAULT: u32 = 16_384;
/// The same for models that write less.
pub const ANTHROPIC_TOKENS_DEFAULT_OLD: u32 = 4_096;
/// The least tokens that Anthropic lets a model think.
pub const ANTHROPIC_THINKING_TOKENS_MIN: u32 = 1_024;
/// Tokens that a little thinking may take, where Anthropic wants a number.
pub const ANTHROPIC_THINKING_TOKENS_LOW: u32 = 2_048;
/// The same for more.
pub const ANTHROPIC_THINKING_TOKENS_MEDIUM: u32 = 8_192;
/// The same for much.
pub const ANTHROPIC_THINKING_TOKENS_HIGH: u32 = 24_576;
/// Characters of the name of a tool, by Gemini's rules.
pub const GEMINI_NAME_LEN_MAX: usize = 64;
/// Tokens that a little thinking may take, where Gemini wants a number.
pub const GEMINI_THINKING_TOKENS_LOW: u32 = 1_024;
/// The same for more.
pub const GEMINI_THINKING_TOKENS_MEDIUM: u32 = 8_192;
/// The same for much; no model of Gemini takes more.
pub const GEMINI_THINKING_TOKENS_HIGH: u32 = 24_576;

const _: () = assert!(FRAME_BYTES_MAX <= ANSWER_BYTES_MAX);
const _: () = assert!(REFUSAL_BYTES_MAX <= FRAME_BYTES_MAX);
