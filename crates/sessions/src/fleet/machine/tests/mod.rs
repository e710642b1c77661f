//! The machine against a naive model of the world: sessions that get work, looks that take time and
//! fail, agents that answer, wait, fail and lose their sessions to others.
//!
//! ```text
//! PROPTEST_CASES=20000 cargo test -p headwater-sessions --lib machine
//! ```

mod world;

use proptest::prelude::*;

use self::world::{Chance, Clocks, Ending, LEASE, Rival, SESSIONS, Sighting, World};
use super::*;

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_000)
}

fn chances() -> impl Strategy<Value = Vec<Chance>> {
    let at = || 0..SESSIONS;
    let rival = prop_oneof![
        Just(Rival::Claims),
        Just(Rival::Claimed),
        Just(Rival::Writes),
        Just(Rival::Answers),
        Just(Rival::Releases)
    ];
    let sighting = prop_oneof![
        8 => Just(Sighting::Well),
        1 => Just(Sighting::Crowded),
        1 => Just(Sighting::Passing),
        1 => Just(Sighting::Lasting),
    ];
    let ending = prop_oneof![
        4 => Just(Ending::Peace),
        2 => Just(Ending::Passing),
        1 => Just(Ending::Lasting),
    ];
    let clocks = prop_oneof![Just(Clocks::Wall), Just(Clocks::Both)];
    let time = prop::option::of((1_u64..900, clocks));
    let one = prop_oneof![
        4 => (at(), prop::bool::weighted(0.9)).prop_map(|(at, heard)| Chance::Say(at, heard)),
        2 => at().prop_map(Chance::Read),
        8 => (at(), sighting).prop_map(|(at, sighting)| Chance::Looked(at, sighting)),
        4 => at().prop_map(Chance::Answer),
        3 => (at(), time).prop_map(|(at, time)| Chance::Wait(at, time)),
        2 => at().prop_map(Chance::Measure),
        3 => (at(), ending).prop_map(|(at, ending)| Chance::End(at, ending)),
        1 => at().prop_map(Chance::Shared),
        3 => (at(), rival).prop_map(|(at, rival)| Chance::Rival(at, rival)),
        1 => (at(), 0_u32..9, 0_u32..5).prop_map(|(at, deaths, failures)| {
            Chance::Deaths(at, deaths, failures)
        }),
        2 => (at(), 0_u64..900).prop_map(|(at, secs)| Chance::Due(at, secs)),
        3 => (1_u64..40_000).prop_map(Chance::Pass),
        1 => (1_u64..900).prop_map(Chance::Step),
        1 => Just(Chance::Resync),
    ];
    prop::collection::vec(one, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn nothing_waits_while_it_could_run_and_all_that_is_owed_is_done_in_time(
        chances in chances(),
        known_max in prop_oneof![Just(1_usize), Just(3), Just(100)],
    ) {
        let mut world = World::within(known_max);
        for chance in chances {
            world.meet(chance);
        }
        world.settle();
    }
}

/// A session whose agent has just ended, while its last look is being read.
fn in_its_last_look() -> World {
    let mut world = World::new();
    world.meet(Chance::Say(0, true));
    world.looked(0, Sighting::Well);
    world.pace(0, Pace::Waits);
    world.sessions[0].told_to_end = true;
    world.end(0, Ending::Peace);
    // Its release is a move, too.
    world.looked(0, Sighting::Well);
    world.read(0);
    world
}

#[test]
fn a_move_during_the_last_look_is_looked_at_again() {
    let mut world = in_its_last_look();
    world.sessions[0].write();
    world.hint(0);
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].look.is_some(), "it was parked with what has come");
}

#[test]
fn without_a_move_a_session_that_was_started_for_nothing_is_parked() {
    let mut world = in_its_last_look();
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].look.is_none() && world.sessions[0].job.is_none());
}

