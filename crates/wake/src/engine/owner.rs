//! The one owner of all subscriptions: decides every request, writes what follows from many in one
//! go, then answers, then calls whoever is to be woken.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{Either, FutureExt as _, select};
use log::{List, Log, Moved, Unavailable, Watch};
use sys::{Sys, UnixMs};
use tokio::sync::{Semaphore, mpsc, oneshot};
use wire::{Address, Glob, Offset, StreamPath};

use super::{
    diary::{Diary, NotWritten},
    views::{view, work},
};
use crate::{
    ChangeError, Claim, ClaimError, Config, Courier, CreateError, Created, Delivery, Fenced,
    Progress, ProgressError, Reply, Reported, SubscriptionExists, SubscriptionId,
    SubscriptionNotFound, TooMany, View,
    book::{Book, Entry},
    caps::{LINKS_MAX, SUBSCRIPTIONS_MAX},
    keys::Keyring,
    subscription::{Event, Link, Linked, Subscription},
};

/// Requests and hints taken at a time.
const BATCH_MAX: usize = 1024;
/// Webhooks called at a time; further calls wait.
const CALLS_MAX: usize = 256;

/// Pause before the diary is read again after a failure.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);

type Asker<T, E> = oneshot::Sender<Result<T, E>>;

/// All that is asked of the owner.
#[derive(Debug)]
pub(super) enum Command {
    Create {
        id: SubscriptionId,
        config: Box<Config>,
        base: String,
        reply: Asker<Created, CreateError>,
    },
    Get {
        id: SubscriptionId,
        reply: Asker<View, ChangeError>,
    },
    Delete {
        id: SubscriptionId,
        reply: Asker<(), ChangeError>,
    },
    Link {
        id: SubscriptionId,
        streams: Vec<StreamPath>,
        reply: Asker<(), ChangeError>,
    },
    Unlink {
        id: SubscriptionId,
        stream: StreamPath,
        reply: Asker<(), ChangeError>,
    },
    Claim {
        id: SubscriptionId,
        worker: String,
        reply: Asker<Claim, ClaimError>,
    },
    Report {
        id: SubscriptionId,
        token: u64,
        progress: Progress,
        reply: Asker<Reported, ProgressError>,
    },
    Release {
        id: SubscriptionId,
        token: u64,
        wake_id: String,
        generation: u64,
        reply: Asker<(), ProgressError>,
    },
    /// From a call that was made.
    Delivered {
        id: SubscriptionId,
        wake_id: String,
        reply: Reply,
    },
}

type Answer = Box<dyn FnOnce(Result<(), Unavailable>) + Send>;

/// What ended a wait.
enum Woken {
    Asked,
    Hint(Moved),
    Due,
    /// Nobody is left to ask, or the log closed.
    Over,
}

pub(super) struct Owner {
    pub(super) log: Arc<dyn Log>,
    pub(super) sys: Sys,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) keys: Arc<Keyring>,
    diary: Diary,
    pub(super) book: Book,
    /// What moved; none while there is nobody to care.
    watch: Option<Watch>,
    /// To report back to; weak, so that the owner does not keep itself alive.
    pub(super) inbox: mpsc::WeakSender<Command>,
    pub(super) calls: Arc<Semaphore>,
    /// Wakes that are being delivered.
    pub(super) under_way: HashSet<(SubscriptionId, String)>,
    turn: Turn,
}

/// What one turn came to, not yet written.
#[derive(Default)]
struct Turn {
    entries: Vec<Entry>,
    answers: Vec<Answer>,
    touched: BTreeSet<SubscriptionId>,
}

