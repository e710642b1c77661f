//! What is asked of subscriptions: each request is decided on what is known, and staged.

use log::Unavailable;
use wire::{Offset, StreamPath};

use super::{
    follow::look,
    owner::Owner,
    views::{view, work},
};
use crate::{
    ChangeError, Claim, ClaimError, Config, CreateError, Created, Delivery, Progress,
    ProgressError, Reported, SubscriptionExists, SubscriptionId, SubscriptionNotFound, TooMany,
    caps::{LINKS_MAX, SUBSCRIPTIONS_MAX},
    subscription::Subscription,
};

impl Owner {
    pub(super) fn find(&self, id: &SubscriptionId) -> Result<&Subscription, SubscriptionNotFound> {
        self.book.get(id).ok_or(SubscriptionNotFound)
    }

    pub(super) async fn create(
        &mut self,
        id: &SubscriptionId,
        config: Config,
        base: String,
    ) -> Result<Created, CreateError> {
        config.check()?;
        if let Delivery::Webhook(url) = &config.delivery {
            self.courier.check(url)?;
        }
        if let Some(subscription) = self.book.get(id) {
            return match subscription.config == config {
                true => Ok(Created {
                    is_new: false,
                    view: view(&*self.log, &self.book.marks, subscription).await?,
                }),
                false => Err(SubscriptionExists.into()),
            };
        }
        if self.book.len() >= SUBSCRIPTIONS_MAX {
            return Err(TooMany.into());
        }
        self.watch()?;
        let mut subscription = Subscription::new(config, base, self.now());
        let sights = self.link_existing(&mut subscription).await?;
        for event in subscription.told() {
            self.record(id, vec![event]);
        }
        for (path, sight) in &sights {
            self.book.moved(id, path, *sight);
        }
        let made = self.find(id).map_err(|_| Unavailable::Closing)?;
        Ok(Created { is_new: true, view: view(&*self.log, &self.book.marks, made).await? })
    }

    pub(super) async fn link(
        &mut self,
        id: &SubscriptionId,
        streams: Vec<StreamPath>,
    ) -> Result<(), ChangeError> {
        if self.find(id)?.links.len() + streams.len() > LINKS_MAX {
            return Err(TooMany.into());
        }
        for path in streams {
            let sight = look(&*self.log, &path).await?;
            // One that the pattern follows already goes on where it was.
            let is_followed = self.find(id)?.config.covers(&path) && sight.tail > Offset::START;
            let acked = match sight.incarnation() {
                Some(life) if is_followed => self.book.marks.get(life),
                _ => Some(sight.tail),
            };
            if let Some(event) = self.find(id)?.name(&path, sight, acked) {
                self.record(id, vec![event]);
                self.book.moved(id, &path, sight);
                self.rouse(id);
            }
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, id: &SubscriptionId, worker: &str) -> Result<Claim, ClaimError> {
        let now = self.now();
        let (generation, event) = self.find(id)?.claim(worker, now)?;
        self.stage(id, vec![event]);
        let subscription = self.find(id)?;
        let wake = subscription.wakes.get(&generation).ok_or(crate::NoPendingWork)?;
        Ok(Claim {
            wake_id: wake.id.clone(),
            generation: wake.generation,
            token: self.keys.current().secret().token(id, wake.generation, &wake.id),
            streams: work(subscription, wake),
            lease_ttl_ms: subscription.config.lease_ttl_ms,
        })
    }

    pub(super) fn report(
        &mut self,
        id: &SubscriptionId,
        token: u64,
        progress: &Progress,
    ) -> Result<Reported, ProgressError> {
        let now = self.now();
        let events = self.find(id)?.report(token, progress, now)?;
        self.stage(id, events);
        let next_wake = progress.done && self.find(id)?.calls_to_work();
        Ok(Reported { next_wake })
    }

    pub(super) fn release(
        &mut self,
        id: &SubscriptionId,
        token: u64,
        wake_id: &str,
        generation: u64,
    ) -> Result<(), ProgressError> {
        let event = self.find(id)?.release(token, wake_id, generation)?;
        self.stage(id, vec![event]);
        Ok(())
    }
}
