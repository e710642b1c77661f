//! What may happen to a subscription, and what may not.

use proptest::prelude::*;

use super::*;

const NOW: UnixMs = UnixMs::new(1_000_000);

fn path(name: &str) -> StreamPath {
    name.parse().unwrap()
}

fn at(position: u64) -> Offset {
    Offset::new(position, position * 10)
}

fn webhook() -> Subscription {
    follow(Delivery::Webhook("https://a.example/".to_owned()))
}

fn pull() -> Subscription {
    follow(Delivery::PullWake(path("wake")))
}

/// Follows `events/*`.
fn follow(delivery: Delivery) -> Subscription {
    let config = Config { pattern: Some("events/*".parse().unwrap()), ..Config::new(delivery) };
    Subscription::new(config, String::new(), NOW)
}

/// An append to `events/{name}`, as the engine takes it.
fn append(subscription: &mut Subscription, name: &str, tail: u64) {
    let path = path(&format!("events/{name}"));
    if let Some(event) = subscription.discover(&path) {
        subscription.apply(&event);
    }
    subscription.moved(&path, at(tail));
}

fn has_pending(subscription: &Subscription) -> bool {
    !subscription.pending.is_empty()
}

fn rouse(subscription: &mut Subscription, id: &str, now: UnixMs) -> bool {
    let event = subscription.rouse(|| id.to_owned(), now);
    event.iter().for_each(|event| subscription.apply(event));
    event.is_some()
}

fn apply<E>(subscription: &mut Subscription, events: Result<Vec<Event>, E>) -> Result<(), E> {
    events?.iter().for_each(|event| subscription.apply(event));
    Ok(())
}

fn progress(wake_id: &str, generation: u64, acks: &[(&str, u64)], done: bool) -> Progress {
    let ack = |(name, position): &(&str, u64)| Ack {
        path: path(&format!("events/{name}")),
        offset: at(*position),
    };
    Progress { wake_id: wake_id.to_owned(), generation, acks: acks.iter().map(ack).collect(), done }
}

fn report(subscription: &mut Subscription, progress: &Progress) -> Result<(), ProgressError> {
    let events = subscription.report(progress.generation, progress, NOW);
    apply(subscription, events)
}

#[test]
fn one_wake_at_a_time() {
    let mut subscription = webhook();
    assert!(!rouse(&mut subscription, "w1", NOW));
    append(&mut subscription, "a", 1);
    assert!(rouse(&mut subscription, "w1", NOW));
    append(&mut subscription, "b", 1);
    assert!(!rouse(&mut subscription, "w2", NOW));
    assert_eq!(subscription.wake.as_ref().unwrap().streams.len(), 1);
}

#[test]
fn a_webhook_that_is_done_has_done_what_it_was_told_of() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 2);
    rouse(&mut subscription, "w1", NOW);
    append(&mut subscription, "a", 3);
    let events = subscription.delivered("w1", Reply::Done, NOW, |_| 0);
    events.iter().for_each(|event| subscription.apply(event));
    assert_eq!(subscription.links[&path("events/a")].acked, Some(at(2)));
    assert!(rouse(&mut subscription, "w2", NOW), "what came meanwhile is work");
    assert_eq!(subscription.generation, 2);
}

#[test]
fn acknowledgements_only_move_forward_and_within_the_stream() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 5);
    rouse(&mut subscription, "w1", NOW);
    report(&mut subscription, &progress("w1", 1, &[("a", 3)], false)).unwrap();
    for (name, position) in [("a", 2), ("a", 6), ("b", 0)] {
        let refused = report(&mut subscription, &progress("w1", 1, &[(name, position)], true));
        assert!(matches!(refused, Err(ProgressError::InvalidAck(_))), "{name} {position}");
    }
    report(&mut subscription, &progress("w1", 1, &[("a", 5)], true)).unwrap();
    assert!(!has_pending(&subscription) && subscription.wake.is_none());
}

#[test]
fn one_wrong_acknowledgement_spoils_them_all() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 5);
    append(&mut subscription, "b", 5);
    rouse(&mut subscription, "w1", NOW);
    let before = subscription.clone();
    assert!(report(&mut subscription, &progress("w1", 1, &[("a", 3), ("b", 9)], true)).is_err());
    assert_eq!(subscription, before);
}

