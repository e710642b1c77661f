//! Bodies of answers: nothing, bytes at hand, or events as they come.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::response::{Content, content::Pieces};

/// The body of an answer. The connection asks for the next frame when it has room for it, so a
/// slow reader holds one frame and not more.
pub(crate) enum Body {
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

impl From<Content> for Body {
    fn from(content: Content) -> Self {
        match content {
            Content::Whole(bytes) if bytes.is_empty() => Self::Empty,
            Content::Whole(bytes) => Self::Full(bytes),
            Content::Joined(pieces) => Self::Pieces(Box::new(pieces)),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Pieces(pieces) => Poll::Ready(pieces.next().map(|b| Ok(Frame::data(b)))),
            Self::Frames(frames) => {
                frames.as_mut().poll_next(context).map(|next| next.map(|b| Ok(Frame::data(b))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Pieces(pieces) => pieces.bytes_left() == 0,
            Self::Full(_) | Self::Frames(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pieces(pieces) => SizeHint::with_exact(pieces.bytes_left() as u64),
            Self::Frames(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Pieces(pieces) => write!(f, "Pieces({} bytes)", pieces.bytes_left()),
            Self::Frames(_) => f.write_str("Frames"),
        }
    }
}
