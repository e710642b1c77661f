//! Queries that outgrow what they may remember.

use live::{Db, DbError};

use crate::{Message, Status, message, run};

#[test]
fn a_query_that_outgrows_its_bound_says_so_and_all_others_go_on() {
    run(|sys| async move {
        let db = Db::new(&sys);
        db.bound_queries(10_000);
        let messages = db.local::<Message>().unwrap();
        let large = || live::from::<Message>().order_by(Message::text).limit(5_000);
        let small = || live::from::<Message>().filter(Message::status.eq(Status::Done));
        let (grows, stays) = (db.live(large()).unwrap(), db.live(small()).unwrap());
        let changes = db.changes(large()).unwrap();
        let told = |_: live::Event<Message>, _: live::Context| async { Ok(()) };
        let effect = db.effect(large()).on_enter(told).start().unwrap();
        for number in 0..2_000 {
            let _ = messages.insert(message(&format!("m{number}"), Status::Pending)).unwrap();
        }
        let _ = messages.insert(message("last", Status::Done)).unwrap();
        assert!(matches!(grows.ready().await, Err(DbError::Query(_))), "{:?}", grows.footprint());
        assert!(grows.is_empty());
        assert!(changes.failure().is_some());
        effect.ended().await;
        assert_eq!(stays.len(), 1);
        assert!(stays.failure().is_none());
        assert!(messages.get("m1999").is_some());
    });
}