#[test]
fn who_is_late_is_fenced() {
    let mut subscription = pull();
    append(&mut subscription, "a", 1);
    rouse(&mut subscription, "w1", NOW);
    let early = report(&mut subscription, &progress("w1", 1, &[], false));
    assert!(matches!(early, Err(ProgressError::Fenced(_))), "nobody has claimed it");
    let claimed = subscription.claim("one", NOW);
    apply(&mut subscription, claimed).unwrap();
    let refused = subscription.claim("two", NOW).unwrap_err();
    let ClaimError::AlreadyClaimed(fact) = refused else { panic!("{refused}") };
    assert_eq!((&*fact.holder, fact.generation), ("one", 1));

    let later = NOW.plus(subscription.config.lease_ttl());
    assert_eq!(subscription.overdue(UnixMs::new(later.get() - 1)), []);
    subscription.overdue(later).iter().for_each(|event| subscription.apply(event));
    assert!(rouse(&mut subscription, "w2", later));
    for stale in [progress("w1", 1, &[], true), progress("w1", 2, &[], true)] {
        assert!(matches!(report(&mut subscription, &stale), Err(ProgressError::Fenced(_))));
    }
    assert!(subscription.release(1, "w2", 2).is_err(), "with the token of an earlier wake");
}

#[test]
fn a_heartbeat_extends_the_lease() {
    let mut subscription = pull();
    append(&mut subscription, "a", 1);
    rouse(&mut subscription, "w1", NOW);
    let claimed = subscription.claim("one", NOW);
    apply(&mut subscription, claimed).unwrap();
    let half = NOW.plus(subscription.config.lease_ttl() / 2);
    let events = subscription.report(1, &progress("w1", 1, &[], false), half);
    apply(&mut subscription, events).unwrap();
    assert_eq!(subscription.overdue(NOW.plus(subscription.config.lease_ttl())), []);
    assert!(matches!(
        &subscription.wake.as_ref().unwrap().stage,
        Stage::Held { holder: Some(holder), .. } if holder == "one"
    ));
}

#[test]
fn retries_double_and_keep_the_wake() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 1);
    rouse(&mut subscription, "w1", NOW);
    let mut now = NOW;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        // In the middle of the jitter.
        let events = subscription.delivered("w1", Reply::Failed, now, |bound| bound / 2);
        events.iter().for_each(|event| subscription.apply(event));
        assert!(subscription.is_failing());
        let due = subscription.due_at().unwrap();
        assert_eq!(due.since(now), Duration::from_secs(seconds));
        now = due;
        subscription.overdue(now).iter().for_each(|event| subscription.apply(event));
        assert!(!subscription.is_failing());
        assert_eq!(subscription.wake.as_ref().unwrap().id, "w1");
    }
    let events = subscription.delivered("w1", Reply::Accepted, now, |_| 0);
    events.iter().for_each(|event| subscription.apply(event));
    assert_eq!(subscription.failures, 0);
}

#[test]
fn a_stream_keeps_the_link_it_has_by_another_way() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 1);
    let a = path("events/a");
    subscription.name(&a, at(9)).iter().for_each(|event| subscription.apply(event));
    assert_eq!(subscription.links[&a].acked, None, "it was linked already");
    assert_eq!(subscription.name(&a, at(9)), None);
    subscription.apply(&Event::Unlinked(a.clone()));
    assert!(subscription.links[&a].is_matched);
    let other = path("other");
    subscription.name(&other, at(3)).iter().for_each(|event| subscription.apply(event));
    subscription.moved(&other, at(4));
    assert!(has_pending(&subscription));
    subscription.apply(&Event::Unlinked(other.clone()));
    assert!(!subscription.links.contains_key(&other));
}

#[test]
fn a_large_wake_comes_in_parts() {
    let mut subscription = webhook();
    for n in 0..STREAMS_PER_WAKE_MAX + 1 {
        append(&mut subscription, &n.to_string(), 1);
    }
    rouse(&mut subscription, "w1", NOW);
    assert_eq!(subscription.wake.as_ref().unwrap().streams.len(), STREAMS_PER_WAKE_MAX);
    let events = subscription.delivered("w1", Reply::Done, NOW, |_| 0);
    events.iter().for_each(|event| subscription.apply(event));
    assert!(rouse(&mut subscription, "w2", NOW));
    assert_eq!(subscription.wake.as_ref().unwrap().streams.len(), 1);
}

