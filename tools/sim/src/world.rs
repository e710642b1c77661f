//! What all who take part in a run share.

use std::{path::PathBuf, sync::Arc};

use log::Unavailable;
use parking_lot::{Mutex, MutexGuard};
use sys::{Sys, UnixMs};

use crate::{
    coverage::{Coverage, Event},
    history::History,
    oracle::{Oracle, Verdict, Violation, demand},
    plan::Sizes,
    witness::Witness,
};

/// One run, through all lives of the log.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) sys: Sys,
    pub(crate) dir: PathBuf,
    pub(crate) sizes: Sizes,
    pub(crate) history: History,
    // Each is held for one step, never across an await.
    oracle: Mutex<Oracle>,
    coverage: Arc<Mutex<Coverage>>,
    trouble: Mutex<Trouble>,
    failure: Mutex<Option<Violation>>,
}

/// What may be answered in this life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// Syncs or writes have begun to fail.
    pub(crate) failing: bool,
    /// The disk has been full.
    pub(crate) full: bool,
    /// Somebody was told that a write failed.
    pub(crate) poisoned: bool,
    /// The log is being closed.
    pub(crate) closing: bool,
}

impl Trouble {
    /// True if writes may have failed.
    pub(crate) fn is_any(self) -> bool {
        self.failing || self.full || self.poisoned
    }
}

impl World {
    pub(crate) fn new(sys: Sys, dir: PathBuf, sizes: Sizes, history: History) -> Arc<Self> {
        Arc::new(Self {
            sys,
            dir,
            sizes,
            history,
            oracle: Mutex::default(),
            coverage: Arc::default(),
            trouble: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// A world that goes another way from here, with a history in common.
    pub(crate) fn branch(&self) -> Arc<Self> {
        Arc::new(Self {
            sys: self.sys.clone(),
            dir: self.dir.clone(),
            sizes: self.sizes,
            history: self.history.clone(),
            oracle: Mutex::new(self.oracle.lock().clone()),
            coverage: self.coverage.clone(),
            trouble: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    pub(crate) fn now(&self) -> UnixMs {
        self.sys.clock.unix_ms()
    }

    pub(crate) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        self.oracle.lock()
    }

    /// The same world on this disk.
    pub(crate) fn sys_on(&self, witness: &Witness) -> Sys {
        Sys { disk: Arc::new(witness.clone()), ..self.sys.clone() }
    }

    /// Adds a line to the history.
    pub(crate) fn note(&self, line: &str) {
        self.history.note(line);
    }

    pub(crate) fn met(&self, event: Event) {
        self.coverage.lock().met(event);
    }

    /// Counts what the oracle met.
    pub(crate) fn collect_events(&self) {
        let events = self.oracle().take_events();
        events.into_iter().for_each(|event| self.met(event));
    }

    pub(crate) fn coverage(&self) -> Coverage {
        self.coverage.lock().clone()
    }

    pub(crate) fn trouble(&self) -> Trouble {
        *self.trouble.lock()
    }

    pub(crate) fn change_trouble(&self, change: impl FnOnce(&mut Trouble)) {
        change(&mut self.trouble.lock());
    }

    /// Keeps the first violation; the others follow from it.
    pub(crate) fn fail(&self, violation: Violation) {
        self.note(&format!("VIOLATION {violation}"));
        self.failure.lock().get_or_insert(violation);
    }

    /// The violation of an actor, if there was one.
    pub(crate) fn check(&self) -> Verdict {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Judges an answer that says that the log cannot serve.
    pub(crate) fn unavailable(&self, why: &Unavailable, witness: &Witness) -> Verdict {
        let trouble = self.trouble();
        let failing = trouble.failing || witness.is_off();
        match why {
            Unavailable::Overloaded => self.met(Event::Overloaded),
            Unavailable::Poisoned(_) => {
                demand(failing, || format!("{why}, but nothing went wrong on the disk"))?;
                self.change_trouble(|trouble| trouble.poisoned = true);
            }
            Unavailable::DiskFull(_) => {
                self.met(Event::DiskFull);
                demand(failing || trouble.full, || format!("{why}, but the disk has room"))?;
            }
            Unavailable::Closing => {
                demand(trouble.closing, || format!("{why}, but nobody closed it"))?;
            }
            other => demand(witness.is_off(), || format!("{other}"))?,
        }
        Ok(())
    }
}
