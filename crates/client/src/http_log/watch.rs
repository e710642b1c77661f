//! Watching from afar: hints as the server sends them, and the word to look for oneself whenever
//! some may have been missed.

use futures_util::future::select;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use log::{Hints, Incarnation, Moved, Watch};
use serde::Deserialize;
use wire::{
    Glob,
    sse::{Event, EventReader},
};

use crate::{Client, Failure, caps::EVENT_BYTES_MAX, transport::Ask};

#[derive(Deserialize)]
struct Hint {
    path: String,
    tail: String,
    incarnation: u64,
}

/// Watches for as long as somebody listens.
pub(super) fn watch(client: &Client, glob: Glob) -> Watch {
    let (hints, watch) = Watch::fed();
    let client = client.clone();
    let spawn = client.http.sys.spawn.clone();
    spawn.task("watch", async move {
        let listening = std::pin::pin!(listen(&client, &glob, &hints));
        select(listening, std::pin::pin!(hints.over())).await;
    });
    watch
}

async fn listen(client: &Client, glob: &Glob, hints: &Hints) {
    let http = &client.http;
    let mut failures = 0;
    loop {
        // Whoever has left need not be listened for.
        if hints.is_over() {
            return;
        }
        let ask = Ask::get("/".to_owned()).param("watch", glob.as_str());
        let failure = match http.open(&ask).await {
            Ok(answer) => {
                failures = 0;
                hear(client, answer.into_body(), hints).await;
                Failure::Unreachable("the hints ended".to_owned())
            }
            Err(failure) => failure,
        };
        failures += 1;
        match failures {
            1 => tracing::warn!(%failure, "watching again after a pause"),
            _ => tracing::debug!(%failure, failures, "watching again after a pause"),
        }
        let pause = http.settings.retry.pause(failures, &http.sys.chance);
        http.sys.clock.sleep(pause).await;
    }
}

/// Passes hints on until the answer ends.
async fn hear(client: &Client, mut body: Incoming, hints: &Hints) {
    let mut events = EventReader::new(EVENT_BYTES_MAX);
    let mut has_begun = false;
    while let Some(bytes) = next_bytes(client, &mut body).await {
        if !std::mem::replace(&mut has_begun, true) {
            // What moved before the server listened for us is for us to find out.
            hints.tell(Moved::Resync);
        }
        events.push(&bytes);
        loop {
            match events.next_event() {
                Ok(Some(event)) => {
                    if let Some(moved) = read(&event) {
                        hints.tell(moved);
                    }
                }
                Ok(None) => break,
                // Nothing that follows can be trusted.
                Err(_) => return,
            }
        }
    }
}

async fn next_bytes(client: &Client, body: &mut Incoming) -> Option<bytes::Bytes> {
    let http = &client.http;
    let frame = http.sys.clock.timeout(http.settings.silence_max, body.frame());
    let frame = frame.await.ok()??.ok()?;
    frame.into_data().ok()
}

fn read(event: &Event) -> Option<Moved> {
    match event.kind.as_str() {
        "resync" => Some(Moved::Resync),
        "moved" => {
            let hint: Hint = serde_json::from_str(&event.data).ok()?;
            let life = Incarnation::new(hint.incarnation);
            Some(Moved::Stream(hint.path.parse().ok()?, hint.tail.parse().ok()?, life))
        }
        _ => None,
    }
}
