//! The command line of `headwater stream`.

use std::path::PathBuf;

use agent::rows::KeepChunks;
use clap::{Args, Subcommand};
use wire::{
    ContentType, Epoch, Offset, Position, Producer, ProducerId, ProducerSeq, ReadFrom, StreamPath,
    StreamSeq, SubOffset, Timestamp, Ttl, caps::ORDINAL_MAX,
};

use super::target::Needs;
use crate::config::{duration, keep_chunks};

const NOTES: &str = "\
Without --url, the streams in the data directory are used directly; no server may have it open.
Messages come from the standard input and go to the standard output.";

const APPEND_NOTES: &str = "\
To a JSON stream, every JSON value of the input is a message. To any other stream, the whole input
is one message, or each line with --lines. Messages are appended as they come, unless a condition
or --close is given: then all of the input is one append.";

const COMPACT_NOTES: &str = "\
Rows keep their positions, and durable effects lose no event: history is kept from the oldest one
that is not acknowledged. Whoever writes meanwhile wins; then nothing is done, and the command says
so.";

const EFFECTS_NOTES: &str = "\
An effect holds history back from its position on. One that runs is seen at least once a day, by
the clock of its machine; one that was not seen for 30 days is forgotten by the next compaction.";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct StreamArgs {
    /// Print results for programs: JSON, one object per line
    #[arg(long, global = true)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) place: PlaceArgs,

    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// Where the streams are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the streams are")]
pub(crate) struct PlaceArgs {
    /// The directory they are kept in, or HEADWATER_DATA_DIR [default: ./.headwater]
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "url")]
    pub(super) data_dir: Option<PathBuf>,

    /// The server that has them, such as http://127.0.0.1:4437, or HEADWATER_URL
    #[arg(long, global = true, value_name = "URL")]
    pub(super) url: Option<String>,

    /// What the server knows you by; better in HEADWATER_TOKEN than typed
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(super) token: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a stream, or confirm that it exists with these settings
    Create(CreateArgs),
    /// Append messages from the standard input
    #[command(after_help = APPEND_NOTES)]
    Append(AppendArgs),
    /// Print the messages there are
    Read(ReadArgs),
    /// Print the messages there are, then those that follow, until the stream is closed
    Tail(ReadArgs),
    /// Tell what is known of a stream
    Head(PathArgs),
    /// Close a stream: nothing can follow
    Close(PathArgs),
    /// Make a stream that begins as a copy of another
    Fork(ForkArgs),
    /// Forget the oldest messages of a stream
    Trim(TrimArgs),
    /// Forget how the rows of a State Protocol stream came to be, and keep the rows
    #[command(after_help = COMPACT_NOTES)]
    Compact(CompactArgs),
    /// List the durable effects of a stream, or forget one
    #[command(after_help = EFFECTS_NOTES)]
    Effects(EffectsArgs),
    /// Delete a stream
    Delete(DeleteArgs),
    /// List streams by their paths
    List(ListArgs),
}

#[derive(Debug, Args)]
pub(super) struct PathArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,

    /// What its messages are; with application/json each one is a JSON value
    #[arg(long, value_name = "TYPE", default_value = "application/octet-stream")]
    pub(super) content_type: ContentType,

    #[command(flatten)]
    pub(super) lifetime: LifetimeArgs,

    /// Make it closed, so that it stays empty
    #[arg(long)]
    pub(super) closed: bool,
}

#[derive(Debug, Args)]
pub(super) struct LifetimeArgs {
    /// Delete it when nobody has used it for so long: 90s, 10m, 24h
    #[arg(long, value_name = "DURATION", value_parser = ttl)]
    pub(super) ttl: Option<Ttl>,

    /// Delete it at this time, such as 2030-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "ttl")]
    pub(super) expires_at: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(super) struct AppendArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,

    /// Append this one message instead of the standard input
    #[arg(long, short, value_name = "TEXT")]
    pub(super) message: Option<String>,

    /// Each line of the input is a message
    #[arg(long, conflicts_with = "message")]
    pub(super) lines: bool,

    /// Close the stream with this append
    #[arg(long)]
    pub(super) close: bool,

    #[command(flatten)]
    pub(super) conditions: ConditionArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions")]
pub(super) struct ConditionArgs {
    /// Who appends; with --epoch and --seq the append may be repeated and is stored once
    #[arg(long, value_name = "ID", requires_all = ["epoch", "seq"])]
    producer: Option<ProducerId>,

    /// In which life of the producer; a higher one shuts out the lower
    #[arg(long, value_name = "NUMBER", requires = "producer")]
    epoch: Option<Epoch>,

    /// Which append of that life, counted from 0
    #[arg(long, value_name = "NUMBER", requires = "producer")]
    seq: Option<ProducerSeq>,

    /// Append only if this is greater than the last one given, compared as text (Stream-Seq)
    #[arg(long, value_name = "TEXT")]
    pub(super) seq_header: Option<StreamSeq>,

