//! How Anthropic's Messages API speaks.

use chat::{Id, ModelError, Request};
use http::{HeaderName, HeaderValue, StatusCode};

use super::{decode::AnthropicDecoder, encode, failure, turns::unsupported};
use crate::{
    pieces,
    wire::{Framing, Outgoing, Wire},
};

/// The version of the API that is spoken here.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// The Messages API, for one model.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) model: Id,
    /// The key, marked as sensitive.
    pub(super) key: HeaderValue,
    /// Names of what is not for everybody yet.
    pub(super) betas: Option<HeaderValue>,
}

impl Wire for Messages {
    type Decoder = AnthropicDecoder;

    fn encode(&self, request: &Request) -> Result<Outgoing, ModelError> {
        let body = encode::body(&self.model, request)?;
        let body = pieces::body(&body, &request.settings.extra)
            .map_err(|error| unsupported(format!("the request is no JSON: {error}")))?;
        let mut headers = vec![
            (HeaderName::from_static("x-api-key"), self.key.clone()),
            (HeaderName::from_static("anthropic-version"), VERSION),
        ];
        if let Some(betas) = &self.betas {
            headers.push((HeaderName::from_static("anthropic-beta"), betas.clone()));
        }
        Ok(Outgoing { path_and_query: "/v1/messages".to_owned(), headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self) -> AnthropicDecoder {
        AnthropicDecoder::default()
    }

    fn failure(&self, status: StatusCode, body: &[u8]) -> ModelError {
        failure::of_answer(status, body)
    }
}
