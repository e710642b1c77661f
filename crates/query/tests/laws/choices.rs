//! Chance as data: a list of numbers that decides everything, so that a shorter list and smaller
//! numbers make a simpler case.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Once,
};

use proptest::{prelude::*, test_runner::TestCaseError};

/// Checks one case. While proptest looks for a smaller one, thousands fail: only the last is told.
pub(crate) fn check(case: impl FnOnce()) -> Result<(), TestCaseError> {
    static HOOK: Once = Once::new();
    thread_local!(static IS_QUIET: Cell<bool> = const { Cell::new(false) });
    HOOK.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                tell(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(case));
    IS_QUIET.set(false);
    outcome.map_err(|panic| {
        let text = panic.downcast::<String>().map(|text| *text);
        let text = text.or_else(|panic| panic.downcast::<&str>().map(|text| (*text).into()));
        TestCaseError::fail(text.unwrap_or_else(|_| "a panic without a text".into()))
    })
}

/// Numbers to decide by. When they run out, everything is as simple as it can be.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    numbers: std::vec::IntoIter<u32>,
    names: usize,
    sources: usize,
}

/// Up to this many decisions.
pub(crate) fn choices(most: usize) -> impl Strategy<Value = Choices> {
    prop::collection::vec(any::<u32>(), most / 2..most).prop_map(|numbers| Choices {
        numbers: numbers.into_iter(),
        names: 0,
        sources: 0,
    })
}

impl Choices {
    /// A number below `bound`; 0 is the simplest.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let number = self.numbers.next().unwrap_or(0);
        // The high bits: small numbers must stay small.
        ((u64::from(number) * bound as u64) >> 32) as usize
    }

    /// True in `part` of `whole` cases.
    pub(crate) fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole) >= whole - part
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Begins a query of at most so many sources, or few more.
    pub(crate) fn limit_sources(&mut self, most: usize) {
        self.sources = most;
    }

    /// How many sources there may be yet.
    pub(crate) fn sources_left(&self) -> usize {
        self.sources
    }

    pub(crate) fn take_source(&mut self) {
        self.sources = self.sources.saturating_sub(1);
    }

    /// A name that was not given before.
    pub(crate) fn name(&mut self) -> String {
        self.names += 1;
        format!("q{}", self.names)
    }
}
