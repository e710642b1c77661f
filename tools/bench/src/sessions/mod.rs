//! What sessions cost as they grow old and become many. All of it is on the real disk.
//!
//! [`wakes`]: a message in a session that no process has in memory, seen from inside. [`posts`]:
//! the same, and many more, over HTTP. [`asked`]: many sessions at once. [`asleep`]: starting a
//! process over many sessions that rest. [`rest`]: what a finished session keeps, and what erasing
//! one costs. [`history`] makes sessions that are old, [`meter`] counts what is read of one,
//! [`dev`] is the real program in a process of its own and [`model_server`] the model that it
//! asks. [`verdicts`] says whether the goals are met.

mod asked;
mod asleep;
mod dev;
mod history;
mod meter;
mod model_server;
mod posts;
mod rest;
mod verdicts;
mod wakes;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;

pub(crate) use self::asleep::{AsleepArgs, start};
use self::posts::Times;
use crate::{
    agent::{
        figures::Figures,
        place::{self},
    },
    server::{Contestant, Workspace, raise_open_files_limit},
};

/// What is measured, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// A tenth of everything, once; for a first look, not for publishing.
    #[arg(long)]
    quick: bool,
    /// Measure only the parts whose name contains this text: wakes, posts, asked, asleep, rest.
    #[arg(long, value_name = "PART")]
    only: Option<String>,
    /// Our server's binary; built from this workspace when not given.
    #[arg(long, value_name = "PATH")]
    ours_bin: Option<PathBuf>,
}

/// Messages of the sessions that are woken.
const AGES: [usize; 3] = [100, 10_000, 100_000];
/// Sessions that are asked at once.
const ASKED: usize = 1_000;
/// Sessions that rest.
const ASLEEP: [usize; 2] = [50_000, 1_000_000];

/// Measures everything; a table, and whether the goals are met.
pub(crate) fn play(args: &SessionsArgs) -> Result<String> {
    raise_open_files_limit()?;
    let workspace = Workspace::locate()?;
    let root = workspace.data_root()?;
    let ours = Contestant::headwater(&workspace, args.ours_bin.as_deref())?;
    let binary = ours.binary();
    let only = args.only.as_deref().unwrap_or_default();
    let (wakes, share) = if args.quick { (5, 10) } else { (21, 1) };
    let times = Times { cold: wakes, warm: 300 / share };
    let mut figures = Figures::default();
    let mut part = |name: &str, measure: &dyn Fn(&Path) -> Result<Figures>| -> Result<()> {
        if name.contains(only) {
            eprintln!("measuring {name}");
            figures.add(measure(&root)?);
        }
        Ok(())
    };
    for age in AGES.map(|age| age / share) {
        part("wakes", &|root| place::run(wakes::measure(root, age, wakes)))?;
    }
    for age in AGES.map(|age| age / share) {
        part("posts", &|root| posts::measure(root, binary, age, times))?;
    }
    part("asked", &|root| place::run(asked::measure(root, ASKED / share)))?;
    for count in ASLEEP {
        part("asleep", &|root| asleep::measure(root, binary, count / share))?;
    }
    part("rest", &|root| place::run(rest::measure(root)))?;
    let is_empty = figures.amounts.is_empty() && figures.latencies.is_empty();
    ensure!(!is_empty, "no part is called like {only:?}");
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').take(3).collect::<Vec<_>>().join(", ");
    let verdicts = verdicts::verdicts(&figures, share);
    Ok(format!(
        "{}{verdicts}\nload of the machine in the last 1, 5 and 15 minutes: {load}",
        figures.markdown()
    ))
}
