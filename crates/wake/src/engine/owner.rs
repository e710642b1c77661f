//! The one owner of all subscriptions: decides every request, writes what follows from many in one
//! go, then answers, then calls whoever is to be woken.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{Either, select};
use log::{Log, Moved, Unavailable, Watch};
use sys::{Sys, UnixMs};
use tokio::sync::mpsc;
use wire::{Offset, StreamPath};

use super::{
    command::{Asker, Command},
    deliver::Delivered,
    diary::{Diary, Draft, NotWritten},
    follow::{look, look_at_unlinked},
    line::Line,
    views::{cursors, page, setback, view, work},
};
use crate::{
    ChangeError, Claim, ClaimError, Config, Courier, CreateError, Created, Delivery, Progress,
    ProgressError, Reported, SubscriptionExists, SubscriptionId, SubscriptionNotFound, TooMany,
    book::{self, Book, Entry},
    caps::{ANNOUNCEMENTS_MAX, CALLS_MAX, LINKS_MAX, SUBSCRIPTIONS_MAX},
    keys::Keyring,
    open_work::Pass,
    subscription::{Event, Stage, Subscription},
};

/// Requests and hints taken at a time.
pub(super) const BATCH_MAX: usize = 1024;

/// Pause before the diary is read again after a failure.
const RELOAD_PAUSE: Duration = Duration::from_millis(500);

type Answer = Box<dyn FnOnce(Result<(), Unavailable>) + Send>;

/// What ended a wait.
enum Woken {
    Asked,
    Hint(Moved),
    Due,
    /// Nothing, but a pass is under way.
    Idle,
    /// Nobody is left to ask, or the log closed.
    Over,
}

/// What became of a turn.
enum Turned {
    On,
    /// Nobody is left to ask, or the log closed.
    Over,
}

/// What became of a diary that had to be read again.
enum Reloaded {
    Whole,
    /// Nobody is left to ask.
    Never,
}

pub(super) struct Owner {
    pub(super) log: Arc<dyn Log>,
    pub(super) sys: Sys,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) keys: Arc<Keyring>,
    diary: Diary,
    pub(super) book: Book,
    /// What moved; none while there is nobody to care.
    pub(super) watch: Option<Watch>,
    /// To report back to; weak, so that the owner does not keep itself alive.
    pub(super) inbox: mpsc::WeakSender<Command>,
    pub(super) calls: Line,
    pub(super) announcements: Line,
    /// How deliveries ended that no diary tells yet, since it could not be written.
    unwritten: Vec<Delivered>,
    /// A look at every stream, a page at a time.
    pub(super) pass: Option<Pass>,
    /// Whether another one is to follow: hints were lost, or links have become free.
    pub(super) is_pass_due: bool,
    /// Streams that one subscription is linked to at most.
    pub(super) links_max: usize,
    /// Subscriptions with more open streams than links.
    pub(super) full: BTreeSet<SubscriptionId>,
    /// Subscriptions whose streams have moved.
    pub(super) roused: BTreeSet<SubscriptionId>,
    /// What went wrong last, for subscriptions whose deliveries fail. It is not written: whoever
    /// starts anew hears it with the next attempt.
    pub(super) last_errors: BTreeMap<SubscriptionId, String>,
    pub(super) turn: Turn,
}

