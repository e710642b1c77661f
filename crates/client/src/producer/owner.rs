//! The one owner of a producer: sends what may leave, and judges what comes back.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{Either, select},
    stream::FuturesUnordered,
};
use http::{Method, StatusCode};
use sys::Sys;
use tokio::sync::{mpsc, oneshot};
use wire::{
    ContentType, Epoch, Producer, ProducerId, ProducerSeq, caps::INTEGER_MAX, framing, headers,
};

use super::{
    ProducerError, ProducerSettings, Receipt, closing,
    line::{Batch, Closer, Item, Line, Packing},
};
use crate::{
    Dialect, Failure, Refusal, Stream,
    caps::{CLAIMS_MAX, PRODUCER_MESSAGES_MAX},
    stream::{Stored, is_true, with_closing, with_producer, with_type},
    transport::{Ask, Repeat},
};

/// All that is asked of the owner.
#[derive(Debug)]
pub(super) enum Command {
    Submit(Item),
    Flush { reply: oneshot::Sender<Result<(), ProducerError>> },
    Close { last: Option<bytes::Bytes>, reply: oneshot::Sender<Result<Receipt, ProducerError>> },
}

type Call = Pin<Box<dyn Future<Output = (Batch, Result<Stored, Failure>)> + Send>>;

/// What ended a wait.
enum Woken {
    Asked(Option<Command>),
    Answered(Box<(Batch, Result<Stored, Failure>)>),
    Lingered,
}

/// Who waits until the line is empty.
enum Barrier {
    Flush(oneshot::Sender<Result<(), ProducerError>>),
    Close(Closer),
}

/// How far an epoch is ours alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Title {
    /// Whoever started the producer says so.
    Given,
    /// Nobody else can have drawn it.
    Drawn,
    /// It follows the one that fenced us, so another may have claimed it, too.
    Claimed,
}

pub(super) struct Owner {
    stream: Stream,
    id: ProducerId,
    content_type: ContentType,
    packing: Packing,
    /// Whether to claim a higher epoch when fenced; if not said, only before anything was stored.
    claims: Option<bool>,
    /// How far the epoch is ours alone.
    title: Title,
    /// Epochs claimed since something was stored.
    claimed: u32,
    /// Whether the server has stored something of this life.
    is_confirmed: bool,
    /// Whether it ever has stored something of ours.
    has_lived: bool,
    linger: Duration,
    in_flight_max: usize,
    /// When the oldest message in line has waited long enough, by the clock of this process.
    lingers_until: Option<Duration>,
    line: Line,
    calls: FuturesUnordered<Call>,
    barrier: Option<Barrier>,
    /// What was not stored since the last flush.
    failed: Option<ProducerError>,
    /// Why nothing can be stored any more.
    dead: Option<ProducerError>,
}

impl Owner {
    pub(super) fn new(settings: ProducerSettings, content_type: ContentType) -> Self {
        let packing = match (content_type.is_json(), settings.stream.client.dialect) {
            (true, _) => Packing::Json,
            (false, Dialect::Headwater) => Packing::Framed,
            (false, Dialect::Protocol) => Packing::Joined,
        };
        let drawn = || draw_epoch(&settings.stream.client.http.sys);
        let title = if settings.epoch.is_some() { Title::Given } else { Title::Drawn };
        let epoch = settings.epoch.unwrap_or_else(drawn);
        Self {
            id: settings.id,
            content_type,
            packing,
            claims: settings.claims,
            title,
            claimed: 0,
            is_confirmed: false,
            has_lived: false,
            linger: settings.linger,
            in_flight_max: settings.in_flight_max,
            lingers_until: None,
            line: Line::new(epoch, settings.batch_bytes_max, settings.batch_messages_max),
            calls: FuturesUnordered::new(),
            barrier: None,
            failed: None,
            dead: None,
            stream: settings.stream,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut is_open = true;
        loop {
            self.send_what_may_leave(!is_open);
            self.pass_barrier();
            if !is_open && self.line.is_idle() {
                return;
            }
            match self.wait(&mut inbox, is_open).await {
                Woken::Asked(Some(command)) => {
                    self.take(command);
                    // What came together leaves together.
                    while self.may_take() {
                        let Ok(command) = inbox.try_recv() else { break };
                        self.take(command);
                    }
                }
                Woken::Asked(None) => is_open = false,
                Woken::Answered(answered) => self.judge(answered.0, answered.1),
                Woken::Lingered => {}
            }
        }
    }

    /// Nothing overtakes who waits for the line to empty.
    fn may_take(&self) -> bool {
        self.barrier.is_none() && self.line.waiting() < PRODUCER_MESSAGES_MAX
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Submit(item) => match &self.dead {
                None => {
                    let clock = &self.stream.client.http.sys.clock;
                    self.lingers_until.get_or_insert_with(|| clock.elapsed() + self.linger);
                    self.line.submit(item);
                }
                Some(why) => {
                    let _ = item.reply.send(Err(why.clone()));
                }
            },
            Command::Flush { reply } => self.barrier = Some(Barrier::Flush(reply)),
            Command::Close { last, reply } => {
                self.barrier = Some(Barrier::Close(Closer { last, reply }));
            }
        }
    }

