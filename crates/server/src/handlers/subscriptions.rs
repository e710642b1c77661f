//! `__ds`: subscriptions, as the protocol's own APIs ask for them.

use std::{collections::BTreeSet, sync::Arc};

use http::{Method, Response, StatusCode, header, request::Parts};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use wake::{
    Ack, Claim, Concurrency, Config, Created, Delivery, InvalidAck, LinkBody, Listed, Progress,
    ProgressError, Setback, SubscriptionId, Subscriptions, View, WorkBody, caps,
};
use wire::{StreamPath, Timestamp};

use crate::{
    auth::Access,
    call::{Call, Caller},
    names,
    problem::{Kind, Problem},
    request::{Incoming, Upload, list_subscriptions, percent_decoded, receive_at_most, single},
    response::{Body, Reply},
    service::Service,
};

/// What a path below `__ds` names.
enum Place {
    Keys,
    /// All of them.
    Subscriptions,
    Subscription(SubscriptionId),
    Streams(SubscriptionId),
    Stream(SubscriptionId, StreamPath),
    /// Where webhooks and workers report.
    Reports(SubscriptionId),
    Claim(SubscriptionId),
    Release(SubscriptionId),
}

/// Answers `/v1/stream/__ds/…`.
pub(crate) async fn subscriptions(
    service: &Arc<Service>,
    caller: Caller,
    head: &Parts,
    rest: &str,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let answered = match &service.subscriptions {
        Some(subscriptions) => answer(service, &**subscriptions, caller, head, rest, body).await,
        None => Err(Problem::not_found("this server has no subscriptions")),
    };
    answered.map_err(Problem::of_subscriptions)
}

async fn answer(
    service: &Arc<Service>,
    subscriptions: &dyn Subscriptions,
    caller: Caller,
    head: &Parts,
    rest: &str,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let place = Place::of(rest)?;
    match (&place, &head.method) {
        (Place::Keys, &Method::GET | &Method::HEAD) => {
            caller.admit(service)?;
            return keys(subscriptions).await;
        }
        // Their tokens come from wakes, not from the operator.
        (Place::Reports(id), &Method::POST) => {
            caller.admit(service)?;
            let upload = caller.upload(service, head, body);
            return report(subscriptions, head, id, upload).await;
        }
        (Place::Release(id), &Method::POST) => {
            caller.admit(service)?;
            let upload = caller.upload(service, head, body);
            return release(subscriptions, head, id, upload).await;
        }
        _ => {}
    }
    let call = Call::enter(service, caller, head)?;
    if let (Place::Claim(id), &Method::POST) = (&place, &head.method) {
        call.client.require_everywhere(&[Access::Write, Access::Admin])?;
        return claim(&call, subscriptions, id, body).await;
    }
    call.client.require_everywhere(&[Access::Admin])?;
    manage(&call, subscriptions, place, body).await
}

async fn manage(
    call: &Call<'_>,
    subscriptions: &dyn Subscriptions,
    place: Place,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    match (place, &call.head.method) {
        (Place::Subscriptions, &Method::GET | &Method::HEAD) => list(call, subscriptions).await,
        (Place::Subscription(id), &Method::PUT) => create(call, subscriptions, &id, body).await,
        (Place::Subscription(id), &Method::GET | &Method::HEAD) => {
            let view = subscriptions.get(&id).await?;
            describe(call, StatusCode::OK, subscriptions, &id, &view).await
        }
        (Place::Subscription(id), &Method::DELETE) => match subscriptions.delete(&id).await {
            Ok(()) | Err(wake::ChangeError::NotFound(_)) => Ok(nothing()),
            Err(error) => Err(error.into()),
        },
        (Place::Streams(id), &Method::POST) => {
            let asked: StreamsAsked = read(call.upload(body)).await?;
            subscriptions.link(&id, paths(&asked.streams)?.into_iter().collect()).await?;
            Ok(nothing())
        }
        (Place::Stream(id, path), &Method::DELETE) => {
            subscriptions.unlink(&id, path).await?;
            Ok(nothing())
        }
        _ => Err(Problem::not_found("there is no such call; see the protocol's section 6")),
    }
}

async fn list(
    call: &Call<'_>,
    subscriptions: &dyn Subscriptions,
) -> Result<Response<Body>, Problem> {
    let (after, limit) = list_subscriptions(call.head.uri.query())?;
    let page = subscriptions.list(after, limit).await?;
    let body = PageBody {
        subscriptions: page.subscriptions.iter().map(ListedBody::from).collect(),
        next: page.next.as_ref().map(SubscriptionId::as_str),
    };
    Ok(json(StatusCode::OK, &body))
}

