//! Wakes that are believed, and what becomes of their work.

use std::time::Duration;

use agent::lifecycle::{DeskSettings, Finish, Mode};

use crate::support::{Reach, World};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_request_bound_wake_is_answered_when_it_is_done() {
    for reach in [Reach::InProcess, Reach::Remote] {
        request_bound(reach).await;
    }
}

async fn request_bound(reach: Reach) {
    let mut world = World::reached(reach, DeskSettings::request_bound(LEASE)).await;
    world.subscribe().await;
    world.append("events/a").await;
    let job = world.job().await;
    let first = job.session.streams()[0].clone();
    assert_eq!((job.session.lease().generation, first.link.acked), (1, None));
    job.session.heartbeat().await.unwrap();
    assert!(!world.has_answer(), "the request is open");
    job.end(Ok(Finish::Done));
    let answer = world.answer().await;
    assert_eq!((answer.status, &*answer.text), (200, r#"{"done":true}"#));

    world.append("events/a").await;
    let job = world.job().await;
    let second = job.session.streams()[0].clone();
    assert_eq!(job.session.lease().generation, 2);
    assert_eq!(second.link.acked, Some(first.tail), "the first is acknowledged");
    job.end(Ok(Finish::Done));
    assert_eq!(world.answer().await.status, 200);
}

#[tokio::test]
async fn a_request_that_is_out_of_patience_leaves_the_work_alone() {
    for reach in [Reach::InProcess, Reach::Remote] {
        out_of_patience(reach).await;
    }
}

async fn out_of_patience(reach: Reach) {
    let mode = Mode::RequestBound { patience: Duration::from_millis(1) };
    let mut world = World::reached(reach, DeskSettings { mode, ..DeskSettings::default() }).await;
    world.subscribe().await;
    world.append("events/a").await;
    let job = world.job().await;
    assert_eq!(world.answer().await.status, 202);
    assert!(!job.session.cancellation().is_cancelled());
    let tail = job.session.streams()[0].tail;
    job.end(Ok(Finish::Done));
    world.append("events/a").await;
    let job = world.job().await;
    assert_eq!(job.session.streams()[0].link.acked, Some(tail));
    job.end(Ok(Finish::Done));
}

#[tokio::test]
async fn an_immediate_wake_is_answered_before_its_work_and_kept() {
    for reach in [Reach::InProcess, Reach::Remote] {
        immediate(reach).await;
    }
}

async fn immediate(reach: Reach) {
    let mut world = World::reached(reach, DeskSettings::ack_immediate(LEASE)).await;
    world.subscribe().await;
    world.append("events/a").await;
    let wake = world.wake().await;
    assert_eq!(world.answer().await.status, 202);
    let job = world.job().await;
    let again = world.send(&wake.signature, &wake.body).await;
    assert_eq!(again.status, 202, "{again:?}");
    let view = world.subscriptions.get(&"s".parse().unwrap()).await.unwrap();
    assert_eq!((view.is_failing, view.links[0].acked), (false, None));
    job.session.heartbeat().await.unwrap();
    let tail = job.session.streams()[0].tail;
    job.end(Ok(Finish::Done));

    world.append("events/a").await;
    let job = world.job().await;
    assert_eq!(job.session.streams()[0].link.acked, Some(tail));
    assert_eq!(job.session.lease().generation, 2, "and the one that came twice ran once");
    job.end(Ok(Finish::Done));
}

#[tokio::test]
async fn work_that_fails_comes_again_with_a_new_wake() {
    for reach in [Reach::InProcess, Reach::Remote] {
        failing(reach).await;
    }
}

async fn failing(reach: Reach) {
    let mut world = World::reached(reach, DeskSettings::request_bound(LEASE)).await;
    world.subscribe().await;
    world.append("events/a").await;
    let job = world.job().await;
    let first = job.session.lease().clone();
    job.end(Err("out of luck"));
    let failed = world.answer().await;
    assert_eq!(failed.status, 500);
    assert!(!failed.text.contains("luck"), "nobody's business: {failed:?}");
    let job = world.job().await;
    let second = job.session.lease();
    assert_ne!(second.wake_id, first.wake_id);
    assert_eq!((second.generation, &second.streams), (2, &first.streams));
    job.end(Ok(Finish::Done));
}
