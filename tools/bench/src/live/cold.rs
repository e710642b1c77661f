//! Scenario f: a stream on disk is opened, until a live query shows all its rows.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use live::{StreamDb, from};
use log::{
    Append, Create, Log,
    file::{FileLog, Settings},
};
use sys::Sys;
use tokio::runtime::{Builder, Runtime};
use wire::{Address, Messages, StreamPath};

use super::{
    figure::{Outcome, whole},
    sample::{Chance, Job, JobRow, Size, count_pending},
};
use crate::server::{DataDir, Workspace};

/// Events that are appended at once; a transaction of the stream is eight of them.
const EVENTS_PER_APPEND: usize = 8_000;

/// Opens log, stream, database and query, and waits until all is shown. The log was written by an
/// earlier life, and closed; its pages may be in the cache of the system, as those of the file that
/// the other side reads.
pub(super) fn cold(size: Size) -> Result<Outcome> {
    let jobs = Job::many(size.rows(), &mut Chance::new(1));
    let dir = DataDir::create(&Workspace::locate()?.data_root()?)?;
    let address: Address = "bench/jobs".parse::<StreamPath>()?.into();
    let (sys, runtime) = (Sys::real(), runtime()?);
    runtime.block_on(write(&sys, &dir.server_data(), &address, &jobs))?;
    let (figure, shown) = whole("open until ready", || {
        runtime.block_on(async {
            let file = FileLog::open(&sys, &dir.server_data(), Settings::default()).await?;
            let log: Arc<dyn Log> = Arc::new(file);
            let db = StreamDb::builder(log, address, &sys).with::<JobRow>().open()?;
            let pending = db.live(from::<JobRow>().filter(JobRow::status.eq("pending")))?;
            db.ready().await?;
            Ok((pending.len(), db))
        })
    })?;
    let (len, db) = shown;
    runtime.block_on(db.close());
    let ok = len == count_pending(&jobs);
    Ok(Outcome { ok, figures: vec![figure], heap: None })
}

/// One thread for all but the disk, as a program with an agent has it.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

async fn write(sys: &Sys, data: &Path, address: &Address, jobs: &[Job]) -> Result<()> {
    let file = FileLog::open(sys, data, Settings::default()).await?;
    let json = Some("application/json".parse()?);
    let create = Create { content_type: json, ..Create::default() };
    let _ = file.create(address, create).await?;
    let events: Vec<_> = jobs.iter().enumerate().map(|(number, job)| event(number, job)).collect();
    for some in events.chunks(EVENTS_PER_APPEND) {
        let messages = Messages::copied(some.iter().map(String::as_bytes))?;
        let _ = file.append(address, Append::messages(messages)).await?;
    }
    file.close().await;
    Ok(())
}

fn event(number: usize, job: &Job) -> String {
    let (key, value, txid) = (&job.id, job.json(), number / 8);
    let headers = format!(r#"{{"operation":"insert","txid":"{txid}"}}"#);
    format!(r#"{{"type":"job","key":"{key}","value":{value},"headers":{headers}}}"#)
}
