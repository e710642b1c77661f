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

/// The first life of a stream.
fn sight(tail: u64) -> Sight {
    Sight { tail: at(tail), life: Some(1) }
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

/// The same, with a wake for each stream.
fn by_stream(mut subscription: Subscription) -> Subscription {
    subscription.config.concurrency = Concurrency::Stream;
    subscription
}

/// An append to `events/{name}`, as the engine takes it.
fn append(subscription: &mut Subscription, name: &str, tail: u64) {
    let path = path(&format!("events/{name}"));
    let events = subscription.saw(&path, sight(tail), None);
    events.iter().for_each(|event| subscription.apply(event));
    subscription.moved(&path, sight(tail));
}

fn has_pending(subscription: &Subscription) -> bool {
    subscription.links.values().any(Link::has_work)
}

/// Wakes as many as there may be, by the ids `{id}`, `{id}'` and so on; how many there were.
fn rouse(subscription: &mut Subscription, id: &str) -> usize {
    let mut next = id.to_owned();
    let name = || {
        let after = format!("{next}'");
        std::mem::replace(&mut next, after)
    };
    let events = subscription.rouse(name);
    events.iter().for_each(|event| subscription.apply(event));
    events.len()
}

/// The wake of a subscription that has one.
fn only(subscription: &Subscription) -> &Wake {
    assert_eq!(subscription.wakes.len(), 1);
    subscription.wakes.values().next().unwrap()
}

fn claim(subscription: &mut Subscription, worker: &str) -> Result<u64, ClaimError> {
    let (generation, event) = subscription.claim(worker, NOW)?;
    subscription.apply(&event);
    Ok(generation)
}

fn delivered(subscription: &mut Subscription, id: &str, reply: Reply, now: UnixMs) {
    // In the middle of the jitter.
    let events = subscription.delivered(id, reply, now, |bound| bound / 2);
    events.iter().for_each(|event| subscription.apply(event));
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
    let events = subscription.report(progress.generation, progress, &HashMap::new(), NOW);
    apply(subscription, events)
}

#[test]
fn one_wake_at_a_time() {
    let mut subscription = webhook();
    assert_eq!(rouse(&mut subscription, "w1"), 0);
    append(&mut subscription, "a", 1);
    assert_eq!(rouse(&mut subscription, "w1"), 1);
    append(&mut subscription, "b", 1);
    assert_eq!(rouse(&mut subscription, "w2"), 0);
    assert_eq!(only(&subscription).streams.len(), 1);
}

#[test]
fn a_webhook_that_is_done_has_done_what_it_was_told_of() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 2);
    rouse(&mut subscription, "w1");
    append(&mut subscription, "a", 3);
    delivered(&mut subscription, "w1", Reply::Done, NOW);
    assert_eq!(subscription.links[&path("events/a")].acked, Some(at(2)));
    assert_eq!(rouse(&mut subscription, "w2"), 1, "what came meanwhile is work");
    assert_eq!(subscription.generation, 2);
}

#[test]
fn a_webhook_that_called_back_before_it_answered_is_done_as_well() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 5);
    rouse(&mut subscription, "w1");
    append(&mut subscription, "a", 9);
    report(&mut subscription, &progress("w1", 1, &[("a", 7)], false)).unwrap();
    delivered(&mut subscription, "w1", Reply::Done, NOW);
    assert!(subscription.wakes.is_empty());
    let acked = subscription.links[&path("events/a")].acked;
    assert_eq!(acked, Some(at(7)), "further than the wake told, and never back");
}

#[test]
fn acknowledgements_only_move_forward_and_within_the_stream() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 5);
    rouse(&mut subscription, "w1");
    report(&mut subscription, &progress("w1", 1, &[("a", 3)], false)).unwrap();
    for (name, position) in [("a", 2), ("a", 6), ("b", 0)] {
        let refused = report(&mut subscription, &progress("w1", 1, &[(name, position)], true));
        assert!(matches!(refused, Err(ProgressError::InvalidAck(_))), "{name} {position}");
    }
    report(&mut subscription, &progress("w1", 1, &[("a", 5)], true)).unwrap();
    assert!(!has_pending(&subscription) && subscription.wakes.is_empty());
}

#[test]
fn one_wrong_acknowledgement_spoils_them_all() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 5);
    append(&mut subscription, "b", 5);
    rouse(&mut subscription, "w1");
    let before = subscription.clone();
    assert!(report(&mut subscription, &progress("w1", 1, &[("a", 3), ("b", 9)], true)).is_err());
    assert_eq!(subscription, before);
}

