//! Producers: they send an append until it is acknowledged, across crashes, and expect it to be
//! stored once.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use futures_util::future::join_all;
use log::{AppendError, Appended, Incarnation, Outcome};
use parking_lot::Mutex;
use wire::{Address, Epoch, ProducerSeq};

use crate::{
    client::{Client, Patience},
    coverage::Event,
    oracle::{Fate, Try, Verdict, Violation, demand},
};

/// Appends of one producer to one stream that may be under way at once.
const WINDOW: u64 = 3;

/// A producer, which outlives the log.
#[derive(Debug, Default)]
pub(crate) struct Producer {
    lines: BTreeMap<Incarnation, Line>,
}

/// What it sends to one stream.
#[derive(Clone, Debug, Default)]
struct Line {
    epoch: u64,
    next_seq: u64,
    /// Those before this were sent in an earlier life of the log.
    sent_before: u64,
    /// Sent and not acknowledged, in order.
    waiting: VecDeque<Item>,
    /// The newest that was acknowledged in this epoch.
    newest: Option<Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// As the oracle knows it.
    number: usize,
    seq: u64,
}

/// What to do with a stream next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    /// Nothing can be appended to it any more.
    GiveUp,
}

type Answers = Vec<Option<Result<Appended, AppendError>>>;

pub(super) async fn work(
    client: Client,
    producer: Arc<Mutex<Producer>>,
    operations: u64,
) -> Verdict {
    for line in producer.lock().lines.values_mut() {
        line.sent_before = line.next_seq;
    }
    let mut target = None;
    for _ in 0..operations {
        client.pause().await;
        if client.is_over() {
            break;
        }
        if target.is_none() || client.dice.percent(10) {
            target = choose(&client, &producer);
        }
        let Some((address, id)) = target.clone() else { continue };
        let line = producer.lock().lines.remove(&id).unwrap_or_default();
        let mut session = Session { client: &client, address, id, line };
        let next = session.step().await?;
        producer.lock().lines.insert(id, session.line);
        if next == Next::GiveUp {
            target = None;
        }
    }
    Ok(())
}

/// A stream with something to send again, or any.
fn choose(client: &Client, producer: &Mutex<Producer>) -> Option<(Address, Incarnation)> {
    let producer = producer.lock();
    let mut live = client.world.oracle().live(client.now());
    let waits = |id: &Incarnation| producer.lines.get(id).is_some_and(|l| !l.waiting.is_empty());
    if live.iter().any(|(_, id)| waits(id)) {
        live.retain(|(_, id)| waits(id));
    }
    client.dice.pick(&live).cloned()
}

/// One exchange with one stream.
struct Session<'a> {
    client: &'a Client,
    address: Address,
    id: Incarnation,
    line: Line,
}

