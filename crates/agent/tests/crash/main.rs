//! A whole run in a real process that is killed at each of its durable writes: a model that asks
//! for two tools, reads what they say, and answers.
//!
//! A test starts itself as a child; the parent kills it at the n-th write, for every n, before it
//! and in the middle of it, starts it again (and kills that life early, too), and looks at what is
//! left. The tools leave their traces in files, as services outside would.

#![allow(clippy::disallowed_methods, reason = "processes and files are real here")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "how often it was killed is worth knowing")]

mod check;
mod life;

use std::{path::Path, sync::OnceLock};

use sys::{
    Sys,
    disk::{Life, kill_at_every_write},
};

#[test]
fn killed_at_every_write_a_run_comes_to_the_same_end() {
    let scratch = scratch();
    // The first life is not killed: what it came to is what all must come to.
    let expected = OnceLock::new();
    let kills = kill_at_every_write(scratch.path(), "child", |dir, what| {
        let found = check::whole(dir, expected.get().map(Vec::as_slice), what);
        expected.get_or_init(|| found);
    });
    println!("{kills:?}");
    assert!(kills.writes > 20, "{kills:?}: too few to be worth it");
}

/// The other process.
#[test]
fn child() {
    let Some(life) = Life::of_this_process() else { return };
    let sys = Sys { disk: life.disk.clone(), ..Sys::real() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(life::live(&life.dir, &sys));
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
