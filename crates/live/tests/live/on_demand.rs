//! Sources that bring only what queries ask for.

use std::sync::Arc;

use live::{Batch, Db, Demand, Loading, OnDemand, Sink, SourceError, Subset};
use parking_lot::Mutex;
use sys::Sys;

use crate::{Message, Status, message, run};

/// A table far away, and what was asked of it.
#[derive(Clone, Default)]
struct Server {
    rows: Arc<Mutex<Vec<Message>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn with(count: u32) -> Self {
        let row = |likes: u32| Message {
            likes,
            ..message(&format!("m{likes:02}"), [Status::Done, Status::Pending][likes as usize % 2])
        };
        Self { rows: Arc::new(Mutex::new((0..count).map(row).collect())), ..Self::default() }
    }

    fn source(&self) -> OnDemand<Message, impl Fn(Subset) -> Answer + use<>> {
        let this = self.clone();
        OnDemand::new(move |subset| std::future::ready(this.answer(&subset)))
    }

    /// Answers as a server does that runs the query it was sent.
    fn answer(&self, subset: &Subset) -> Result<Vec<Message>, &'static str> {
        let query = subset.query("message");
        self.asked.lock().push(query.to_json());
        let db = Db::new(&Sys::real());
        let messages = db.local::<Message>().unwrap();
        for row in self.rows.lock().iter() {
            if row.text == "the server is down" {
                return Err("the server is down");
            }
            let _ = messages.insert(row.clone()).unwrap();
        }
        let rows = db.once(live::Find::<Message>::from(query)).unwrap();
        Ok(rows.iter().map(|row| (**row).clone()).collect())
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

type Answer = std::future::Ready<Result<Vec<Message>, &'static str>>;

#[test]
fn a_query_loads_what_it_asks_for_and_no_more() {
    run(|sys| async move {
        let (server, db) = (Server::with(20), Db::new(&sys));
        let messages = db.collection::<Message>(server.source()).unwrap();
        messages.ready().await.unwrap();
        assert_eq!((messages.len(), server.asked()), (0, 0));
        let pending = live::from::<Message>().filter(Message::status.eq(Status::Pending));
        let live = db.live(pending.clone()).unwrap();
        live.ready().await.unwrap();
        assert_eq!((live.len(), messages.len(), server.asked()), (10, 10, 1));
        // Whoever asks the same has it already.
        let same = db.live(pending).unwrap();
        same.ready().await.unwrap();
        assert_eq!((same.len(), server.asked()), (10, 1));
    });
}

#[test]
fn rows_that_nobody_wants_any_more_are_let_go() {
    run(|sys| async move {
        let (server, db) = (Server::with(20), Db::new(&sys));
        let messages = db.collection::<Message>(server.source()).unwrap();
        let few = live::from::<Message>().filter(Message::likes.lt(5));
        let some = live::from::<Message>().filter(Message::likes.lt(8));
        let (few, some) = (db.live(few).unwrap(), db.live(some).unwrap());
        few.ready().await.unwrap();
        some.ready().await.unwrap();
        assert_eq!(messages.len(), 8);
        let mut changes = messages.changes().unwrap();
        changes.take();
        drop(some);
        // `changes` wants all rows, so it sees the others come; the subset of `some` alone goes.
        while messages.len() < 20 {
            changes.next().await;
        }
        drop(changes);
        let one = db.once_ready(live::from::<Message>().filter(Message::id.eq("m01"))).await;
        assert_eq!(one.unwrap().len(), 1);
        while messages.len() > 5 {
            tokio::task::yield_now().await;
        }
        assert_eq!(few.len(), 5);
    });
}

#[test]
fn a_window_asks_for_more_when_it_loses_a_row() {
    run(|sys| async move {
        let (server, db) = (Server::with(20), Db::new(&sys));
        let source = server.source();
        let handle = source.handle();
        let messages = db.collection::<Message>(source).unwrap();
        let first = live::from::<Message>().order_by(Message::likes).limit(3);
        let first = db.live(first).unwrap();
        first.ready().await.unwrap();
        assert_eq!((first.len(), messages.len()), (3, 3));
        server.rows.lock().remove(0);
        handle.refetch();
        while first.first().unwrap().id != "m01" || first.len() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(first.rows().last().unwrap().id, "m03");
    });
}

/// Brings the rows of a subset, and then loses the first of them.
struct Losing {
    rows: Vec<Message>,
    lost: Arc<tokio::sync::Notify>,
}

impl live::Source for Losing {
    fn loading(&self) -> Loading {
        Loading::OnDemand
    }

    async fn run(mut self, mut sink: Sink) -> Result<(), SourceError> {
        sink.ready();
        loop {
            tokio::select! {
                demand = sink.demand() => {
                    let Demand::Load(load) = demand else { continue };
                    let wanted = load.subset().limit.unwrap_or(usize::MAX);
                    let rows = self.rows.iter().take(wanted).cloned();
                    sink.commit(rows.fold(Batch::begin(), Batch::put)).unwrap();
                    load.done();
                }
                () = self.lost.notified() => {
                    let row = self.rows.remove(0);
                    sink.commit(Batch::begin().delete(row.id)).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_window_that_is_short_is_filled_again() {
    run(|sys| async move {
        let (db, lost) = (Db::new(&sys), Arc::new(tokio::sync::Notify::new()));
        let rows = Server::with(5).rows.lock().clone();
        let _messages = db.collection::<Message>(Losing { rows, lost: lost.clone() }).unwrap();
        let first = live::from::<Message>().order_by(Message::likes).limit(3);
        let first = db.live(first).unwrap();
        first.ready().await.unwrap();
        let mut changes = first.changes().unwrap();
        for last in ["m03", "m04", "m04", "m04"] {
            lost.notify_one();
            while first.rows().last().unwrap().id != last {
                changes.next().await;
            }
        }
        // There are no more, and nobody asks for them for ever.
        while first.len() > 1 {
            changes.next().await;
        }
    });
}

#[test]
fn what_cannot_be_loaded_says_why() {
    run(|sys| async move {
        let (server, db) = (Server::with(1), Db::new(&sys));
        server.rows.lock()[0].text = "the server is down".into();
        let _messages = db.collection::<Message>(server.source()).unwrap();
        let refused = db.once_ready(live::from::<Message>()).await.unwrap_err();
        assert!(refused.to_string().contains("the server is down"), "{refused}");
    });
}
