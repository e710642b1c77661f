//! Shares: bounded amounts that all clients draw from, and no client draws empty.
//!
//! Each resource is admitted by dynamic thresholds (ADR 28): a client may hold at most as much as
//! would be free without the request. One greedy client ends with half of all, `n` of them with
//! `1 / (n + 1)` each, and the same part stays free for the next. Nothing waits: what
//! cannot be had now is refused, so that there is no queue to bound.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::{
    Limits,
    caps::{HEAVY_MAX, READS_MAX, WATCHERS_MAX},
};

/// What is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Requests whose answers are not sent yet.
    Requests,
    /// Bytes of requests that came in and are not stored yet.
    Incoming,
    /// Bytes of large answers that were made and are not sent yet.
    Outgoing,
    /// Answers that wait for what comes.
    LiveReaders,
    Connections,
    /// Watchers of the log, besides those of the process itself.
    Watchers,
}

const RESOURCES: usize = 6;

/// Whom amounts are counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// The bearer of a token, wherever it asks from.
    Name(Arc<str>),
    /// An address, or for IPv6 the network that one household has.
    Ip(IpAddr),
}

/// What is left of each resource, and who holds some.
#[derive(Debug)]
pub(crate) struct Shares {
    total: [usize; RESOURCES],
    free: [AtomicUsize; RESOURCES],
    /// Those who hold anything, or have a request or a connection; never locked across an await.
    accounts: Mutex<HashMap<ClientKey, Weak<Account>>>,
}

/// What one client holds.
#[derive(Debug)]
pub(crate) struct Account {
    shares: Arc<Shares>,
    key: ClientKey,
    held: [AtomicUsize; RESOURCES],
    /// A permit for each read under way whose size is not known yet.
    reads: Semaphore,
    /// A permit for each body that takes long to do something with.
    heavy: Arc<Semaphore>,
}

/// A part of a resource, given back when dropped.
#[derive(Debug)]
#[must_use = "a share is given back when dropped"]
pub(crate) struct Share {
    account: Arc<Account>,
    resource: Resource,
    amount: usize,
}

impl ClientKey {
    pub(crate) fn ip(ip: IpAddr) -> Self {
        Self::Ip(match ip {
            IpAddr::V4(_) => ip,
            IpAddr::V6(ip) => {
                let [a, b, c, d, ..] = ip.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
        })
    }
}

impl Shares {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let of = |resource| match resource {
            Resource::Requests => limits.requests_max,
            Resource::Incoming => limits.inflight_bytes_max,
            Resource::Outgoing => limits.outgoing_bytes_max,
            Resource::LiveReaders => limits.live_readers_max,
            Resource::Connections => limits.connections_max,
            Resource::Watchers => WATCHERS_MAX,
        };
        let all = [
            Resource::Requests,
            Resource::Incoming,
            Resource::Outgoing,
            Resource::LiveReaders,
            Resource::Connections,
            Resource::Watchers,
        ];
        let total = all.map(|resource| of(resource).min(isize::MAX as usize));
        Arc::new(Self { total, free: total.map(AtomicUsize::new), accounts: Mutex::default() })
    }

    /// How much of it all clients hold.
    pub(crate) fn held(&self, resource: Resource) -> usize {
        let at = resource as usize;
        self.total[at].saturating_sub(self.free[at].load(Ordering::Relaxed))
    }

    pub(crate) fn account(self: &Arc<Self>, key: ClientKey) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get(&key).and_then(Weak::upgrade) {
            return account;
        }
        let account = Arc::new(Account {
            shares: self.clone(),
            key: key.clone(),
            held: Default::default(),
            reads: Semaphore::new(READS_MAX),
            heavy: Arc::new(Semaphore::new(HEAVY_MAX)),
        });
        accounts.insert(key, Arc::downgrade(&account));
        account
    }
}

impl Account {
    pub(crate) fn key(&self) -> &ClientKey {
        &self.key
    }

