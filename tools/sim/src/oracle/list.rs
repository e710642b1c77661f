//! Judging lists.

use std::collections::BTreeMap;

use log::{Head, Incarnation};
use sys::UnixMs;
use wire::{Address, StreamPath};

use super::{Known, Oracle, Verdict, demand};

/// A list that is under way.
#[derive(Debug)]
pub(crate) struct Listing {
    before: Known,
    live: Vec<(Address, Incarnation)>,
}

impl Oracle {
    pub(crate) fn begin_list(&mut self, prefix: &str, now: UnixMs) -> Listing {
        let nobody = StreamPath::lower_bound("nobody").into();
        let before = self.known(&nobody, now);
        self.names.remove(&nobody);
        let mut live = self.live(now);
        live.retain(|(address, _)| is_listed(address, prefix));
        Listing { before, live }
    }

    /// All pages together must show every stream that was there all the time, and none that was
    /// gone when the list began.
    pub(crate) fn end_list(
        &mut self,
        listing: &Listing,
        pages: &[(StreamPath, Head)],
        now: UnixMs,
    ) -> Verdict {
        demand(pages.is_sorted_by(|one, other| one.0 < other.0), || {
            "a list is unsorted".to_owned()
        })?;
        let listed: BTreeMap<Address, Incarnation> =
            pages.iter().map(|(path, head)| (path.clone().into(), head.incarnation)).collect();
        let still_live = self.live(now);
        for (address, id) in &listing.live {
            let stayed = still_live.contains(&(address.clone(), *id));
            demand(!stayed || listed.get(address) == Some(id), || {
                format!("{address} is there, but is not listed")
            })?;
        }
        for (path, head) in pages {
            let address = path.clone().into();
            let mut before = listing.before;
            before.incarnation = None;
            self.was_headed(&address, &before, head)?;
        }
        Ok(())
    }
}

fn is_listed(address: &Address, prefix: &str) -> bool {
    address.stream().is_some_and(|path| path.as_str().starts_with(prefix))
}
