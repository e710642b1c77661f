//! Which connections can move: a thin, level-triggered view of `epoll`.
//!
//! Level-triggered, because a connection then needs one `read` per response instead of a second
//! one that only learns that nothing is left.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;

const EVENTS_MAX: usize = 1024;

/// A connection's place in its owner's list.
pub(crate) type Token = usize;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    ReadAndWrite,
}

pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub(crate) fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("create an epoll")?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    pub(crate) fn add(&self, source: impl AsFd, token: Token) -> Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        epoll::add(&self.epoll, source, data, epoll::EventFlags::IN).context("watch a socket")
    }

    pub(crate) fn change(&self, source: impl AsFd, token: Token, interest: Interest) -> Result<()> {
        let flags = match interest {
            Interest::Read => epoll::EventFlags::IN,
            Interest::ReadAndWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        };
        let data = epoll::EventData::new_u64(token as u64);
        epoll::modify(&self.epoll, source, data, flags).context("watch a socket differently")
    }

    /// Replaces `ready` by the connections that can move, after at most `timeout`.
    pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Token>) -> Result<()> {
        ready.clear();
        self.events.clear();
        let timeout = timeout.try_into().context("a timeout of this century")?;
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for sockets"),
        }
        ready.extend(self.events.iter().map(|event| event.data.u64() as Token));
        Ok(())
    }
}
