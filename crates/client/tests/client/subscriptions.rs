//! Subscriptions over HTTP do what they do in one process.

use std::sync::Arc;

use client::{Client, HttpLog, HttpSubscriptions};
use log::{Append, Create, Log, MemoryLog};
use sys::Sys;
use wake::{
    Ack, ClaimError, Config, CreateError, Delivery, Engine, Keys, NoCourier, Progress,
    ProgressError, SubscriptionId, Subscriptions,
};
use wire::{Address, Messages, Offset};

use crate::support::settings;

struct World {
    log: HttpLog,
    subscriptions: HttpSubscriptions,
    near: Arc<dyn Subscriptions>,
}

async fn world() -> World {
    let sys = Sys::real();
    let log: Arc<dyn Log> = Arc::new(MemoryLog::new(&sys));
    let keys = Arc::new(Keys::generate(&sys.chance));
    let near = Engine::open(log.clone(), &sys, Arc::new(NoCourier), keys).await.unwrap();
    let near: Arc<dyn Subscriptions> = Arc::new(near);
    let listen =
        server::Settings { listen: "127.0.0.1:0".parse().unwrap(), ..server::Settings::default() };
    let server = server::Server::bind_with(log, Some(near.clone()), sys.clone(), listen);
    let server = server.await.unwrap();
    let address = server.local_addr();
    sys.spawn.task("server", server.run(std::future::pending()));
    let client = Client::connect(&sys, settings(address)).await.unwrap();
    let subscriptions = HttpSubscriptions::new(client.clone());
    World { log: HttpLog::new(client), subscriptions, near }
}

impl World {
    async fn append(&self, text: &'static str) -> Offset {
        let address = Address::Stream("chats/1".parse().unwrap());
        let _ = self.log.create(&address, Create::default()).await.unwrap();
        let append = Append::messages(Messages::one(text).unwrap());
        self.log.append(&address, append).await.unwrap().tail
    }
}

fn pulled() -> Config {
    let delivery = Delivery::PullWake("wakes".parse().unwrap());
    Config { pattern: Some("chats/**".parse().unwrap()), ..Config::new(delivery) }
}

#[tokio::test]
async fn a_wake_is_claimed_acknowledged_and_ended_from_afar() {
    let world = world().await;
    let (id, far) =
        ("s/1 é".replace('/', "-").parse::<SubscriptionId>().unwrap(), &world.subscriptions);
    let created = far.create(&id, pulled(), String::new()).await.unwrap();
    assert!(created.is_new);
    assert_eq!(created.view, world.near.get(&id).await.unwrap());
    assert!(!far.create(&id, pulled(), String::new()).await.unwrap().is_new);
    let other = Config { lease_ttl_ms: 5_000, ..pulled() };
    let taken = far.create(&id, other, String::new()).await;
    assert!(matches!(taken, Err(CreateError::Exists(_))), "{taken:?}");

    let none = far.claim(&id, "w".to_owned()).await;
    assert!(matches!(none, Err(ClaimError::NoPendingWork(_))), "{none:?}");
    let tail = world.append("one").await;
    let claim = far.claim(&id, "w".to_owned()).await.unwrap();
    assert_eq!((claim.streams.len(), claim.streams[0].tail), (1, tail));
    match far.claim(&id, "v".to_owned()).await {
        Err(ClaimError::AlreadyClaimed(fact)) => assert_eq!(fact.holder, "w"),
        other => panic!("{other:?}"),
    }

    let ack = |offset| Ack { path: "chats/1".parse().unwrap(), offset };
    let report = |acks, done| Progress {
        wake_id: claim.wake_id.clone(),
        generation: claim.generation,
        acks,
        done,
    };
    let beyond = report(vec![ack(Offset::new(9, 99))], false);
    match far.report(&id, &claim.token, beyond).await {
        Err(ProgressError::InvalidAck(fact)) => assert_eq!(fact.offset, Offset::new(9, 99)),
        other => panic!("{other:?}"),
    }
    let forged = far.report(&id, "v1.1.x", report(Vec::new(), false)).await;
    assert!(matches!(forged, Err(ProgressError::TokenInvalid(_))), "{forged:?}");
    world.append("two").await;
    let done = far.report(&id, &claim.token, report(vec![ack(tail)], true)).await.unwrap();
    assert!(done.next_wake);
    let again = far.report(&id, &claim.token, report(Vec::new(), false)).await;
    assert!(matches!(again, Err(ProgressError::Fenced(_))), "{again:?}");
    assert_eq!(far.get(&id).await.unwrap(), world.near.get(&id).await.unwrap());
}

#[tokio::test]
async fn membership_keys_and_ends_are_the_same_from_afar() {
    let world = world().await;
    let (id, far) = ("s".parse::<SubscriptionId>().unwrap(), &world.subscriptions);
    far.create(&id, pulled(), String::new()).await.unwrap();
    far.link(&id, vec!["other/a b".parse().unwrap()]).await.unwrap();
    assert_eq!(far.get(&id).await.unwrap().links, world.near.get(&id).await.unwrap().links);
    far.unlink(&id, "other/a b".parse().unwrap()).await.unwrap();
    assert!(far.get(&id).await.unwrap().links.is_empty());
    assert_eq!(far.keys().await.unwrap(), world.near.keys().await.unwrap());
    world.append("one").await;
    let claim = far.claim(&id, "w".to_owned()).await.unwrap();
    far.release(&id, &claim.token, claim.wake_id, claim.generation).await.unwrap();
    assert!(far.claim(&id, "w".to_owned()).await.is_ok(), "given back, it comes again");
    far.delete(&id).await.unwrap();
    let gone = far.get(&id).await;
    assert!(matches!(gone, Err(wake::ChangeError::NotFound(_))), "{gone:?}");
}