    /// Waits until fewer reads of this client are under way than may be.
    pub(crate) async fn read_turn(&self) -> SemaphorePermit<'_> {
        self.reads.acquire().await.expect("it is never closed")
    }

    /// Waits until fewer bodies of this client take long than may at a time. The permit belongs to
    /// the work, which goes on when the client leaves.
    pub(crate) async fn heavy_turn(&self) -> OwnedSemaphorePermit {
        self.heavy.clone().acquire_owned().await.expect("it is never closed")
    }

    /// None if the client holds its part already.
    pub(crate) fn take(self: &Arc<Self>, resource: Resource, amount: usize) -> Option<Share> {
        let mut share = self.share(resource);
        share.grow(amount).then_some(share)
    }

    /// The same for one who asks on behalf of many: it may hold all there is.
    pub(crate) fn take_for_many(
        self: &Arc<Self>,
        resource: Resource,
        amount: usize,
    ) -> Option<Share> {
        let taking = |free: usize| free.checked_sub(amount);
        let free = &self.shares.free[resource as usize];
        free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taking).ok()?;
        self.held[resource as usize].fetch_add(amount, Ordering::Relaxed);
        Some(Share { account: self.clone(), resource, amount })
    }

    /// An empty share, to grow.
    pub(crate) fn share(self: &Arc<Self>, resource: Resource) -> Share {
        Share { account: self.clone(), resource, amount: 0 }
    }

    /// Takes what is asked for if it is free, and the client would hold no more than is free.
    fn reserve(&self, resource: Resource, amount: usize) -> bool {
        if amount > isize::MAX as usize {
            return false;
        }
        let held = &self.held[resource as usize];
        // First, so that two requests of one client cannot both take the last of its part.
        let would_hold = held.fetch_add(amount, Ordering::Relaxed).saturating_add(amount);
        let taking = |free: usize| {
            let left = free.checked_sub(amount)?;
            (would_hold <= free).then_some(left)
        };
        let free = &self.shares.free[resource as usize];
        let taken = free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taking).is_ok();
        if !taken {
            held.fetch_sub(amount, Ordering::Relaxed);
        }
        taken
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut accounts = self.shares.accounts.lock();
        // Another one may have begun under the same key meanwhile.
        if accounts.get(&self.key).is_some_and(|account| account.strong_count() == 0) {
            accounts.remove(&self.key);
        }
    }
}

impl Share {
    /// False if the client may hold no more; then the share stays as it is.
    pub(crate) fn grow(&mut self, amount: usize) -> bool {
        let taken = self.account.reserve(self.resource, amount);
        if taken {
            self.amount += amount;
        }
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let at = self.resource as usize;
        self.account.shares.free[at].fetch_add(self.amount, Ordering::Relaxed);
        self.account.held[at].fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(total: usize) -> Arc<Shares> {
        Shares::new(&Limits { live_readers_max: total, ..Limits::default() })
    }

    fn client(shares: &Arc<Shares>, number: u8) -> Arc<Account> {
        shares.account(ClientKey::ip(IpAddr::from([10, 0, 0, number])))
    }

    /// Takes as much as it gets, one at a time.
    fn grab(account: &Arc<Account>) -> Vec<Share> {
        std::iter::from_fn(|| account.take(Resource::LiveReaders, 1)).take(1_000_000).collect()
    }

    #[test]
    fn what_is_taken_comes_back() {
        let shares = shares(10);
        let account = client(&shares, 1);
        let mut share = account.share(Resource::LiveReaders);
        assert!(share.grow(2) && share.grow(3));
        assert!(!share.grow(3));
        assert!(account.take(Resource::LiveReaders, usize::MAX).is_none());
        drop(share);
        assert_eq!(grab(&account).len(), 5);
        assert_eq!(shares.free[Resource::LiveReaders as usize].load(Ordering::Relaxed), 10);
    }

    #[test]
    fn one_client_leaves_half_and_many_leave_as_much_as_each_has() {
        for (clients, total) in [(1, 1000), (2, 999), (4, 1000), (9, 1000)] {
            let shares = shares(total);
            let accounts: Vec<_> = (0..clients).map(|number| client(&shares, number)).collect();
            // In turns, as requests come.
            let mut held: Vec<Vec<Share>> = accounts.iter().map(|_| Vec::new()).collect();
            let mut moved = true;
            while moved {
                moved = false;
                for (account, held) in accounts.iter().zip(&mut held) {
                    if let Some(share) = account.take(Resource::LiveReaders, 1) {
                        held.push(share);
                        moved = true;
                    }
                }
            }
            let fair = total / (usize::from(clients) + 1);
            let parts: Vec<_> = held.iter().map(Vec::len).collect();
            assert!(parts.iter().all(|part| part.abs_diff(fair) <= 2), "{parts:?}, {fair}");
            let newcomer = grab(&client(&shares, 200)).len();
            assert!(newcomer >= fair / 2, "{newcomer} of {fair}");
        }
    }

    #[test]
    fn who_comes_late_gets_a_part_however_much_is_held() {
        let shares = shares(1024);
        let mut all = Vec::new();
        for number in 0..5 {
            let part = grab(&client(&shares, number));
            assert!(!part.is_empty(), "client {number}");
            all.push(part);
        }
    }

    #[test]
    fn who_asks_for_many_may_have_all() {
        let shares = shares(10);
        let proxy = client(&shares, 1);
        let all: Vec<_> = std::iter::from_fn(|| proxy.take_for_many(Resource::LiveReaders, 1))
            .take(100)
            .collect();
        assert_eq!(all.len(), 10);
    }

    #[test]
    fn clients_who_hold_nothing_are_forgotten() {
        let shares = shares(10);
        let share = client(&shares, 1).take(Resource::LiveReaders, 1);
        drop(client(&shares, 2));
        assert_eq!(shares.accounts.lock().len(), 1);
        // Found again while it holds something.
        assert_eq!(grab(&client(&shares, 1)).len(), 4);
        drop(share);
        assert!(shares.accounts.lock().is_empty());
        let v6 = |text: &str| ClientKey::ip(text.parse().unwrap());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:2"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
    }
}