/// What may happen, by a number that decides the details.
#[derive(Clone, Copy, Debug)]
enum Step {
    Append(u8),
    Claim,
    Heartbeat,
    Done(u8),
    Release,
    Delivered(u8),
    Later(u16),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(Step::Append),
        Just(Step::Claim),
        Just(Step::Heartbeat),
        any::<u8>().prop_map(Step::Done),
        Just(Step::Release),
        any::<u8>().prop_map(Step::Delivered),
        any::<u16>().prop_map(Step::Later),
    ]
}

fn events_of(subscription: &Subscription, step: Step, now: UnixMs) -> Vec<Event> {
    let (id, generation) = match &subscription.wake {
        Some(wake) => (wake.id.clone(), wake.generation),
        None => ("none".to_owned(), subscription.generation),
    };
    let acks = |count: u8| -> Vec<Ack> {
        let links = subscription.links.iter().take(usize::from(count));
        links.map(|(path, link)| Ack { path: path.clone(), offset: link.tail }).collect()
    };
    let report = |acks, done| {
        let progress = Progress { wake_id: id.clone(), generation, acks, done };
        subscription.report(generation, &progress, now).unwrap_or_default()
    };
    match step {
        Step::Append(_) => Vec::new(),
        Step::Claim => subscription.claim("worker", now).unwrap_or_default(),
        Step::Heartbeat => report(Vec::new(), false),
        Step::Done(count) => report(acks(count % 4), true),
        Step::Release => subscription.release(generation, &id, generation).unwrap_or_default(),
        Step::Delivered(kind) => {
            let reply = [Reply::Done, Reply::Accepted, Reply::Failed][usize::from(kind % 3)];
            subscription.delivered(&id, reply, now, |bound| u64::from(kind) % bound)
        }
        Step::Later(_) => subscription.overdue(now),
    }
}

proptest! {
    /// Whatever happens: generations grow, cursors never go back, nothing is acknowledged beyond
    /// the tail, work is never forgotten, and the events alone tell the whole story.
    #[test]
    fn its_story_holds(
        is_pull in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let mut subscription = if is_pull { pull() } else { webhook() };
        let mut told = subscription.clone();
        let (mut now, mut tails) = (NOW, BTreeMap::<StreamPath, u64>::new());
        for (n, step) in steps.into_iter().enumerate() {
            let before = subscription.clone();
            let mut events = Vec::new();
            match step {
                Step::Append(which) => {
                    let path = path(&format!("events/{}", which % 3));
                    let tail = tails.entry(path.clone()).or_default();
                    *tail += 1;
                    events.extend(subscription.discover(&path));
                    events.iter().for_each(|event| subscription.apply(event));
                    subscription.moved(&path, at(*tail));
                }
                Step::Later(ms) => now = now.plus(Duration::from_millis(u64::from(ms))),
                _ => {}
            }
            let more = events_of(&subscription, step, now);
            more.iter().for_each(|event| subscription.apply(event));
            let roused = subscription.rouse(|| format!("w{n}"), now);
            roused.iter().for_each(|event| subscription.apply(event));
            for event in events.iter().chain(&more).chain(&roused) {
                let text = serde_json::to_string(event).unwrap();
                told.apply(&serde_json::from_str(&text).unwrap());
            }

            prop_assert!(subscription.generation >= before.generation);
            prop_assert_eq!(subscription.generation > before.generation, roused.is_some());
            for (path, link) in &subscription.links {
                let earlier = before.links.get(path).and_then(|link| link.acked);
                prop_assert!(link.acked >= earlier && link.acked <= Some(link.tail));
            }
            prop_assert!(!has_pending(&subscription) || subscription.wake.is_some());
        }
        for (path, tail) in &tails {
            told.moved(path, at(*tail));
        }
        prop_assert_eq!(told, subscription);
    }
}
