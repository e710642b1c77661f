//! Bodies of answers: nothing, bytes at hand, or events as they come.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::{
    flow::Flow,
    response::{Content, content::Pieces},
    shares::Share,
};

/// Bytes that are handed to HTTP/2 at a time, so that what its client does not take stays here.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// The body of an answer. The connection asks for the next frame when it has room for it, so a
/// slow reader holds one frame and not more.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) matter: Matter,
    /// What it holds of what all answers share, given back when the last of it is sent.
    pub(crate) load: Option<Arc<Load>>,
    /// Its bytes, if they were counted when they were read.
    pub(crate) counted: Option<Share>,
    /// Whether its reader takes it; where HTTP/2 sends it.
    pub(crate) flow: Option<Arc<Flow>>,
    pub(crate) audience: Audience,
}

/// What an answer under way holds.
#[derive(Debug)]
pub(crate) struct Load {
    /// The place of its request.
    pub(crate) _request: Share,
    /// Its bytes, if they are many.
    pub(crate) _bytes: Option<Share>,
}

/// Bytes that HTTP/2 has not sent yet, though the body they come from may be gone.
#[derive(Debug)]
pub(crate) struct Unsent {
    bytes: Bytes,
    flow: Option<Arc<Flow>>,
    _load: Option<Arc<Load>>,
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(flow) = &self.flow {
            flow.gone();
        }
    }
}

impl Buf for Unsent {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(flow) = &self.flow {
            flow.moved();
        }
    }
}

/// Which web pages may read an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Those of this address.
    #[default]
    OwnPages,
    /// All.
    AllPages,
    /// Those of the origin that stands at this place of the settings.
    Named(usize),
    /// Those of this address; the neighbour who answers says what may be done with it.
    Neighbour,
}

/// What a body is made of.
pub(crate) enum Matter {
    /// Nothing.
    Empty,
    /// Bytes at hand.
    Full(Bytes),
    /// Messages that are joined as the reader takes them.
    Pieces(Box<Pieces>),
    /// Frames made one by one, as the reader takes them.
    Frames(Frames),
}

/// Frames that end by themselves.
pub(crate) type Frames = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl From<Content> for Matter {
    fn from(content: Content) -> Self {
        match content {
            Content::Whole(bytes) if bytes.is_empty() => Self::Empty,
            Content::Whole(bytes) => Self::Full(bytes),
            Content::Joined(pieces) => Self::Pieces(Box::new(pieces)),
        }
    }
}

impl From<Matter> for Body {
    fn from(matter: Matter) -> Self {
        Self { matter, load: None, counted: None, flow: None, audience: Audience::default() }
    }
}

impl http_body::Body for Body {
    type Data = Unsent;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Unsent>, Infallible>>> {
        let next = match &mut self.matter {
            Matter::Empty => Poll::Ready(None),
            Matter::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Matter::Full(bytes) => {
                Poll::Ready(Some(bytes.split_to(bytes.len().min(FRAME_BYTES_MAX))))
            }
            Matter::Pieces(pieces) => Poll::Ready(pieces.next()),
            Matter::Frames(frames) => frames.as_mut().poll_next(context),
        };
        match (&next, &self.flow) {
            (Poll::Pending, Some(flow)) => flow.waits_for_us(),
            (Poll::Ready(Some(_)), Some(flow)) => flow.made(),
            (Poll::Ready(None), _) | (_, None) => {}
        }
        let unsent = |bytes| Unsent { bytes, flow: self.flow.clone(), _load: self.load.clone() };
        next.map(|next| next.map(|bytes| Ok(Frame::data(unsent(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.matter {
            Matter::Empty => true,
            Matter::Full(bytes) => bytes.is_empty(),
            Matter::Pieces(pieces) => pieces.bytes_left() == 0,
            Matter::Frames(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.matter {
            Matter::Empty => SizeHint::with_exact(0),
            Matter::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Matter::Pieces(pieces) => SizeHint::with_exact(pieces.bytes_left() as u64),
            Matter::Frames(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Matter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Pieces(pieces) => write!(f, "Pieces({} bytes)", pieces.bytes_left()),
            Self::Frames(_) => f.write_str("Frames"),
        }
    }
}
