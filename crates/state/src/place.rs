//! Places: where a message stands in its stream, which is where it lies unless a snapshot wrote it
//! again.
//!
//! ```text
//! lies     0  1  2  3  4   5      6  7   8  9   10   11
//! message  a  b  a' c  b'  start  a' c   c' b'  end  d     a snapshot of the state before 4
//! stands   0  1  2  3  4   -      2  3   .  4   10   11
//!          └── may be trimmed ─┘  └rows┘ └copies┘
//! ```
//!
//! A compaction appends a snapshot and trims what is before it. Its messages say in a header where
//! they stood, so positions stay what they were: those of rows, of events, of cursors. A reader
//! that has come past them knows them and passes over them; one that begins there, or that has not
//! come as far as the snapshot reaches, takes the rows for all that was.

use wire::{Offset, Position, caps::ORDINAL_MAX};

use crate::{Body, Control, Event, Json, Operation};

/// The header that says where a message stood when it was written first; of the start of a
/// snapshot, up to where its rows reach.
pub(crate) const POSITION: &str = "headwater.position";
/// The header that says where the row of a snapshot was made, unless that is where it was written.
pub(crate) const INSERTED: &str = "headwater.inserted";

/// What a reader has come past, and so where each message stands.
///
/// ```
/// use state::{Place, Places, decode};
/// use wire::Position;
///
/// let again = br#"{"headers":{"control":"reset","headwater.position":"3"}}"#;
/// let (mut new, mut old) = (Places::default(), Places::from(Position::new(4)));
/// assert_eq!(new.place(Position::new(9), &decode(again)), Place::At(Position::new(3)));
/// assert_eq!(old.place(Position::new(9), &decode(again)), Place::Known);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// All before it is known.
    covered: u64,
    /// How far the rows reach that are being read.
    reach: Option<u64>,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is to be applied, and stands here.
    At(Position),
    /// It is a row of a snapshot, and was written here.
    Row(Position),
    /// Rows follow that are all there was before this position; what the reader has is void.
    Anew(Position),
    /// The reader has it.
    Known,
}

impl From<Position> for Places {
    /// The places of a reader that has everything before `covered`.
    fn from(covered: Position) -> Self {
        Self { covered: covered.get(), reach: None }
    }
}

impl Places {
    /// All before it is known to the reader.
    #[must_use]
    pub fn covered(&self) -> Position {
        Position::new(self.covered)
    }

    /// Takes the next message, which lies at this position.
    pub fn place(&mut self, lies: Position, event: &Event<'_>) -> Place {
        let is_start = matches!(event.body, Body::Control(Control::SnapshotStart));
        // Nothing can stand behind itself, nor rows reach farther than the stream: such a header
        // means nothing.
        let is_sound = |stands: &Position| *stands < lies || (is_start && *stands == lies);
        let Some(stands) = event.headers.position.filter(is_sound) else {
            self.reached();
            self.covered = self.covered.max(lies.get() + 1);
            return Place::At(lies);
        };
        if is_start {
            // Rows that were not read to their end count for nothing.
            let is_new = stands.get() > self.covered;
            self.reach = is_new.then_some(stands.get());
            return if is_new { Place::Anew(stands) } else { Place::Known };
        }
        if self.reach.is_some_and(|reach| stands.get() < reach) {
            return Place::Row(stands);
        }
        self.reached();
        if stands.get() < self.covered {
            return Place::Known;
        }
        self.covered = stands.get() + 1;
        Place::At(stands)
    }

    fn reached(&mut self) {
        if let Some(reach) = self.reach.take() {
            self.covered = self.covered.max(reach);
        }
    }
}

/// The message that begins a snapshot of all rows before `reach`, in a stream that ends at `tail`.
#[must_use]
pub fn snapshot_start(reach: Position, tail: Offset) -> String {
    let (control, reach) = (Control::SnapshotStart, reach.get());
    format!(r#"{{"headers":{{"control":"{control}","offset":"{tail}","{POSITION}":"{reach}"}}}}"#)
}

/// The message that puts a row into a snapshot: what wrote the row last, at `position`, after it
/// was made at `inserted`. Fields and headers that nobody here knows stay. None if the message has
/// no headers that can be written again.
#[must_use]
pub fn snapshot_row(message: &[u8], position: Position, inserted: Position) -> Option<Json> {
    let upsert = Json::of(Operation::Upsert.as_str()).ok()?;
    let mut headers = vec![("operation", upsert), (POSITION, digits(position)?)];
    if inserted != position {
        headers.push((INSERTED, digits(inserted)?));
    }
    let row = with_headers(message, &headers)?;
    let without_old: Json = r#"{"old_value":null}"#.parse().ok()?;
    if row.as_str().contains("old_value") { row.merge(&without_old).ok() } else { Some(row) }
}

/// The message again, with the position where it stands. None if it has no headers that can be
/// written again.
#[must_use]
pub fn snapshot_copy(message: &[u8], position: Position) -> Option<Json> {
    with_headers(message, &[(POSITION, digits(position)?)])
}

/// The position that a header names.
pub(crate) fn read(text: &str) -> Option<Position> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ordinal = text.parse().ok().filter(|ordinal| is_plain && *ordinal <= ORDINAL_MAX);
    ordinal.map(Position::new)
}

