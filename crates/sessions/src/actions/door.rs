//! The door for actions: HTTP on one side, [`Actions`] on the other.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use log::{Answer, Outcome};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use server::{Access, Neighbour, Visit};
use sys::Sys;
use wire::Timestamp;

use super::{ActionError, Actions, Deed, Pass, drawn_id, error::check_name};
use crate::{
    SessionId,
    caps::ACTION_BODY_BYTES_MAX,
    problem::{self, Refused},
};

/// Where sessions are.
const ROOT: &str = "/v1/sessions/";

/// Serves the actions of sessions beside the streams: `Server::beside(Arc::new(door))`.
///
/// | request | |
/// |---|---|
/// | `PUT /v1/sessions/{id}` | makes the session: 201, or 200 if it was there |
/// | `POST …/messages` | says something |
/// | `POST …/stop` | stops what is under way |
/// | `POST …/resolve` | decides on a parked call |
/// | `POST …/token` | a token for this session, where that is allowed |
///
/// An action answers 201 once its row lasts, or 200 if it was done before; `docs/sessions.md` tells
/// the rest.
#[derive(Debug)]
pub struct Door {
    sys: Sys,
    actions: Actions,
    pass: Option<Pass>,
}

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Create,
    Message,
    Stop,
    Resolve,
    Token,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenRequest {
    #[serde(default)]
    actor_id: Option<String>,
}

impl Door {
    /// A door for those who have a token.
    #[must_use]
    pub fn new(sys: &Sys, actions: Actions) -> Self {
        Self { sys: sys.clone(), actions, pass: None }
    }

    /// One that also gives tokens to whoever asks.
    #[must_use]
    pub fn with_pass(mut self, pass: Pass) -> Self {
        self.pass = Some(pass);
        self
    }

    /// Whether this path is one of its own.
    #[must_use]
    pub fn serves(path: &str) -> bool {
        path.starts_with(ROOT)
    }

    async fn open(&self, visit: &Visit) -> Result<Response<Bytes>, Refused> {
        let (session, ask) = parse(&visit.head.method, visit.head.uri.path())?;
        match ask {
            Ask::Create => self.create(visit, &session).await,
            Ask::Token => self.token(visit, &session).await,
            Ask::Message => self.act(visit, &session, Deed::Say(read(&visit.body)?)).await,
            Ask::Stop => self.act(visit, &session, Deed::Halt(read_or_default(&visit.body)?)).await,
            Ask::Resolve => self.act(visit, &session, Deed::Resolve(read(&visit.body)?)).await,
        }
    }

    async fn create(&self, visit: &Visit, session: &SessionId) -> Result<Response<Bytes>, Refused> {
        let path = session.path();
        // Who may write streams may make this one; so may who may act on it.
        if visit.visitor.may(Access::Write, path).is_err() {
            visit.visitor.require(Access::Act, path)?;
        }
        let outcome = self.actions.create(session).await?;
        let body = json!({ "id": session.as_str(), "stream": stream_of(session) });
        Ok(problem::document(status(outcome), &body))
    }

    async fn token(&self, visit: &Visit, session: &SessionId) -> Result<Response<Bytes>, Refused> {
        let Some(pass) = &self.pass else { return Err(Refused::NoTokens) };
        visit.require_same_site()?;
        let asked: TokenRequest = read_or_default(&visit.body)?;
        let actor = match asked.actor_id {
            Some(actor) => actor,
            None => format!("person-{}", &drawn_id(&self.sys)[..8]),
        };
        check_name("actorId", &actor)?;
        self.actions.exists(session).await?;
        let token = pass.issue(&self.sys, session, &actor).map_err(ActionError::Unavailable)?;
        let body = json!({
            "token": token.text,
            "expiresAt": Timestamp::from_unix_ms(token.expires_at.get()).to_string(),
            "actorId": actor,
        });
        Ok(problem::document(StatusCode::CREATED, &body))
    }

    async fn act(
        &self,
        visit: &Visit,
        session: &SessionId,
        deed: Deed,
    ) -> Result<Response<Bytes>, Refused> {
        let actor = visit.visitor.require(Access::Act, session.path())?;
        let done = self.actions.act(session, actor, deed).await?;
        let body = json!({ "id": done.id, "txid": done.txid, "offset": done.offset.to_string() });
        Ok(problem::document(status(done.outcome), &body))
    }
}

impl Neighbour for Door {
    fn body_bytes_max(&self) -> usize {
        ACTION_BODY_BYTES_MAX
    }

    fn answer(&self, visit: Visit) -> Answer<'_, Response<Bytes>> {
        Box::pin(async move {
            let answer = self.open(&visit).await;
            answer.unwrap_or_else(|refused| problem::response(&refused))
        })
    }
}

fn parse(method: &Method, path: &str) -> Result<(SessionId, Ask), Refused> {
    let rest = path.strip_prefix(ROOT).ok_or(Refused::NowhereKnown)?;
    let (id, what) = rest.split_once('/').map_or((rest, None), |(id, what)| (id, Some(what)));
    let ask = match what {
        None => Ask::Create,
        Some("messages") => Ask::Message,
        Some("stop") => Ask::Stop,
        Some("resolve") => Ask::Resolve,
        Some("token") => Ask::Token,
        Some(_) => return Err(Refused::NowhereKnown),
    };
    let wanted = if ask == Ask::Create { Method::PUT } else { Method::POST };
    if *method != wanted {
        return Err(Refused::Method(wanted));
    }
    let session = id.parse().map_err(|error| Refused::NoSuchName(format!("{id:?}: {error}")))?;
    Ok((session, ask))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => ActionError::invalid("body", error.to_string()).into(),
        _ => Refused::NotJson(error.to_string()),
    })
}

fn read_or_default<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Refused> {
    if body.trim_ascii().is_empty() { Ok(T::default()) } else { read(body) }
}

fn status(outcome: Outcome) -> StatusCode {
    match outcome {
        Outcome::New => StatusCode::CREATED,
        Outcome::Duplicate => StatusCode::OK,
    }
}

/// Where the session is read.
fn stream_of(session: &SessionId) -> String {
    format!("/v1/stream/{}", session.path().to_url())
}