#[test]
fn pauses_grow_up_to_a_bound() {
    assert_eq!(doubled(FAILURE_PAUSE_FIRST, 0, FAILURE_PAUSE_MAX), FAILURE_PAUSE_FIRST);
    assert_eq!(doubled(FAILURE_PAUSE_FIRST, 2, FAILURE_PAUSE_MAX), FAILURE_PAUSE_FIRST * 4);
    assert_eq!(doubled(FAILURE_PAUSE_FIRST, 1_000, FAILURE_PAUSE_MAX), FAILURE_PAUSE_MAX);
}

#[test]
fn a_lease_begins_when_its_renewal_is_seen_and_a_release_ends_it() {
    let mut world = World::new();
    world.sessions[0].has_work = true;
    world.sessions[0].claim("rival");
    world.hint(0);
    world.looked(0, Sighting::Well);
    world.pass(LEASE - Duration::from_secs(1));
    assert!(world.sessions[0].look.is_none() && world.sessions[0].job.is_none());
    world.rival(0, Rival::Writes);
    world.pass(Duration::from_secs(1));
    world.looked(0, Sighting::Well);
    world.pass(LEASE - Duration::from_secs(2));
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].job.is_none(), "its lease was renewed");
    world.rival(0, Rival::Releases);
    world.pass(LEASED_LOOK_PAUSE);
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].job.is_some(), "it was released");
}

#[test]
fn a_runner_that_has_waited_for_long_has_its_lease_when_that_is_over() {
    let mut world = World::new();
    world.sessions[0].has_work = true;
    world.sessions[0].claim("rival");
    let waiting = Waiting { until: None, left: Some(Duration::from_hours(1)) };
    world.sessions[0].runner.iter_mut().for_each(|runner| runner.waiting = Some(waiting));
    world.hint(0);
    world.looked(0, Sighting::Well);
    world.pass(LEASE * 3);
    // What it waits for has come.
    world.sessions[0].runner.iter_mut().for_each(|runner| runner.waiting = None);
    world.sessions[0].write();
    world.hint(0);
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].job.is_none(), "it had no time to go on");
    world.pass(LEASE);
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].job.is_some(), "its lease has run out");
}

#[test]
fn a_runner_of_an_earlier_opening_of_the_log_is_taken_over_at_once() {
    let mut world = World::new();
    world.sessions[0].has_work = true;
    world.sessions[0].was_claimed();
    world.hint(0);
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].job.is_some(), "its process is dead for sure");
}

#[test]
fn of_too_many_that_wait_for_a_time_each_goes_on_when_it_is_over() {
    let clocks = [Clocks::Wall, Clocks::Both];
    for (known_max, clocks) in [1, 3, 100].into_iter().flat_map(|max| clocks.map(|it| (max, it))) {
        let mut world = World::within(known_max);
        for at in 0..SESSIONS {
            let time = Some((60 + 10 * at as u64, clocks));
            world.meet(Chance::Say(at, true));
            world.looked(at, Sighting::Well);
            world.meet(Chance::Wait(at, time));
            world.sessions[at].told_to_end = true;
            world.end(at, Ending::Peace);
            world.looked(at, Sighting::Well);
        }
        for at in 0..SESSIONS {
            assert!(world.sessions[at].job.is_none(), "{known_max}: {at} does not wait");
        }
        let all = Duration::from_secs(60 + 10 * SESSIONS as u64);
        while world.elapsed < all {
            world.pass(Duration::from_secs(1));
            while (0..SESSIONS).any(|at| world.serve(at)) {}
        }
        let left = (0..SESSIONS).filter(|at| world.sessions[*at].has_work);
        assert_eq!(left.count(), 0, "{known_max} are known");
    }
}

#[test]
fn a_time_that_is_over_before_its_session_is_looked_at_is_not_missed() {
    let mut world = World::new();
    world.meet(Chance::Say(0, true));
    world.looked(0, Sighting::Well);
    world.meet(Chance::Wait(0, Some((1, Clocks::Wall))));
    world.sessions[0].told_to_end = true;
    world.end(0, Ending::Peace);
    world.pass(Duration::from_secs(1));
    world.looked(0, Sighting::Well);
    assert!(world.sessions[0].job.is_some(), "it waits for ten minutes more");
}
