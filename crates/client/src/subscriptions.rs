//! Subscriptions that a server keeps: the contract of `wake`, over HTTP.

use http::{HeaderMap, Method};
use log::Unavailable;
use serde::{Deserialize, Serialize};
use wake::{
    Ack, AlreadyClaimed, Answer, ChangeError, Claim, ClaimError, Concurrency, Config, CreateError,
    Created, Delivery, Fenced, InvalidAck, LinkKind, LinkView, NoPendingWork, Progress,
    ProgressError, PublicKey, Reported, Setback, SubscriptionExists, SubscriptionId,
    SubscriptionNotFound, Subscriptions, TokenInvalid, TooMany, View, WebhookUrlRejected, Work,
};
use wire::{Offset, StreamPath, Timestamp, escaped};

use crate::{
    Client, Failure, Refusal,
    transport::{Ask, Repeat, Whole},
};

/// Subscriptions behind a client.
#[derive(Clone, Debug)]
pub struct HttpSubscriptions {
    client: Client,
}

impl HttpSubscriptions {
    /// Those of the client's server.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    fn ask(&self, method: Method, id: &SubscriptionId, rest: &str, repeat: Repeat) -> Ask {
        let id = escaped(id.as_str());
        Ask::new(method, format!("/__ds/subscriptions/{id}{rest}"), repeat)
    }

    async fn send(&self, ask: Ask) -> Result<Whole, Failure> {
        self.client.http.ask(ask).await
    }

    async fn published(&self) -> Result<Vec<PublicKey>, Unavailable> {
        #[derive(Deserialize)]
        struct Jwks {
            keys: Vec<PublicKey>,
        }
        let answer = self.send(Ask::get("/__ds/jwks.json".to_owned())).await;
        let answer = answer.map_err(Failure::into_unavailable)?;
        read::<Jwks>(&answer).map(|jwks| jwks.keys)
    }

    async fn make(&self, id: &SubscriptionId, config: Config) -> Result<Created, CreateError> {
        let ask = self.ask(Method::PUT, id, "", Repeat::Safe);
        let answer = self.send(with_json(ask, &ConfigBody::from(&config))).await;
        let answer = answer.map_err(create_error)?;
        let view = read::<ViewBody>(&answer)?.view()?;
        Ok(Created { is_new: answer.status == http::StatusCode::CREATED, view })
    }

    async fn take(&self, id: &SubscriptionId, worker: String) -> Result<Claim, ClaimError> {
        #[derive(Serialize)]
        struct Body {
            worker: String,
        }
        // Who claims twice is told that somebody, itself, has it: so it is asked once.
        let ask = self.ask(Method::POST, id, "/claim", Repeat::Refused);
        let answer = self.send(with_json(ask, &Body { worker })).await.map_err(claim_error)?;
        Ok(read::<ClaimBody>(&answer)?.claim()?)
    }

    async fn tell(
        &self,
        id: &SubscriptionId,
        token: &str,
        progress: Progress,
    ) -> Result<Reported, ProgressError> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(default)]
            next_wake: bool,
        }
        let Progress { wake_id, generation, acks, done } = progress;
        // Said twice, the end of a wake is refused: so if no answer comes, the caller must decide.
        let repeat = if done { Repeat::Refused } else { Repeat::Safe };
        let ask = self.ask(Method::POST, id, "/ack", repeat);
        let body = ReportBody { wake_id, generation, acks: &acks, done };
        let answer = self.send(with_token(with_json(ask, &body), token)).await;
        let answer = answer.map_err(|failure| progress_error(failure, &acks))?;
        Ok(Reported { next_wake: read::<Body>(&answer)?.next_wake })
    }
}