#[test]
fn who_is_late_is_fenced() {
    let mut subscription = pull();
    append(&mut subscription, "a", 1);
    rouse(&mut subscription, "w1");
    let early = report(&mut subscription, &progress("w1", 1, &[], false));
    assert!(matches!(early, Err(ProgressError::Fenced(_))), "nobody has claimed it");
    claim(&mut subscription, "one").unwrap();
    let refused = claim(&mut subscription, "two").unwrap_err();
    let ClaimError::AlreadyClaimed(fact) = refused else { panic!("{refused}") };
    assert_eq!((&*fact.holder, fact.generation), ("one", 1));

    let later = NOW.plus(subscription.config.lease_ttl());
    assert_eq!(subscription.overdue(UnixMs::new(later.get() - 1)), []);
    subscription.overdue(later).iter().for_each(|event| subscription.apply(event));
    assert_eq!(rouse(&mut subscription, "w2"), 1);
    for stale in [progress("w1", 1, &[], true), progress("w1", 2, &[], true)] {
        assert!(matches!(report(&mut subscription, &stale), Err(ProgressError::Fenced(_))));
    }
    assert!(subscription.release(1, "w2", 2).is_err(), "with the token of an earlier wake");
}

#[test]
fn a_heartbeat_extends_the_lease() {
    let mut subscription = pull();
    append(&mut subscription, "a", 1);
    rouse(&mut subscription, "w1");
    claim(&mut subscription, "one").unwrap();
    let half = NOW.plus(subscription.config.lease_ttl() / 2);
    let events = subscription.report(1, &progress("w1", 1, &[], false), &HashMap::new(), half);
    apply(&mut subscription, events).unwrap();
    assert_eq!(subscription.overdue(NOW.plus(subscription.config.lease_ttl())), []);
    assert!(matches!(
        &only(&subscription).stage,
        Stage::Held { holder: Some(holder), .. } if holder == "one"
    ));
}

#[test]
fn retries_double_and_keep_the_wake() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 1);
    rouse(&mut subscription, "w1");
    let mut now = NOW;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        delivered(&mut subscription, "w1", Reply::Failed, now);
        assert!(subscription.is_failing());
        let due = subscription.due_at().unwrap();
        assert_eq!(due.since(now), Duration::from_secs(seconds));
        now = due;
        subscription.overdue(now).iter().for_each(|event| subscription.apply(event));
        assert!(!subscription.is_failing());
        assert_eq!(only(&subscription).id, "w1");
    }
    delivered(&mut subscription, "w1", Reply::Accepted, now);
    assert_eq!(only(&subscription).failures, 0);
}

#[test]
fn a_stream_keeps_the_link_it_has_by_another_way() {
    let mut subscription = webhook();
    append(&mut subscription, "a", 1);
    let a = path("events/a");
    subscription.name(&a, sight(9), Some(at(9))).iter().for_each(|event| subscription.apply(event));
    assert_eq!(subscription.links[&a].acked, None, "it was linked already");
    assert_eq!(subscription.name(&a, sight(9), Some(at(9))), None);
    subscription.apply(&Event::Unlinked(a.clone()));
    assert!(subscription.links[&a].is_matched);
    let other = path("other");
    subscription
        .name(&other, sight(3), Some(at(3)))
        .iter()
        .for_each(|event| subscription.apply(event));
    subscription.moved(&other, sight(4));
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
    rouse(&mut subscription, "w1");
    assert_eq!(only(&subscription).streams.len(), STREAMS_PER_WAKE_MAX);
    delivered(&mut subscription, "w1", Reply::Done, NOW);
    assert_eq!(rouse(&mut subscription, "w2"), 1);
    assert_eq!(only(&subscription).streams.len(), 1);
}

#[test]
fn a_stuck_stream_holds_no_other_back() {
    let mut subscription = by_stream(webhook());
    append(&mut subscription, "a", 1);
    append(&mut subscription, "b", 1);
    assert_eq!(rouse(&mut subscription, "w1"), 2);
    delivered(&mut subscription, "w1", Reply::Failed, NOW);
    delivered(&mut subscription, "w1'", Reply::Done, NOW);
    assert!(subscription.is_failing());
    append(&mut subscription, "a", 2);
    append(&mut subscription, "b", 2);
    assert_eq!(rouse(&mut subscription, "w2"), 1, "a has its wake already");
    let wakes: Vec<_> = subscription.wakes.values().collect();
    assert_eq!([&*wakes[0].id, &*wakes[1].id], ["w1", "w2"]);
    assert_eq!(wakes[1].streams, [Task { path: path("events/b"), tail: at(2), life: Some(1) }]);
    assert_eq!([wakes[0].failures, wakes[1].failures], [1, 0]);
}

