//! The floor under every durable append: one small write and one `fdatasync`, alone on the disk.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::load::Histogram;
use crate::report::Latency;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 4096;
const TIME_MAX: Duration = Duration::from_secs(1);

/// What one thread gets out of the disk with nobody else asking.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Fdatasync {
    pub(crate) per_second: f64,
    pub(crate) latency: Latency,
}

/// Writes and syncs 4 KiB blocks for a second, into a file that already has all its blocks.
///
/// Overwriting written blocks keeps the file's metadata unchanged, so the time is that of the
/// data alone: the best case that a preallocated log can reach.
pub(crate) fn measure_fdatasync(directory: &Path) -> Result<Fdatasync> {
    let path = directory.join("fdatasync");
    let result = prewritten_file(&path).and_then(|file| overwrite_and_sync(&file));
    std::fs::remove_file(&path).context("remove the file of the disk measurement")?;
    result
}

fn prewritten_file(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(path)
        .with_context(|| format!("create {}", path.display()))?;
    for block in 0..BLOCKS {
        file.write_all_at(&[0; BLOCK_BYTES], block * BLOCK_BYTES as u64)?;
    }
    file.sync_all()?;
    Ok(file)
}

fn overwrite_and_sync(file: &File) -> Result<Fdatasync> {
    let mut latency = Histogram::default();
    let start = Instant::now();
    let mut before = start;
    let mut writes: u64 = 0;
    while before - start < TIME_MAX {
        let block = writes % BLOCKS;
        file.write_all_at(&[0xa5; BLOCK_BYTES], block * BLOCK_BYTES as u64)?;
        rustix::fs::fdatasync(file)?;
        let after = Instant::now();
        latency.record(after - before);
        before = after;
        writes += 1;
    }
    let seconds = (before - start).as_secs_f64();
    Ok(Fdatasync { per_second: writes as f64 / seconds, latency: Latency::of(&latency)? })
}
