//! Reading, as the suite asks for it: so many chunks, so long, or up to the tail.

use std::time::Duration;

use client::{Batch, Live, OffsetToken, Stream};
use serde_json::{Map, Value, json};
use sys::Sys;

use crate::{
    answer::Failed,
    command::{LiveAsked, Read},
};

/// How long a read goes on if the suite does not say.
const PATIENCE: Duration = Duration::from_secs(5);
/// Chunks of a read if the suite does not say.
const CHUNKS_MAX: usize = 100;

/// What was read so far.
struct Gathered {
    chunks: Vec<Value>,
    offset: String,
    is_up_to_date: bool,
    is_closed: bool,
}

pub(crate) async fn read(
    sys: &Sys,
    stream: &Stream,
    is_json: bool,
    asked: &Read,
) -> Result<Map<String, Value>, Failed> {
    let from = asked.offset.clone().unwrap_or_else(|| "-1".to_owned());
    let token: OffsetToken = from
        .parse()
        .map_err(|error| Failed { status: Some(400), ..Failed::new("INVALID_OFFSET", error) })?;
    let live = match &asked.live {
        LiveAsked::Flag(false) => Live::Off,
        LiveAsked::Flag(true) => Live::Auto,
        LiveAsked::Named(name) if name == "sse" => Live::Sse,
        LiveAsked::Named(_) => Live::LongPoll,
    };
    let patience = asked.timeout_ms.map_or(PATIENCE, Duration::from_millis);
    let mut so_far =
        Gathered { chunks: Vec::new(), offset: from, is_up_to_date: false, is_closed: false };
    let mut reader = stream.reader(token, live);
    let gathering = gather(&mut reader, is_json, asked, &mut so_far);
    match sys.clock.timeout(patience, gathering).await {
        Ok(gathered) => gathered?,
        // Nothing came, so nothing is missing.
        Err(_) => so_far.is_up_to_date = true,
    }
    let answer = json!({
        "status": reader.status().as_u16(),
        "chunks": so_far.chunks,
        "offset": so_far.offset,
        "upToDate": so_far.is_up_to_date,
        "streamClosed": so_far.is_closed,
    });
    Ok(answer.as_object().cloned().unwrap_or_default())
}

async fn gather(
    reader: &mut client::Reader,
    is_json: bool,
    asked: &Read,
    so_far: &mut Gathered,
) -> Result<(), Failed> {
    let chunks_max = asked.max_chunks.unwrap_or(CHUNKS_MAX);
    while let Some(batch) = reader.next().await? {
        if !batch.data.is_empty() {
            let data = text(&batch, is_json)?;
            so_far.chunks.push(json!({ "data": data, "offset": batch.next.as_str() }));
        }
        so_far.offset = batch.next.to_string();
        so_far.is_up_to_date = batch.is_up_to_date;
        so_far.is_closed = batch.is_closed;
        let is_enough = so_far.chunks.len() >= chunks_max;
        if is_enough || (asked.wait_for_up_to_date && batch.is_up_to_date) {
            break;
        }
    }
    Ok(())
}

fn text(batch: &Batch, is_json: bool) -> Result<String, Failed> {
    if is_json {
        batch.values()?;
    }
    Ok(String::from_utf8_lossy(&batch.data).into_owned())
}