impl Owner {
    pub(super) fn new(
        log: Arc<dyn Log>,
        sys: &Sys,
        courier: Arc<dyn Courier>,
        keys: Arc<Keyring>,
        (diary, book): (Diary, Book),
        watch: Option<Watch>,
        inbox: mpsc::WeakSender<Command>,
    ) -> Self {
        Self {
            log,
            sys: sys.clone(),
            courier,
            keys,
            diary,
            book,
            watch,
            inbox,
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            under_way: HashSet::new(),
            turn: Turn::default(),
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        self.look_at_everything().await;
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut is_over = false;
        while !is_over && self.commit().await.is_ok() {
            match self.wait(&mut inbox, &mut batch).await {
                Woken::Asked => {
                    // Whoever asks knows what was appended before.
                    self.catch_up().await;
                    for command in batch.drain(..) {
                        self.handle(command).await;
                    }
                }
                Woken::Hint(hint) => {
                    self.follow(hint).await;
                    self.catch_up().await;
                }
                Woken::Due => self.do_what_is_due(),
                Woken::Over => is_over = true,
            }
        }
        // Who was let in must not wait for an answer that never comes.
        inbox.close();
        while inbox.recv().await.is_some() {}
    }

    async fn wait(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        batch: &mut Vec<Command>,
    ) -> Woken {
        let due = self.book.next_due();
        let clock = &self.sys.clock;
        let timer = async {
            match due {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let watch = &mut self.watch;
        let hint = async {
            match watch {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        let asked = std::pin::pin!(inbox.recv_many(batch, BATCH_MAX));
        let hint = std::pin::pin!(hint);
        let timer = std::pin::pin!(timer);
        match select(asked, select(hint, timer)).await {
            Either::Left((0, _)) | Either::Right((Either::Left((None, _)), _)) => Woken::Over,
            Either::Left(_) => Woken::Asked,
            Either::Right((Either::Left((Some(hint), _)), _)) => Woken::Hint(hint),
            Either::Right((Either::Right(_), _)) => Woken::Due,
        }
    }

    pub(super) fn now(&self) -> UnixMs {
        self.sys.clock.unix_ms()
    }

    async fn handle(&mut self, command: Command) {
        match command {
            Command::Create { id, config, base, reply } => {
                let created = self.create(&id, *config, base).await;
                self.answer(reply, created);
            }
            Command::Get { id, reply } => {
                let view = self.find(&id).map(view).map_err(ChangeError::from);
                self.answer(reply, view);
            }
            Command::Delete { id, reply } => {
                let found = self.find(&id).map(|_| ()).map_err(ChangeError::from);
                if found.is_ok() {
                    self.stage(&id, vec![Event::Deleted]);
                }
                // Appends need not tell what nobody follows.
                if self.book.len() == 0 {
                    self.watch = None;
                }
                self.answer(reply, found);
            }
            Command::Link { id, streams, reply } => {
                let linked = self.link(&id, streams).await;
                self.answer(reply, linked);
            }
            Command::Unlink { id, stream, reply } => {
                let found = self.find(&id).map(|_| ()).map_err(ChangeError::from);
                if found.is_ok() {
                    self.stage(&id, vec![Event::Unlinked(stream)]);
                }
                self.answer(reply, found);
            }
            Command::Claim { id, worker, reply } => {
                let claimed = self.claim(&id, &worker);
                self.answer(reply, claimed);
            }
            Command::Report { id, token, progress, reply } => {
                let reported = self.report(&id, token, &progress);
                self.answer(reply, reported);
            }
            Command::Release { id, token, wake_id, generation, reply } => {
                let released = self.release(&id, token, &wake_id, generation);
                self.answer(reply, released);
            }
            Command::Delivered { id, wake_id, reply } => self.delivered(&id, &wake_id, reply),
        }
    }

    fn find(&self, id: &SubscriptionId) -> Result<&Subscription, SubscriptionNotFound> {
        self.book.get(id).ok_or(SubscriptionNotFound)
    }

    async fn create(
        &mut self,
        id: &SubscriptionId,
        config: Config,
        base: String,
    ) -> Result<Created, CreateError> {
        config.check()?;
        if let Delivery::Webhook(url) = &config.delivery {
            self.courier.check(url)?;
        }
        if let Some(subscription) = self.book.get(id) {
            return match subscription.config == config {
                true => Ok(Created { is_new: false, view: view(subscription) }),
                false => Err(SubscriptionExists.into()),
            };
        }
        if self.book.len() >= SUBSCRIPTIONS_MAX {
            return Err(TooMany.into());
        }
        self.watch()?;
        let mut subscription = Subscription::new(config, base, self.now());
        link_existing(&*self.log, &mut subscription).await?;
        self.stage(id, vec![Event::Is(Box::new(subscription.clone()))]);
        for (path, link) in &subscription.links {
            self.book.moved(id, path, link.tail);
        }
        Ok(Created { is_new: true, view: view(&subscription) })
    }

    async fn link(
        &mut self,
        id: &SubscriptionId,
        streams: Vec<StreamPath>,
    ) -> Result<(), ChangeError> {
        if self.find(id)?.links.len() + streams.len() > LINKS_MAX {
            return Err(TooMany.into());
        }
        for path in streams {
            let tail = tail(&*self.log, &path).await?;
            if let Some(event) = self.find(id)?.name(&path, tail) {
                self.stage(id, vec![event]);
                self.book.moved(id, &path, tail);
            }
        }
        Ok(())
    }

    fn claim(&mut self, id: &SubscriptionId, worker: &str) -> Result<Claim, ClaimError> {
        let now = self.now();
        let events = self.find(id)?.claim(worker, now)?;
        self.stage(id, events);
        let subscription = self.find(id)?;
        let wake = subscription.wake.as_ref().ok_or(crate::NoPendingWork)?;
        Ok(Claim {
            wake_id: wake.id.clone(),
            generation: wake.generation,
            token: self.keys.current().secret().token(id, wake.generation),
            streams: work(subscription, wake),
            lease_ttl_ms: subscription.config.lease_ttl_ms,
        })
    }

    fn report(
        &mut self,
        id: &SubscriptionId,
        token: u64,
        progress: &Progress,
    ) -> Result<Reported, ProgressError> {
        let now = self.now();
        let events = self.find(id)?.report(token, progress, now)?;
        self.stage(id, events);
        let next_wake = progress.done && self.find(id)?.wake.is_some();
        Ok(Reported { next_wake })
    }

    fn release(
        &mut self,
        id: &SubscriptionId,
        token: u64,
        wake_id: &str,
        generation: u64,
    ) -> Result<(), ProgressError> {
        let events = self.find(id)?.release(token, wake_id, generation)?;
        self.stage(id, events);
        Ok(())
    }

    fn delivered(&mut self, id: &SubscriptionId, wake_id: &str, reply: Reply) {
        self.under_way.remove(&(id.clone(), wake_id.to_owned()));
        let (now, chance) = (self.now(), &self.sys.chance);
        let Some(subscription) = self.book.get(id) else { return };
        let events = subscription.delivered(wake_id, reply, now, |bound| chance.below(bound));
        self.stage(id, events);
    }

    fn do_what_is_due(&mut self) {
        let now = self.now();
        for _ in 0..BATCH_MAX {
            let Some(id) = self.book.due_by(now) else { return };
            let events = self.book.get(&id).map(|subscription| subscription.overdue(now));
            self.stage(&id, events.unwrap_or_default());
        }
    }

    /// Follows the hints that are there.
    async fn catch_up(&mut self) {
        for _ in 0..BATCH_MAX {
            let hint = self.watch.as_mut().and_then(|watch| watch.next().now_or_never());
            match hint {
                Some(Some(hint)) => self.follow(hint).await,
                Some(None) | None => return,
            }
        }
    }

    /// Watches from now on, unless it does already.
    fn watch(&mut self) -> Result<(), Unavailable> {
        if self.watch.is_none() {
            let watch = self.log.watch(Glob::everything());
            self.watch = Some(watch.map_err(|_| Unavailable::Overloaded)?);
        }
        Ok(())
    }

    async fn follow(&mut self, hint: Moved) {
        match hint {
            Moved::Stream(path, hinted) => {
                let known = if self.seems_shorter(&path, hinted) {
                    tail(&*self.log, &path).await.unwrap_or(hinted)
                } else {
                    hinted
                };
                self.moved(&path, known);
            }
            Moved::Resync => self.look_at_everything().await,
        }
    }

    /// True if more was known of the stream: the hint is old, or the stream is another one.
    fn seems_shorter(&self, path: &StreamPath, hinted: Offset) -> bool {
        self.book.followers(path).iter().any(|id| {
            let link = self.book.get(id).and_then(|subscription| subscription.links.get(path));
            link.is_some_and(|link| link.tail.max(link.acked.unwrap_or_default()) > hinted)
        })
    }

    /// A stream ends here now.
    fn moved(&mut self, path: &StreamPath, tail: Offset) {
        for id in self.book.followers(path) {
            let Some(subscription) = self.book.get(&id) else { continue };
            let event = match subscription.links.get(path) {
                // It was deleted and made again: all of it is new.
                Some(link) if link.acked.is_some_and(|acked| acked > tail) => {
                    let link = Link { acked: None, tail: Offset::START, ..*link };
                    Some(Event::Linked(Linked { path: path.clone(), link }))
                }
                Some(link) if link.is_matched || link.is_explicit => None,
                _ if tail == Offset::START || subscription.links.len() >= LINKS_MAX => continue,
                _ => subscription.discover(path),
            };
            self.stage(&id, event.into_iter().collect());
            self.book.moved(&id, path, tail);
            self.rouse(&id);
        }
    }

    /// Looks at every stream, for some may have moved unseen.
    async fn look_at_everything(&mut self) {
        let mut list = List::default();
        while self.book.len() > 0 {
            let Ok(page) = self.log.list(list.clone()).await else { break };
            for listed in &page.streams {
                self.moved(&listed.path, listed.head.tail);
            }
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
        let all: Vec<_> = self.book.iter().map(|(id, _)| id.clone()).collect();
        all.iter().for_each(|id| self.rouse(id));
        self.turn.touched.extend(all);
    }

    /// Takes what happened to a subscription into the turn, and calls to work if there is some.
    fn stage(&mut self, id: &SubscriptionId, events: Vec<Event>) {
        if !events.is_empty() {
            let entry = Entry { id: id.clone(), events };
            self.book.apply(&entry);
            self.turn.entries.push(entry);
            self.turn.touched.insert(id.clone());
            self.rouse(id);
        }
    }

    fn rouse(&mut self, id: &SubscriptionId) {
        let (now, chance) = (self.now(), self.sys.chance.clone());
        let wake_id = || {
            let mut bytes = [0; 12];
            chance.fill(&mut bytes);
            bytes.iter().fold("w_".to_owned(), |id, byte| format!("{id}{byte:02x}"))
        };
        let event = self.book.get(id).and_then(|subscription| subscription.rouse(wake_id, now));
        if let Some(event) = event {
            self.stage(id, vec![event]);
        }
    }

    /// The answer waits until what it rests on is written.
    fn answer<T, E>(&mut self, reply: Asker<T, E>, answer: Result<T, E>)
    where
        T: Send + 'static,
        E: From<Unavailable> + Send + 'static,
    {
        self.turn.answers.push(Box::new(move |written| {
            let _ = reply.send(written.map_err(E::from).and(answer));
        }));
    }

    /// Written, then answered, then acted on. Fails if another engine has taken over.
    async fn commit(&mut self) -> Result<(), Fenced> {
        let turn = std::mem::take(&mut self.turn);
        let written = self.diary.write(&turn.entries).await;
        let (answer, outcome) = match &written {
            Ok(()) => (Ok(()), Ok(())),
            Err(NotWritten::Unavailable(why)) => (Err(why.clone()), Ok(())),
            Err(NotWritten::TakenOver) => (Err(Unavailable::Closing), Err(Fenced)),
        };
        turn.answers.into_iter().for_each(|give| give(answer.clone()));
        match written {
            Ok(()) => turn.touched.iter().for_each(|id| self.deliver(id)),
            Err(NotWritten::Unavailable(_)) => self.reload().await,
            Err(NotWritten::TakenOver) => {}
        }
        outcome?;
        if self.diary.is_long(&self.book)
            && let Err(NotWritten::TakenOver) = self.diary.retell(&self.book).await
        {
            return Err(Fenced);
        }
        Ok(())
    }

    /// What was decided may be written or not: only the diary knows.
    async fn reload(&mut self) {
        loop {
            self.sys.clock.sleep(RELOAD_PAUSE).await;
            match Diary::open(self.log.clone()).await {
                Ok((diary, book)) => {
                    (self.diary, self.book) = (diary, book);
                    if self.book.len() > 0 && self.watch().is_err() {
                        continue;
                    }
                    return Box::pin(self.look_at_everything()).await;
                }
                Err(error) => tracing::warn!(%error, "subscriptions cannot be read yet"),
            }
            if self.inbox.upgrade().is_none() {
                return;
            }
        }
    }
}

/// Links what is there already, at its tail.
async fn link_existing(log: &dyn Log, subscription: &mut Subscription) -> Result<(), CreateError> {
    for path in subscription.config.streams.clone() {
        let tail = tail(log, &path).await?;
        subscription.name(&path, tail).iter().for_each(|event| subscription.apply(event));
    }
    let Some(glob) = subscription.config.pattern.clone() else { return Ok(()) };
    let config = subscription.config.clone();
    let covers = |path: &StreamPath| config.covers(path);
    let prefix = literal_prefix(glob.as_str());
    let mut list = List { prefix, ..List::default() };
    loop {
        let page = log.list(list.clone()).await.map_err(unavailable)?;
        for listed in page.streams.iter().filter(|listed| covers(&listed.path)) {
            let known = subscription.links.get(&listed.path).copied().unwrap_or_default();
            let tail = listed.head.tail;
            let acked = known.acked.max(Some(tail));
            let link = Link { is_matched: true, acked, tail, ..known };
            subscription.apply(&Event::Linked(Linked { path: listed.path.clone(), link }));
        }
        if subscription.links.len() > LINKS_MAX {
            return Err(TooMany.into());
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Where a stream ends; at its start if it is not there.
async fn tail(log: &dyn Log, path: &StreamPath) -> Result<Offset, Unavailable> {
    match log.head(&Address::from(path.clone())).await {
        Ok(head) => Ok(head.tail),
        Err(log::HeadError::Unavailable(why)) => Err(why),
        Err(_) => Ok(Offset::START),
    }
}

fn unavailable(error: log::ListError) -> Unavailable {
    match error {
        log::ListError::Unavailable(why) => why,
        other => Unavailable::Read(other.to_string()),
    }
}

/// What every stream that the glob covers begins with.
fn literal_prefix(glob: &str) -> String {
    glob.split('*').next().unwrap_or_default().to_owned()
}
