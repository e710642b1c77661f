//! Actions: everything that people write into a session goes through here. An action knows who
//! acts, checks what is to be written, and appends one row.
//!
//! In reading order: `deed` is what can be done; `book` is what must be known of a session to judge
//! it; `ledger` keeps books and lets one action at a time write; `door` is HTTP; `pass` gives
//! tokens where that is allowed.

mod book;
mod deed;
mod door;
mod error;
mod ledger;
mod pass;
mod runners;

use std::{fmt, sync::Arc};

use log::{Append, Create, Log, Outcome};
use state::{Draft, Json, Key, TxId, TypeName};
use sys::Sys;
use tokio::sync::{Semaphore, oneshot};
use wire::{Address, ContentType, Offset};

use self::deed::Circumstances;
pub(crate) use self::ledger::Ledgers;
pub use self::{
    deed::{Deed, Halt, Resolve, Say},
    door::Door,
    error::ActionError,
    pass::Pass,
};
use crate::{SessionId, caps::ACTIONS_UNDER_WAY_MAX};

/// Does what people ask for, in any session of a log. Cheap to clone.
///
/// Every action happens once: what was done under an id is not done again, however often it is
/// asked for, also after a crash. All actions of a log should go through one of these; two
/// processes that do the same action at the same moment write the same row twice, which is one row
/// to every reader.
#[derive(Clone)]
pub struct Actions(Arc<Inner>);

struct Inner {
    sys: Sys,
    log: Arc<dyn Log>,
    ledgers: Ledgers,
    under_way: Arc<Semaphore>,
    /// Who is meant by those who name nobody.
    agent: Option<String>,
}

/// An action that was done, and lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The row.
    pub id: String,
    /// The transaction that wrote it.
    pub txid: String,
    /// The offset after it.
    pub offset: Offset,
    /// Done now, or before.
    pub outcome: Outcome,
}

impl Actions {
    /// Actions in the sessions of `log`.
    #[must_use]
    pub fn new(sys: &Sys, log: Arc<dyn Log>) -> Self {
        Self::build(sys, log, None)
    }

    /// The same; what is said to nobody is for this agent.
    #[must_use]
    pub fn for_agent(sys: &Sys, log: Arc<dyn Log>, agent: &str) -> Self {
        Self::build(sys, log, Some(agent.to_owned()))
    }

    fn build(sys: &Sys, log: Arc<dyn Log>, agent: Option<String>) -> Self {
        let ledgers = Ledgers::new(log.clone());
        let under_way = Arc::new(Semaphore::new(ACTIONS_UNDER_WAY_MAX));
        Self(Arc::new(Inner { sys: sys.clone(), log, ledgers, under_way, agent }))
    }

    /// Makes a session, or confirms that there is one.
    ///
    /// # Errors
    /// If the log cannot, or the name belongs to something else.
    pub async fn create(&self, session: &SessionId) -> Result<Outcome, ActionError> {
        let json = Create { content_type: Some(ContentType::json()), ..Create::default() };
        let created = self.0.log.create(&Address::from(session.path().clone()), json).await;
        let created = created.map_err(|error| ActionError::creating(session, &error))?;
        Ok(created.outcome)
    }

    /// Whether there is such a session.
    ///
    /// # Errors
    /// [`ActionError::NoSession`] if not.
    pub async fn exists(&self, session: &SessionId) -> Result<(), ActionError> {
        let head = self.0.log.head(&Address::from(session.path().clone())).await;
        head.map(drop).map_err(|error| ActionError::looking(session, &error))
    }

    /// Does it, and answers once it lasts. It goes on if nobody waits for the answer.
    ///
    /// # Errors
    /// [`ActionError`] says what was wrong.
    pub async fn act(
        &self,
        session: &SessionId,
        actor: &str,
        deed: Deed,
    ) -> Result<Done, ActionError> {
        error::check_name("actor", actor)?;
        deed.validate()?;
        let permit = self.0.under_way.clone().try_acquire_owned();
        let permit = permit.map_err(|_| ActionError::Busy)?;
        let (told, heard) = oneshot::channel();
        let (inner, session, actor) = (self.0.clone(), session.clone(), actor.to_owned());
        // A client that leaves must not take the pen away in the middle of a stroke: whoever comes
        // next could not see what is still on its way.
        self.0.sys.spawn.task("action", async move {
            let done = inner.act(&session, &actor, &deed).await;
            drop(permit);
            let _ = told.send(done);
        });
        heard.await.unwrap_or_else(|_| Err(ActionError::Unavailable("the process ends".into())))
    }
}

impl Inner {
    async fn act(
        &self,
        session: &SessionId,
        actor: &str,
        deed: &Deed,
    ) -> Result<Done, ActionError> {
        let ledger = self.ledgers.of(session);
        let mut ledger = ledger.lock().await;
        let (book, _) = ledger.catch_up().await?;
        let id = deed.id().map_or_else(|| drawn_id(&self.sys), str::to_owned);
        let at = agent::rows::now(&self.sys);
        let target = self.agent.as_deref();
        let row = deed.row(Circumstances { actor, id: &id, at, target })?;
        let txid = format!("{}:{id}", row.type_name);
        if let Some(entered) = book.entered(deed.type_name(), &id) {
            return match entered.is(&row.value) {
                true => Ok(Done { id, txid, offset: entered.offset, outcome: Outcome::Duplicate }),
                false => Err(ActionError::IdTaken(id)),
            };
        }
        deed.check(book)?;
        let messages = messages(row.type_name, &id, &txid, &row.value)?;
        let offset = ledger.append(Append::messages(messages)).await?;
        Ok(Done { id, txid, offset, outcome: Outcome::New })
    }
}

fn messages(
    type_name: &str,
    id: &str,
    txid: &str,
    row: &serde_json::Value,
) -> Result<wire::Messages, ActionError> {
    let unwritable = |error: &dyn fmt::Display| ActionError::invalid("body", error.to_string());
    let type_name = TypeName::new(type_name).map_err(|error| unwritable(&error))?;
    let key = Key::new(id).map_err(|error| unwritable(&error))?;
    let txid = TxId::new(txid).map_err(|error| unwritable(&error))?;
    let value = Json::of(row).map_err(|error| unwritable(&error))?;
    let drafts = [Draft::insert(type_name, key, value)];
    state::transaction(&txid, drafts).map_err(|error| unwritable(&error))
}

fn drawn_id(sys: &Sys) -> String {
    format!("{:016x}{:016x}", sys.chance.u64(), sys.chance.u64())
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actions").field("agent", &self.0.agent).finish_non_exhaustive()
    }
}
