//! Turns: only those who work have one.

use std::{sync::Arc, time::Duration};

use agent::Agent;
use log::{Answer, Chunk, Layer, Log, ReadError};
use parking_lot::Mutex;
use providers::scripted::{Order, Scripted, Turn};
use sessions::{FleetSettings, SessionId};
use tokio::sync::Notify;
use wire::{Address, ReadFrom};

use crate::support::{World, ids};

#[tokio::test(start_paused = true)]
async fn a_thousand_sessions_asked_at_once_wait_for_the_model_and_not_for_idle_agents() {
    let world = World::new();
    let sessions = ids(1_000);
    for session in &sessions {
        world.say(session, "hello").await;
    }
    let settings = FleetSettings { running_max: 256, ..FleetSettings::default() };
    let sys = world.sys.clone();
    let began = world.sys.clock.elapsed();
    let fleet = world.launch_of(settings, move |_| {
        let script = [Turn::new().pause_ms(1_000).text("Hi.")].into_iter().collect();
        let model = Scripted::ordered(script, Order::ByConversation, sys.clone());
        Agent::builder("assistant").model(Arc::new(model))
    });
    for session in &sessions {
        world.answered(session, 1).await;
    }
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(8), "four rounds of a second took {took:?}");
    fleet.shutdown().await;
}

/// Holds the first read that shows a released runner until it is let go.
#[derive(Debug)]
struct Holding {
    inner: Arc<dyn Log>,
    gates: Mutex<Option<(Arc<Notify>, Arc<Notify>)>>,
}

impl Layer for Holding {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn read<'a>(
        &'a self,
        address: &'a Address,
        from: ReadFrom,
        bytes_max: usize,
    ) -> Answer<'a, Result<Chunk, ReadError>> {
        Box::pin(async move {
            let chunk = self.inner.read(address, from, bytes_max).await?;
            let shows =
                chunk.messages().any(|it| String::from_utf8_lossy(it).contains("releasedAt"));
            let gates = if shows { self.gates.lock().take() } else { None };
            if let Some((held, go)) = gates {
                held.notify_one();
                go.notified().await;
            }
            Ok(chunk)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_while_the_last_look_is_read_wakes_its_session() {
    let (mut world, session) = (World::new(), &ids(1)[0]);
    let (held, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let inner = world.log.clone();
    let gates = Mutex::new(Some((held.clone(), go.clone())));
    world.watched = Arc::new(Holding { inner, gates });
    let world = Arc::new(world);
    let settings = FleetSettings { running_max: 1, waiting_max: 0, ..FleetSettings::default() };
    let other = world.clone();
    let build = move |_: &SessionId| other.measuring(Duration::from_hours(24));
    let fleet = world.launch_of(settings, build);
    world.say(session, "hello").await;
    // Its agent waits for others, makes room, and its session is looked at for the last time.
    held.notified().await;
    world.measure(session).await;
    world.rest(Duration::from_millis(10)).await;
    go.notify_one();
    let began = world.sys.clock.elapsed();
    world.answered(session, 1).await;
    let took = world.sys.clock.elapsed() - began;
    assert!(took < Duration::from_secs(5), "the answer waited for {took:?}");
    fleet.shutdown().await;
}