impl Session<'_> {
    async fn step(&mut self) -> Verdict<Next> {
        let is_idle = self.line.waiting.is_empty();
        match self.client.dice.between(0..=99) {
            0..10 if self.line.newest.is_some() => self.repeat().await,
            10..14 if is_idle => self.leave_a_gap().await,
            14..18 if is_idle && self.line.next_seq > 0 => self.take_over().await,
            _ => self.send().await,
        }
    }

    /// Sends all that waits, and something new.
    async fn send(&mut self) -> Verdict<Next> {
        self.fill();
        let items: Vec<Item> = self.line.waiting.iter().copied().collect();
        let fates = items.iter().map(|item| self.fate(*item)).collect::<Vec<_>>();
        let leaves = self.client.dice.percent(5);
        let patience = if leaves { Patience::Leaves } else { Patience::Waits };
        let sending = items
            .iter()
            .map(|item| self.client.append(self.attempt(*item, self.line.epoch), patience));
        let answers = join_all(sending).await.into_iter().collect::<Verdict<Answers>>()?;
        self.take(&items, &fates, answers)
    }

    fn fill(&mut self) {
        let wanted = self.client.dice.between(1..=WINDOW);
        while (self.line.waiting.len() as u64) < wanted {
            let closes = self.client.dice.percent(1);
            let item = self.compose(self.line.next_seq, 3, closes);
            self.line.next_seq += 1;
            self.line.waiting.push_back(item);
        }
    }

    fn compose(&self, seq: u64, messages_max: u64, closes: bool) -> Item {
        let sizes = self.client.some_sizes(messages_max);
        let number = self.client.world.oracle().compose(self.id, &sizes, closes);
        Item { number, seq }
    }

    fn fate(&self, item: Item) -> Fate {
        self.client.world.oracle().submitted(item.number).fate
    }

    fn attempt(&self, item: Item, epoch: u64) -> Try {
        let producer = wire::Producer {
            id: self.client.name.replace(' ', "-").parse().expect("a short word"),
            epoch: Epoch::new(epoch),
            seq: ProducerSeq::new(item.seq),
        };
        Try { producer: Some(producer), ..Try::plain(&self.address, item.number) }
    }

    async fn send_one(
        &self,
        item: Item,
        epoch: u64,
    ) -> Verdict<Option<Result<Appended, AppendError>>> {
        self.client.append(self.attempt(item, epoch), Patience::Waits).await
    }

    /// Takes the answers in, first to last.
    fn take(&mut self, items: &[Item], fates: &[Fate], answers: Answers) -> Verdict<Next> {
        let mut is_broken = false;
        for ((item, fate), answer) in items.iter().zip(fates).zip(answers) {
            match answer {
                None => is_broken = true,
                Some(Ok(appended)) => {
                    self.acknowledged(*item, *fate, &appended)?;
                    self.line.waiting.retain(|waiting| waiting.seq != item.seq);
                    self.line.newest = Some(*item);
                }
                Some(Err(error @ (AppendError::Gap(_) | AppendError::EpochStart(_)))) => {
                    demand(is_broken, || format!("#{}: {error}, though it is next", item.number))?;
                }
                Some(Err(error)) => {
                    is_broken = true;
                    if is_final(&error)? {
                        return Ok(Next::GiveUp);
                    }
                }
            }
        }
        Ok(Next::GoOn)
    }

    /// An append that the oracle saw settled has only one right answer.
    fn acknowledged(&self, item: Item, fate: Fate, appended: &Appended) -> Verdict {
        let is_retry = item.seq < self.line.sent_before;
        match (fate, appended.outcome) {
            (Fate::Stored, Outcome::Duplicate) => self.client.world.met(Event::DuplicateAfterCrash),
            (Fate::Stored, Outcome::New) => {
                return Err(Violation("an append that is stored was stored again".to_owned()));
            }
            (Fate::Never, Outcome::New) if is_retry => {
                self.client.world.met(Event::ResentAfterCrash)
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends what was acknowledged once more.
    async fn repeat(&self) -> Verdict<Next> {
        let item = self.line.newest.expect("checked before");
        match self.send_one(item, self.line.epoch).await? {
            Some(Ok(appended)) => {
                demand(appended.outcome == Outcome::Duplicate, || {
                    format!("#{} was acknowledged, and is taken again", item.number)
                })?;
                Ok(Next::GoOn)
            }
            other => after_refusal(other),
        }
    }

    /// Skips a sequence number, which must be noticed.
    async fn leave_a_gap(&self) -> Verdict<Next> {
        let expected = self.line.next_seq;
        let item = self.compose(expected + 1, 2, false);
        match self.send_one(item, self.line.epoch).await? {
            Some(Ok(_)) => Err(Violation(format!("#{} leaves a gap, and was taken", item.number))),
            Some(Err(AppendError::Gap(fact))) => {
                self.client.world.met(Event::Gap);
                demand(fact.expected.get() == expected, || format!("{fact}, not {expected}"))?;
                Ok(Next::GoOn)
            }
            other => after_refusal(other),
        }
    }

    /// Begins a new epoch, and makes sure that the old one is fenced.
    async fn take_over(&mut self) -> Verdict<Next> {
        let old_epoch = self.line.epoch;
        let item = self.compose(0, 2, false);
        let waiting = VecDeque::from([item]);
        self.line = Line { epoch: old_epoch + 1, next_seq: 1, waiting, ..Line::default() };
        let first = self.send_one(item, old_epoch + 1).await?;
        let next = self.take(&[item], &[Fate::Maybe], vec![first])?;
        if next == Next::GiveUp || !self.line.waiting.is_empty() {
            return Ok(next);
        }
        let late = self.compose(1, 2, false);
        match self.send_one(late, old_epoch).await? {
            Some(Ok(_)) => Err(Violation(format!("#{} is fenced, and was taken", late.number))),
            Some(Err(AppendError::Fenced(_))) => {
                self.client.world.met(Event::Fenced);
                Ok(Next::GoOn)
            }
            other => after_refusal(other),
        }
    }
}

fn after_refusal(answer: Option<Result<Appended, AppendError>>) -> Verdict<Next> {
    match answer {
        Some(Err(error)) if is_final(&error)? => Ok(Next::GiveUp),
        _ => Ok(Next::GoOn),
    }
}

/// True if the stream takes nothing more; an error if it should have taken this.
fn is_final(error: &AppendError) -> Verdict<bool> {
    match error {
        AppendError::Closed(_) | AppendError::NotFound(_) | AppendError::Gone(_) => Ok(true),
        AppendError::Unavailable(_) => Ok(false),
        other => Err(Violation(format!("a producer was told: {other}"))),
    }
}
