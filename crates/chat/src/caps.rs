//! Every bound of this crate.

use std::time::Duration;

/// Model turns of one run, unless the run says otherwise.
pub const TURNS_DEFAULT: u32 = 5;
/// Model turns of one run, whatever it says.
pub const TURNS_MAX: u32 = 2_000;
/// Tool calls in one turn; those beyond are answered with an error.
pub const CALLS_PER_TURN_MAX: usize = 128;
/// Tools that run at the same time, unless the run says otherwise.
pub const TOOLS_PARALLEL_DEFAULT: usize = 8;
/// Bytes that one model turn may stream.
pub const TURN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Blocks in one model turn.
pub const BLOCKS_PER_TURN_MAX: usize = 1_024;
/// How often a model is asked to mend an answer that does not fit its schema.
pub const REPAIRS_MAX: u32 = 2;
/// How long a tool may take, unless it says otherwise.
pub const TOOL_TIME_DEFAULT: Duration = Duration::from_secs(60);
/// Bytes of one answer of a tool, unless it says otherwise.
pub const TOOL_OUTPUT_BYTES_DEFAULT: usize = 256 * 1024;
/// Bytes that a failure may say at least, however little the tool may answer.
pub const TOOL_FAILURE_BYTES_MIN: usize = 4 * 1024;
/// Bytes of the note in place of what was cut from an answer; they are not counted.
pub const CUT_NOTE_BYTES_MAX: usize = 80;
/// Tools of one run.
pub const TOOLS_MAX: usize = 1_024;
/// Names of tools that are told to a model that called one that is not there.
pub const TOOLS_TOLD_MAX: usize = 64;
/// Bytes of the name of a tool; the least that any provider allows.
pub const TOOL_NAME_LEN_MAX: usize = 64;
/// Complaints about arguments that are told to a model at once.
pub const COMPLAINTS_MAX: usize = 8;
/// Bytes of one such complaint, which may quote what it is about.
pub const COMPLAINT_BYTES_MAX: usize = 256;
/// Levels of a JSON Schema, and references in it that follow each other.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// Events that wait for whoever reads a run.
pub const EVENTS_WAITING_MAX: usize = 256;
/// Events of its own that a tool may have waiting.
pub const TOOL_EVENTS_WAITING_MAX: usize = 64;
/// Ids of one kind that the events of one run are checked for.
pub const VERIFIED_IDS_MAX: usize = 1 << 20;
/// Messages of one transcript.
pub const TRANSCRIPT_MESSAGES_MAX: usize = 1 << 20;
/// Parts of one message of a transcript.
pub const TRANSCRIPT_PARTS_MAX: usize = 1 << 16;
/// Bytes of text in one transcript.
pub const TRANSCRIPT_BYTES_MAX: usize = 1 << 30;