    /// Append only if the stream still ends here
    #[arg(long, value_name = "OFFSET")]
    pub(super) expected_offset: Option<Offset>,
}

#[derive(Debug, Args)]
pub(super) struct ReadArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,

    /// Where to begin: start, now, or an offset
    #[arg(long, value_name = "OFFSET", default_value = "start", value_parser = read_from)]
    pub(super) from: ReadFrom,
}

#[derive(Debug, Args)]
pub(super) struct ForkArgs {
    /// The stream to copy from
    pub(super) source: StreamPath,

    /// The path of the new stream
    pub(super) path: StreamPath,

    /// Copy what stands before this offset [default: everything]
    #[arg(long, value_name = "OFFSET")]
    pub(super) offset: Option<Offset>,

    /// And so many messages after it, or bytes if it is no JSON stream
    #[arg(long, value_name = "COUNT", requires = "offset")]
    pub(super) sub_offset: Option<SubOffset>,

    #[command(flatten)]
    pub(super) lifetime: LifetimeArgs,
}

#[derive(Debug, Args)]
pub(super) struct TrimArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,

    /// Forget the messages before this offset
    #[arg(long, value_name = "OFFSET")]
    pub(super) before: Offset,
}

#[derive(Debug, Args)]
pub(super) struct CompactArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,

    /// Keep the messages from this position on as they are [default: from where effects are]
    #[arg(long, value_name = "POSITION", value_parser = position)]
    pub(super) keep_from: Option<Position>,

    /// Lose the pieces of streamed answers whose message is there: until-message, or those older
    /// than a time such as 24h [default: forever]
    #[arg(long, value_name = "HOW_LONG", value_parser = keep_chunks)]
    pub(super) keep_chunks: Option<KeepChunks>,

    /// Lose messages that are none of the State Protocol, instead of leaving the stream alone
    #[arg(long)]
    pub(super) drop_unreadable: bool,

    /// Only tell what would come of it
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, Args)]
pub(super) struct EffectsArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,

    /// Forget how far this effect is; it must not run, and begins anew if it is started again
    #[arg(long, value_name = "NAME")]
    pub(super) forget: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    /// The stream's path, such as chats/42
    pub(super) path: StreamPath,

    /// Delete its forks, too, and take the bytes off the disk at once
    #[arg(long)]
    pub(super) erase: bool,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only paths that begin with this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(super) prefix: String,
}

impl Verb {
    /// What must be there for the verb to make sense.
    pub(super) fn needs(&self) -> Needs {
        match self {
            Self::Create(_) => Needs::Nothing,
            _ => Needs::Data,
        }
    }
}

impl ConditionArgs {
    /// The triple, if it was given: the command line takes all of it or nothing.
    pub(super) fn producer(&self) -> Option<Producer> {
        Some(Producer { id: self.producer.clone()?, epoch: self.epoch?, seq: self.seq? })
    }

    /// True if the append can be made only once, or only at one place.
    pub(super) fn are_given(&self) -> bool {
        self.producer.is_some() || self.seq_header.is_some() || self.expected_offset.is_some()
    }
}

fn ttl(text: &str) -> Result<Ttl, String> {
    let whole = |duration: &std::time::Duration| duration.subsec_nanos() == 0;
    let seconds = duration(text).filter(whole).map(|duration| duration.as_secs());
    let ttl = seconds.map(Ttl::from_seconds).or_else(|| text.parse().ok());
    ttl.ok_or_else(|| "use whole seconds such as 90s, 10m or 24h".to_owned())
}

fn position(text: &str) -> Result<Position, String> {
    let ordinal = text.parse().ok().filter(|ordinal| *ordinal <= ORDINAL_MAX);
    ordinal.map(Position::new).ok_or_else(|| "use the number of a message, counted from 0".into())
}

fn read_from(text: &str) -> Result<ReadFrom, String> {
    match text {
        "start" => Ok(ReadFrom::Start),
        other => other
            .parse()
            .map_err(|_| "use start, now, or an offset exactly as it was printed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_whole_seconds() {
        let rows = [("90s", Some(90)), ("24h", Some(86_400)), ("90", Some(90)), ("0s", Some(0))];
        for (text, seconds) in rows {
            assert_eq!(ttl(text).ok().map(Ttl::seconds), seconds, "{text}");
        }
        assert!(ttl("500ms").is_err());
        assert!(ttl("soon").is_err());
    }

    #[test]
    fn reads_begin_at_a_word_or_an_offset() {
        assert_eq!(read_from("start"), Ok(ReadFrom::Start));
        assert_eq!(read_from("-1"), Ok(ReadFrom::Start));
        assert_eq!(read_from("now"), Ok(ReadFrom::Now));
        let token = Offset::new(1, 2).to_string();
        assert_eq!(read_from(&token), Ok(ReadFrom::At(Offset::new(1, 2))));
        assert!(read_from("end").is_err());
    }
}
