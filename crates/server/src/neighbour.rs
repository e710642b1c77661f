//! Neighbours: whoever serves other paths of the same address. The server tells them who asks, and
//! knows nothing of what they answer.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use log::Answer;
use wire::StreamPath;

use crate::{
    Access,
    auth::Client,
    call::Caller,
    problem::{Kind, Problem},
    request::{self, Incoming, receive_at_most},
    response::{Audience, Body, Content, Matter},
    service::Service,
};

/// Answers requests whose path is none of the server's own. Its answers carry no permission for
/// web pages of other origins.
pub trait Neighbour: Send + Sync + fmt::Debug + 'static {
    /// Bytes that the body of a request may have; a larger one is refused before it is read.
    fn body_bytes_max(&self) -> usize;

    /// Answers a request. It is dropped where it stands if the client leaves.
    fn answer(&self, visit: Visit) -> Answer<'_, Response<Bytes>>;
}

/// A request, read as a whole.
#[derive(Debug)]
pub struct Visit {
    /// Method, address and headers.
    pub head: Parts,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub visitor: Visitor,
    /// Why it is a page of another site, if it is one.
    cross_site: Option<Refusal>,
}

/// Who asks, and what the server lets it do.
#[derive(Debug)]
pub struct Visitor(Result<Client, Problem>);

/// Why somebody may not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It shows no token, or one that is not good.
    #[error("{0}")]
    Unknown(String),
    /// Its token does not allow it.
    #[error("{0}")]
    Forbidden(String),
}

impl Visit {
    /// The host that the client believes to talk to, as it stands in the request.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        request::host(&self.head)
    }

    /// Refuses pages of other sites, and names that another site made point here, tokens or not.
    /// The server itself does so where it asks for no token.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`] says what to do.
    pub fn require_same_site(&self) -> Result<(), Refusal> {
        self.cross_site.clone().map_or(Ok(()), Err)
    }
}

impl Visitor {
    /// The name of a bearer whose token allows this. Those who show none are refused, also where
    /// the server itself asks for none.
    ///
    /// # Errors
    /// [`Refusal`] says what is missing.
    pub fn require(&self, access: Access, path: &StreamPath) -> Result<&str, Refusal> {
        let client = self.0.as_ref().map_err(refusal)?;
        let name = client.name().ok_or_else(|| {
            Refusal::Unknown("this needs a token: Authorization: Bearer <token>".to_owned())
        })?;
        client.require(access, path).map_err(|problem| refusal(&problem))?;
        Ok(name)
    }

    /// Whether the server itself would let it do this to the stream.
    ///
    /// # Errors
    /// [`Refusal`] says what is missing.
    pub fn may(&self, access: Access, path: &StreamPath) -> Result<(), Refusal> {
        let client = self.0.as_ref().map_err(refusal)?;
        client.require(access, path).map_err(|problem| refusal(&problem))
    }
}

fn refusal(problem: &Problem) -> Refusal {
    let detail = problem.detail().to_owned();
    match problem.kind() {
        Kind::Forbidden => Refusal::Forbidden(detail),
        _ => Refusal::Unknown(detail),
    }
}

/// Lets a neighbour answer, within the limits of the server.
pub(crate) async fn visit(
    service: &Arc<Service>,
    caller: Caller,
    head: &Parts,
    body: Incoming<'_>,
    neighbour: &dyn Neighbour,
) -> Result<Response<Body>, Problem> {
    caller.admit(service)?;
    let bytes_max = neighbour.body_bytes_max();
    let upload = caller.upload(service, head, body);
    let body = receive_at_most(upload, bytes_max, "make it smaller").await?;
    let cross_site = service.guard.check_site(head).err();
    let cross_site = cross_site.map(|problem| Refusal::Forbidden(problem.detail().to_owned()));
    let (head, body) = (head.clone(), body.bytes.clone());
    let visit = Visit { head, body, visitor: Visitor(caller.client), cross_site };
    let response = neighbour.answer(visit).await;
    match response.status() {
        StatusCode::INSUFFICIENT_STORAGE => service.is_out_of_room(),
        StatusCode::CREATED => service.has_stored(),
        _ => {}
    }
    Ok(response.map(|bytes| Body {
        audience: Audience::Neighbour,
        ..Body::from(Matter::from(Content::Whole(bytes)))
    }))
}