/// What one turn came to, not yet written.
#[derive(Default)]
pub(super) struct Turn {
    draft: Draft,
    answers: Vec<Answer>,
    /// Wakes, by generation, that a worker is to be called to.
    pub(super) calls: BTreeSet<(SubscriptionId, u64)>,
    /// How deliveries ended.
    pub(super) delivered: Vec<Delivered>,
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
            calls: Line::new(CALLS_MAX),
            announcements: Line::new(ANNOUNCEMENTS_MAX),
            unwritten: Vec::new(),
            pass: None,
            is_pass_due: false,
            links_max: LINKS_MAX,
            full: BTreeSet::new(),
            roused: BTreeSet::new(),
            last_errors: BTreeMap::new(),
            turn: Turn::default(),
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut batch = VecDeque::new();
        let mut turned = self.resume().await;
        loop {
            match turned {
                Ok(Turned::On) => {}
                Ok(Turned::Over) | Err(NotWritten::TakenOver) => break,
                Err(NotWritten::Unavailable(why)) => {
                    batch.drain(..).for_each(|command| self.refuse(command, &why));
                    self.abandon(&why);
                    match self.reload(&mut inbox, why).await {
                        Reloaded::Whole => {}
                        Reloaded::Never => break,
                    }
                }
            }
            turned = self.turn(&mut inbox, &mut batch).await;
        }
        // Who was let in must not wait for an answer that never comes.
        inbox.close();
        while inbox.recv().await.is_some() {}
    }

    /// Goes on from what the diary tells.
    async fn resume(&mut self) -> Result<Turned, NotWritten> {
        self.look_at_everything().await?;
        for delivered in std::mem::take(&mut self.unwritten) {
            self.delivered(delivered);
        }
        self.recall();
        self.commit().await?;
        Ok(Turned::On)
    }

    /// Waits for something, and does what it asks for. What is left in the batch after a failure
    /// was not looked at.
    async fn turn(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        batch: &mut VecDeque<Command>,
    ) -> Result<Turned, NotWritten> {
        let mut asked = Vec::new();
        match self.wait(inbox, &mut asked).await {
            Woken::Asked => {
                batch.extend(asked);
                // Whoever asks knows what was appended before.
                self.catch_up(None).await?;
                while let Some(command) = batch.pop_front() {
                    self.handle(command).await;
                    self.commit_much().await?;
                }
            }
            Woken::Hint(hint) => self.catch_up(Some(hint)).await?,
            Woken::Due => self.do_what_is_due(),
            Woken::Idle => {}
            Woken::Over => return Ok(Turned::Over),
        }
        // One page in each turn, so that neither the pass nor those who ask wait for the other.
        self.look_further().await?;
        self.commit().await?;
        Ok(Turned::On)
    }

    async fn wait(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        batch: &mut Vec<Command>,
    ) -> Woken {
        let due = self.book.next_due();
        let clock = &self.sys.clock;
        let is_passing = self.pass.is_some() || self.is_pass_due;
        let timer = async {
            match due {
                _ if is_passing => {}
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
            Either::Right((Either::Right(_), _)) if due.is_some_and(|at| at <= clock.unix_ms()) => {
                Woken::Due
            }
            Either::Right((Either::Right(_), _)) => Woken::Idle,
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
                let view = self.find(&id).map(view);
                self.answer(reply, view.map_err(ChangeError::from));
            }
            Command::Cursors { id, created_at, streams, reply } => {
                let found = self.find(&id);
                let found = found.and_then(|found| match found.created_at == created_at {
                    true => Ok(cursors(&self.book.marks, found, &streams)),
                    false => Err(SubscriptionNotFound),
                });
                self.answer(reply, found.map_err(ChangeError::from));
            }
            Command::List { after, limit, reply } => {
                let page = page(&self.book, after.as_ref(), limit);
                self.answer(reply, Ok(page));
            }
            Command::Setback { id, reply } => {
                let last_error = self.last_errors.get(&id);
                let found = self.find(&id).map(|subscription| setback(subscription, last_error));
                self.answer(reply, found.map_err(ChangeError::from));
            }
            Command::Delete { id, reply } => {
                let found = self.find(&id).map(|_| ()).map_err(ChangeError::from);
                if found.is_ok() {
                    self.last_errors.remove(&id);
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
                let unlinked = self.find(&id).map(|subscription| subscription.unname(&stream));
                let done = unlinked.map(|events| self.stage(&id, events));
                self.answer(reply, done.map_err(ChangeError::from));
            }
            Command::Claim { id, worker, reply } => {
                let claimed = self.claim(&id, &worker);
                self.answer(reply, claimed);
            }
            Command::Report { id, token, progress, reply } => {
                let reported = self.report(&id, token, &progress).await;
                self.answer(reply, reported);
            }
            Command::Release { id, token, wake_id, generation, reply } => {
                let released = self.release(&id, token, &wake_id, generation);
                self.answer(reply, released);
            }
            Command::Delivered { id, wake_id, outcome } => {
                self.delivered(Delivered { id, wake_id, outcome });
            }
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
        let sights = self.link_existing(&mut subscription).await?;
        for event in subscription.told() {
            self.record(id, vec![event]);
        }
        for (path, sight) in &sights {
            self.book.moved(id, path, *sight);
        }
        let made = self.find(id).map_err(|_| Unavailable::Closing)?;
        Ok(Created { is_new: true, view: view(made) })
    }

    async fn link(
        &mut self,
        id: &SubscriptionId,
        streams: Vec<StreamPath>,
    ) -> Result<(), ChangeError> {
        if self.find(id)?.links.len() + streams.len() > self.links_max {
            return Err(TooMany.into());
        }
        for path in streams {
            let sight = look(&*self.log, &path).await?;
            // One that the pattern follows already goes on where it was.
            let is_followed = self.find(id)?.config.covers(&path) && sight.tail > Offset::START;
            let acked = match sight.incarnation() {
                Some(life) if is_followed => self.book.marks.get(life),
                _ => Some(sight.tail),
            };
            if let Some(event) = self.find(id)?.name(&path, sight, acked) {
                self.record(id, vec![event]);
                self.book.moved(id, &path, sight);
                self.rouse(id);
            }
        }
        Ok(())
    }

    fn claim(&mut self, id: &SubscriptionId, worker: &str) -> Result<Claim, ClaimError> {
        let now = self.now();
        let (generation, event) = self.find(id)?.claim(worker, now)?;
        self.stage(id, vec![event]);
        let subscription = self.find(id)?;
        let wake = subscription.wakes.get(&generation).ok_or(crate::NoPendingWork)?;
        Ok(Claim {
            wake_id: wake.id.clone(),
            generation: wake.generation,
            token: self.keys.current().secret().token(id, wake.generation, &wake.id),
            streams: work(subscription, wake),
            lease_ttl_ms: subscription.config.lease_ttl_ms,
        })
    }

    async fn report(
        &mut self,
        id: &SubscriptionId,
        token: u64,
        progress: &Progress,
    ) -> Result<Reported, ProgressError> {
        let now = self.now();
        let unlinked = self.find(id)?.unlinked(&progress.acks).collect();
        let unlinked = look_at_unlinked(&*self.log, &self.book.marks, unlinked).await?;
        let events = self.find(id)?.report(token, progress, &unlinked, now)?;
        self.stage(id, events);
        let next_wake = progress.done && self.find(id)?.calls_to_work();
        Ok(Reported { next_wake })
    }

    fn release(
        &mut self,
        id: &SubscriptionId,
        token: u64,
        wake_id: &str,
        generation: u64,
    ) -> Result<(), ProgressError> {
        let event = self.find(id)?.release(token, wake_id, generation)?;
        self.stage(id, vec![event]);
        Ok(())
    }

    fn do_what_is_due(&mut self) {
        let now = self.now();
        for _ in 0..BATCH_MAX {
            // What is left is due again at once.
            if self.turn.draft.is_full() {
                return;
            }
            let Some(id) = self.book.due_by(now) else { return };
            let events = self.book.get(&id).map(|subscription| subscription.overdue(now));
            self.stage(&id, events.unwrap_or_default());
        }
    }

    /// Takes what happened to a subscription into the turn, and calls to work if there is some.
    pub(super) fn stage(&mut self, id: &SubscriptionId, events: Vec<Event>) {
        if !events.is_empty() {
            let touched = self.touched_by(id, &events);
            self.record(id, events);
            touched.iter().for_each(|path| self.rest(id, path));
            self.rouse(id);
        }
    }

    /// Streams that may be at rest after this.
    fn touched_by(&self, id: &SubscriptionId, events: &[Event]) -> BTreeSet<StreamPath> {
        let wakes = self.book.get(id).map(|subscription| &subscription.wakes);
        let mut touched = BTreeSet::new();
        for event in events {
            match event {
                Event::Acked(acks) => touched.extend(acks.iter().map(|ack| ack.path.clone())),
                Event::Unlinked(path) => touched.extend([path.clone()]),
                Event::Over { generation } => {
                    let wake = wakes.and_then(|wakes| wakes.get(generation));
                    let tasks = wake.into_iter().flat_map(|wake| &wake.streams);
                    touched.extend(tasks.map(|task| task.path.clone()));
                }
                _ => {}
            }
        }
        touched
    }

    pub(super) fn record(&mut self, id: &SubscriptionId, events: Vec<Event>) {
        for event in &events {
            let called = match event {
                Event::Woken(wake) => Some((wake.generation, &wake.stage)),
                Event::Entered { generation, stage } => Some((*generation, stage)),
                _ => None,
            };
            if let Some((generation, Stage::Calling { .. } | Stage::Offered)) = called {
                self.turn.calls.insert((id.clone(), generation));
            }
        }
        self.write_down(&book::Line::Entry(Entry { id: id.clone(), events }));
        self.look_for_room(id);
    }

    pub(super) fn write_down(&mut self, line: &book::Line) {
        self.book.read(line);
        self.turn.draft.add(line);
    }

    pub(super) fn rouse(&mut self, id: &SubscriptionId) {
        let chance = self.sys.chance.clone();
        let wake_id = || {
            let mut bytes = [0; 12];
            chance.fill(&mut bytes);
            bytes.iter().fold("w_".to_owned(), |id, byte| format!("{id}{byte:02x}"))
        };
        let events = self.book.get(id).map(|subscription| subscription.rouse(wake_id));
        match events {
            Some(events) if !events.is_empty() => self.record(id, events),
            _ => {}
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

    /// Commits if much is decided, so that there is never much to hold and to write at once.
    pub(super) async fn commit_much(&mut self) -> Result<(), NotWritten> {
        match self.turn.draft.is_full() {
            true => self.commit().await,
            false => Ok(()),
        }
    }

    /// Written, then answered, then acted on. Fails if another engine has taken over, or if only
    /// the diary knows what is written.
    async fn commit(&mut self) -> Result<(), NotWritten> {
        let turn = std::mem::take(&mut self.turn);
        let written = self.diary.write(&turn.draft).await;
        let answer = match &written {
            Ok(()) => Ok(()),
            Err(NotWritten::Unavailable(why)) => Err(why.clone()),
            Err(NotWritten::TakenOver) => Err(Unavailable::Closing),
        };
        turn.answers.into_iter().for_each(|give| give(answer.clone()));
        if let Err(error) = written {
            self.unwritten.extend(turn.delivered);
            return Err(error);
        }
        turn.calls.into_iter().for_each(|(id, at)| self.line_up(id, at));
        self.deliver();
        if self.diary.is_long(&self.book) {
            self.diary.retell(&self.book).await?;
        }
        Ok(())
    }

    /// Gives up what was decided and not written, lest it be written after what the diary tells.
    fn abandon(&mut self, why: &Unavailable) {
        let turn = std::mem::take(&mut self.turn);
        turn.answers.into_iter().for_each(|give| give(Err(why.clone())));
        self.unwritten.extend(turn.delivered);
    }

    /// Reads the diary again, as soon as that can be done: what was decided last may be written or
    /// not. Whoever asks meanwhile is told why it must wait.
    async fn reload(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        mut why: Unavailable,
    ) -> Reloaded {
        loop {
            tracing::warn!(%why, "subscriptions could not be written, and are read again");
            let clock = self.sys.clock.clone();
            let mut pause = std::pin::pin!(clock.sleep(RELOAD_PAUSE));
            loop {
                match select(std::pin::pin!(inbox.recv()), pause.as_mut()).await {
                    Either::Left((Some(command), _)) => self.refuse(command, &why),
                    Either::Left((None, _)) => return Reloaded::Never,
                    Either::Right(_) => break,
                }
            }
            match Diary::open(self.log.clone()).await {
                Ok((diary, book)) => {
                    (self.diary, self.book) = (diary, book);
                    if self.book.len() > 0 && self.watch().is_err() {
                        continue;
                    }
                    match self.resume().await {
                        Ok(_) => return Reloaded::Whole,
                        Err(NotWritten::TakenOver) => return Reloaded::Never,
                        Err(NotWritten::Unavailable(again)) => {
                            self.abandon(&again);
                            why = again;
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "subscriptions cannot be read yet"),
            }
        }
    }

    fn refuse(&mut self, command: Command, why: &Unavailable) {
        let why = why.clone();
        match command {
            Command::Create { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::Get { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::Cursors { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::List { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::Setback { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::Delete { reply, .. }
            | Command::Link { reply, .. }
            | Command::Unlink { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::Claim { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::Report { reply, .. } => drop(reply.send(Err(why.into()))),
            Command::Release { reply, .. } => drop(reply.send(Err(why.into()))),
            // It was called: that is told as soon as it can be, and is no reason to call again.
            Command::Delivered { id, wake_id, outcome } => {
                self.unwritten.push(Delivered { id, wake_id, outcome });
            }
        }
    }
}