    async fn wait(&mut self, inbox: &mut mpsc::Receiver<Command>, is_open: bool) -> Woken {
        let may_take = is_open && self.may_take();
        let asked =
            async { if may_take { inbox.recv().await } else { std::future::pending().await } };
        let clock = &self.stream.client.http.sys.clock;
        // Without a linger of its own, a batch waits until none is under way.
        let until = self.lingers_until.filter(|_| !self.linger.is_zero());
        let linger = async {
            match until {
                Some(until) => clock.sleep(until.saturating_sub(clock.elapsed())).await,
                None => std::future::pending().await,
            }
        };
        let calls = &mut self.calls;
        let answered = async {
            match calls.next().await {
                Some(answered) => answered,
                None => std::future::pending().await,
            }
        };
        let (asked, answered) = (std::pin::pin!(asked), std::pin::pin!(answered));
        let linger = std::pin::pin!(linger);
        match select(answered, select(asked, linger)).await {
            Either::Left((answered, _)) => Woken::Answered(Box::new(answered)),
            Either::Right((Either::Left((command, _)), _)) => Woken::Asked(command),
            Either::Right((Either::Right(_), _)) => Woken::Lingered,
        }
    }

    fn send_what_may_leave(&mut self, is_urgent: bool) {
        if let Some(batch) = self.line.next_early() {
            self.send(batch);
        }
        // Until the epoch is known to be ours, one batch goes ahead alone.
        let most = if self.is_confirmed { self.in_flight_max } else { 1 };
        while self.line.under_way() < most {
            let is_idle = self.line.under_way() == 0;
            let is_due = is_urgent || self.barrier.is_some() || self.has_lingered();
            if !(is_idle || is_due || self.line.is_full()) {
                break;
            }
            let Some(batch) = self.line.next_batch() else { break };
            self.send(batch);
        }
        if self.line.waiting() == 0 {
            self.lingers_until = None;
        }
    }

    fn has_lingered(&self) -> bool {
        let now = self.stream.client.http.sys.clock.elapsed();
        !self.linger.is_zero() && self.lingers_until.is_some_and(|until| until <= now)
    }

    /// Lets who waits for an empty line go on.
    fn pass_barrier(&mut self) {
        if !self.line.is_idle() {
            return;
        }
        match self.barrier.take() {
            None => {}
            Some(Barrier::Flush(reply)) => {
                let failed = self.failed.take().or_else(|| self.dead.clone());
                let _ = reply.send(failed.map_or(Ok(()), Err));
            }
            Some(Barrier::Close(closer)) => {
                match self.failed.take().or_else(|| self.dead.clone()) {
                    Some(why) => {
                        let _ = closer.reply.send(Err(why));
                    }
                    None => {
                        let batch = self.line.last_batch(closer);
                        self.send(batch);
                    }
                }
            }
        }
    }

    fn send(&mut self, batch: Batch) {
        let ask = self.ask(&batch);
        let stream = self.stream.clone();
        let call = async move {
            let answer = stream.post(ask).await;
            (batch, answer)
        };
        self.calls.push(call.boxed());
    }

    fn ask(&self, batch: &Batch) -> Ask {
        let producer = Producer { id: self.id.clone(), epoch: self.line.epoch, seq: batch.seq };
        let ask = with_producer(self.stream.ask(Method::POST, Repeat::Safe), &producer);
        let ask = with_closing(ask, closing(batch.closer.is_some()));
        let body = batch.body(self.packing);
        if body.is_empty() {
            return ask;
        }
        let ask = with_type(ask, Some(&self.content_type)).body(body);
        match self.packing {
            Packing::Framed => ask.header(headers::FRAMING, framing::LENGTH),
            Packing::Json | Packing::Joined => ask,
        }
    }

