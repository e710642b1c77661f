//! Server-sent events: one answer that goes on, a data and a control event at a time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::{Response, StatusCode, header};
use log::{Chunk, Freshness, Incarnation};
use wire::{
    Address, ContentType, Cursor, Offset, ReadFrom,
    sse::{
        Control, Encoding, KEEP_ALIVE, ReaderState, data_len, write_control, write_data,
        write_data_part,
    },
};

use crate::{
    call::Call,
    caps::{self, EVENT_PART_BYTES},
    follow::{Interrupt, Seat, Waited, cursor, interrupt, wait},
    handlers::{counted_read, refuse_lost},
    names,
    problem::Problem,
    request::ReadParams,
    response::{Body, Matter, Reply},
    shares::Share,
};

/// Lives end up to this share of a life earlier, so that readers who came together do not all
/// come back together.
const LIFE_JITTER_SHARE: u32 = 10;

/// Room for what stands around the data of two events.
const EVENTS_BYTES_USUAL: usize = 256;

/// Answers `GET ...?offset=&live=sse`.
pub(crate) async fn sse(
    call: &Call<'_>,
    address: &Address,
    params: &ReadParams,
) -> Result<Response<Body>, Problem> {
    let service = call.service;
    let event_bytes = service.settings.event_bytes;
    let (chunk, counted) = counted_read(call, address, params.from, event_bytes).await?;
    refuse_lost(params, &chunk)?;
    let seat = Seat::take(call)?;
    let encoding = encoding(&chunk.content_type);
    let life = life(call);
    let follower = Box::new(Follower {
        address: address.clone(),
        incarnation: chunk.incarnation,
        encoding,
        cursor: cursor(service, params.cursor.as_deref()),
        next: chunk.next,
        step: Step::Send(chunk),
        ends_at: service.sys.clock.elapsed() + life,
        interrupt: interrupt(service, service.settings.sse_keep_alive.min(life)),
        seat,
        load: counted,
    });
    let reply = Reply::new(StatusCode::OK)
        .header(&header::CONTENT_TYPE, names::EVENT_STREAM.clone())
        .header(&header::CACHE_CONTROL, names::NO_CACHE.clone())
        .body(Matter::Frames(Box::pin(stream::unfold(follower, Follower::next_frame))));
    Ok(match encoding {
        Encoding::Base64 => reply.header(&names::SSE_DATA_ENCODING, names::BASE64.clone()),
        Encoding::Json | Encoding::Text => reply,
    }
    .into_response())
}

fn encoding(content_type: &ContentType) -> Encoding {
    if content_type.is_json() {
        Encoding::Json
    } else if content_type.is_text() {
        Encoding::Text
    } else {
        Encoding::Base64
    }
}

fn life(call: &Call<'_>) -> Duration {
    let whole = call.service.settings.sse_life;
    let jitter_ms = u64::try_from((whole / LIFE_JITTER_SHARE).as_millis()).unwrap_or(u64::MAX);
    whole - Duration::from_millis(call.service.sys.chance.below(jitter_ms.max(1)))
}

/// One reader of events. It holds at most one chunk, and makes the next frame when the last one
/// was taken.
struct Follower {
    address: Address,
    incarnation: Incarnation,
    encoding: Encoding,
    /// The lowest cursor to tell: cursors never go back.
    cursor: Cursor,
    next: Offset,
    step: Step,
    ends_at: Duration,
    /// Fires when it is time to show a sign of life.
    interrupt: Interrupt,
    seat: Seat,
    /// Of the frame that is being taken.
    load: Option<Share>,
}

/// What a follower does next.
enum Step {
    Send(Chunk),
    SendOn(Parts),
    Read,
    Wait,
    End,
}

/// An event that is too large to be held as it is sent.
struct Parts {
    chunk: Chunk,
    /// Bytes of the event, and how many of them were sent.
    bytes: usize,
    sent: usize,
}

