//! Requests that are not believed, and those that come at a bad time.

use std::time::Duration;

use agent::lifecycle::{DeskSettings, Finish};
use sys::{Chance, UnixMs};
use wake::Keys;

use crate::support::World;

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn what_was_tampered_with_or_replayed_is_refused_and_runs_nothing() {
    let mut world = World::new(DeskSettings::ack_immediate(LEASE)).await;
    world.subscribe().await;
    world.append("events/a").await;
    let wake = world.wake().await;
    let job = world.job().await;

    let tampered = wake.body.replace("events/a", "events/b");
    let mut refused = vec![
        world.send(&wake.signature, &tampered).await,
        world.send("", &wake.body).await,
        world.send("hello", &wake.body).await,
    ];
    let stranger = Keys::generate(&Chance::real());
    let now = world.sys.clock.unix_ms();
    for (keys, at) in [
        (&stranger, now),
        (&*world.keys, UnixMs::new(now.get() - 302_000)),
        (&*world.keys, UnixMs::new(now.get() + 302_000)),
    ] {
        refused.push(world.send(&keys.sign(wake.body.as_bytes(), at), &wake.body).await);
    }
    let two = format!("{}\r\nwebhook-signature: {}", wake.signature, wake.signature);
    refused.push(world.send(&two, &wake.body).await);
    for answer in refused {
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(answer.text.contains("application/problem+json"), "{answer:?}");
        assert!(answer.text.contains("urn:headwater:problem:signature-invalid"), "{answer:?}");
    }
    job.end(Ok(Finish::Done));
    assert!(!world.has_job());
}

#[tokio::test]
async fn what_is_no_wake_is_told_so() {
    let mut world = World::new(DeskSettings::ack_immediate(LEASE)).await;
    for body in ["", "{}", "[1]"] {
        let answer = world.send(&world.sign(body), body).await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    let huge = "x".repeat(4 * 1024 * 1024 + 1);
    let answer = world.send(&world.sign(&huge), &huge).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(!world.has_job());
}

#[tokio::test]
async fn a_wake_of_another_time_is_stale() {
    let mut world = World::new(DeskSettings::request_bound(LEASE)).await;
    world.subscribe().await;
    world.append("events/a").await;
    let wake = world.wake().await;
    world.job().await.end(Ok(Finish::Done));
    // Its work is done when the next wake comes.
    world.append("events/a").await;
    let job = world.job().await;
    let answer = world.send(&world.sign(&wake.body), &wake.body).await;
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(!world.has_job());
    job.end(Ok(Finish::Done));
}

#[tokio::test]
async fn too_many_wakes_at_a_time_are_refused() {
    let settings = DeskSettings { wakes_max: 1, ..DeskSettings::ack_immediate(LEASE) };
    let mut world = World::new(settings).await;
    world.subscribe().await;
    world.append("events/a").await;
    let wake = world.wake().await;
    let job = world.job().await;
    let other = wake.body.replace(r#""generation":1"#, r#""generation":2"#);
    let answer = world.send(&world.sign(&other), &other).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.text.to_lowercase().contains("retry-after: 1"), "{answer:?}");
    job.end(Ok(Finish::Done));
}
