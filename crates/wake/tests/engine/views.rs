//! Views of subscriptions that follow more than one page of streams.

use std::pin::pin;

use futures_util::future::{Either, join, join3, select};
use log::{List, ListError};
use tokio::sync::Semaphore;
use wire::Offset;

use super::*;

/// A log whose streams under a pattern are listed a page at a time, when a test lets it.
#[derive(Debug)]
struct SlowList {
    behind: MemoryLog,
    pages: Semaphore,
}

/// More pages than any test lists.
const ALL_PAGES: usize = 1_000_000;
/// How long a request may take that has nothing to wait for.
const PATIENCE: Duration = Duration::from_secs(5);

impl Layer for SlowList {
    fn behind(&self) -> &dyn Log {
        &self.behind
    }

    fn list(&self, list: List) -> log::Answer<'_, Result<log::Page, ListError>> {
        Box::pin(async move {
            if !list.prefix.is_empty() {
                self.pages.acquire().await.unwrap().forget();
            }
            self.behind.list(list).await
        })
    }
}

impl SlowList {
    fn new(sys: &Sys) -> Arc<Self> {
        Arc::new(Self { behind: MemoryLog::new(sys), pages: Semaphore::new(ALL_PAGES) })
    }

    fn stop(&self) {
        self.pages.forget_permits(ALL_PAGES);
    }
}

#[test]
fn a_view_holds_no_wake_up() {
    simulate(|mut world| async move {
        let log = SlowList::new(&world.sys);
        world.log = log.clone();
        let engine = world.open().await;
        world.create("wake").await;
        engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
        log.stop();
        let name = id("s");
        let working = async {
            world.settle().await;
            world.create("events/a").await;
            world.append("events/a").await;
            world.settle().await;
            let claiming = engine.claim(&name, "one".to_owned());
            let claim = world.sys.clock.timeout(PATIENCE, claiming).await;
            let claim = claim.expect("a view is under way").unwrap();
            let reporting = engine.report(&name, &claim.token, done(&claim));
            world.sys.clock.timeout(PATIENCE, reporting).await.expect("answered").unwrap();
            log.pages.add_permits(ALL_PAGES);
        };
        let get = engine.get(&name);
        let put = engine.create(&name, pull("events/*"), String::new());
        let ((), get, put) = join3(working, get, put).await;
        let (get, put) = (get.unwrap(), put.unwrap());
        assert!(!put.is_new);
        assert_eq!(get, put.view);
        assert_eq!(get.links.len(), 1, "what came before its page was read is on it");
        assert_eq!(get.links[0].acked, Some(Offset::new(1, 1)));
    });
}

#[test]
fn a_view_shows_each_stream_once_however_they_move_meanwhile() {
    const STREAMS: usize = 2_500;
    simulate(|mut world| async move {
        let log = SlowList::new(&world.sys);
        world.log = log.clone();
        let engine = world.open().await;
        world.create("wake").await;
        for n in 0..STREAMS {
            world.create(&format!("events/{n:04}")).await;
            world.append(&format!("events/{n:04}")).await;
        }
        engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
        // One has work when the view begins; others get some, or are done with it, by the page.
        world.append("events/2400").await;
        world.settle().await;
        log.stop();
        let moving = async {
            for _ in 0..STREAMS {
                world.settle().await;
                let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
                for stream in ["events/0007", "events/1500"] {
                    world.append(stream).await;
                }
                engine.report(&id("s"), &claim.token, done(&claim)).await.unwrap();
                world.settle().await;
                log.pages.add_permits(1);
            }
        };
        let name = id("s");
        let (get, moving) = (engine.get(&name), pin!(moving));
        let both = select(get, moving);
        let both = world.sys.clock.timeout(Duration::from_mins(1), both).await;
        let Ok(Either::Left((view, _))) = both else { panic!("pages enough, and no view") };
        let view = view.unwrap();
        let paths: Vec<_> = view.links.iter().map(|link| link.path.to_string()).collect();
        let all: Vec<_> = (0..STREAMS).map(|n| format!("events/{n:04}")).collect();
        assert_eq!(paths, all);
        let still = view.links.iter().filter(|link| link.acked == Some(Offset::new(1, 1))).count();
        assert!((STREAMS - 3..STREAMS).contains(&still), "only three have moved: {still}");
        assert_eq!(view.links[2_400].acked, Some(Offset::new(2, 2)), "done before its page");
    });
}

#[test]
fn a_subscription_that_is_deleted_while_it_is_looked_at_is_not_there() {
    simulate(|mut world| async move {
        let log = SlowList::new(&world.sys);
        world.log = log.clone();
        let engine = world.open().await;
        world.create("wake").await;
        engine.create(&id("s"), pull("events/*"), String::new()).await.unwrap();
        world.settle().await;
        log.stop();
        let replacing = async {
            world.settle().await;
            engine.delete(&id("s")).await.unwrap();
            log.pages.add_permits(1);
        };
        let name = id("s");
        let both = join(engine.get(&name), replacing);
        let (view, ()) = world.sys.clock.timeout(PATIENCE, both).await.expect("answered");
        assert!(matches!(view, Err(wake::ChangeError::NotFound(_))), "{view:?}");
    });
}
