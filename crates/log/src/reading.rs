//! What reading means in every engine: where it starts, which messages fit, what comes next.

use wire::{
    Address, Messages, Offset, ReadFrom, StreamPath,
    caps::{CHUNK_BYTES_DEFAULT, LIST_PAGE_MAX},
};

use crate::{
    Chunk, Fork, ForkError, Freshness, Head, HeadError, List, Log, OffsetBeyondTail, OffsetTrimmed,
    OffsetUnknown, ReadError, TrimError, table::ForkPoint,
};

/// Gathers whole messages from `start` until enough bytes are taken.
#[derive(Debug)]
pub(crate) struct Collector {
    next: Offset,
    bytes_left: usize,
    runs: Vec<Messages>,
}

/// Whether a collector wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appetite {
    More,
    Full,
}

impl Collector {
    pub(crate) fn new(start: Offset, bytes_max: usize) -> Self {
        Self { next: start, bytes_left: bytes_max, runs: Vec::new() }
    }

    /// Where the next message to take stands.
    pub(crate) fn next(&self) -> Offset {
        self.next
    }

    /// True if there is something to answer with.
    #[cfg(feature = "file")]
    pub(crate) fn has_taken(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Takes what fits of a stored run that covers [`Collector::next`], up to `end`.
    pub(crate) fn take(
        &mut self,
        run_start: Offset,
        run: &Messages,
        end: Offset,
    ) -> Result<Appetite, OffsetUnknown> {
        let Some(skip) = self.next.position.get().checked_sub(run_start.position.get()) else {
            // The messages before this run are gone.
            return Err(OffsetUnknown(self.next));
        };
        let skip = skip as usize;
        if skip > run.len() || run_start.byte.get() + run.start(skip) as u64 != self.next.byte.get()
        {
            return Err(OffsetUnknown(self.next));
        }
        let readable = (end.position.get() - run_start.position.get()).min(run.len() as u64);
        let until = self.fitting(run, skip, readable as usize);
        let part = run.slice(skip, until);
        let whole = until == readable as usize;
        if !part.is_empty() {
            self.next = self.next.after(part.len() as u64, part.data().len() as u64);
            self.bytes_left = self.bytes_left.saturating_sub(part.data().len());
            self.runs.push(part);
        }
        let hungry = self.bytes_left > 0 || self.runs.is_empty();
        Ok(if whole && hungry { Appetite::More } else { Appetite::Full })
    }

    /// The end of the messages that fit; at least one in all, or no reader would get past it.
    fn fitting(&self, run: &Messages, skip: usize, readable: usize) -> usize {
        let base = run.start(skip);
        let fits = run.ends()[skip..readable]
            .partition_point(|end| *end as usize - base <= self.bytes_left);
        let at_least = usize::from(self.runs.is_empty() && skip < readable);
        skip + fits.max(at_least)
    }

    /// The messages and where the next read begins.
    pub(crate) fn finish(self, tail: Offset) -> Result<(Vec<Messages>, Offset), OffsetUnknown> {
        let at_tail = self.next == tail;
        if self.runs.is_empty() && !at_tail {
            Err(OffsetUnknown(self.next))
        } else {
            Ok((self.runs, self.next))
        }
    }
}

/// Which way to read, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From here towards the tail.
    Forward(Offset),
    /// What ends here, the newest that fits.
    Back(Offset),
}

/// Where a read starts. An offset past the tail counts as caught up.
pub(crate) fn locate(head: &Head, from: ReadFrom) -> Result<Direction, ReadError> {
    let (offset, direction): (_, fn(Offset) -> Direction) = match from {
        ReadFrom::Start => (head.earliest, Direction::Forward),
        ReadFrom::Now => (head.tail, Direction::Forward),
        ReadFrom::Last => (head.tail, Direction::Back),
        ReadFrom::At(offset) => (offset, Direction::Forward),
        ReadFrom::Before(offset) => (offset, Direction::Back),
    };
    if offset.position > head.tail.position {
        Ok(direction(head.tail))
    } else if offset.position < head.earliest.position {
        Err(OffsetTrimmed { earliest: head.earliest }.into())
    } else {
        Ok(direction(offset))
    }
}

/// What a read backwards answers, of runs that begin at `start` and must end at `end`: the newest
/// messages that fit, at least one.
pub(crate) fn newest(
    (start, mut runs, next): (Offset, Vec<Messages>, Offset),
    end: Offset,
    bytes_max: usize,
) -> Result<(Offset, Vec<Messages>), OffsetUnknown> {
    if next != end {
        return Err(OffsetUnknown(end));
    }
    let bytes: usize = runs.iter().map(|run| run.data().len()).sum();
    let mut excess = bytes.saturating_sub(bytes_max);
    let mut start = start;
    let mut whole = 0;
    for (index, run) in runs.iter_mut().enumerate() {
        if excess == 0 {
            break;
        }
        // The newest message stays, however large it is.
        let is_last = start.after(run.len() as u64, run.data().len() as u64) == end;
        let most = run.len() - usize::from(is_last);
        let cut = (run.ends().partition_point(|end| (*end as usize) < excess) + 1).min(most);
        let dropped = run.start(cut);
        start = start.after(cut as u64, dropped as u64);
        excess = excess.saturating_sub(dropped);
        if cut == run.len() {
            whole = index + 1;
        } else {
            *run = run.slice(cut, run.len());
            break;
        }
    }
    runs.drain(..whole);
    Ok((start, runs))
}