impl Subscriptions for HttpSubscriptions {
    fn keys(&self) -> Answer<'_, Result<Vec<PublicKey>, Unavailable>> {
        Box::pin(self.published())
    }

    fn create<'a>(
        &'a self,
        id: &'a SubscriptionId,
        config: Config,
        _: String,
    ) -> Answer<'a, Result<Created, CreateError>> {
        Box::pin(self.make(id, config))
    }

    fn get<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<View, ChangeError>> {
        Box::pin(async move {
            let ask = self.ask(Method::GET, id, "", Repeat::Safe);
            let answer = self.send(ask).await.map_err(change_error)?;
            Ok(read::<ViewBody>(&answer)?.view()?)
        })
    }

    fn setback<'a>(
        &'a self,
        id: &'a SubscriptionId,
    ) -> Answer<'a, Result<Option<Setback>, ChangeError>> {
        Box::pin(async move {
            let ask = self.ask(Method::GET, id, "", Repeat::Safe);
            let answer = self.send(ask).await.map_err(change_error)?;
            Ok(read::<ViewBody>(&answer)?.setback()?)
        })
    }

    fn delete<'a>(&'a self, id: &'a SubscriptionId) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            let ask = self.ask(Method::DELETE, id, "", Repeat::Safe);
            self.send(ask).await.map(|_| ()).map_err(change_error)
        })
    }

    fn link<'a>(
        &'a self,
        id: &'a SubscriptionId,
        streams: Vec<StreamPath>,
    ) -> Answer<'a, Result<(), ChangeError>> {
        #[derive(Serialize)]
        struct Body<'a> {
            streams: Vec<&'a str>,
        }
        Box::pin(async move {
            let ask = self.ask(Method::POST, id, "/streams", Repeat::Safe);
            let body = Body { streams: streams.iter().map(StreamPath::as_str).collect() };
            self.send(with_json(ask, &body)).await.map(|_| ()).map_err(change_error)
        })
    }

    fn unlink<'a>(
        &'a self,
        id: &'a SubscriptionId,
        stream: StreamPath,
    ) -> Answer<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            let rest = format!("/streams/{}", escaped(stream.as_str()));
            let ask = self.ask(Method::DELETE, id, &rest, Repeat::Safe);
            self.send(ask).await.map(|_| ()).map_err(change_error)
        })
    }

    fn claim<'a>(
        &'a self,
        id: &'a SubscriptionId,
        worker: String,
    ) -> Answer<'a, Result<Claim, ClaimError>> {
        Box::pin(self.take(id, worker))
    }

    fn report<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        progress: Progress,
    ) -> Answer<'a, Result<Reported, ProgressError>> {
        Box::pin(self.tell(id, token, progress))
    }

    fn release<'a>(
        &'a self,
        id: &'a SubscriptionId,
        token: &'a str,
        wake_id: String,
        generation: u64,
    ) -> Answer<'a, Result<(), ProgressError>> {
        Box::pin(async move {
            let ask = self.ask(Method::POST, id, "/release", Repeat::Refused);
            let body = ReleaseBody { wake_id, generation };
            let answer = self.send(with_token(with_json(ask, &body), token)).await;
            answer.map(|_| ()).map_err(|failure| progress_error(failure, &[]))
        })
    }
}

fn with_json(ask: Ask, body: &impl Serialize) -> Ask {
    let body = serde_json::to_vec(body).unwrap_or_default();
    ask.header("content-type", "application/json").body(body)
}

/// The wake's token, in place of our own.
fn with_token(mut ask: Ask, token: &str) -> Ask {
    let mut headers = HeaderMap::new();
    if let Ok(mut value) = http::HeaderValue::try_from(format!("Bearer {token}")) {
        value.set_sensitive(true);
        headers.insert(http::header::AUTHORIZATION, value);
    }
    ask.headers.extend(headers);
    ask
}

fn read<T: for<'de> Deserialize<'de>>(answer: &Whole) -> Result<T, Unavailable> {
    serde_json::from_slice(&answer.body).map_err(|error| Unavailable::Unreadable(error.to_string()))
}

fn unreadable(what: &str) -> Unavailable {
    Unavailable::Unreadable(format!("{what} is malformed"))
}

/// The protocol's name of what went wrong, and the rest.
fn named(failure: Failure) -> (String, Result<Refusal, Unavailable>) {
    match failure {
        Failure::Refused(refusal) => (refusal.facts.error.code.clone(), Ok(*refusal)),
        other => (String::new(), Err(other.into_unavailable())),
    }
}

