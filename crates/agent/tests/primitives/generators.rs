//! Generators: one run for each row that asks for one.

use std::{sync::Arc, time::Duration};

use agent::{
    GenerationContext, Generator,
    contract::GenerationRow as _,
    rows::{CancelledBy, Claim, Generation, GenerationStatus, Stop},
};
use live::{Collection, HandlerError, from};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::support::{World, generation, simulate, stop};

async fn pending(rows: &Collection<Generation>, id: &str) {
    let row = generation(id, GenerationStatus::Pending);
    rows.insert(row).unwrap().settled().await.unwrap();
}

async fn until(rows: &Collection<Generation>, id: &str, status: GenerationStatus) -> Generation {
    let mut changes = rows.changes().unwrap();
    loop {
        if let Some(row) = rows.get(id).filter(|row| row.status == status && row.is_synced()) {
            return (*row).clone();
        }
        changes.next().await;
    }
}

#[test]
fn a_row_is_said_to_be_generating_before_it_is_run_and_how_it_ended_after() {
    simulate(|world| async move {
        let rows = world.open().await.rows::<Generation>().unwrap();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (completed, failed, watched) = (heard.clone(), heard.clone(), rows.clone());
        let generator = Generator::builder(
            &rows,
            from::<Generation>(),
            move |row: Generation, context: GenerationContext| {
                let shown = watched.get(row.id.as_str()).unwrap();
                assert!(shown.is_synced() && shown.status == GenerationStatus::Generating);
                async move {
                    match row.id.as_str() {
                        "good" => Ok(context.attempt()),
                        "bad" => Err(HandlerError::new("no model")),
                        _ => panic!("what now?"),
                    }
                }
            },
        )
        .result(|row, attempt| row.model = format!("attempt {attempt}"))
        .on_complete(move |row: Generation, attempt: u32| {
            completed.lock().push(format!("{} {attempt}", row.id));
            async {}
        })
        .on_error(move |row: Generation, why: String| {
            failed.lock().push(format!("{}: {why}", row.id));
            async {}
        })
        .concurrency(1)
        .start()
        .unwrap();
        for id in ["good", "bad", "ugly"] {
            pending(&rows, id).await;
        }
        let good = until(&rows, "good", GenerationStatus::Completed).await;
        assert_eq!(good.model, "attempt 1");
        let bad = until(&rows, "bad", GenerationStatus::Failed).await;
        assert_eq!(bad.error.unwrap(), "no model");
        until(&rows, "ugly", GenerationStatus::Failed).await;
        generator.dispose().await;
        let ugly = "ugly: the function that makes it has panicked";
        assert_eq!(*heard.lock(), ["good 1", "bad: no model", ugly]);
    });
}

/// A generator whose function waits until it is cancelled, and tells who was.
fn waiting(
    rows: &Collection<Generation>,
    heard: &Arc<Mutex<Vec<String>>>,
    begun: &Arc<Notify>,
) -> Generator {
    let (cancelled, begun) = (heard.clone(), begun.clone());
    Generator::builder(rows, from::<Generation>(), move |_, context: GenerationContext| {
        begun.notify_one();
        async move {
            context.cancellation().cancelled().await;
            Ok(())
        }
    })
    .time_max(Duration::from_secs(30))
    .on_cancelled(move |row: Generation, by: CancelledBy| {
        cancelled.lock().push(format!("{} by {by}", row.id));
        async {}
    })
    .start()
    .unwrap()
}

#[test]
fn a_row_that_is_cancelled_or_deleted_cancels_its_run_and_so_do_time_and_the_end() {
    simulate(|world: World| async move {
        let rows = world.open().await.rows::<Generation>().unwrap();
        let (heard, begun) = (Arc::default(), Arc::new(Notify::new()));
        let generator = waiting(&rows, &heard, &begun);
        pending(&rows, "a").await;
        begun.notified().await;
        let _ = rows.update("a", |row| row.cancel(CancelledBy::User, "stop", "")).unwrap();
        pending(&rows, "b").await;
        begun.notified().await;
        rows.delete("b").unwrap().settled().await.unwrap();
        pending(&rows, "c").await;
        let late = until(&rows, "c", GenerationStatus::Cancelled).await;
        assert_eq!(late.cancelled_by, Some(CancelledBy::Timeout));
        begun.notified().await;
        pending(&rows, "d").await;
        begun.notified().await;
        generator.dispose().await;
        let ended = rows.get("d").unwrap();
        assert_eq!(ended.cancelled_by, Some(CancelledBy::Error));
        assert!(rows.get("b").is_none(), "what was deleted stays away");
        let expected = ["a by user", "b by user", "c by timeout", "d by error"];
        assert_eq!(*heard.lock(), expected);
    });
}

