//! Workers: whoever is woken. Some are slow, some forget, and some are never heard of again.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use wake::{
    Ack, Answer, ClaimError, Courier, Engine, Letter, Progress, ProgressError, Received,
    SubscriptionId, Subscriptions as _, WebhookUrlRejected, Work,
};

use super::{Scene, life::Desk};
use crate::{
    dice::Dice,
    oracle::{Violation, demand},
};

/// A wake in somebody's hands.
#[derive(Clone, Debug)]
struct Hand {
    id: SubscriptionId,
    wake_id: String,
    generation: u64,
    token: String,
    streams: Vec<Work>,
}

/// The webhook.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) scene: Arc<Scene>,
    pub(super) dice: Dice,
    /// Whom it reports to.
    pub(super) desk: Weak<Desk>,
}

impl Courier for Receiver {
    fn check(&self, _: &str) -> Result<(), WebhookUrlRejected> {
        Ok(())
    }

    fn carry(&self, letter: Letter) -> Answer<'_, Option<Received>> {
        let call = letter.call;
        let (generation, streams) = (call.generation, call.streams);
        self.scene.note(&format!("{} calls to {generation} {}", call.subscription, call.wake_id));
        let hand = Hand {
            id: call.subscription,
            wake_id: call.wake_id,
            generation,
            token: call.token,
            streams,
        };
        take(&self.scene, &hand);
        Box::pin(self.answer(hand))
    }
}

