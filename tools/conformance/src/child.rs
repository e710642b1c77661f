//! A child process that never outlives its handle.

use std::{
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// How often a waiting loop looks again.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Ends its process when dropped.
#[derive(Debug)]
pub(crate) struct OwnedChild(Child);

impl OwnedChild {
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_owned();
        let child = command.spawn();
        Ok(Self(child.with_context(|| format!("cannot start {}", program.display()))?))
    }

    /// Its input and output, if they are pipes that nobody has taken yet.
    pub(crate) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.0.stdin.take().zip(self.0.stdout.take())
    }

    /// Ends the process without waiting for it.
    pub(crate) fn kill(&mut self) {
        // Fails only when the process has already ended, which is what we want.
        let _ = self.0.kill();
    }

    /// How the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.0.try_wait().context("cannot ask after a child process")
    }

    /// Waits for the end; `None` when the process is still running after `time_max`.
    pub(crate) fn wait(&mut self, time_max: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + time_max;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Both fail only when the process has already ended, which is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(seconds: &str) -> OwnedChild {
        OwnedChild::spawn(Command::new("sleep").arg(seconds)).unwrap()
    }

    #[test]
    fn waiting_is_bounded() {
        assert!(sleeper("60").wait(Duration::ZERO).unwrap().is_none());
    }

    #[test]
    fn waiting_ends_with_the_process() {
        assert!(sleeper("0").wait(Duration::from_secs(30)).unwrap().unwrap().success());
    }
}
