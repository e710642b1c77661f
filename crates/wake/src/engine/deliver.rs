//! Deliveries: the calls and announcements that a wake asks for, each on a task of its own.

use std::time::Duration;

use log::Append;
use tokio::sync::mpsc;
use wire::{Address, Messages, StreamPath};

use super::{
    owner::{Command, Owner},
    views::work,
};
use crate::{
    Delivery, Reply, SubscriptionId,
    courier::{Call, Letter, understand},
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
            Delivery::Webhook(url) => self.call(self.call_for(id, subscription, wake, url)),
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

    fn call(&self, call: Call) {
        let (courier, calls, inbox) =
            (self.courier.clone(), self.calls.clone(), self.inbox.clone());
        let (clock, keys) = (self.sys.clock.clone(), self.keys.clone());
        self.sys.spawn.task("webhook", async move {
            let (id, wake_id, patience) =
                (call.subscription.clone(), call.wake_id.clone(), call.patience);
            let Ok(_permit) = calls.acquire().await else { return };
            // Signed when it goes, for receivers believe it for minutes only.
            let body = call.body();
            let signature = keys.current().sign(body.as_bytes(), clock.unix_ms());
            let carrying = courier.carry(Letter { call, body, signature });
            let received = clock.timeout(patience, carrying).await.unwrap_or(None);
            tell(&inbox, id, wake_id, understand(received)).await;
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
            let reply = match Messages::one(message.to_string()) {
                Ok(messages) => {
                    let address = Address::from(stream);
                    match log.append(&address, Append::messages(messages)).await {
                        Ok(_) => Reply::Accepted,
                        Err(_) => Reply::Failed,
                    }
                }
                Err(_) => Reply::Failed,
            };
            tell(&inbox, id, wake_id, reply).await;
        });
    }
}

async fn tell(
    inbox: &mpsc::WeakSender<Command>,
    id: SubscriptionId,
    wake_id: String,
    reply: Reply,
) {
    if let Some(inbox) = inbox.upgrade() {
        let _ = inbox.send(Command::Delivered { id, wake_id, reply }).await;
    }
}
