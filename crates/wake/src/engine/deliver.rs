//! Deliveries: the calls and announcements that a wake asks for, each on a task of its own.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt as _;
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

/// How a delivery ended; why, if it failed.
#[derive(Clone)]
pub(super) struct Delivered {
    pub(super) id: SubscriptionId,
    pub(super) wake_id: String,
    pub(super) outcome: Result<Reply, String>,
}

impl Owner {
    /// Calls again to every wake whose call may not have been made.
    pub(super) fn recall(&mut self) {
        self.calls.clear();
        self.announcements.clear();
        for (id, subscription) in self.book.iter() {
            self.turn.calls.extend(subscription.wakes.keys().map(|at| (id.clone(), *at)));
        }
    }

    /// Takes how a delivery ended.
    pub(super) fn delivered(&mut self, delivered: Delivered) {
        self.turn.delivered.push(delivered.clone());
        let Delivered { id, wake_id, outcome } = delivered;
        let (id, wake_id) = (&id, &*wake_id);
        self.calls.ended(wake_id);
        self.announcements.ended(wake_id);
        let (now, chance) = (self.now(), &self.sys.chance);
        let Some(subscription) = self.book.get(id) else { return };
        let was_set_back = subscription.is_set_back();
        let reply = outcome.as_ref().map_or(Reply::Failed, |reply| *reply);
        let events = subscription.delivered(wake_id, reply, now, |bound| chance.below(bound));
        self.stage(id, events);
        match outcome {
            Err(why) => {
                tracing::warn!(subscription = %id, wake = wake_id, why, "a delivery failed");
                // Unless the wake was over by then: its worker called back, or it was released.
                if self.is_set_back(id) {
                    self.last_errors.insert(id.clone(), why);
                }
            }
            Ok(_) if was_set_back && !self.is_set_back(id) => {
                tracing::info!(subscription = %id, wake = wake_id, "deliveries succeed again");
                self.last_errors.remove(id);
            }
            Ok(_) => {}
        }
    }

    fn is_set_back(&self, id: &SubscriptionId) -> bool {
        self.book.get(id).is_some_and(Subscription::is_set_back)
    }

    /// Puts what a wake asks for at the end of its line.
    pub(super) fn line_up(&mut self, id: SubscriptionId, generation: u64) {
        match self.book.get(&id).map(|subscription| &subscription.config.delivery) {
            Some(Delivery::Webhook(_)) => self.calls.join(id, generation),
            Some(Delivery::PullWake(_)) => self.announcements.join(id, generation),
            None => {}
        }
    }

    /// Starts what is in line, as far as there is room.
    pub(super) fn deliver(&mut self) {
        while let Some((id, generation)) = self.calls.next() {
            let Some((subscription, wake)) = self.wanting(&id, generation) else { continue };
            let Delivery::Webhook(url) = &subscription.config.delivery else { continue };
            let lease_ttl_ms = subscription.config.lease_ttl_ms;
            let call = self.call_for(&id, subscription, wake, url);
            if self.calls.start(&call.wake_id) {
                self.call(call, lease_ttl_ms);
            }
        }
        while let Some((id, generation)) = self.announcements.next() {
            let Some((subscription, wake)) = self.wanting(&id, generation) else { continue };
            let Delivery::PullWake(stream) = &subscription.config.delivery else { continue };
            let (wake, stream) = (wake.clone(), stream.clone());
            if self.announcements.start(&wake.id) {
                self.announce(&id, &wake, stream);
            }
        }
    }

    /// The wake, if it still asks for a delivery.
    fn wanting(&self, id: &SubscriptionId, generation: u64) -> Option<(&Subscription, &Wake)> {
        let subscription = self.book.get(id)?;
        let wake = subscription.wakes.get(&generation)?;
        let wants = matches!(wake.stage, Stage::Calling {} | Stage::Offered);
        wants.then_some((subscription, wake))
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
        let (courier, inbox) = (self.courier.clone(), self.inbox.clone());
        let (clock, keys) = (self.sys.clock.clone(), self.keys.clone());
        self.sys.spawn.task("webhook", async move {
            let (id, wake_id, patience) =
                (call.subscription.clone(), call.wake_id.clone(), call.patience);
            // Signed when it goes, for receivers believe it for minutes only.
            let body = call.body(lease_ttl_ms);
            let signature = keys.current().sign(body.as_bytes(), clock.unix_ms());
            let letter = Letter { call, body, signature };
            // Whatever becomes of it is told: nothing else ends a call.
            let carrying = AssertUnwindSafe(async { courier.carry(letter).await }).catch_unwind();
            let outcome = match clock.timeout(patience, carrying).await {
                Ok(Ok(received)) => judged(received),
                Ok(Err(_)) => Err("the call panicked".to_owned()),
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
