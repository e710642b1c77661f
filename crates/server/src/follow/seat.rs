//! Seats: how many may follow at a time.

use std::sync::Arc;

use crate::{
    call::Call,
    problem::Problem,
    service::Service,
    shares::{Account, Resource, Share},
};

/// The right to follow a stream, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    service: Arc<Service>,
    account: Arc<Account>,
    _share: Share,
}

impl Seat {
    pub(crate) fn take(call: &Call<'_>) -> Result<Self, Problem> {
        let (service, account) = (call.service.clone(), call.account.clone());
        let Some(share) = account.take(Resource::LiveReaders, 1) else {
            return Err(service.shed("too many live readers of yours"));
        };
        service.metrics.follower_came();
        Ok(Self { service, account, _share: share })
    }

    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Counts bytes that are about to be sent; none if too many are on their way already.
    pub(crate) fn load(&self, bytes: usize) -> Option<Share> {
        let load = self.account.take(Resource::Outgoing, bytes);
        if load.is_none() {
            self.service.metrics.shed();
        }
        load
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.service.metrics.follower_left();
    }
}
