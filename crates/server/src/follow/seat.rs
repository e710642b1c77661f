//! Seats: how many may follow at a time.

use std::sync::Arc;

use crate::{problem::Problem, service::Service};

/// The right to follow a stream, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    service: Arc<Service>,
}

impl Seat {
    pub(crate) fn take(service: &Arc<Service>) -> Result<Self, Problem> {
        if !service.seats.take(1) {
            service.metrics.shed();
            return Err(Problem::overloaded("too many live readers; retry after a second"));
        }
        service.metrics.follower_came();
        Ok(Self { service: service.clone() })
    }

    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.service.metrics.follower_left();
        self.service.seats.give_back(1);
    }
}
