//! Where everything happens: a log on the real disk, and what is said into its streams.

use std::{
    future::Future,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent::rows::{self, Generation, GenerationStatus, Message, Role};
use anyhow::{Context as _, Result, ensure};
use live::{Row, StreamDb};
use log::{
    Append, Create, Freshness, Log,
    file::{FileLog, Settings},
};
use server::Server;
use state::{Draft, Json};
use sys::Sys;
use tokio::{runtime::Builder, sync::oneshot, task::JoinHandle};
use wire::{Address, Messages, ReadFrom, StreamPath};

use crate::server::DataDir;

/// Bytes that are read at once.
const READ_BYTES: usize = 1024 * 1024;

/// A log in a fresh directory, removed when dropped.
pub(crate) struct Place {
    pub(crate) sys: Sys,
    pub(crate) log: Arc<dyn Log>,
    file: FileLog,
    dir: PathBuf,
    /// Removed with the place, unless it is somebody else's.
    own: Option<DataDir>,
}

/// A server of the log, on a port of its own.
pub(crate) struct Served {
    pub(crate) url: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Bytes of the messages of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bytes {
    pub(crate) chunks: usize,
    pub(crate) others: usize,
}

/// Runs work as `headwater dev` does: one thread for all but connections and the disk.
pub(crate) fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(work)
}

impl Place {
    pub(crate) async fn open(root: &Path) -> Result<Self> {
        let own = DataDir::create(root)?;
        let place = Self::at(&own.server_data()).await?;
        Ok(Self { own: Some(own), ..place })
    }

    /// A log in this directory, which stays.
    pub(crate) async fn at(dir: &Path) -> Result<Self> {
        let sys = Sys::real();
        let file = FileLog::open(&sys, dir, Settings::default()).await?;
        let log: Arc<dyn Log> = Arc::new(file.clone());
        Ok(Self { sys, log, file, dir: dir.to_owned(), own: None })
    }

    /// Closes the log and opens it again.
    pub(crate) async fn reopen(self) -> Result<Self> {
        let Self { log, file, dir, own, .. } = self;
        drop(log);
        file.close().await;
        let place = Self::at(&dir).await?;
        Ok(Self { own, ..place })
    }

    pub(crate) async fn close(self) {
        let Self { log, file, .. } = self;
        drop(log);
        file.close().await;
    }

    /// A new session.
    pub(crate) async fn session(&self, name: &str) -> Result<Address> {
        let address: Address = path_of(name)?.into();
        let json = Some("application/json".parse()?);
        let create = Create { content_type: json, ..Create::default() };
        let _ = self.log.create(&address, create).await?;
        Ok(address)
    }

    /// All rows of a session but chunks.
    pub(crate) async fn db(&self, address: &Address) -> Result<StreamDb> {
        open_db(Arc::clone(&self.log), address, &self.sys).await
    }

    /// Appends new rows in one transaction.
    pub(crate) async fn insert<R: Row>(&self, address: &Address, rows: &[R]) -> Result<()> {
        let messages = self.transaction(rows)?;
        let _ = self.log.append(address, Append::messages(messages)).await?;
        Ok(())
    }

    /// New rows, as they are appended.
    pub(crate) fn transaction<R: Row>(&self, rows: &[R]) -> Result<Messages> {
        let draft = |row: &R| -> Result<Draft> {
            let key = row.key().as_text().context("a key of a row is a text")?.parse()?;
            Ok(Draft::insert(R::NAME.parse()?, key, Json::of(row)?))
        };
        let drafts = rows.iter().map(draft).collect::<Result<Vec<_>>>()?;
        let txid = format!("bench.{:x}", self.sys.chance.u64()).parse()?;
        Ok(state::transaction(&txid, drafts)?)
    }

    /// Something for an agent to answer.
    pub(crate) fn question(&self, id: &str, agent: &str) -> Message {
        Message {
            id: id.to_owned(),
            role: Role::User,
            content: "Go on.".to_owned(),
            parts: None,
            actor_id: "ada".to_owned(),
            target_agent: Some(agent.to_owned()),
            generation_id: None,
            request_id: None,
            in_reply_to: None,
            created_at: rows::now(&self.sys),
        }
    }

    /// What a session weighs, and how many of its generations have said all.
    pub(crate) async fn weigh(&self, address: &Address) -> Result<(Bytes, usize)> {
        let (mut bytes, mut completed, mut from) = (Bytes::default(), 0, ReadFrom::Start);
        loop {
            let chunk = self.log.read(address, from, READ_BYTES).await?;
            for message in chunk.messages() {
                let text = std::str::from_utf8(message)?;
                match text.starts_with(r#"{"type":"chunk""#) {
                    true => bytes.chunks += message.len(),
                    false => bytes.others += message.len(),
                }
                let is_generation = text.starts_with(r#"{"type":"generation""#);
                completed += usize::from(is_generation && is_completed(text)?);
            }
            if chunk.freshness != Freshness::Behind {
                return Ok((bytes, completed));
            }
            from = ReadFrom::At(chunk.next);
        }
    }

    /// Serves the log on threads of its own, as many as there are cores.
    pub(crate) async fn serve(&self) -> Result<Served> {
        let settings = server::Settings {
            listen: "127.0.0.1:0".parse()?,
            threads: std::thread::available_parallelism().ok(),
            ..server::Settings::default()
        };
        let server = Server::bind(Arc::clone(&self.log), self.sys.clone(), settings).await?;
        let url = format!("http://{}", server.local_addr());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Ok(Served { url, stop, task })
    }
}

impl Served {
    pub(crate) async fn stop(self) -> Result<()> {
        ensure!(self.stop.send(()).is_ok(), "the server has ended by itself");
        Ok(self.task.await?)
    }
}

/// All rows of a session but chunks, from wherever its log is.
pub(crate) async fn open_db(log: Arc<dyn Log>, address: &Address, sys: &Sys) -> Result<StreamDb> {
    let db = rows::session(StreamDb::builder(log, address.clone(), sys)).open()?;
    db.ready().await?;
    Ok(db)
}

pub(crate) fn path_of(name: &str) -> Result<StreamPath> {
    Ok(format!("main/sessions/{name}").parse()?)
}

fn is_completed(event: &str) -> Result<bool> {
    #[derive(serde::Deserialize)]
    struct Event {
        value: Generation,
    }
    let event: Event = serde_json::from_str(event)?;
    Ok(event.value.status == GenerationStatus::Completed)
}