    fn judge(&mut self, batch: Batch, answer: Result<Stored, Failure>) {
        match answer {
            Ok(stored) if self.is_strangers(&batch, &stored) => {
                let current = self.line.epoch;
                self.fenced(batch, current);
            }
            Ok(stored) if self.is_anybodys(&batch, &stored) => {
                let why = "an earlier attempt got no answer, and another life had the same epoch";
                self.die(batch, Failure::Unreachable(why.to_owned()).into());
            }
            Ok(stored) if batch.closer.is_some() && !stored.is_closed => {
                let why = "the server did not close the stream".to_owned();
                self.die(batch, Failure::Unreadable(why).into());
            }
            Ok(stored) => {
                // What an old epoch stored says nothing of the one that is being claimed.
                self.is_confirmed |= !self.line.is_renumbering();
                (self.has_lived, self.claimed) = (true, 0);
                self.line.settled(batch.seq);
                let receipt = Receipt {
                    tail: stored.tail,
                    is_duplicate: stored.is_duplicate,
                    epoch: self.line.epoch,
                    seq: batch.seq,
                };
                batch.tell(&Ok(receipt));
            }
            Err(failure) if self.dead.is_some() => self.die(batch, failure.into()),
            Err(Failure::Refused(refusal)) => self.refused(batch, *refusal),
            Err(failure) => self.die(batch, failure.into()),
        }
    }

    /// True if the first batch of a life that nobody gave us was there already, and we did not put
    /// it there: somebody else has lived this life.
    fn is_strangers(&self, batch: &Batch, stored: &Stored) -> bool {
        self.is_known_first(batch, stored) && !stored.is_repeated
    }

    /// The same, but we may have put it there ourselves.
    fn is_anybodys(&self, batch: &Batch, stored: &Stored) -> bool {
        let is_ours_alone = self.title == Title::Drawn;
        self.is_known_first(batch, stored) && stored.is_repeated && !is_ours_alone
    }

    fn is_known_first(&self, batch: &Batch, stored: &Stored) -> bool {
        let is_known = stored.is_duplicate || (batch.closer.is_some() && !stored.is_closed);
        let is_first = batch.seq == ProducerSeq::FIRST && !self.is_confirmed;
        self.title != Title::Given && is_first && is_known
    }

    fn refused(&mut self, batch: Batch, refusal: Refusal) {
        let expected: Option<ProducerSeq> = refusal.header(headers::PRODUCER_EXPECTED_SEQ);
        let current: Option<Epoch> = refusal.header(headers::PRODUCER_EPOCH);
        match (refusal.status, current, expected) {
            (StatusCode::CONFLICT, _, Some(expected)) => self.early(batch, expected),
            _ if refusal.is_repeated => self.die(batch, Failure::in_doubt(&refusal).into()),
            (StatusCode::FORBIDDEN, Some(current), _) => self.fenced(batch, current),
            (StatusCode::CONFLICT, ..) if is_true(&refusal.headers, headers::CLOSED) => {
                self.die(batch, ProducerError::Closed);
            }
            (status, ..)
                if status.is_client_error()
                    && (status.as_u16() != 429 || refusal.code == "too-many-producers") =>
            {
                let why = ProducerError::Refused(Box::new(refusal));
                self.failed = Some(why.clone());
                self.line.skipped(batch.seq);
                batch.tell(&Err(why));
            }
            _ => self.die(batch, Failure::Refused(Box::new(refusal)).into()),
        }
    }

    fn early(&mut self, batch: Batch, expected: ProducerSeq) {
        if let Err(batch) = self.line.too_early(batch) {
            let sent = batch.seq;
            self.die(batch, ProducerError::Gap { expected, sent });
        }
    }

    fn fenced(&mut self, batch: Batch, current: Epoch) {
        // Whoever starts without an epoch claims one; later, another life has taken over for good.
        let claims = self.claims.unwrap_or(self.title == Title::Drawn && !self.has_lived);
        let next = current.get().max(self.line.epoch.get()) + 1;
        if !claims || self.claimed == CLAIMS_MAX || next > INTEGER_MAX {
            return self.die(batch, ProducerError::Fenced { current });
        }
        self.is_confirmed = false;
        self.claimed += 1;
        if self.title == Title::Given {
            self.title = Title::Claimed;
        }
        self.line.claimed(batch, Epoch::new(next));
    }

    /// What was sent may be stored or not, so nothing that follows may be sent.
    fn die(&mut self, batch: Batch, why: ProducerError) {
        self.line.settled(batch.seq);
        batch.tell(&Err(why.clone()));
        let rest = match &why {
            ProducerError::Fenced { .. } | ProducerError::Closed => why.clone(),
            other => ProducerError::Behind(other.to_string()),
        };
        let (items, closers) = self.line.abandon();
        let replies = items.into_iter().map(|item| item.reply);
        for reply in replies.chain(closers.into_iter().map(|closer| closer.reply)) {
            let _ = reply.send(Err(rest.clone()));
        }
        self.failed.get_or_insert(why);
        self.dead.get_or_insert(rest);
    }
}

/// An epoch above those of earlier lives that nobody else draws: the time, and chance for those
/// who begin at the same moment.
fn draw_epoch(sys: &Sys) -> Epoch {
    let drawn = sys.clock.unix_ms().get().saturating_mul(1000) + sys.chance.below(1000);
    Epoch::new(drawn.min(INTEGER_MAX))
}