impl Receiver {
    async fn answer(&self, hand: Hand) -> Option<Received> {
        let draw = match self.scene.is_calm() {
            true => 0,
            false => self.dice.between(0..=99),
        };
        match draw {
            0..35 => {
                self.scene.ledger(&hand.id, |ledger| ledger.work(&hand.streams));
                Some(Received { status: 200, body: br#"{"done":true}"#.to_vec() })
            }
            35..65 => {
                self.report_later(hand);
                Some(Received { status: 202, body: Vec::new() })
            }
            // It has the call, but nobody hears so.
            65..80 => {
                self.report_later(hand);
                None
            }
            80..95 => Some(Received { status: 500, body: Vec::new() }),
            _ => std::future::pending().await,
        }
    }

    fn report_later(&self, hand: Hand) {
        let (scene, dice) = (self.scene.clone(), self.dice.split());
        let desk = self.desk.clone();
        let sys = scene.sys.clone();
        sys.spawn.task("reporter", async move {
            scene.sys.clock.sleep(dice.pause()).await;
            let Some(engine) = desk.upgrade().and_then(|desk| desk.weak().upgrade()) else {
                return;
            };
            go_on(&scene, &engine, &dice, hand).await;
        });
    }
}

/// Pulls wakes until so many were worked on, or nothing came for long.
pub(super) async fn pull(scene: &Arc<Scene>, desk: &Desk, dice: &Dice, operations: u64) {
    let ids: [SubscriptionId; 2] = ["pulled", "pulled-each"].map(|id| id.parse().expect("an id"));
    for _ in 0..operations {
        let id = &ids[dice.index(ids.len())];
        let engine = desk.engine();
        if let Some(hand) = claim(scene, &engine, id).await {
            match scene.is_calm() {
                true => finish(scene, &engine, &hand).await,
                false => go_on(scene, &engine, dice, hand).await,
            }
        }
        drop(engine);
        scene.sys.clock.sleep(dice.pause()).await;
    }
}

async fn claim(scene: &Scene, engine: &Engine, id: &SubscriptionId) -> Option<Hand> {
    let config = &scene.subscriptions[id.as_str()];
    let until = scene.now().plus(config.lease_ttl());
    let claim = match engine.claim(id, "worker".to_owned()).await {
        Ok(claim) => claim,
        Err(ClaimError::AlreadyClaimed(_) | ClaimError::NoPendingWork(_)) => return None,
        Err(ClaimError::Unavailable(_)) => {
            scene.met().unavailable += 1;
            return None;
        }
        Err(error) => {
            scene.judge(Err(Violation(format!("{id} cannot be claimed: {error}"))));
            return None;
        }
    };
    scene.note(&format!("{id} gives {} {}", claim.generation, claim.wake_id));
    let now = scene.now();
    let hand = Hand {
        id: id.clone(),
        wake_id: claim.wake_id,
        generation: claim.generation,
        token: claim.token,
        streams: claim.streams,
    };
    let verdict = scene.ledger(id, |ledger| ledger.claimed(config.concurrency, &hand.streams, now));
    scene.judge(verdict);
    take(scene, &hand);
    scene.ledger(id, |ledger| ledger.extended(hand.generation, &hand.streams, until));
    Some(hand)
}

/// Judges a wake that has come.
fn take(scene: &Scene, hand: &Hand) {
    let called = scene
        .ledger(&hand.id, |ledger| ledger.called(hand.generation, &hand.wake_id, &hand.streams));
    match called {
        Ok(true) => scene.met().repeated += 1,
        Ok(false) => scene.met().wakes += 1,
        Err(violation) => scene.judge(Err(violation)),
    }
}

/// Works as it pleases.
async fn go_on(scene: &Scene, engine: &Engine, dice: &Dice, hand: Hand) {
    match dice.between(0..=99) {
        0..45 => finish(scene, engine, &hand).await,
        45..70 => {
            for _ in 0..dice.between(1..=3) {
                let acks = if dice.percent(50) { work(scene, &hand) } else { Vec::new() };
                if !report(scene, engine, &hand, acks, false).await {
                    return;
                }
                // Sometimes longer than the lease.
                scene.sys.clock.sleep(Duration::from_millis(dice.magnitude(1..=8_000))).await;
            }
            finish(scene, engine, &hand).await;
        }
        70..85 => release(scene, engine, &hand).await,
        _ => {}
    }
}

/// Does what the wake asks for.
fn work(scene: &Scene, hand: &Hand) -> Vec<Ack> {
    scene.ledger(&hand.id, |ledger| ledger.work(&hand.streams));
    let ack = |work: &Work| Ack { path: work.link.path.clone(), offset: work.tail };
    hand.streams.iter().map(ack).collect()
}

async fn finish(scene: &Scene, engine: &Engine, hand: &Hand) {
    let acks = work(scene, hand);
    report(scene, engine, hand, acks, true).await;
}

/// Reports; true if the worker may go on.
async fn report(scene: &Scene, engine: &Engine, hand: &Hand, acks: Vec<Ack>, done: bool) -> bool {
    let Hand { id, wake_id, generation, token, streams } = hand;
    let until = scene.now().plus(scene.subscriptions[id.as_str()].lease_ttl());
    let held = scene.ledger(id, |ledger| {
        let held = ledger.holds(*generation, scene.now());
        if done {
            ledger.left(*generation);
        }
        held
    });
    let progress =
        Progress { wake_id: wake_id.clone(), generation: *generation, acks: acks.clone(), done };
    let reported = engine.report(id, token, progress).await;
    scene.note(&format!("{id} {generation} reports {acks:?} done={done}: {reported:?}"));
    match reported {
        Ok(_) => {
            scene.ledger(id, |ledger| {
                ledger.acknowledged(&acks);
                match done {
                    true => ledger.ended(*generation),
                    false if held => ledger.extended(*generation, streams, until),
                    false => {}
                }
            });
            return !done;
        }
        Err(ProgressError::Fenced(_)) => {
            scene.met().fenced += 1;
            let still = held && scene.ledger(id, |ledger| ledger.holds(*generation, scene.now()));
            scene.judge(demand(!still, || format!("{id} {generation} is fenced within its lease")));
            scene.ledger(id, |ledger| ledger.left(*generation));
        }
        Err(ProgressError::Unavailable(_)) => scene.met().unavailable += 1,
        Err(error) => scene.judge(Err(Violation(format!("{id} {generation}: {error}")))),
    }
    false
}

async fn release(scene: &Scene, engine: &Engine, hand: &Hand) {
    scene.ledger(&hand.id, |ledger| ledger.left(hand.generation));
    let (id, wake_id) = (&hand.id, hand.wake_id.clone());
    match engine.release(id, &hand.token, wake_id, hand.generation).await {
        Ok(()) => scene.ledger(id, |ledger| ledger.ended(hand.generation)),
        Err(ProgressError::Fenced(_)) => scene.met().fenced += 1,
        Err(ProgressError::Unavailable(_)) => scene.met().unavailable += 1,
        Err(error) => {
            scene.judge(Err(Violation(format!("{id} is not released: {error}"))));
        }
    }
}