impl Follower {
    async fn next_frame(mut self: Box<Self>) -> Option<(Bytes, Box<Self>)> {
        loop {
            match std::mem::replace(&mut self.step, Step::End) {
                Step::Send(chunk) => return Some((self.send(chunk)?, self)),
                Step::SendOn(parts) => return Some((self.send_on(parts), self)),
                Step::Read => self.step = self.read().await,
                Step::Wait => match self.wait().await {
                    Some(Waited::Moved) => self.step = Step::Read,
                    Some(Waited::TimedOut) => {
                        self.step = Step::Wait;
                        return Some((Bytes::from_static(KEEP_ALIVE), self));
                    }
                    Some(Waited::Draining) | None => return None,
                },
                Step::End => return None,
            }
        }
    }

    /// A data event, if there is data, and always its control event; of a large one, the first
    /// part.
    ///
    /// None if too much is under way to others; the reader comes back.
    fn send(&mut self, chunk: Chunk) -> Option<Bytes> {
        // What is written, which may be several times what was read.
        let bytes = match chunk.runs.as_slice() {
            [] => 0,
            runs => data_len(self.encoding, runs),
        };
        // The frame before this one was taken.
        self.load = None;
        if bytes > EVENT_PART_BYTES {
            // What was read is held until the last part was taken.
            let read: usize = chunk.runs.iter().map(|run| run.data().len()).sum();
            self.load = Some(self.seat.load(read + EVENT_PART_BYTES)?);
            return Some(self.send_on(Parts { chunk, bytes, sent: 0 }));
        }
        self.load = Some(self.seat.load(bytes)?);
        let mut frame = BytesMut::with_capacity(caps::room(bytes + EVENTS_BYTES_USUAL));
        if !chunk.runs.is_empty() {
            write_data(&mut frame, self.encoding, &chunk.runs);
        }
        self.conclude(&mut frame, &chunk);
        Some(self.sent(frame))
    }

    /// The next part of a large event.
    fn send_on(&mut self, mut parts: Parts) -> Bytes {
        let until = parts.bytes.min(parts.sent + EVENT_PART_BYTES);
        let room = caps::room(until - parts.sent + EVENTS_BYTES_USUAL);
        let mut frame = BytesMut::with_capacity(room);
        write_data_part(&mut frame, self.encoding, &parts.chunk.runs, parts.sent..until);
        parts.sent = until;
        match parts.sent == parts.bytes {
            true => self.conclude(&mut frame, &parts.chunk),
            false => self.step = Step::SendOn(parts),
        }
        self.sent(frame)
    }

    /// The control event behind what was read.
    fn conclude(&mut self, frame: &mut BytesMut, chunk: &Chunk) {
        let cursor = cursor(self.seat.service(), None).max(self.cursor);
        let (state, step) = match chunk.freshness {
            Freshness::Behind => (ReaderState::Behind(cursor), Step::Read),
            Freshness::UpToDate => (ReaderState::UpToDate(cursor), Step::Wait),
            Freshness::Closed => (ReaderState::Closed, Step::End),
        };
        write_control(frame, &Control { next: chunk.next, state });
        self.next = chunk.next;
        self.step = step;
    }

    fn sent(&self, frame: BytesMut) -> Bytes {
        self.seat.service().metrics.sent(frame.len());
        frame.freeze()
    }

    /// Ends when the stream does, or when another one got its name.
    async fn read(&self) -> Step {
        let service = self.seat.service();
        let event_bytes = service.settings.event_bytes;
        let _turn = self.seat.account().read_turn().await;
        match service.log.read(&self.address, ReadFrom::At(self.next), event_bytes).await {
            Ok(chunk) if chunk.incarnation == self.incarnation => Step::Send(chunk),
            Ok(_) | Err(_) => Step::End,
        }
    }

    /// None when it is time to end.
    async fn wait(&mut self) -> Option<Waited> {
        let service = self.seat.service();
        self.life_left()?;
        let waited = wait(service, &self.address, self.next, &mut self.interrupt).await.ok()?;
        if waited == Waited::TimedOut {
            let patience = self.life_left()?.min(service.settings.sse_keep_alive);
            self.interrupt = interrupt(service, patience);
        }
        Some(waited)
    }

    fn life_left(&self) -> Option<Duration> {
        self.ends_at.checked_sub(self.seat.service().sys.clock.elapsed())
    }
}
