//! Seats: how many may follow at a time.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::{problem::Problem, service::Service};

/// The right to follow a stream, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    service: Arc<Service>,
    _permit: OwnedSemaphorePermit,
}

impl Seat {
    pub(crate) fn take(service: &Arc<Service>) -> Result<Self, Problem> {
        let Ok(permit) = service.seats.clone().try_acquire_owned() else {
            service.metrics.shed();
            return Err(Problem::overloaded("too many live readers; retry after a second"));
        };
        service.metrics.follower_came();
        Ok(Self { service: service.clone(), _permit: permit })
    }

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.service.metrics.follower_left();
    }
}