fn unavailable(refused: Result<Refusal, Unavailable>) -> Unavailable {
    match refused {
        Ok(refusal) => Failure::Refused(Box::new(refusal)).into_unavailable(),
        Err(why) => why,
    }
}

fn create_error(failure: Failure) -> CreateError {
    let (code, refused) = named(failure);
    match (code.as_str(), refused) {
        ("SUBSCRIPTION_ALREADY_EXISTS", _) => SubscriptionExists.into(),
        ("WEBHOOK_URL_REJECTED", Ok(refusal)) => {
            let facts = refusal.facts;
            let said = [facts.reason, refusal.detail].into_iter().find(|said| !said.is_empty());
            WebhookUrlRejected(said.unwrap_or_default()).into()
        }
        ("TOO_MANY_SUBSCRIPTIONS", _) => TooMany.into(),
        (_, refused) => unavailable(refused).into(),
    }
}

fn change_error(failure: Failure) -> ChangeError {
    let (code, refused) = named(failure);
    match (code.as_str(), refused) {
        ("SUBSCRIPTION_NOT_FOUND", _) => SubscriptionNotFound.into(),
        ("TOO_MANY_SUBSCRIPTIONS", _) => TooMany.into(),
        (_, refused) => unavailable(refused).into(),
    }
}

fn claim_error(failure: Failure) -> ClaimError {
    let (code, refused) = named(failure);
    match (code.as_str(), refused) {
        ("SUBSCRIPTION_NOT_FOUND", _) => SubscriptionNotFound.into(),
        ("NO_PENDING_WORK", _) => NoPendingWork.into(),
        ("ALREADY_CLAIMED", Ok(refusal)) => {
            let facts = refusal.facts.error;
            AlreadyClaimed { holder: facts.current_holder, generation: facts.generation }.into()
        }
        (_, refused) => unavailable(refused).into(),
    }
}

fn progress_error(failure: Failure, acks: &[Ack]) -> ProgressError {
    let (code, refused) = named(failure);
    match (code.as_str(), refused) {
        ("SUBSCRIPTION_NOT_FOUND", _) => SubscriptionNotFound.into(),
        ("TOKEN_INVALID" | "TOKEN_EXPIRED", _) => TokenInvalid.into(),
        ("FENCED", _) => Fenced.into(),
        ("INVALID_OFFSET", refused) => match refused_ack(refused, acks) {
            Ok(fact) => fact.into(),
            Err(why) => why.into(),
        },
        (_, refused) => unavailable(refused).into(),
    }
}

/// The acknowledgement that the refusal names.
fn refused_ack(
    refused: Result<Refusal, Unavailable>,
    acks: &[Ack],
) -> Result<InvalidAck, Unavailable> {
    let refusal = refused?;
    let named = |ack: &&Ack| ack.path.as_str() == refusal.facts.stream;
    // A server that does not say which can only mean the one, if there is one.
    let only = || acks.first().filter(|_| acks.len() == 1);
    match acks.iter().find(named).or_else(only) {
        Some(ack) => Ok(InvalidAck { path: ack.path.clone(), offset: ack.offset }),
        None => Err(Failure::Refused(Box::new(refusal)).into_unavailable()),
    }
}

#[derive(Serialize)]
struct ConfigBody<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a str>,
    streams: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<WebhookBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_stream: Option<&'a str>,
    lease_ttl_ms: u64,
    #[serde(skip_serializing_if = "Concurrency::is_usual")]
    concurrency: Concurrency,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct WebhookBody {
    url: String,
}

