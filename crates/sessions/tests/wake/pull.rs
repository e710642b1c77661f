//! A worker that pulls its wakes, in the server's process and far away from it.

use std::sync::Arc;

use agent::lifecycle::{
    DeskSettings, Finish, PullWakeLifecycle, RunnerLifecycle, WakeFeed, follow_wakes,
};
use log::Create;
use tokio::sync::mpsc;
use wake::{Config, Delivery};
use wire::{ContentType, Offset};

use crate::support::{Reach, World, within};

#[tokio::test]
async fn a_worker_follows_its_wakes() {
    for reach in [Reach::InProcess, Reach::Remote] {
        follow(reach).await;
    }
}

async fn follow(reach: Reach) {
    let world = World::reached(reach, DeskSettings::default()).await;
    let wake: wire::StreamPath = "wake/pool".parse().unwrap();
    let json = Create { content_type: Some(ContentType::json()), ..Create::default() };
    let _ = world.log.create(&wake.clone().into(), json).await.unwrap();
    let id = "pulled".parse().unwrap();
    let pattern = Some("events/*".parse().unwrap());
    let config = Config { pattern, ..Config::new(Delivery::PullWake(wake.clone())) };
    world.subscriptions.create(&id, config, String::new()).await.unwrap();

    let (done, mut dones) = mpsc::channel(16);
    let worker = PullWakeLifecycle::new(world.subscriptions.clone(), id, "me");
    let worker: Arc<dyn RunnerLifecycle> = Arc::new(worker.unwrap());
    let mut feed = WakeFeed::open(world.log.clone(), wake).await.unwrap();
    let sys = world.sys.clone();
    let following = world.sys.spawn.task("worker", async move {
        let work = |session: agent::lifecycle::Session| {
            let done = done.clone();
            async move {
                let work = &session.streams()[0];
                done.send((work.link.acked, work.tail)).await.unwrap();
                Ok::<_, String>(Finish::Done)
            }
        };
        let Err(why) = follow_wakes(&sys, &worker, &mut feed, work).await;
        panic!("{why}");
    });
    let mut acked: Option<Offset> = None;
    for _ in 0..3 {
        world.append("events/a").await;
        let (from, tail) = within(world.sys.clone(), dones.recv()).await.unwrap();
        assert_eq!(from, acked, "{reach:?}");
        acked = Some(tail);
    }
    following.abort();
}
