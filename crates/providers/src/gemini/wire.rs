//! How Gemini's `streamGenerateContent` speaks.

use chat::{Id, ModelError, Request};
use http::{HeaderName, HeaderValue, StatusCode};

use super::{decode::GeminiDecoder, encode, failure, turns::unsupported};
use crate::{
    pieces,
    wire::{Framing, Outgoing, Wire},
};

/// `streamGenerateContent`, for one model.
#[derive(Debug)]
pub(super) struct Content {
    /// The model, as it stands in a path.
    pub(super) model: Id,
    /// The key, marked as sensitive. It is never in a path, which others may write down.
    pub(super) key: HeaderValue,
}

impl Wire for Content {
    type Decoder = GeminiDecoder;

    fn encode(&self, request: &Request) -> Result<Outgoing, ModelError> {
        let body = encode::body(&self.model, request)?;
        let body = pieces::body(&body, &request.settings.extra)
            .map_err(|error| unsupported(format!("the request is no JSON: {error}")))?;
        let folder = if self.model.contains('/') { "" } else { "models/" };
        let path_and_query =
            format!("/v1beta/{folder}{}:streamGenerateContent?alt=sse", self.model);
        let headers = vec![(HeaderName::from_static("x-goog-api-key"), self.key.clone())];
        Ok(Outgoing { path_and_query, headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self) -> GeminiDecoder {
        GeminiDecoder::default()
    }

    fn failure(&self, status: StatusCode, body: &[u8]) -> ModelError {
        failure::of_answer(status, body)
    }
}
