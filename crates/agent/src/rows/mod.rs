//! The rows of a session: what is said, what is done about it, and who does it.
//!
//! Each type has one writer at a time. What others have to say about a row, such as a stop, a
//! claim or a decision, is a row of its own. `docs/rows.md` tells where each field comes from.

mod call;
mod generation;
mod message;
mod signal;

use std::time::Duration;

use serde_json::{Value, json};
use sys::{Sys, UnixMs};
use wire::Timestamp;

pub use self::{
    call::{CallStatus, Effect, ToolCall},
    generation::{CancelledBy, Chunk, ChunkType, Generation, GenerationStatus, Step, StepStatus},
    message::{Message, MessagePart, Role},
    signal::{Claim, Decision, Resolution, Runner, Stop},
};
use crate::contract::{admits_call, admits_generation};
use live::{Compaction, Row, StreamDbBuilder};

/// The time now, as rows tell it.
#[must_use]
pub fn now(sys: &Sys) -> String {
    Timestamp::from_unix_ms(sys.clock.unix_ms().get()).to_string()
}

/// A database that knows every row of a session but its chunks, which only those need who watch
/// a text grow. What has ended stays ended in it, whoever still writes.
pub fn session(builder: StreamDbBuilder) -> StreamDbBuilder {
    builder
        .admits::<Generation>(admits_generation)
        .admits::<Step>(Step::admits)
        .admits::<ToolCall>(admits_call)
        .with::<Message>()
        .with::<Generation>()
        .with::<Step>()
        .with::<ToolCall>()
        .with::<Claim>()
        .with::<Stop>()
        .with::<Resolution>()
        .with::<Runner>()
}

/// A compaction that keeps the rows of a session as [`session`] shows them.
pub fn compaction(compaction: Compaction) -> Compaction {
    compaction
        .admits::<Generation>(admits_generation)
        .admits::<Step>(Step::admits)
        .admits::<ToolCall>(admits_call)
}

/// How long the pieces are kept that a text was made of while it grew. They are most of a session,
/// and the message repeats them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeepChunks {
    /// Until their message is there and its generation has ended.
    #[default]
    UntilMessage,
    /// For this long after that.
    For(Duration),
    /// For ever.
    Forever,
}

/// The same compaction, without chunks that no reader needs any more at this time. It must hold
/// what [`oldest_open`](crate::oldest_open) tells.
pub fn drop_chunks(compaction: Compaction, keep: KeepChunks, now: UnixMs) -> Compaction {
    let since = match keep {
        KeepChunks::UntilMessage => now,
        KeepChunks::For(time) => UnixMs::new(now.get().saturating_sub(time.as_millis() as u64)),
        KeepChunks::Forever => return compaction,
    };
    compaction.drops(move |chunk: &Chunk, rows| is_repeated(chunk, rows, since))
}

/// Whether a message repeats what a chunk says, of a generation that has ended before a time.
fn is_repeated(chunk: &Chunk, rows: &state::State, since: UnixMs) -> bool {
    let generation = rows.get(Generation::NAME, &chunk.generation_id);
    let generation = generation.and_then(|row| row.value.read::<Generation>().ok());
    let Some(generation) = generation.filter(|row| row.status.is_terminal()) else { return false };
    let ended = generation.completed_at.and_then(|at| at.parse::<Timestamp>().ok());
    let has_message =
        |id: &String| chunk.kind == ChunkType::End || rows.get(Message::NAME, id).is_some();
    ended.is_none_or(|at| at.unix_ms() <= since.get())
        && chunk.message_id.as_ref().is_none_or(has_message)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The JSON Schemas of all rows, by type.
#[must_use]
pub fn schemas() -> Value {
    json!({
        Message::NAME: schema::<Message>(),
        Generation::NAME: schema::<Generation>(),
        Step::NAME: schema::<Step>(),
        Chunk::NAME: schema::<Chunk>(),
        ToolCall::NAME: schema::<ToolCall>(),
        Claim::NAME: schema::<Claim>(),
        Stop::NAME: schema::<Stop>(),
        Resolution::NAME: schema::<Resolution>(),
        Runner::NAME: schema::<Runner>(),
    })
}

fn schema<R: Row>() -> Value {
    serde_json::from_str(&R::json_schema().to_string()).unwrap_or_default()
}
