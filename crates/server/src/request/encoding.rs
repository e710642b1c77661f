//! Encodings of request bodies: gzip is undone, within bounds, and everything else refused.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, header};

#[cfg(fuzzing)]
use crate::shares::Share;
use crate::{
    caps::{DECODED_BYTES_FREE, DECODED_RATIO_MAX, LARGE_BODY_BYTES, LARGE_BODY_ROOM},
    names,
    problem::{Kind, Problem},
    request::{
        body::{Bound, IN_FLIGHT, Received},
        single,
    },
    service::Service,
};

/// Bytes that are decoded at a time.
const STEP_BYTES: usize = 16 * 1024;
/// Up to this size, a body is decoded where it arrived; a larger one would hold up other
/// connections of the thread.
pub(super) const INLINE_BYTES_MAX: usize = 1024;

/// What was done to a body before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// What `Content-Encoding` says.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        match single(headers, &header::CONTENT_ENCODING)? {
            None | Some("") => Ok(Self::Identity),
            Some(coding) if coding.eq_ignore_ascii_case("identity") => Ok(Self::Identity),
            Some(coding) if coding.eq_ignore_ascii_case("gzip") => Ok(Self::Gzip),
            Some(coding) if coding.eq_ignore_ascii_case("x-gzip") => Ok(Self::Gzip),
            Some(_) => {
                let detail = "bodies may be sent as they are or with Content-Encoding: gzip, once";
                Err(Problem::new(Kind::UnsupportedEncoding, detail)
                    .with(&header::ACCEPT_ENCODING, names::GZIP.clone()))
            }
        }
    }
}

/// Undoes gzip. What comes out is bounded and counted like a body that was sent as it is.
pub(super) async fn decode(
    service: &Service,
    received: Received,
    bound: Bound,
) -> Result<Received, Problem> {
    let decoded = if received.bytes.len() <= INLINE_BYTES_MAX {
        gunzip(received, bound)
    } else {
        // It has its turn: threads that decode are threads that read, and other clients need some.
        service.sys.spawn.blocking(move || gunzip(received, bound)).await
    };
    match decoded {
        Ok(received) => Ok(received),
        Err(Undecoded::Bad(problem)) => Err(problem),
        Err(Undecoded::TooMuch) => Err(service.shed(IN_FLIGHT)),
    }
}

/// What a body comes to; none if it is refused.
#[cfg(fuzzing)]
pub(crate) fn unpacked(share: Share, bytes: Bytes, bytes_max: usize) -> Option<Bytes> {
    let bound = Bound { bytes_max, advice: "" };
    let received = Received { bytes, share, turn: None };
    gunzip(received, bound).ok().map(|received| received.bytes)
}

/// Why a body was not decoded.
enum Undecoded {
    Bad(Problem),
    /// The client has too much in flight.
    TooMuch,
}

fn gunzip(received: Received, bound: Bound) -> Result<Received, Undecoded> {
    let Received { bytes, mut share, turn } = received;
    let unpacked_max = (bytes.len() * DECODED_RATIO_MAX).max(DECODED_BYTES_FREE);
    let mut decoder = MultiGzDecoder::new(bytes.as_ref());
    let (mut decoded, mut counted) = (Vec::new(), 0);
    let mut step = [0; STEP_BYTES];
    loop {
        let read = decoder.read(&mut step).map_err(|error| {
            let detail = format!("the body is not gzip, or cut short: {error}");
            Undecoded::Bad(Problem::bad_request(detail))
        })?;
        if read == 0 {
            return Ok(Received { bytes: Bytes::from(decoded), share, turn });
        }
        if decoded.len() + read > bound.bytes_max {
            return Err(Undecoded::Bad(bound.exceeded()));
        }
        if decoded.len() + read > unpacked_max {
            let detail = format!(
                "the body becomes more than {DECODED_RATIO_MAX} times its size; send it as it is"
            );
            return Err(Undecoded::Bad(Problem::new(Kind::TooLarge, detail)));
        }
        let room = room_for(decoded.len() + read, decoded.capacity());
        decoded.reserve_exact(room - decoded.len());
        // Of the room of a large body only what is written to is there.
        let held = if room < LARGE_BODY_ROOM { room } else { decoded.len() + read };
        if held > counted && !share.grow(held - counted) {
            return Err(Undecoded::TooMuch);
        }
        counted = counted.max(held);
        decoded.extend_from_slice(&step[..read]);
    }
}

/// The room that so many bytes get, where there is this much: twice as much as there was, until
/// they are so many that a block of their own is cheaper.
fn room_for(bytes: usize, room: usize) -> usize {
    match bytes {
        _ if bytes <= room => room,
        LARGE_BODY_BYTES.. => bytes.max(LARGE_BODY_ROOM),
        _ => bytes.max(2 * room),
    }
}
