//! Every bound of the scripted model.

/// Places that one question may ask about.
pub(super) const PLACES_MAX: usize = 16;
/// Levels of a value that is made up for a schema.
pub(super) const FILL_DEPTH_MAX: usize = 16;
/// Values in a value that is made up for a schema; what comes after is left out if it may be.
pub(super) const FILL_VALUES_MAX: usize = 4_096;
/// Entries of a list and letters of a text that are made up because a schema wants so many.
pub(super) const FILL_LEN_MAX: u64 = 1_024;
/// Text of a summary.
pub(super) const SUMMARY_WORDS_MAX: usize = 40;
/// Letters of arguments that are streamed at once.
pub(super) const PIECE_LETTERS: usize = 8;
/// Requests that are remembered, if any are.
pub(super) const REQUESTS_KEPT_MAX: usize = 1_024;
