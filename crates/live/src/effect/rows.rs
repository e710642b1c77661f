//! What handlers commit, and why that may fail.

use query::{Key, Row, Value};
use state::{BadName, Draft, Json, TypeName};

/// Rows for [`Context::commit`](super::Context::commit).
#[derive(Debug, Default)]
pub struct Rows {
    drafts: Vec<Result<Draft, String>>,
    bytes: usize,
}

/// What a row has on the wire beside its type, key and value, about.
const ENVELOPE_BYTES: usize = 256;

impl Rows {
    /// A row, new or in place of another.
    pub fn put<R: Row>(&mut self, row: &R) {
        self.push_put(R::NAME, &Row::key(row), serde_json::to_string(row));
    }

    /// One row less.
    pub fn delete<R: Row>(&mut self, key: impl Into<Key>) {
        let draft = names(R::NAME, &key.into()).map(|(name, key)| Draft::delete(name, key));
        self.push(draft, 0);
    }

    fn push_put(&mut self, name: &str, key: &Key, row: serde_json::Result<String>) {
        let bytes = row.as_ref().map_or(0, String::len);
        let draft = || {
            let row: Json = row.map_err(text)?.parse().map_err(text::<state::BadJson>)?;
            let (name, key) = names(name, key)?;
            Ok(Draft::upsert(name, key, row))
        };
        self.push(draft(), bytes);
    }

    fn push(&mut self, draft: Result<Draft, String>, bytes: usize) {
        self.bytes += bytes + ENVELOPE_BYTES;
        self.drafts.push(draft);
    }

    /// What is to be written, and about how many bytes that is.
    pub(super) fn drafts(self) -> Result<(Vec<Draft>, usize), CommitError> {
        let drafts = self.drafts.into_iter().collect::<Result<Vec<_>, _>>();
        Ok((drafts.map_err(CommitError::BadRow)?, self.bytes))
    }
}

/// A row's type and key on the wire.
fn names(name: &str, key: &Key) -> Result<(TypeName, state::Key), String> {
    let key = match key {
        Value::Text(text) => text.parse(),
        other => other.to_string().parse(),
    };
    Ok((name.parse().map_err(text::<BadName>)?, key.map_err(text::<BadName>)?))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

/// Rows could not be committed. None of them was written, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// There is no stream to write to.
    #[error("only durable effects can commit rows")]
    NotDurable,
    /// A row that cannot be written.
    #[error("a row cannot be written: {0}")]
    BadRow(String),
    /// The stream does not take these rows. Others go on, and the event is not acknowledged.
    #[error("the stream does not take these rows, and none of them was written: {0}")]
    Refused(String),
    /// The event was acknowledged before, by an earlier commit or since its handler was done.
    #[error("the event is acknowledged already, and these rows were not written; commit once")]
    AlreadyDone,
    /// Another runner does the work of this effect now.
    #[error("another runner has taken this effect over; this one has stopped")]
    Fenced,
    /// The stream cannot be written to. After a restart the event is delivered again, unless the
    /// rows were written after all.
    #[error("the stream cannot be written to: {0}")]
    Stream(String),
}