impl<'a> From<&'a Config> for ConfigBody<'a> {
    fn from(config: &'a Config) -> Self {
        let (r#type, webhook, wake_stream) = match &config.delivery {
            Delivery::Webhook(url) => ("webhook", Some(WebhookBody { url: url.clone() }), None),
            Delivery::PullWake(stream) => ("pull-wake", None, Some(stream.as_str())),
        };
        Self {
            r#type,
            pattern: config.pattern.as_ref().map(wire::Glob::as_str),
            streams: config.streams.iter().map(StreamPath::as_str).collect(),
            webhook,
            wake_stream,
            lease_ttl_ms: config.lease_ttl_ms,
            concurrency: config.concurrency,
            description: config.description.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct ReportBody<'a> {
    wake_id: String,
    generation: u64,
    acks: &'a [Ack],
    done: bool,
}

#[derive(Serialize)]
struct ReleaseBody {
    wake_id: String,
    generation: u64,
}

#[derive(Deserialize)]
struct ViewBody {
    pattern: Option<String>,
    streams: Vec<LinkBody>,
    webhook: Option<WebhookBody>,
    wake_stream: Option<String>,
    lease_ttl_ms: u64,
    #[serde(default)]
    concurrency: Concurrency,
    created_at: String,
    status: String,
    description: Option<String>,
    last_error: Option<String>,
    next_attempt_at: Option<String>,
}

#[derive(Deserialize)]
struct LinkBody {
    path: String,
    link_type: LinkKind,
    acked_offset: String,
}

#[derive(Deserialize)]
struct WorkBody {
    #[serde(flatten)]
    link: LinkBody,
    tail_offset: String,
}

#[derive(Deserialize)]
struct ClaimBody {
    wake_id: String,
    generation: u64,
    token: String,
    streams: Vec<WorkBody>,
    lease_ttl_ms: u64,
}

impl ViewBody {
    fn setback(self) -> Result<Option<Setback>, Unavailable> {
        let Some(text) = self.next_attempt_at else { return Ok(None) };
        let at: Timestamp = text.parse().map_err(|_| unreadable("next_attempt_at"))?;
        Ok(Some(Setback { last_error: self.last_error, next_attempt_at: at.unix_ms() }))
    }

    fn view(self) -> Result<View, Unavailable> {
        let links: Vec<LinkView> =
            self.streams.into_iter().map(LinkBody::link).collect::<Result<_, _>>()?;
        let delivery = match (self.webhook, self.wake_stream) {
            (Some(webhook), _) => Delivery::Webhook(webhook.url),
            (None, Some(stream)) => {
                Delivery::PullWake(stream.parse().map_err(|_| unreadable("wake_stream"))?)
            }
            (None, None) => return Err(unreadable("the subscription")),
        };
        let pattern = self.pattern.map(|text| text.parse()).transpose();
        let created_at: Timestamp =
            self.created_at.parse().map_err(|_| unreadable("created_at"))?;
        let explicit = links.iter().filter(|link| link.kind == LinkKind::Explicit);
        let config = Config {
            pattern: pattern.map_err(|_| unreadable("pattern"))?,
            streams: explicit.map(|link| link.path.clone()).collect(),
            lease_ttl_ms: self.lease_ttl_ms,
            concurrency: self.concurrency,
            description: self.description,
            ..Config::new(delivery)
        };
        let is_failing = self.status == "failed";
        Ok(View { config, links, created_at: created_at.unix_ms(), is_failing })
    }
}

impl LinkBody {
    fn link(self) -> Result<LinkView, Unavailable> {
        let acked = match self.acked_offset.as_str() {
            "-1" => None,
            text => Some(text.parse::<Offset>().map_err(|_| unreadable("acked_offset"))?),
        };
        let path = self.path.parse().map_err(|_| unreadable("path"))?;
        Ok(LinkView { path, kind: self.link_type, acked })
    }
}

impl ClaimBody {
    fn claim(self) -> Result<Claim, Unavailable> {
        let work = |body: WorkBody| {
            let tail = body.tail_offset.parse().map_err(|_| unreadable("tail_offset"))?;
            Ok(Work { link: body.link.link()?, tail })
        };
        Ok(Claim {
            wake_id: self.wake_id,
            generation: self.generation,
            token: self.token,
            streams: self.streams.into_iter().map(work).collect::<Result<_, Unavailable>>()?,
            lease_ttl_ms: self.lease_ttl_ms,
        })
    }
}
