//! What sessions cost as they grow old and become many. All of it is on the real disk.
//!
//! [`wakes`]: a message in a session that no process has open. [`asked`]: many sessions at once.
//! [`asleep`]: starting a process over many sessions that rest. [`rest`]: what a finished session
//! keeps, and what erasing one costs. [`history`] makes sessions that are old.

mod asked;
mod asleep;
mod history;
mod rest;
mod wakes;

use std::path::Path;

use anyhow::{Result, ensure};
use clap::Args;

pub(crate) use self::asleep::{AsleepArgs, start};
use crate::{
    agent::{
        figures::Figures,
        place::{self},
    },
    server::{Workspace, raise_open_files_limit},
};

/// What is measured, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// A tenth of everything, once; for a first look, not for publishing.
    #[arg(long)]
    quick: bool,
    /// Measure only the parts whose name contains this text: wakes, asked, asleep, rest.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
}

/// Messages of the sessions that are woken.
const AGES: [usize; 3] = [100, 10_000, 100_000];
/// How much slower the oldest may be than the youngest and still count as flat.
const FLAT_RATIO_MAX: f64 = 1.3;
/// How soon the first token should be there after a cold wake, in milliseconds.
const FIRST_TOKEN_MS_P50: f64 = 50.0;

/// Measures everything; a table, and whether the goals are met.
pub(crate) fn play(args: &SessionsArgs) -> Result<String> {
    raise_open_files_limit()?;
    let root = Workspace::locate()?.data_root()?;
    let only = args.only.as_deref().unwrap_or_default();
    let (wakes, share) = if args.quick { (5, 10) } else { (21, 1) };
    let mut figures = Figures::default();
    let mut part = |name: &str, measure: &dyn Fn(&Path) -> Result<Figures>| -> Result<()> {
        if name.contains(only) {
            eprintln!("measuring {name}");
            figures.add(measure(&root)?);
        }
        Ok(())
    };
    for age in AGES {
        part("wakes", &|root| place::run(wakes::measure(root, age / share, wakes)))?;
    }
    part("asked", &|root| place::run(asked::measure(root, 1_000 / share)))?;
    for count in [50_000, 1_000_000] {
        part("asleep", &|root| asleep::measure(root, count / share))?;
    }
    part("rest", &|root| place::run(rest::measure(root)))?;
    ensure!(!figures.amounts.is_empty(), "no part is called like {only:?}");
    Ok(figures.markdown() + &verdicts(&figures, share))
}

fn verdicts(figures: &Figures, share: usize) -> String {
    let word = |is_met: bool| if is_met { "met" } else { "missed" };
    let p50 = |age: usize| figures.latency(&wakes::first_token(age)).map(|it| it.ms_p50);
    let [Some(young), _, Some(old)] = AGES.map(|age| p50(age / share)) else {
        return String::new();
    };
    let ratio = old / young;
    format!(
        "goal: first token after a cold wake p50 < {FIRST_TOKEN_MS_P50} ms: {}\n\
         goal: flat: the oldest takes {ratio:.2} times the youngest, at most \
         {FLAT_RATIO_MAX}: {}\n",
        word(old < FIRST_TOKEN_MS_P50),
        word(ratio <= FLAT_RATIO_MAX),
    )
}