async fn create(
    call: &Call<'_>,
    subscriptions: &dyn Subscriptions,
    id: &SubscriptionId,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let asked: Asked = read(call.upload(body)).await?;
    let Created { is_new, view } = subscriptions.create(id, asked.config()?, base(call)).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    describe(call, status, subscriptions, id, &view).await
}

async fn claim(
    call: &Call<'_>,
    subscriptions: &dyn Subscriptions,
    id: &SubscriptionId,
    body: Incoming<'_>,
) -> Result<Response<Body>, Problem> {
    let asked: ClaimAsked = read(call.upload(body)).await?;
    if asked.worker.is_empty() || asked.worker.len() > caps::WORKER_BYTES_MAX {
        let detail = format!("worker must have 1 to {} bytes", caps::WORKER_BYTES_MAX);
        return Err(Problem::bad_request(detail));
    }
    let claim = subscriptions.claim(id, asked.worker).await?;
    Ok(json(StatusCode::OK, &ClaimBody::from(&claim)))
}

async fn report(
    subscriptions: &dyn Subscriptions,
    head: &Parts,
    id: &SubscriptionId,
    upload: Upload<'_, '_>,
) -> Result<Response<Body>, Problem> {
    let token = token(head)?;
    let asked: ReportAsked = read(upload).await?;
    let progress = Progress {
        wake_id: asked.wake_id,
        generation: asked.generation,
        acks: asked.acks,
        done: asked.done,
    };
    progress.check().map_err(Problem::bad_request_from)?;
    match subscriptions.report(id, token, progress).await {
        Ok(reported) => {
            Ok(json(StatusCode::OK, &ReportBody { ok: true, next_wake: reported.next_wake }))
        }
        Err(ProgressError::InvalidAck(fact)) => Err(refused_ack(subscriptions, id, &fact).await),
        Err(error) => Err(error.into()),
    }
}

/// Says whether it is the stream that is wrong, or the offset.
async fn refused_ack(
    subscriptions: &dyn Subscriptions,
    id: &SubscriptionId,
    fact: &InvalidAck,
) -> Problem {
    let InvalidAck { path, offset } = fact;
    let view = subscriptions.get(id).await;
    let is_followed = |view: View| view.links.iter().any(|link| link.path == *path);
    let detail = match view.map(is_followed) {
        Ok(false) => format!(
            "{offset} cannot be acknowledged in {path}: the subscription does not follow that \
             stream; name streams that the wake lists"
        ),
        Ok(true) | Err(_) => fact.to_string(),
    };
    Problem::invalid_ack(fact, detail)
}

async fn release(
    subscriptions: &dyn Subscriptions,
    head: &Parts,
    id: &SubscriptionId,
    upload: Upload<'_, '_>,
) -> Result<Response<Body>, Problem> {
    let token = token(head)?;
    let asked: ReleaseAsked = read(upload).await?;
    subscriptions.release(id, token, asked.wake_id, asked.generation).await?;
    Ok(nothing())
}

async fn keys(subscriptions: &dyn Subscriptions) -> Result<Response<Body>, Problem> {
    let body = serde_json::json!({ "keys": subscriptions.keys().await? }).to_string();
    Ok(Reply::new(StatusCode::OK)
        .header(&header::CONTENT_TYPE, names::JWK_SET.clone())
        .header(&header::CACHE_CONTROL, names::FIVE_MINUTES.clone())
        .bytes(body.into())
        .into_response())
}

/// Reads a path and each body there is; the config, if it makes a subscription.
#[cfg(fuzzing)]
pub(crate) fn fuzz(rest: &str, body: &[u8]) -> Option<Config> {
    let _ = Place::of(rest);
    let _ = serde_json::from_slice::<ClaimAsked>(body);
    let _ = serde_json::from_slice::<ReportAsked>(body);
    let _ = serde_json::from_slice::<ReleaseAsked>(body);
    let streams = serde_json::from_slice::<StreamsAsked>(body);
    let _ = streams.map(|asked| paths(&asked.streams));
    let config = serde_json::from_slice::<Asked>(body).ok()?.config().ok()?;
    config.check().is_ok().then_some(config)
}

