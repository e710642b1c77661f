//! The oracle: what a server must show, given what it has acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::value::RawValue;

use crate::{
    story::PATHS,
    support::{Answer, Client},
};

/// All streams, as far as acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) streams: BTreeMap<&'static str, Stream>,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) content_type: &'static str,
    /// All there ever were, the trimmed ones too.
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) trimmed: usize,
    pub(crate) life: Life,
    pub(crate) source: Option<&'static str>,
    /// The newest epoch and sequence of each producer.
    pub(crate) producers: BTreeMap<&'static str, (u64, u64)>,
    pub(crate) seq: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Open,
    Closed,
    /// Deleted, but a fork needs its messages.
    Gone,
}

/// What can be seen at each path of the story.
pub(crate) type Shown = BTreeMap<&'static str, Sight>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Missing,
    Gone,
    Here { content_type: String, earliest: String, tail: String, closed: bool, bytes: Vec<u8> },
}

impl Model {
    pub(crate) fn shown(&self) -> Shown {
        PATHS
            .iter()
            .map(|path| (*path, self.streams.get(path).map_or(Sight::Missing, Stream::sight)))
            .collect()
    }

    /// Shows that the server remembers what no read tells: appends that were acknowledged are
    /// duplicates when they come again, and an old `Stream-Seq` is refused.
    pub(crate) async fn prove_memory(&self, client: &Client) {
        for (path, stream) in self.streams.iter().filter(|(_, stream)| stream.life == Life::Open) {
            let again = || client.ask(Method::POST, path).body(stream.content_type, "0");
            for (id, (epoch, seq)) in &stream.producers {
                let request = again().header("producer-id", id).header("producer-epoch", epoch);
                let answer = request.header("producer-seq", seq).send().await.unwrap();
                assert_eq!(answer.status, 204, "{id} {epoch}/{seq} was stored in {path} before");
            }
            if let Some(seq) = stream.seq {
                let answer = again().header("stream-seq", seq).send().await.unwrap();
                assert_eq!(answer.status, 409, "{path} has seen Stream-Seq {seq} before");
            }
        }
    }

    pub(crate) fn has_forks(&self, path: &str) -> bool {
        self.streams.values().any(|stream| stream.source == Some(path))
    }

    /// Lets go of deleted streams whose last fork is gone.
    pub(crate) fn forget_unneeded(&mut self) {
        loop {
            let unneeded = self
                .streams
                .iter()
                .find(|(path, stream)| stream.life == Life::Gone && !self.has_forks(path));
            let Some(path) = unneeded.map(|(path, _)| *path) else { return };
            self.streams.remove(path);
        }
    }
}

impl Stream {
    pub(crate) fn new(content_type: &'static str) -> Self {
        Self {
            content_type,
            messages: Vec::new(),
            trimmed: 0,
            life: Life::Open,
            source: None,
            producers: BTreeMap::new(),
            seq: None,
        }
    }

    /// The offset before message `position`.
    pub(crate) fn offset(&self, position: usize) -> String {
        let bytes: usize = self.messages[..position].iter().map(Vec::len).sum();
        format!("{position:016}_{bytes:016}")
    }

    pub(crate) fn tail(&self) -> String {
        self.offset(self.messages.len())
    }

    fn sight(&self) -> Sight {
        if self.life == Life::Gone {
            return Sight::Gone;
        }
        Sight::Here {
            content_type: self.content_type.to_owned(),
            earliest: self.offset(self.trimmed),
            tail: self.tail(),
            closed: self.life == Life::Closed,
            bytes: self.messages[self.trimmed..].concat(),
        }
    }
}

/// Looks at every path of the story, and that there is no other.
pub(crate) async fn observe(client: &Client) -> Shown {
    let mut shown = Shown::new();
    for path in PATHS {
        let head = client.ask(Method::HEAD, path).send().await.unwrap();
        let sight = match head.status {
            404 => Sight::Missing,
            410 => Sight::Gone,
            200 => Sight::Here {
                content_type: head.header("content-type").to_owned(),
                earliest: head.header("stream-earliest-offset").to_owned(),
                tail: head.header("stream-next-offset").to_owned(),
                closed: head.header("stream-closed") == "true",
                bytes: read_all(client, path).await,
            },
            other => panic!("HEAD {path} is answered with {other}"),
        };
        shown.insert(path, sight);
    }
    let here = shown.iter().filter(|(_, sight)| matches!(sight, Sight::Here { .. }));
    assert_eq!(list(client).await, here.map(|(path, _)| (*path).to_owned()).collect());
    shown
}

/// The kept messages of a stream, end to end.
async fn read_all(client: &Client, path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut from = "-1".to_owned();
    loop {
        let answer =
            client.ask(Method::GET, &format!("{path}?offset={from}")).send().await.unwrap();
        assert_eq!(answer.status, 200, "{path} from {from}");
        bytes.extend_from_slice(&messages(&answer).concat());
        answer.header("stream-next-offset").clone_into(&mut from);
        if answer.header("stream-up-to-date") == "true" {
            return bytes;
        }
    }
}

/// The messages of an answer: the elements of an array, or one blob.
pub(crate) fn messages(answer: &Answer) -> Vec<Vec<u8>> {
    if answer.header("content-type") == "application/json" {
        elements(std::str::from_utf8(&answer.body).unwrap())
    } else {
        vec![answer.body.to_vec()]
    }
}

/// The elements of a JSON array, each as it stands there.
pub(crate) fn elements(array: &str) -> Vec<Vec<u8>> {
    let elements: Vec<&RawValue> = serde_json::from_str(array).unwrap();
    elements.iter().map(|raw| raw.get().as_bytes().to_vec()).collect()
}

async fn list(client: &Client) -> BTreeSet<String> {
    let answer = client.ask(Method::GET, "?limit=1000").send().await.unwrap();
    let page: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let streams = page["streams"].as_array().unwrap();
    streams.iter().map(|stream| stream["path"].as_str().unwrap().to_owned()).collect()
}
