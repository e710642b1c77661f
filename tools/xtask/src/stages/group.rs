//! A process and all its descendants, ended together.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// How often a waiting loop looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) struct ProcessGroup {
    leader: Child,
}

impl ProcessGroup {
    pub(super) fn spawn(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_owned();
        let leader = command.process_group(0).stdin(Stdio::null()).spawn();
        Ok(Self { leader: leader.with_context(|| format!("cannot start {}", program.display()))? })
    }

    /// Waits for the leader, then ends what it has left running. `None` if the leader itself had to
    /// be ended after `time_max`.
    pub(super) fn finish(&mut self, time_max: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + time_max;
        loop {
            let ended = self.leader.try_wait()?;
            if ended.is_some() || Instant::now() >= deadline {
                self.kill();
                return Ok(ended);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn kill(&mut self) {
        // The id stays taken while anybody is left in the group; if nobody is, this fails, which is
        // what we want.
        let _ = kill_process_group(Pid::from_child(&self.leader), Signal::KILL);
        let _ = self.leader.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    fn shell(script: &str) -> (ProcessGroup, impl Read) {
        let (reader, writer) = pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(writer);
        (ProcessGroup::spawn(&mut command).unwrap(), reader)
    }

    #[test]
    fn what_a_process_leaves_behind_does_not_hold_its_pipe() {
        let (mut group, mut reader) = shell("sleep 600 & echo done");
        assert!(group.finish(Duration::from_secs(60)).unwrap().unwrap().success());
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "done\n");
    }

    #[test]
    fn waiting_is_bounded() {
        let (mut group, mut reader) = shell("sleep 600");
        assert!(group.finish(Duration::ZERO).unwrap().is_none());
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
