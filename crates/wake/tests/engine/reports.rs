//! Reports that come again, or speak of what is gone.

use wire::Offset;

use super::*;

/// A worker that was called to `events/a`, while `events/b` and `named` got a message each.
async fn at_work(world: &World) -> (Engine, Claim) {
    let engine = world.open().await;
    for stream in ["wake", "named", "other"] {
        world.create(stream).await;
    }
    let streams = [path("named")].into();
    let config = Config { streams, ..pull("events/*") };
    engine.create(&id("s"), config, String::new()).await.unwrap();
    world.create("events/a").await;
    world.append("events/a").await;
    world.settle().await;
    let claim = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
    assert_eq!(claim.streams.len(), 1);
    world.create("events/b").await;
    for stream in ["events/b", "named", "other"] {
        world.append(stream).await;
    }
    (engine, claim)
}

/// A report that goes on, of this much in a stream.
fn acks(claim: &Claim, acked: &[(&str, u64)]) -> Progress {
    let ack = |(stream, n): &(&str, u64)| Ack { path: path(stream), offset: Offset::new(*n, *n) };
    Progress { acks: acked.iter().map(ack).collect(), done: false, ..done(claim) }
}

#[test]
fn a_report_that_is_sent_again_is_taken_again() {
    simulate(|world| async move {
        let (engine, claim) = at_work(&world).await;
        // All of them are done by it, and the links of those that no wake needs are gone.
        let all = acks(&claim, &[("events/a", 1), ("events/b", 1), ("named", 1)]);
        for attempt in 0..3 {
            let reported = engine.report(&id("s"), &claim.token, all.clone()).await;
            reported.unwrap_or_else(|error| panic!("attempt {attempt}: {error}"));
        }
        let end = Progress { done: true, ..all };
        assert!(!engine.report(&id("s"), &claim.token, end).await.unwrap().next_wake);
        world.append("events/b").await;
        let next = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
        let work = &next.streams[0];
        assert_eq!(
            (&work.link.path, work.link.acked),
            (&path("events/b"), Some(Offset::new(1, 1)))
        );
    });
}

#[test]
fn what_is_acknowledged_of_a_stream_that_is_gone_spoils_no_report() {
    simulate(|world| async move {
        let (engine, claim) = at_work(&world).await;
        for stream in ["events/b", "named"] {
            world.end(stream, End::Deleted).await;
        }
        let all = acks(&claim, &[("events/a", 1), ("events/b", 1), ("named", 1)]);
        engine.report(&id("s"), &claim.token, Progress { done: true, ..all }).await.unwrap();
        let links = engine.get(&id("s")).await.unwrap().links;
        let cursors: Vec<_> = links.iter().map(|link| (link.path.as_str(), link.acked)).collect();
        assert_eq!(cursors, [("events/a", Some(Offset::new(1, 1))), ("named", None)]);
        // Made anew, it is another stream, and nothing of it is done.
        world.create("events/b").await;
        world.append("events/b").await;
        let next = engine.claim(&id("s"), "one".to_owned()).await.unwrap();
        assert_eq!(
            (&next.streams[0].link.path, next.streams[0].link.acked),
            (&path("events/b"), None)
        );
    });
}

#[test]
fn a_cursor_at_rest_goes_neither_back_nor_beyond_its_stream() {
    simulate(|world| async move {
        let (engine, claim) = at_work(&world).await;
        world.append("events/b").await;
        let rested = acks(&claim, &[("events/b", 2)]);
        engine.report(&id("s"), &claim.token, rested).await.unwrap();
        for (stream, n) in [("events/b", 1), ("events/b", 3), ("other", 1)] {
            let wrong = acks(&claim, &[("events/a", 1), (stream, n)]);
            let refused = engine.report(&id("s"), &claim.token, wrong).await;
            let Err(ProgressError::InvalidAck(fact)) = refused else {
                panic!("{stream} {n}: {refused:?}");
            };
            assert_eq!(fact.path, path(stream));
        }
        let view = engine.get(&id("s")).await.unwrap();
        assert_eq!(view.links[0].acked, None, "a report is taken whole or not at all");
    });
}