impl Place {
    fn of(rest: &str) -> Result<Self, Problem> {
        let unknown = || Problem::not_found("subscriptions are at __ds/subscriptions/{id}");
        if rest == "jwks.json" {
            return Ok(Self::Keys);
        }
        if rest == "subscriptions" {
            return Ok(Self::Subscriptions);
        }
        let rest = rest.strip_prefix("subscriptions/").ok_or_else(unknown)?;
        let (id, call) = rest.split_once('/').unwrap_or((rest, ""));
        let id: SubscriptionId = percent_decoded(id)?.parse().map_err(Problem::bad_request_from)?;
        match call.split_once('/').unwrap_or((call, "")) {
            ("", "") => Ok(Self::Subscription(id)),
            ("streams", "") => Ok(Self::Streams(id)),
            ("streams", path) => {
                let path = percent_decoded(path)?.parse().map_err(Problem::bad_request_from)?;
                Ok(Self::Stream(id, path))
            }
            ("callback" | "ack", "") => Ok(Self::Reports(id)),
            ("claim", "") => Ok(Self::Claim(id)),
            ("release", "") => Ok(Self::Release(id)),
            _ => Err(unknown()),
        }
    }
}

/// The token that came with a wake.
fn token(head: &Parts) -> Result<&str, Problem> {
    let value = single(&head.headers, &header::AUTHORIZATION)?;
    let token = value.and_then(|value| value.split_once(' '));
    match token {
        Some((scheme, token))
            if scheme.eq_ignore_ascii_case("bearer") && token.len() <= caps::TOKEN_BYTES_MAX =>
        {
            Ok(token.trim())
        }
        _ => Err(Problem::new(
            Kind::TokenInvalid,
            "send Authorization: Bearer and the token that came with the wake",
        )),
    }
}

async fn read<T: DeserializeOwned>(upload: Upload<'_, '_>) -> Result<T, Problem> {
    let body = receive_at_most(upload, caps::REQUEST_BYTES_MAX, "ask for less at a time").await?;
    let unread = |error| Problem::bad_request(format!("the body cannot be read: {error}"));
    serde_json::from_slice(&body.bytes).map_err(unread)
}

fn paths(texts: &[String]) -> Result<BTreeSet<StreamPath>, Problem> {
    if texts.len() > caps::STREAMS_PER_REQUEST_MAX {
        return Err(wake::BadConfig::TooManyStreams.into());
    }
    texts.iter().map(|text| text.parse().map_err(Problem::bad_request_from)).collect()
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(body).unwrap_or_default();
    Reply::new(status)
        .header(&header::CONTENT_TYPE, names::JSON.clone())
        .header(&header::CACHE_CONTROL, names::NO_STORE.clone())
        .bytes(text.into())
        .into_response()
}

fn nothing() -> Response<Body> {
    Reply::new(StatusCode::NO_CONTENT).into_response()
}

/// What URLs of streams begin with, as the client would write them.
fn base(call: &Call<'_>) -> String {
    match &call.service.settings.public_url {
        Some(url) => format!("{}/v1/stream", url.trim_end_matches('/')),
        None => format!("{}://{}/v1/stream", call.scheme(), call.host()),
    }
}

/// Strict, for a member that is misspelled would otherwise be a wish that nobody hears.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    r#type: String,
    pattern: Option<String>,
    streams: Option<Vec<String>>,
    webhook: Option<WebhookAsked>,
    wake_stream: Option<String>,
    lease_ttl_ms: Option<u64>,
    concurrency: Option<Concurrency>,
    description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookAsked {
    url: String,
}

#[derive(Deserialize)]
struct StreamsAsked {
    streams: Vec<String>,
}

#[derive(Deserialize)]
struct ClaimAsked {
    worker: String,
}

#[derive(Deserialize)]
struct ReportAsked {
    wake_id: String,
    generation: u64,
    #[serde(default)]
    acks: Vec<Ack>,
    #[serde(default)]
    done: bool,
}

#[derive(Deserialize)]
struct ReleaseAsked {
    wake_id: String,
    generation: u64,
}

impl Asked {
    fn config(self) -> Result<Config, Problem> {
        let delivery = match (&*self.r#type, self.webhook, self.wake_stream) {
            ("webhook", Some(webhook), _) => Delivery::Webhook(webhook.url),
            ("webhook", None, _) => return Err(Problem::bad_request("send webhook.url")),
            ("pull-wake", _, Some(stream)) => {
                Delivery::PullWake(stream.parse().map_err(Problem::bad_request_from)?)
            }
            ("pull-wake", _, None) => return Err(Problem::bad_request("send wake_stream")),
            _ => return Err(Problem::bad_request("type must be webhook or pull-wake")),
        };
        let pattern = self.pattern.map(|text| text.parse()).transpose();
        let usual = Config::new(delivery);
        Ok(Config {
            pattern: pattern.map_err(Problem::bad_request_from)?,
            streams: paths(&self.streams.unwrap_or_default())?,
            lease_ttl_ms: self.lease_ttl_ms.unwrap_or(usual.lease_ttl_ms),
            concurrency: self.concurrency.unwrap_or_default(),
            description: self.description,
            ..usual
        })
    }
}

