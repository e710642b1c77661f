//! Steps: single requests, what each changes, and what a second asking is answered with.

use http::Method;

use crate::{
    model::{Life, Model, Stream},
    support::{Answer, Asking, Client, Died},
};

pub(crate) const JSON: &str = "application/json";
pub(crate) const BYTES: &str = "application/octet-stream";

/// One request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Create { path: &'static str, content_type: &'static str, first: Option<String> },
    Append { path: &'static str, message: String, guard: Guard, closing: bool },
    Fork { source: &'static str, path: &'static str, position: usize },
    Trim { path: &'static str, position: usize },
    Close { path: &'static str },
    Delete { path: &'static str },
    Erase { path: &'static str },
}

/// What makes an append safe to send again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard {
    /// Nothing.
    None,
    Producer {
        id: &'static str,
        epoch: u64,
        seq: u64,
    },
    StreamSeq(&'static str),
    /// The tail as the model has it.
    ExpectedOffset,
}

impl Step {
    /// Sends it to a server that stands where `model` stands.
    pub(crate) async fn send(&self, client: &Client, model: &Model) -> Result<Answer, Died> {
        let stream = |path: &str| &model.streams[path];
        match self {
            Self::Create { path, content_type, first } => {
                let body = first.clone().unwrap_or_default();
                client.ask(Method::PUT, path).body(content_type, body).send().await
            }
            Self::Append { path, message, guard, closing } => {
                let mut request = client.ask(Method::POST, path);
                request = request.body(stream(path).content_type, message.clone());
                if *closing {
                    request = request.header("stream-closed", true);
                }
                guard.on(request, stream(path)).send().await
            }
            Self::Fork { source, path, position } => {
                let request = client.ask(Method::PUT, path).header("stream-forked-from", source);
                request.header("stream-fork-offset", stream(source).offset(*position)).send().await
            }
            Self::Trim { path, position } => {
                let before = stream(path).offset(*position);
                client.ask(Method::DELETE, &format!("{path}?before={before}")).send().await
            }
            Self::Close { path } => {
                client.ask(Method::POST, path).header("stream-closed", true).send().await
            }
            Self::Delete { path } => client.ask(Method::DELETE, path).send().await,
            Self::Erase { path } => {
                client.ask(Method::DELETE, &format!("{path}?erase=true")).send().await
            }
        }
    }

    /// What it changes.
    pub(crate) fn apply(&self, model: &mut Model) {
        match self {
            Self::Create { path, content_type, first } => {
                let mut stream = Stream::new(content_type);
                stream.messages.extend(first.clone().map(String::into_bytes));
                model.streams.insert(path, stream);
            }
            Self::Append { path, message, guard, closing } => {
                let stream = model.streams.get_mut(path).unwrap();
                stream.messages.push(message.clone().into_bytes());
                guard.remember(stream);
                if *closing {
                    stream.life = Life::Closed;
                }
            }
            Self::Fork { source, path, position } => {
                let origin = &model.streams[source];
                let messages = origin.messages[..*position].to_vec();
                let content_type = origin.content_type;
                let fork = Stream { messages, source: Some(source), ..Stream::new(content_type) };
                model.streams.insert(path, fork);
            }
            Self::Trim { path, position } => {
                model.streams.get_mut(path).unwrap().trimmed = *position;
            }
            Self::Close { path } => model.streams.get_mut(path).unwrap().life = Life::Closed,
            Self::Delete { path } => {
                model.streams.get_mut(path).unwrap().life = Life::Gone;
                model.forget_unneeded();
            }
            Self::Erase { path } => {
                let doomed = |stream: &Stream| stream.source == Some(path);
                model.streams.retain(|own, stream| own != path && !doomed(stream));
            }
        }
    }

    /// Checks the answer to the first asking.
    pub(crate) fn check_first(&self, answer: &Answer) {
        self.check(answer, self.first_status());
    }

    /// Asks again what was not answered; `landed` says whether it was done all the same.
    pub(crate) async fn ask_again(&self, client: &Client, before: &Model, landed: bool) {
        let expected = match (landed, self.repeated_status(before)) {
            (false, _) => self.first_status(),
            (true, Some(status)) => status,
            // Nothing guards it: whoever asks again appends again.
            (true, None) => return,
        };
        self.check(&self.send(client, before).await.unwrap(), expected);
    }

    fn check(&self, answer: &Answer, expected: u16) {
        let body = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, expected, "{self:?} is answered with {body}");
    }

    fn first_status(&self) -> u16 {
        match self {
            Self::Create { .. } | Self::Fork { .. } => 201,
            Self::Append { guard: Guard::Producer { .. }, .. } => 200,
            _ => 204,
        }
    }

    fn repeated_status(&self, before: &Model) -> Option<u16> {
        match self {
            Self::Create { .. } | Self::Fork { .. } => Some(200),
            Self::Append { guard, .. } => match guard {
                Guard::None => None,
                Guard::Producer { .. } => Some(204),
                Guard::StreamSeq(_) | Guard::ExpectedOffset => Some(409),
            },
            Self::Trim { .. } | Self::Close { .. } => Some(204),
            Self::Delete { path } if before.has_forks(path) => Some(410),
            Self::Delete { .. } | Self::Erase { .. } => Some(404),
        }
    }
}

impl Guard {
    fn on<'a>(self, request: Asking<'a>, stream: &Stream) -> Asking<'a> {
        match self {
            Self::None => request,
            Self::Producer { id, epoch, seq } => request
                .header("producer-id", id)
                .header("producer-epoch", epoch)
                .header("producer-seq", seq),
            Self::StreamSeq(seq) => request.header("stream-seq", seq),
            Self::ExpectedOffset => request.header("stream-expected-offset", stream.tail()),
        }
    }

    fn remember(self, stream: &mut Stream) {
        match self {
            Self::None | Self::ExpectedOffset => {}
            Self::Producer { id, epoch, seq } => {
                stream.producers.insert(id, (epoch, seq));
            }
            Self::StreamSeq(seq) => stream.seq = Some(seq),
        }
    }
}
