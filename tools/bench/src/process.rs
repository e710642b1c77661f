//! What the system tells of a process: memory, time on the processor, bytes written.

use std::fs;

use anyhow::{Context as _, Result};

/// The unit of times in `/proc/PID/stat`, which Linux shows to programs as this on every machine.
const TICKS_PER_SECOND: f64 = 100.0;
/// Where the times stand in `/proc/PID/stat`, counted behind the name of the program.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// This one.
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Resident memory now, in megabytes of a million bytes.
    pub(crate) fn resident_mb(self) -> Result<f64> {
        self.memory_mb("VmRSS:")
    }

    /// The most resident memory that it ever had.
    pub(crate) fn resident_mb_peak(self) -> Result<f64> {
        self.memory_mb("VmHWM:")
    }

    /// Time of all threads on the processor so far.
    pub(crate) fn cpu_seconds(self) -> Result<f64> {
        let stat = self.read("stat")?;
        // The name of the program is in brackets, and may hold spaces.
        let (_, rest) = stat.rsplit_once(')').context("no name in /proc/PID/stat")?;
        let fields: Vec<_> = rest.split_whitespace().collect();
        let ticks = |at: usize| -> Result<f64> {
            Ok(fields.get(at).context("no times in /proc/PID/stat")?.parse()?)
        };
        Ok((ticks(USER_TICKS)? + ticks(SYSTEM_TICKS)?) / TICKS_PER_SECOND)
    }

    /// Bytes that it has handed to the system to be written.
    pub(crate) fn written_bytes(self) -> Result<u64> {
        let io = self.read("io")?;
        let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        Ok(line.context("no wchar in /proc/PID/io")?.trim().parse()?)
    }

    fn memory_mb(self, field: &str) -> Result<f64> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|rest| rest.split_whitespace().next());
        let kib: f64 = kib.with_context(|| format!("no {field} in /proc/PID/status"))?.parse()?;
        Ok(kib * 1024.0 / 1e6)
    }

    fn read(self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).with_context(|| format!("read {path}"))
    }
}