#[test]
fn each_worker_answers_for_its_own_stream() {
    let mut subscription = by_stream(pull());
    append(&mut subscription, "a", 1);
    append(&mut subscription, "b", 1);
    rouse(&mut subscription, "w1");
    assert_eq!(claim(&mut subscription, "one").unwrap(), 1, "the oldest comes first");
    assert_eq!(claim(&mut subscription, "two").unwrap(), 2);
    let refused = claim(&mut subscription, "three").unwrap_err();
    assert!(matches!(refused, ClaimError::AlreadyClaimed(fact) if fact.holder == "one"));
    let meddling = report(&mut subscription, &progress("w1", 1, &[("b", 1)], true));
    assert!(matches!(meddling, Err(ProgressError::InvalidAck(_))));
    let crossed = progress("w1'", 1, &[], true);
    assert!(matches!(report(&mut subscription, &crossed), Err(ProgressError::Fenced(_))));
    report(&mut subscription, &progress("w1'", 2, &[("b", 1)], true)).unwrap();
    report(&mut subscription, &progress("w1", 1, &[("a", 1)], true)).unwrap();
    assert!(subscription.wakes.is_empty() && !has_pending(&subscription));
}

#[test]
fn streams_wait_for_their_turn() {
    let mut subscription = by_stream(webhook());
    for n in 0..WAKES_MAX + 2 {
        append(&mut subscription, &format!("{:04}", 9999 - n), 1);
    }
    assert_eq!(rouse(&mut subscription, "w"), WAKES_MAX);
    let first = only_stream(&subscription, 1);
    subscription.moved(&first, sight(2));
    delivered(&mut subscription, "w", Reply::Done, NOW);
    assert_eq!(rouse(&mut subscription, "x"), 1);
    let next = subscription.generation;
    assert_ne!(only_stream(&subscription, next), first, "others came before its second turn");
    assert_eq!(rouse(&mut subscription, "y"), 0);
}

/// The stream that the wake of this generation is for.
fn only_stream(subscription: &Subscription, generation: u64) -> StreamPath {
    subscription.wakes[&generation].streams[0].path.clone()
}

#[test]
fn a_wake_ends_with_the_link_it_was_for() {
    let mut subscription = by_stream(pull());
    let other = path("other");
    subscription
        .name(&other, sight(0), Some(at(0)))
        .iter()
        .for_each(|event| subscription.apply(event));
    subscription.moved(&other, sight(1));
    append(&mut subscription, "a", 1);
    assert_eq!(rouse(&mut subscription, "w1"), 2);
    for stream in [other, path("events/a")] {
        let events = subscription.unname(&stream);
        events.iter().for_each(|event| subscription.apply(event));
    }
    assert_eq!(only(&subscription).streams[0].path, path("events/a"), "the pattern links it");
}

#[test]
fn a_stream_that_is_made_anew_is_all_work() {
    for mut subscription in [webhook(), by_stream(webhook())] {
        let (a, concurrency) = (path("events/a"), subscription.config.concurrency);
        append(&mut subscription, "a", 2);
        rouse(&mut subscription, "w1");
        // As long as the last one was, and nobody has seen any of it.
        let anew = Sight { life: Some(2), ..sight(2) };
        let events = subscription.saw(&a, anew, None);
        events.iter().for_each(|event| subscription.apply(event));
        subscription.moved(&a, anew);
        let late = report(&mut subscription, &progress("w1", 1, &[("a", 2)], true));
        assert!(matches!(late, Err(ProgressError::Fenced(_))), "{concurrency:?}");
        assert_eq!(subscription.links[&a].acked, None);
        assert_eq!(rouse(&mut subscription, "w2"), 1);
        delivered(&mut subscription, "w2", Reply::Done, NOW);
        assert_eq!(subscription.links[&a].acked, Some(at(2)));
        assert_eq!(subscription.saw(&a, anew, None), []);
    }
}

/// What may happen, by numbers that decide the details.
#[derive(Clone, Copy, Debug)]
enum Step {
    Append(u8),
    Claim,
    Heartbeat(u8),
    Done(u8, u8),
    Release(u8),
    Delivered(u8, u8),
    Later(u16),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(Step::Append),
        Just(Step::Claim),
        any::<u8>().prop_map(Step::Heartbeat),
        any::<(u8, u8)>().prop_map(|(which, count)| Step::Done(which, count)),
        any::<u8>().prop_map(Step::Release),
        any::<(u8, u8)>().prop_map(|(which, kind)| Step::Delivered(which, kind)),
        any::<u16>().prop_map(Step::Later),
    ]
}

/// One of the wakes under way, or one that never was.
fn any_wake(subscription: &Subscription, which: u8) -> (String, u64) {
    let count = subscription.wakes.len().max(1);
    match subscription.wakes.values().nth(usize::from(which) % count) {
        Some(wake) => (wake.id.clone(), wake.generation),
        None => ("none".to_owned(), subscription.generation),
    }
}

