//! Work in cycles.

use std::time::Duration;

use agent::lifecycle::{
    Checkpoint, Drain, DrainEnd, DrainError, DrainLimits, Drained, Finish, Session,
    drain_until_idle, run_with_lifecycle,
};
use sys::Clock;
use wire::Offset;

use crate::support::{World, path, simulate};

/// Does one message of one stream in each cycle, and takes its time.
struct OneByOne {
    clock: Clock,
    left: Vec<Offset>,
    cycle: Duration,
    fails_at: Option<usize>,
}

impl Drain for OneByOne {
    type Error = &'static str;

    async fn has_pending_work(&mut self) -> Result<bool, Self::Error> {
        Ok(!self.left.is_empty())
    }

    async fn run_cycle(&mut self) -> Result<Vec<Checkpoint>, Self::Error> {
        if self.fails_at == Some(self.left.len()) {
            return Err("out of luck");
        }
        self.clock.sleep(self.cycle).await;
        let offset = self.left.remove(0);
        Ok(vec![Checkpoint { stream: path("events/a"), offset }])
    }
}

struct Check {
    cycle_ms: u64,
    limits: DrainLimits,
    expect: Drained,
    next_wake: bool,
}

/// Drains five messages under some limits.
fn check(Check { cycle_ms, limits, expect, next_wake }: Check) {
    simulate(|world: World| async move {
        world.subscribe().await;
        let mut offsets = Vec::new();
        for _ in 0..5 {
            offsets.push(world.append("events/a").await);
        }
        let mut work = OneByOne {
            clock: world.sys.clock.clone(),
            left: offsets.clone(),
            cycle: Duration::from_millis(cycle_ms),
            fails_at: None,
        };
        let clock = &world.sys.clock;
        let drain = |session: Session| async move {
            let drained = drain_until_idle(clock, &session, limits, &mut work).await?;
            assert_eq!(drained, expect);
            Ok::<_, DrainError<_>>(drained.finish())
        };
        let ran = run_with_lifecycle(&world.sys, world.worker(), drain).await.unwrap();
        assert_eq!(ran.next_wake, next_wake);
        let done = offsets[expect.iterations as usize - 1];
        assert_eq!(world.acked("events/a").await, Some(done));
    });
}

#[test]
fn a_drain_ends_when_there_is_nothing_left() {
    let expect = Drained { iterations: 5, end: DrainEnd::Idle };
    check(Check { cycle_ms: 1000, limits: DrainLimits::default(), expect, next_wake: false });
    let exact = DrainLimits { iterations_max: 5, ..DrainLimits::default() };
    check(Check { cycle_ms: 1000, limits: exact, expect, next_wake: false });
    assert_eq!(expect.finish(), Finish::Done);
}

#[test]
fn a_drain_ends_after_its_iterations_and_more_is_called_for() {
    let limits = DrainLimits { iterations_max: 3, ..DrainLimits::default() };
    let expect = Drained { iterations: 3, end: DrainEnd::Iterations };
    check(Check { cycle_ms: 0, limits, expect, next_wake: true });
    assert_eq!(expect.finish(), Finish::More);
}

#[test]
fn a_drain_ends_after_its_time_and_more_is_called_for() {
    let limits = DrainLimits { duration_max: Duration::from_secs(25), ..DrainLimits::default() };
    let expect = Drained { iterations: 3, end: DrainEnd::Duration };
    check(Check { cycle_ms: 10_000, limits, expect, next_wake: true });
    assert_eq!(expect.finish(), Finish::More);
}

#[test]
fn a_cycle_that_fails_undoes_none_before_it() {
    simulate(|world| async move {
        world.subscribe().await;
        let offsets = [world.append("events/a").await, world.append("events/a").await];
        let (clock, left) = (world.sys.clock.clone(), offsets.to_vec());
        let mut work = OneByOne { clock, left, cycle: Duration::ZERO, fails_at: Some(1) };
        let clock = &world.sys.clock;
        let drain = |session: Session| async move {
            let limits = DrainLimits::default();
            let failed = drain_until_idle(clock, &session, limits, &mut work).await.unwrap_err();
            assert!(matches!(failed, DrainError::Cycle("out of luck")));
            Err::<Finish, _>(failed)
        };
        run_with_lifecycle(&world.sys, world.worker(), drain).await.unwrap_err();
        assert_eq!(world.acked("events/a").await, Some(offsets[0]));
    });
}
