//! A message that a client posts over HTTP to the real program, in a process of its own.

use std::{path::Path, time::Instant};

use anyhow::Result;

use super::{
    dev::Dev,
    model_server,
    wakes::{self, OLD},
};
use crate::{
    agent::{
        figures::{Figures, Samples},
        place::{Place, run},
    },
    server::DataDir,
};

/// How often a session is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Each in a process that was just started, over a session that rests.
    pub(super) cold: usize,
    /// One after the other in one process, each once the one before is answered.
    pub(super) warm: usize,
}

pub(super) fn post_warm(messages: usize) -> String {
    format!("POST of a message over HTTP, {messages} messages")
}

/// Posts to a session of this age.
pub(super) fn measure(
    root: &Path,
    binary: &Path,
    messages: usize,
    times: Times,
) -> Result<Figures> {
    let dir = DataDir::create(root)?;
    let data = dir.server_data();
    let session = run(async {
        let place = Place::at(&data).await?;
        let session = wakes::make_old(&place, messages).await?;
        place.close().await;
        Ok(session)
    })?;
    let model = model_server::start()?;
    let (mut posts_cold, mut tokens) = (Samples::default(), Samples::default());
    for number in 0..times.cold {
        let dev = Dev::start(binary, &data, model)?;
        dev.settle()?;
        let (mut poster, mut follower) = (dev.poster(OLD)?, dev.follower(OLD)?);
        let asked = Instant::now();
        poster.post(&format!("cold-{number}"))?;
        posts_cold.push(asked, Instant::now());
        tokens.push(asked, follower.first_token()?);
        follower.end()?;
        dev.stop()?;
        // It ended before its agent had idled for long enough, so nothing says yet that the
        // session rests: the next process would look at it, and have it in memory.
        run(async {
            let place = Place::at(&data).await?;
            wakes::bring_to_rest(&place, &session).await?;
            place.close().await;
            Ok(())
        })?;
    }
    let posts = post_all(&Dev::start(binary, &data, model)?, times.warm)?;
    let mut figures = Figures::default();
    figures.latencies.push(posts.latency(&post_warm(messages), None)?);
    let name = format!("POST to a cold session over HTTP, {messages} messages");
    figures.latencies.push(posts_cold.latency(&name, None)?);
    let name = format!("first token of a cold session over HTTP, {messages} messages");
    figures.latencies.push(tokens.latency(&name, None)?);
    Ok(figures)
}

fn post_all(dev: &Dev, times: usize) -> Result<Samples> {
    let (mut poster, mut follower) = (dev.poster(OLD)?, dev.follower(OLD)?);
    let mut posts = Samples::default();
    for number in 0..=times {
        let asked = Instant::now();
        poster.post(&format!("warm-{number}"))?;
        // The first one wakes the session.
        if number > 0 {
            posts.push(asked, Instant::now());
        }
        follower.end()?;
    }
    Ok(posts)
}