/// Finds where a fork leaves its source, by reading the source.
pub(crate) async fn fork_point(log: &impl Log, fork: &Fork) -> Result<ForkPoint, ForkError> {
    let head = log.head(&fork.source).await?;
    let end = fork.offset.unwrap_or(head.tail);
    let beyond = OffsetBeyondTail { tail: head.tail };
    if end > head.tail {
        return Err(beyond.into());
    }
    let source = head.incarnation;
    let whole = |end| ForkPoint { source, end, partial: Messages::none() };
    match fork.sub_offset.get() {
        0 if end == head.tail => Ok(whole(end)),
        0 => read(log, &fork.source, end).await.map(|_| whole(end)),
        _ if fork.offset.is_none() => Err(ForkError::SubOffsetAlone),
        _ if end == head.tail => Err(beyond.into()),
        count if head.content_type.is_json() => {
            skip_messages(log, &fork.source, end, count).await.map(whole)
        }
        count => {
            let chunk = read(log, &fork.source, end).await?;
            let (end, partial) = cut_message(&chunk, count).ok_or(beyond)?;
            Ok(ForkPoint { source, end, partial })
        }
    }
}

/// The place `count` messages after `from`.
async fn skip_messages(
    log: &impl Log,
    address: &Address,
    mut from: Offset,
    mut count: u64,
) -> Result<Offset, ForkError> {
    loop {
        let chunk = read(log, address, from).await?;
        for message in chunk.messages() {
            from = from.after(1, message.len() as u64);
            count -= 1;
            if count == 0 {
                return Ok(from);
            }
        }
        if chunk.freshness != Freshness::Behind {
            return Err(OffsetBeyondTail { tail: chunk.next }.into());
        }
    }
}

/// Where a fork begins that takes `count` bytes of the chunk's first message, and those bytes.
fn cut_message(chunk: &Chunk, count: u64) -> Option<(Offset, Messages)> {
    let run = chunk.runs.first()?;
    let length = run.start(1);
    let count = usize::try_from(count).ok().filter(|count| *count <= length)?;
    if count == length {
        return Some((chunk.start.after(1, length as u64), Messages::none()));
    }
    let part = Messages::one(run.data().slice(..count)).ok()?;
    Some((chunk.start, part))
}

async fn read(log: &impl Log, address: &Address, from: Offset) -> Result<Chunk, ForkError> {
    log.read(address, ReadFrom::At(from), CHUNK_BYTES_DEFAULT).await.map_err(ForkError::from)
}

impl From<ReadError> for ForkError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound(fact) => fact.into(),
            ReadError::Gone(fact) => fact.into(),
            ReadError::OffsetUnknown(fact) => fact.into(),
            ReadError::Trimmed(fact) => fact.into(),
            ReadError::Unsupported(fact) => fact.into(),
            ReadError::Unavailable(fact) => fact.into(),
        }
    }
}

impl From<HeadError> for ForkError {
    fn from(error: HeadError) -> Self {
        ReadError::from(error).into()
    }
}

impl From<HeadError> for TrimError {
    fn from(error: HeadError) -> Self {
        ReadError::from(error).into()
    }
}

impl From<ReadError> for TrimError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound(fact) => fact.into(),
            ReadError::Gone(fact) => fact.into(),
            ReadError::OffsetUnknown(fact) => fact.into(),
            ReadError::Trimmed(fact) => OffsetUnknown(fact.earliest).into(),
            ReadError::Unsupported(fact) => fact.into(),
            ReadError::Unavailable(fact) => fact.into(),
        }
    }
}

impl Head {
    /// What a read of this stream answers.
    pub(crate) fn chunk(self, start: Offset, next: Offset, runs: Vec<Messages>) -> Chunk {
        let freshness = match next < self.tail {
            true => Freshness::Behind,
            false if self.closed => Freshness::Closed,
            false => Freshness::UpToDate,
        };
        let Self { incarnation, content_type, .. } = self;
        Chunk { incarnation, content_type, start, next, runs, freshness }
    }
}

impl List {
    /// How many streams fit on the page.
    pub(crate) fn page_size(&self) -> usize {
        match self.limit {
            0 => LIST_PAGE_MAX,
            limit => limit.min(LIST_PAGE_MAX),
        }
    }

    /// The first address that can be on the page.
    pub(crate) fn first(&self) -> Address {
        let first = StreamPath::lower_bound(&self.prefix);
        match &self.after {
            Some(after) if *after > first => after.clone().into(),
            _ => first.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(messages: &[&str]) -> Messages {
        Messages::copied(messages.iter().map(|m| m.as_bytes())).unwrap()
    }

    #[track_caller]
    fn check(bytes_max: usize, expected: &str) {
        let mut collector = Collector::new(Offset::new(1, 2), bytes_max);
        let end = Offset::new(5, 9);
        let first = collector.take(Offset::START, &run(&["aa", "bb", "c"]), end).unwrap();
        if first == Appetite::More {
            collector.take(Offset::new(3, 5), &run(&["dd", "ee", "ff"]), end).unwrap();
        }
        let (runs, next) = collector.finish(end).unwrap();
        let text: Vec<u8> = runs.iter().flat_map(|run| run.data().to_vec()).collect();
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(next.byte.get(), 2 + expected.len() as u64);
    }

    #[test]
    fn chunks_hold_whole_messages_that_fit() {
        check(0, "bb");
        check(1, "bb");
        check(2, "bb");
        check(3, "bbc");
        check(4, "bbc");
        check(5, "bbcdd");
        check(100, "bbcddee");
    }

    #[test]
    fn an_offset_inside_a_message_is_unknown() {
        let mut collector = Collector::new(Offset::new(1, 1), 10);
        assert!(collector.take(Offset::START, &run(&["aa", "bb"]), Offset::new(2, 4)).is_err());
    }
}
