//! Deliveries: the calls and announcements that a wake asks for, each on a task of its own.

use std::time::Duration;

use log::Append;
use tokio::sync::mpsc;
use wire::{Address, Messages, StreamPath};

use super::{command::Command, owner::Owner, views::work};
use crate::{
    Delivery, Reply, SubscriptionId,
    courier::{Call, Letter, Received, understand},
    subscription::{Stage, Subscription, Wake},
};

/// How long one call may take, if the lease is not shorter.
const CALL_PATIENCE: Duration = Duration::from_secs(30);

impl Owner {
    /// Starts what a wake asks for, unless that is under way.
    pub(super) fn deliver(&mut self, id: &SubscriptionId, generation: u64) {
        let Some(subscription) = self.book.get(id) else { return };
        let Some(wake) = subscription.wakes.get(&generation) else { return };
        if !matches!(wake.stage, Stage::Calling { .. } | Stage::Offered)
            || self.under_way.contains(&wake.id)
        {
            return;
        }
        let wake_id = wake.id.clone();
        match &subscription.config.delivery {
            Delivery::Webhook(url) => {
                let lease_ttl_ms = subscription.config.lease_ttl_ms;
                self.call(self.call_for(id, subscription, wake, url), lease_ttl_ms);
            }
            Delivery::PullWake(stream) => self.announce(id, wake, stream.clone()),
        }
        self.under_way.insert(wake_id);
    }

    fn call_for(
        &self,
        id: &SubscriptionId,
        subscription: &Subscription,
        wake: &Wake,
        url: &str,
    ) -> Call {
        Call {
            url: url.to_owned(),
            subscription: id.clone(),
            wake_id: wake.id.clone(),
            generation: wake.generation,
            streams: work(subscription, wake),
            base: subscription.base.clone(),
            token: self.keys.current().secret().token(id, wake.generation, &wake.id),
            patience: subscription.config.lease_ttl().min(CALL_PATIENCE),
        }
    }

    fn call(&self, call: Call, lease_ttl_ms: u64) {
        let (courier, calls, inbox) =
            (self.courier.clone(), self.calls.clone(), self.inbox.clone());
        let (clock, keys) = (self.sys.clock.clone(), self.keys.clone());
        self.sys.spawn.task("webhook", async move {
            let (id, wake_id, patience) =
                (call.subscription.clone(), call.wake_id.clone(), call.patience);
            let Ok(_permit) = calls.acquire().await else { return };
            // Signed when it goes, for receivers believe it for minutes only.
            let body = call.body(lease_ttl_ms);
            let signature = keys.current().sign(body.as_bytes(), clock.unix_ms());
            let carrying = courier.carry(Letter { call, body, signature });
            let outcome = match clock.timeout(patience, carrying).await {
                Ok(received) => judged(received),
                Err(_) => Err(format!("the webhook did not answer in {} ms", patience.as_millis())),
            };
            tell(&inbox, id, wake_id, outcome).await;
        });
    }

    /// Writes into the wake stream that there is work. A crash may write it twice: who comes late
    /// finds the work claimed.
    fn announce(&self, id: &SubscriptionId, wake: &Wake, stream: StreamPath) {
        let message = serde_json::json!({
            "type": "wake",
            "subscription_id": id.as_str(),
            "stream": wake.streams.first().map(|task| task.path.as_str()),
            "generation": wake.generation,
            "ts": self.now().get(),
        });
        let (log, inbox, id, wake_id) =
            (self.log.clone(), self.inbox.clone(), id.clone(), wake.id.clone());
        self.sys.spawn.task("announcement", async move {
            let unwritten = |why: String| format!("{stream} cannot be appended to: {why}");
            let outcome = match Messages::one(message.to_string()) {
                Ok(messages) => {
                    let address = Address::from(stream.clone());
                    let appended = log.append(&address, Append::messages(messages)).await;
                    appended.map(|_| Reply::Accepted).map_err(|error| unwritten(error.to_string()))
                }
                Err(error) => Err(unwritten(error.to_string())),
            };
            tell(&inbox, id, wake_id, outcome).await;
        });
    }
}

/// What the webhook's answer means, or why it is none.
fn judged(received: Option<Received>) -> Result<Reply, String> {
    let status = received.as_ref().map(|received| received.status);
    match (understand(received), status) {
        (Reply::Failed, Some(status)) => Err(format!("the webhook answered {status}")),
        (Reply::Failed, None) => Err("the webhook was not reached".to_owned()),
        (reply, _) => Ok(reply),
    }
}

async fn tell(
    inbox: &mpsc::WeakSender<Command>,
    id: SubscriptionId,
    wake_id: String,
    outcome: Result<Reply, String>,
) {
    if let Some(inbox) = inbox.upgrade() {
        let _ = inbox.send(Command::Delivered { id, wake_id, outcome }).await;
    }
}
