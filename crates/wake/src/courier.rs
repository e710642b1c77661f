//! Couriers: who carries a wake to a webhook.

use std::{fmt, time::Duration};

use serde::Serialize;
use wire::escaped;

use crate::{Answer, LinkView, Reply, SubscriptionId, WebhookUrlRejected, Work};

/// Calls webhooks. The engine knows no HTTP; whoever does implements this.
pub trait Courier: fmt::Debug + Send + Sync {
    /// Whether the URL may be called at all, as far as its text tells.
    ///
    /// # Errors
    /// [`WebhookUrlRejected`] says why not.
    fn check(&self, url: &str) -> Result<(), WebhookUrlRejected>;

    /// Sends the letter once, and brings what was answered; none if nobody did in time.
    fn carry(&self, letter: Letter) -> Answer<'_, Option<Received>>;
}

/// A wake on its way to a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// What it is about.
    pub call: Call,
    /// The body, as JSON.
    pub body: String,
    /// The `Webhook-Signature`.
    pub signature: String,
}

/// A wake for a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where to.
    pub url: String,
    /// Whose wake.
    pub subscription: SubscriptionId,
    /// Names the wake; the same for every attempt.
    pub wake_id: String,
    /// Counts the subscription's wakes.
    pub generation: u64,
    /// What there is to do.
    pub streams: Vec<Work>,
    /// What URLs of this server begin with.
    pub base: String,
    /// What the webhook's reports must carry.
    pub token: String,
    /// How long it may take.
    pub patience: Duration,
}

/// What a webhook answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The status.
    pub status: u16,
    /// The first bytes of the body.
    pub body: Vec<u8>,
}

impl Call {
    /// The body of the request. It tells the lease, for whoever keeps the wake must count as the
    /// engine does.
    pub(crate) fn body(&self, lease_ttl_ms: u64) -> String {
        let id = escaped(self.subscription.as_str());
        let body = Body {
            subscription_id: self.subscription.as_str(),
            wake_id: &self.wake_id,
            generation: self.generation,
            streams: self.streams.iter().map(WorkBody::from).collect(),
            callback_url: format!("{}/__ds/subscriptions/{id}/callback", self.base),
            callback_token: &self.token,
            lease_ttl_ms,
        };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    subscription_id: &'a str,
    wake_id: &'a str,
    generation: u64,
    streams: Vec<WorkBody>,
    callback_url: String,
    callback_token: &'a str,
    /// Ours: the protocol has it in claims only.
    lease_ttl_ms: u64,
}

/// A stream with work, as the protocol writes it.
#[derive(Debug, Serialize)]
pub struct WorkBody {
    #[serde(flatten)]
    link: LinkBody,
    tail_offset: String,
    has_pending: bool,
}

/// A stream that is followed, as the protocol writes it.
#[derive(Debug, Serialize)]
pub struct LinkBody {
    path: String,
    link_type: crate::LinkKind,
    acked_offset: String,
}

impl From<&LinkView> for LinkBody {
    fn from(link: &LinkView) -> Self {
        Self {
            path: link.path.to_string(),
            link_type: link.kind,
            acked_offset: link.acked.map_or_else(|| "-1".to_owned(), |offset| offset.to_string()),
        }
    }
}

impl From<&Work> for WorkBody {
    fn from(work: &Work) -> Self {
        let has_pending = work.tail > work.link.acked.unwrap_or_default();
        Self { link: (&work.link).into(), tail_offset: work.tail.to_string(), has_pending }
    }
}

/// What the answer of a webhook means.
pub(crate) fn understand(received: Option<Received>) -> Reply {
    #[derive(serde::Deserialize)]
    struct Said {
        #[serde(default)]
        done: bool,
    }
    match received {
        Some(Received { status: 200..=299, body }) => {
            let said = serde_json::from_slice::<Said>(&body);
            if said.is_ok_and(|said| said.done) { Reply::Done } else { Reply::Accepted }
        }
        Some(_) | None => Reply::Failed,
    }
}

/// Wakes nobody: for engines whose subscriptions are all pulled.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCourier;

impl Courier for NoCourier {
    fn check(&self, _: &str) -> Result<(), WebhookUrlRejected> {
        Err(WebhookUrlRejected("this server calls no webhooks; use a pull-wake".to_owned()))
    }

    fn carry(&self, _: Letter) -> Answer<'_, Option<Received>> {
        Box::pin(std::future::ready(None))
    }
}