fn digits(position: Position) -> Option<Json> {
    Json::of(&position.get().to_string()).ok()
}

fn with_headers(message: &[u8], set: &[(&str, Json)]) -> Option<Json> {
    let message: Json = std::str::from_utf8(message).ok()?.parse().ok()?;
    let mut headers = message.field("headers")?;
    for (name, value) in set {
        headers = headers.set(name, value).ok()?;
    }
    message.set("headers", &headers).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, testing::at};

    /// Places messages, each as `lies>stands` and `(` for the start of a snapshot.
    #[track_caller]
    fn check(covered: u64, script: &str, expected: &str) {
        let mut places = Places::from(at(covered));
        let shown = script.split(' ').map(|word| {
            let control = if word.starts_with('(') { "snapshot-start" } else { "reset" };
            let (lies, stands) = word.trim_start_matches('(').split_once('>').unwrap();
            let message =
                format!(r#"{{"headers":{{"control":"{control}","{POSITION}":"{stands}"}}}}"#);
            match places.place(at(lies.parse().unwrap()), &decode(message.as_bytes())) {
                Place::At(position) => format!("{}", position.get()),
                Place::Row(position) => format!("r{}", position.get()),
                Place::Anew(position) => format!("(..{}", position.get()),
                Place::Known => "-".into(),
            }
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{script} from {covered}");
    }

    #[test]
    fn a_message_stands_where_it_lies_unless_it_says_otherwise() {
        check(0, "0> 1> 2>x 3>-1 4>4 5>9 6>+1", "0 1 2 3 4 5 6");
    }

    #[test]
    fn a_reader_takes_of_a_snapshot_what_it_does_not_have() {
        let snapshot = "(12>8 13>2 14>7 15>8 16>9 17>11 18> 19>";
        check(0, snapshot, "(..8 r2 r7 8 9 11 18 19");
        check(7, snapshot, "(..8 r2 r7 8 9 11 18 19");
        check(8, snapshot, "- - - 8 9 11 18 19");
        check(10, snapshot, "- - - - - 11 18 19");
        check(12, snapshot, "- - - - - - 18 19");
    }

    #[test]
    fn rows_that_were_not_read_to_their_end_are_read_again() {
        check(0, "(12>8 13>2 (20>8 21>2 22>7 23>8", "(..8 r2 (..8 r2 r7 8");
    }

    #[test]
    fn a_snapshot_without_rows_is_one() {
        check(0, "(12>8 13> 14>3", "(..8 13 -");
        check(0, "(12>0 13>0 14>1 15>", "- 0 1 15");
        check(0, "(12>12 13>2 14>", "(..12 r2 14");
        check(0, "(12>13 13>", "12 13");
    }

    #[test]
    fn rows_and_copies_keep_what_nobody_knows() {
        let message = r#"{"z":[1.50],"type":"t","key":"k","value":{"a":1.0},"old_value":{"a":2},
            "headers":{"operation":"insert","txid":"x","from":"me","headwater.position":"1"}}"#;
        let row = snapshot_row(message.as_bytes(), at(7), at(3)).unwrap();
        let body = r#"{"z":[1.50],"type":"t","key":"k","value":{"a":1.0},"headers":"#;
        let kept = r#"{"operation":"upsert","txid":"x","from":"me","#;
        let places = r#""headwater.position":"7","headwater.inserted":"3"}}"#;
        assert_eq!(row.as_str(), [body, kept, places].concat());
        let headers = decode(row.as_str().as_bytes()).headers;
        assert_eq!((headers.position, headers.inserted), (Some(at(7)), Some(at(3))));
        let copy = snapshot_copy(message.as_bytes(), at(9)).unwrap();
        let event = decode(copy.as_str().as_bytes());
        assert_eq!(event.headers.position, Some(at(9)));
        let Body::Change(change) = event.body else { panic!("{copy}") };
        assert_eq!(change.operation, Operation::Insert);
        assert!(change.old_value.is_some());
        assert_eq!(event.headers.txid.as_deref(), Some("x"));
    }

    #[test]
    fn what_has_no_headers_cannot_say_where_it_stood() {
        for message in ["", "[]", "{}", r#"{"headers":1}"#, r#"{"headers":{"\ud800":1}}"#] {
            assert_eq!(snapshot_copy(message.as_bytes(), at(1)), None, "{message}");
        }
    }

    #[test]
    fn the_start_says_how_far_the_rows_reach() {
        let start = snapshot_start(at(4), Offset::new(6, 60));
        let event = decode(start.as_bytes());
        assert!(matches!(event.body, Body::Control(Control::SnapshotStart)));
        assert_eq!(event.headers.position, Some(at(4)));
        assert_eq!(event.headers.offset.unwrap(), Offset::new(6, 60).to_string());
    }
}