/// What a dead generator leaves.
async fn die(world: &World) -> (Collection<Generation>, Collection<Claim>) {
    let db = world.open().await;
    let (rows, claims) = (db.rows::<Generation>().unwrap(), db.rows::<Claim>().unwrap());
    let row = generation("g", GenerationStatus::Generating);
    rows.insert(row).unwrap().settled().await.unwrap();
    let claim = Claim {
        id: "g#1@dead".into(),
        of: "g".into(),
        attempt: 1,
        by: "dead".into(),
        until: "2001-09-09T01:47:00.000Z".into(),
        created_at: String::new(),
    };
    claims.insert(claim).unwrap().settled().await.unwrap();
    (rows, claims)
}

#[test]
fn an_interrupted_generation_is_cancelled_by_an_error() {
    simulate(|world| async move {
        let (rows, claims) = die(&world).await;
        let generator = Generator::builder(&rows, from::<Generation>(), |_, _| async {
            panic!("it is not to be run again")
        });
        let generator = generator.result(|_, (): &()| {}).claims(&claims).start().unwrap();
        let row = until(&rows, "g", GenerationStatus::Cancelled).await;
        assert_eq!(row.cancelled_by, Some(CancelledBy::Error));
        assert!(world.sys.clock.elapsed() >= Duration::from_secs(20), "not before its lease ends");
        generator.dispose().await;
    });
}

#[test]
fn or_it_is_run_again_if_that_is_wanted() {
    simulate(|world| async move {
        let (rows, claims) = die(&world).await;
        let generator = Generator::builder(
            &rows,
            from::<Generation>(),
            |_, context: GenerationContext| async move { Ok(context.attempt()) },
        );
        let generator = generator
            .result(|row, attempt| row.model = attempt.to_string())
            .claims(&claims)
            .restarts_interrupted()
            .start()
            .unwrap();
        assert_eq!(until(&rows, "g", GenerationStatus::Completed).await.model, "2");
        generator.dispose().await;
    });
}

#[test]
fn a_stop_that_is_a_row_cancels_a_generation_by_user() {
    simulate(|world| async move {
        let db = world.open().await;
        let (rows, stops) = (db.rows::<Generation>().unwrap(), db.rows::<Stop>().unwrap());
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = told.clone();
        let generator = Generator::builder(
            &rows,
            from::<Generation>(),
            move |row: Generation, context: GenerationContext| {
                let heard = heard.clone();
                async move {
                    context.cancellation().cancelled().await;
                    heard.lock().push(row.id);
                    Ok(())
                }
            },
        );
        let generator = generator.stops(&stops).start().unwrap();
        for id in ["a", "b"] {
            pending(&rows, id).await;
            until(&rows, id, GenerationStatus::Generating).await;
        }
        stops.insert(stop("s1", Some("a"))).unwrap().settled().await.unwrap();
        let row = until(&rows, "a", GenerationStatus::Cancelled).await;
        assert_eq!(
            (row.cancelled_by, row.error.as_deref()),
            (Some(CancelledBy::User), Some("enough"))
        );
        world.rest(10_000).await;
        assert_eq!(*told.lock(), ["a"], "the other was not meant");
        // One that names none means all that was asked for before, also what has not begun.
        stops.insert(stop("s2", None)).unwrap().settled().await.unwrap();
        until(&rows, "b", GenerationStatus::Cancelled).await;
        stops.insert(stop("s3", Some("c"))).unwrap().settled().await.unwrap();
        pending(&rows, "c").await;
        until(&rows, "c", GenerationStatus::Cancelled).await;
        assert_eq!(*told.lock(), ["a", "b"], "it was never begun");
        pending(&rows, "d").await;
        until(&rows, "d", GenerationStatus::Generating).await;
        generator.dispose().await;
    });
}
