//! Why a data directory cannot be opened.

use std::{io, path::PathBuf};

use thiserror::Error;

/// What the first line of a data directory's FORMAT says.
pub(super) const FORMAT_LINE: &str = "headwater log, format 1";

/// Why a data directory cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another process; stop that one first", .0.display())]
    Locked(PathBuf),
    /// It was written by something else.
    #[error("{}: written as {found:?}, but this version reads {FORMAT_LINE:?}", path.display())]
    Format {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// Nothing was ever written there.
    #[error("{} holds no log: it has no file FORMAT; check the directory's name", .0.display())]
    NoLog(PathBuf),
    /// Bytes that were durable are damaged or missing.
    #[error("{} is damaged at byte {offset}: {what}; run headwater doctor", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A file that was to be searched for messages has none.
    #[error(
        "{} is what is left of a checkpoint: it says which streams there were, and holds no \
         messages",
        .0.display()
    )]
    NoMessages(PathBuf),
    /// The disk failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was being read or written.
        path: PathBuf,
        /// What the disk says.
        source: io::Error,
    },
}
