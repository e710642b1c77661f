//! An answer, read as it arrives.

use chat::{Id, ModelError, ModelErrorKind, ModelEvent};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::http::{Http, told};
use crate::{
    caps::{ANSWER_BYTES_MAX, DRAIN_TIME},
    halves::Halves,
    lines::Lines,
    sse::{BadFrame, Sse},
    wire::{Decoder as _, Framing, Wire},
};

/// An answer that is being read.
pub(super) struct Answer<W: Wire> {
    body: Incoming,
    bytes: usize,
    splitter: Splitter,
    halves: Halves,
    decoder: W::Decoder,
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Whole,
}

enum Splitter {
    Sse(Sse),
    Lines(Lines),
}

/// Why an answer cannot be read on.
enum Broken {
    Frame(BadFrame),
    Wire(ModelError),
}

impl From<BadFrame> for Broken {
    fn from(bad: BadFrame) -> Self {
        Self::Frame(bad)
    }
}

impl<W: Wire> Answer<W> {
    pub(super) fn new(wire: &W, body: Incoming) -> Self {
        let splitter = match wire.framing() {
            Framing::Sse => Splitter::Sse(Sse::default()),
            Framing::Lines => Splitter::Lines(Lines::default()),
        };
        Self { body, bytes: 0, splitter, halves: Halves::default(), decoder: wire.decoder() }
    }

    /// Reads what arrives next.
    pub(super) async fn read(
        &mut self,
        http: &Http,
        events: &mut Vec<ModelEvent>,
    ) -> Result<Progress, ModelError> {
        let fail = |kind, why: String| ModelError::new(http.provider.clone(), kind, why);
        let time = http.settings.idle_time;
        let frame = match http.sys.clock.timeout(time, self.body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return self.end(&http.provider, events),
            // What the wire calls whole is whole, however the connection ended.
            Ok(Some(Err(error))) => {
                return self.end(&http.provider, events).map_err(|_| {
                    let why = format!("the answer broke off: {}", told(&error));
                    fail(ModelErrorKind::Truncated, why)
                });
            }
            Err(_) => {
                return self.end(&http.provider, events).map_err(|_| {
                    let why =
                        format!("the answer was silent for {time:?}; allow more with idle_time");
                    fail(ModelErrorKind::TimedOut, why)
                });
            }
        };
        let Ok(bytes) = frame.into_data() else { return Ok(Progress::More) };
        self.bytes += bytes.len();
        if self.bytes > ANSWER_BYTES_MAX {
            let why = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(fail(ModelErrorKind::TooLarge, why));
        }
        self.split(&bytes, events).map_err(|broken| broken.told(&http.provider))?;
        match self.decoder.is_done() {
            true => self.end(&http.provider, events),
            false => Ok(Progress::More),
        }
    }

    fn split(&mut self, bytes: &[u8], events: &mut Vec<ModelEvent>) -> Result<(), Broken> {
        let (decoder, halves) = (&mut self.decoder, &mut self.halves);
        let mut each = |name: Option<&str>, data: &str| match decoder.is_done() {
            true => Ok(()),
            false => decoder.push(name, &halves.mend(data), events).map_err(Broken::Wire),
        };
        match &mut self.splitter {
            Splitter::Sse(sse) => sse.push(bytes, each),
            Splitter::Lines(lines) => lines.push(bytes, |line| each(None, line)),
        }
    }

    /// Nothing more will come.
    fn end(&mut self, provider: &Id, events: &mut Vec<ModelEvent>) -> Result<Progress, ModelError> {
        if let Splitter::Lines(lines) = &mut self.splitter {
            let (decoder, halves) = (&mut self.decoder, &mut self.halves);
            let last = lines.finish(|line| match decoder.is_done() {
                true => Ok(()),
                false => decoder.push(None, &halves.mend(line), events).map_err(Broken::Wire),
            });
            // A last line that cannot be read was cut off.
            last.map_err(|broken| match broken.told(provider) {
                error if error.kind == ModelErrorKind::Malformed => {
                    ModelError { kind: ModelErrorKind::Truncated, ..error }
                }
                error => error,
            })?;
        }
        self.decoder.finish(events).map(|()| Progress::Whole)
    }

    /// Waits shortly for the connection to be free.
    pub(super) async fn drain(&mut self, http: &Http) {
        let rest = async {
            while let Some(Ok(frame)) = self.body.frame().await {
                self.bytes += frame.data_ref().map_or(0, |data| data.len());
                if self.bytes > ANSWER_BYTES_MAX {
                    return;
                }
            }
        };
        // What does not end is closed with the answer.
        let _ = http.sys.clock.timeout(DRAIN_TIME, rest).await;
    }
}

impl Broken {
    fn told(self, provider: &Id) -> ModelError {
        let (kind, why) = match self {
            Self::Wire(error) => return error,
            Self::Frame(BadFrame::TooLong) => (ModelErrorKind::TooLarge, BadFrame::TooLong),
            Self::Frame(bad) => (ModelErrorKind::Malformed, bad),
        };
        ModelError::new(provider.clone(), kind, why.to_string())
    }
}