#[derive(Serialize)]
struct Described<'a> {
    id: &'a str,
    subscription_id: &'a str,
    r#type: &'static str,
    pattern: Option<&'a str>,
    streams: Vec<LinkBody>,
    webhook: Option<WebhookBody<'a>>,
    wake_stream: Option<&'a str>,
    lease_ttl_ms: u64,
    /// Ours, so it is shown only if it was asked for.
    #[serde(skip_serializing_if = "Concurrency::is_usual")]
    concurrency: Concurrency,
    created_at: String,
    status: &'static str,
    description: Option<&'a str>,
    /// Ours, and only while deliveries fail.
    #[serde(flatten)]
    setback: Option<SetbackBody>,
}

#[derive(Serialize)]
struct SetbackBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    next_attempt_at: String,
}

#[derive(Serialize)]
struct WebhookBody<'a> {
    url: &'a str,
    signing: Signing<'a>,
}

#[derive(Serialize)]
struct Signing<'a> {
    alg: &'static str,
    kid: &'a str,
    jwks_url: String,
}

#[derive(Serialize)]
struct PageBody<'a> {
    subscriptions: Vec<ListedBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct ListedBody<'a> {
    id: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a str>,
    streams_count: usize,
    created_at: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

impl<'a> From<&'a Listed> for ListedBody<'a> {
    fn from(listed: &'a Listed) -> Self {
        let r#type = match listed.delivery {
            Delivery::Webhook(_) => "webhook",
            Delivery::PullWake(_) => "pull-wake",
        };
        Self {
            id: listed.id.as_str(),
            r#type,
            pattern: listed.pattern.as_ref().map(wire::Glob::as_str),
            streams_count: listed.links_count,
            created_at: Timestamp::from_unix_ms(listed.created_at).to_string(),
            status: status(listed.is_failing),
            description: listed.description.as_deref(),
        }
    }
}

fn status(is_failing: bool) -> &'static str {
    if is_failing { "failed" } else { "active" }
}

#[derive(Serialize)]
struct ClaimBody<'a> {
    wake_id: &'a str,
    generation: u64,
    token: &'a str,
    streams: Vec<WorkBody>,
    lease_ttl_ms: u64,
}

#[derive(Serialize)]
struct ReportBody {
    ok: bool,
    next_wake: bool,
}

impl<'a> From<&'a Claim> for ClaimBody<'a> {
    fn from(claim: &'a Claim) -> Self {
        Self {
            wake_id: &claim.wake_id,
            generation: claim.generation,
            token: &claim.token,
            streams: claim.streams.iter().map(WorkBody::from).collect(),
            lease_ttl_ms: claim.lease_ttl_ms,
        }
    }
}

impl From<Setback> for SetbackBody {
    fn from(setback: Setback) -> Self {
        let next_attempt_at = Timestamp::from_unix_ms(setback.next_attempt_at).to_string();
        Self { last_error: setback.last_error, next_attempt_at }
    }
}

async fn describe(
    call: &Call<'_>,
    status: StatusCode,
    subscriptions: &dyn Subscriptions,
    id: &SubscriptionId,
    view: &View,
) -> Result<Response<Body>, Problem> {
    let keys = match &view.config.delivery {
        Delivery::Webhook(_) => subscriptions.keys().await?,
        Delivery::PullWake(_) => Vec::new(),
    };
    let kid = keys.first().map_or("", |key| &key.kid);
    let setback = match view.is_failing {
        true => subscriptions.setback(id).await?.map(SetbackBody::from),
        false => None,
    };
    Ok(json(status, &Described { setback, ..described(call, kid, id, view) }))
}

fn described<'a>(
    call: &Call<'_>,
    kid: &'a str,
    id: &'a SubscriptionId,
    view: &'a View,
) -> Described<'a> {
    let (r#type, webhook, wake_stream) = match &view.config.delivery {
        Delivery::Webhook(url) => {
            let jwks_url = format!("{}/__ds/jwks.json", base(call));
            let signing = Signing { alg: "ed25519", kid, jwks_url };
            ("webhook", Some(WebhookBody { url, signing }), None)
        }
        Delivery::PullWake(stream) => ("pull-wake", None, Some(stream.as_str())),
    };
    Described {
        id: id.as_str(),
        subscription_id: id.as_str(),
        r#type,
        pattern: view.config.pattern.as_ref().map(wire::Glob::as_str),
        streams: view.links.iter().map(LinkBody::from).collect(),
        webhook,
        wake_stream,
        lease_ttl_ms: view.config.lease_ttl_ms,
        concurrency: view.config.concurrency,
        created_at: Timestamp::from_unix_ms(view.created_at).to_string(),
        status: status(view.is_failing),
        description: view.config.description.as_deref(),
        setback: None,
    }
}
