//! Real processes that are killed at each of their durable writes.
//!
//! A test starts itself as a child; the parent kills it at the n-th write, for every n, before it
//! and in the middle of it, starts it again, and looks at what is left.

#![allow(clippy::disallowed_methods, reason = "processes and files are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "how often it was killed is worth knowing")]

mod effects;
mod outbox;

use std::path::{Path, PathBuf};

use sys::{
    Sys,
    disk::{self, Life},
};

/// Kills a child at each of its writes, before and in the middle of it, and starts it again.
fn kill_at_every_write(child: &str, check: impl Fn(&Path, &str) + Sync) {
    let scratch = scratch();
    let kills = disk::kill_at_every_write(scratch.path(), child, check);
    println!("{child}: {kills:?}");
    assert!(kills.writes > 20, "{kills:?}: too few to be worth it");
}

/// The life of a child, if this is one.
fn as_child<F: Future<Output = ()>>(live: impl FnOnce(PathBuf, Sys) -> F) {
    let Some(life) = Life::of_this_process() else { return };
    let sys = Sys { disk: life.disk.clone(), ..Sys::real() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(life.dir.clone(), sys));
    life.end();
}

/// A directory in memory where there is one: a killed process cannot tell the difference.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}
