//! Budgets: a bounded amount of something that is taken at once or not at all.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::service::Service;

/// Bytes of an answer that nobody counts.
const FREE_BYTES: usize = 64 * 1024;

/// What is left to take. Nobody waits for it, so it needs no queue and no lock.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
}

/// A part of a budget, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    budget: &'a Budget,
    amount: usize,
}

impl Budget {
    pub(crate) fn new(amount: usize) -> Self {
        Self { left: AtomicUsize::new(amount) }
    }

    /// An empty share, to grow.
    pub(crate) fn share(&self) -> Share<'_> {
        Share { budget: self, amount: 0 }
    }

    /// False if less is left than that; then nothing is taken.
    pub(crate) fn take(&self, amount: usize) -> bool {
        let taking = |left: usize| left.checked_sub(amount);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taking).is_ok()
    }

    pub(crate) fn give_back(&self, amount: usize) {
        self.left.fetch_add(amount, Ordering::Relaxed);
    }
}

impl Share<'_> {
    /// False if less is left than that; then the share stays as it is.
    pub(crate) fn grow(&mut self, amount: usize) -> bool {
        let taken = self.budget.take(amount);
        if taken {
            self.amount += amount;
        }
        taken
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.budget.give_back(self.amount);
    }
}

/// The bytes of an answer on its way, given back when dropped.
#[derive(Debug)]
pub(crate) struct Load {
    service: Arc<Service>,
    bytes: usize,
}

impl Load {
    /// None if too much is on its way already.
    pub(crate) fn take(service: &Arc<Service>, bytes: usize) -> Option<Self> {
        let bytes = if bytes > FREE_BYTES { bytes } else { 0 };
        if !service.outgoing.take(bytes) {
            service.metrics.shed();
            return None;
        }
        Some(Self { service: service.clone(), bytes })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.service.outgoing.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(10);
        let mut share = budget.share();
        assert!(share.grow(4) && share.grow(6));
        assert!(!share.grow(1) && !budget.take(1));
        drop(share);
        assert!(budget.take(10));
    }
}