fn events_of(subscription: &Subscription, step: Step, now: UnixMs) -> Vec<Event> {
    let acks = |generation: u64, count: u8| -> Vec<Ack> {
        let is_its_own = |path: &&StreamPath| match subscription.config.concurrency {
            Concurrency::Subscription => true,
            Concurrency::Stream => subscription.busy.get(*path) == Some(&generation),
        };
        let paths = subscription.links.keys().filter(is_its_own).take(usize::from(count));
        paths
            .map(|path| Ack { path: path.clone(), offset: subscription.links[path].tail })
            .collect()
    };
    let report = |which: u8, count: u8, done: bool| {
        let (wake_id, generation) = any_wake(subscription, which);
        let acks = acks(generation, count);
        let progress = Progress { wake_id, generation, acks, done };
        subscription.report(generation, &progress, &HashMap::new(), now).unwrap_or_default()
    };
    match step {
        Step::Append(_) => Vec::new(),
        Step::Claim => {
            subscription.claim("worker", now).map(|(_, event)| event).into_iter().collect()
        }
        Step::Heartbeat(which) => report(which, 0, false),
        Step::Done(which, count) => report(which, count % 4, true),
        Step::Release(which) => {
            let (id, generation) = any_wake(subscription, which);
            subscription.release(generation, &id, generation).into_iter().collect()
        }
        Step::Delivered(which, kind) => {
            let (id, _) = any_wake(subscription, which);
            let reply = [Reply::Done, Reply::Accepted, Reply::Failed][usize::from(kind % 3)];
            subscription.delivered(&id, reply, now, |bound| u64::from(kind) % bound)
        }
        Step::Later(_) => subscription.overdue(now),
    }
}

/// Asserts that no work is forgotten, no stream has two wakes, and no stream waits for another.
fn check_wakes(subscription: &Subscription) {
    let tasks = || subscription.wakes.values().flat_map(|wake| &wake.streams);
    let woken: std::collections::BTreeSet<_> = tasks().map(|task| &task.path).collect();
    assert_eq!(woken.len(), tasks().count(), "a stream has two wakes");
    match subscription.config.concurrency {
        Concurrency::Subscription => {
            assert!(subscription.wakes.len() <= 1);
            assert!(!has_pending(subscription) || subscription.wakes.len() == 1);
        }
        Concurrency::Stream => {
            assert!(subscription.wakes.values().all(|wake| wake.streams.len() == 1));
            for (path, _) in subscription.links.iter().filter(|(_, link)| link.has_work()) {
                assert!(woken.contains(path), "{path} has work and no wake");
            }
        }
    }
}

proptest! {
    /// Whatever happens: generations grow, cursors never go back, nothing is acknowledged beyond
    /// the tail, work is never forgotten, and the events alone tell the whole story.
    #[test]
    fn its_story_holds(
        is_pull in any::<bool>(),
        is_by_stream in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let subscription = if is_pull { pull() } else { webhook() };
        let mut subscription = if is_by_stream { by_stream(subscription) } else { subscription };
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
                    events.extend(subscription.saw(&path, sight(*tail), None));
                    events.iter().for_each(|event| subscription.apply(event));
                    subscription.moved(&path, sight(*tail));
                }
                Step::Later(ms) => now = now.plus(Duration::from_millis(u64::from(ms))),
                _ => {}
            }
            let more = events_of(&subscription, step, now);
            more.iter().for_each(|event| subscription.apply(event));
            let mut ids = (0..).map(|wake| format!("w{n}.{wake}"));
            let roused = subscription.rouse(|| ids.next().unwrap());
            roused.iter().for_each(|event| subscription.apply(event));
            for event in events.iter().chain(&more).chain(&roused) {
                let text = serde_json::to_string(event).unwrap();
                told.apply(&serde_json::from_str(&text).unwrap());
            }

            prop_assert_eq!(subscription.generation, before.generation + roused.len() as u64);
            for (path, link) in &subscription.links {
                let earlier = before.links.get(path).and_then(|link| link.acked);
                prop_assert!(link.acked >= earlier && link.acked <= Some(link.tail));
            }
            check_wakes(&subscription);
            // A story that is told anew is the same one.
            let text = serde_json::to_string(&subscription).unwrap();
            let mut anew: Subscription = serde_json::from_str(&text).unwrap();
            tails.iter().for_each(|(path, tail)| anew.moved(path, sight(*tail)));
            prop_assert_eq!(&anew, &subscription);
        }
        for (path, tail) in &tails {
            told.moved(path, sight(*tail));
        }
        prop_assert_eq!(told, subscription);
    }
}
