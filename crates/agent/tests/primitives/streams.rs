//! The text of a run as rows, while it grows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent::{
    Partial, StreamEnd, StreamTo, Table, Write,
    caps::{CHUNKS_PER_GENERATION_MAX, DELETES_PER_APPEND_MAX},
    end_chunks,
    rows::{Chunk, ChunkType, Generation, GenerationStatus},
    stream_to_collection, text_of,
};
use chat::agui::{
    Event, EventKind, RunFinished, RunStarted, TextMessageContent, TextMessageEnd, TextMessageStart,
};
use futures_util::stream::{self, Stream, StreamExt as _};
use live::{Collection, Db, from, include_text};
use parking_lot::Mutex;
use sys::Sys;

use crate::support::{generation, simulate};

fn text(delta: &str) -> Event {
    TextMessageContent { message_id: "m".into(), delta: delta.into() }.into()
}

fn started() -> Vec<Event> {
    let (thread_id, run_id) = ("t".into(), "r".into());
    let start =
        RunStarted { thread_id, run_id, protocol_version: None, parent_run_id: None, input: None };
    let message = TextMessageStart { message_id: "m".into(), role: None, name: None };
    vec![start.into(), message.into()]
}

fn finished() -> Vec<Event> {
    let (thread_id, run_id) = ("t".into(), "r".into());
    let (result, outcome, usage) = (None, None, None);
    let end = RunFinished { thread_id, run_id, result, outcome, usage };
    vec![TextMessageEnd { message_id: "m".into() }.into(), end.into()]
}

fn run(deltas: &[&str]) -> Vec<Event> {
    let said = deltas.iter().map(|delta| text(delta));
    started().into_iter().chain(said).chain(finished()).collect()
}

/// The same with so much time between two events.
fn paced(events: Vec<Event>, pause: Duration, sys: &Sys) -> impl Stream<Item = Event> {
    let sys = sys.clone();
    stream::iter(events).then(move |event| {
        let sys = sys.clone();
        async move {
            sys.clock.sleep(pause).await;
            event
        }
    })
}

fn shown(chunks: &Collection<Chunk>) -> Vec<(u64, ChunkType, String)> {
    let mut rows = chunks.rows();
    rows.sort_by_key(|row| row.index);
    rows.iter().map(|row| (row.index, row.kind, row.content.clone())).collect()
}

/// Rows whose writes take a while, and are counted.
fn slow(sys: &Sys, takes: Duration) -> (Table<Chunk>, Arc<AtomicUsize>) {
    let chunks: Collection<Chunk> = Db::new(sys).local().unwrap();
    let writes: Arc<AtomicUsize> = Arc::default();
    let (kept, sys, into) = (writes.clone(), sys.clone(), chunks.clone());
    let table = Table::written_by(&chunks, move |write| {
        let (sys, into) = (sys.clone(), into.clone());
        kept.fetch_add(1, Ordering::Relaxed);
        async move {
            sys.clock.sleep(takes).await;
            if let Write::Insert(rows) = write {
                rows.into_iter().for_each(|row| drop(into.insert(row).unwrap()));
            }
            Ok(())
        }
    });
    (table, writes)
}

#[test]
fn tokens_become_rows_with_dense_indexes_and_an_end() {
    simulate(|world| async move {
        let db = world.open().await;
        let chunks = db.rows::<Chunk>().unwrap();
        let events = paced(run(&["Hel", "lo", "!"]), Duration::from_millis(20), &world.sys);
        let how = StreamTo::generation("g");
        let streamed = stream_to_collection(events, &chunks, how).await.unwrap();
        assert_eq!((streamed.text.as_str(), &streamed.end), ("Hello!", &StreamEnd::Completed));
        assert_eq!(streamed.next_index, 4);
        let text = |index, word: &str| (index, ChunkType::Text, word.to_owned());
        let end = (3, ChunkType::End, "completed".to_owned());
        assert_eq!(shown(&chunks), [text(0, "Hel"), text(1, "lo"), text(2, "!"), end]);
        let rows = chunks.rows();
        assert!(rows.iter().all(|row| row.id == format!("g:c{}", row.index)));
        assert_eq!(rows.iter().filter(|row| row.is_final).count(), 1);
        // Anybody puts it together by a query, or by hand.
        let whole = from::<Chunk>()
            .filter(Chunk::generation_id.eq(Generation::id))
            .filter(Chunk::kind.eq(ChunkType::Text))
            .order_by(Chunk::index)
            .select("text", Chunk::content);
        let row = generation("g", GenerationStatus::Completed);
        db.rows().unwrap().insert(row).unwrap().settled().await.unwrap();
        let shown = db.once(from::<Generation>().select("text", include_text(whole))).unwrap();
        assert_eq!(shown[0].get("text").as_text().unwrap(), "Hello!");
        assert_eq!(text_of(rows.iter().map(|row| &**row)), "Hello!");
    });
}

#[test]
fn what_comes_while_a_write_is_on_its_way_is_one_row() {
    simulate(|world| async move {
        let (table, writes) = slow(&world.sys, Duration::from_millis(7));
        let deltas = ["a", "b", "c", "d", "e", "f"];
        let events = paced(run(&deltas), Duration::from_millis(2), &world.sys);
        let streamed = stream_to_collection(events, &table, StreamTo::generation("g")).await;
        assert_eq!(streamed.unwrap().text, "abcdef");
        let texts: Vec<_> = shown(table.rows()).into_iter().map(|(.., text)| text).collect();
        assert_eq!(texts, ["a", "bcd", "ef", "completed"]);
        assert_eq!(
            writes.load(Ordering::Relaxed),
            texts.len(),
            "one write is on its way at a time"
        );
    });
}

#[test]
fn economy_writes_a_few_times_a_second_and_final_only_once() {
    simulate(|world| async move {
        let count = async |how: StreamTo| {
            let (table, writes) = slow(&world.sys, Duration::ZERO);
            let deltas = vec!["x"; 100];
            let events = paced(run(&deltas), Duration::from_millis(10), &world.sys);
            let streamed = stream_to_collection(events, &table, how).await.unwrap();
            assert_eq!(streamed.text.len(), 100);
            assert_eq!(text_of(table.rows().rows().iter().map(|row| &**row)).len(), 100);
            writes.load(Ordering::Relaxed)
        };
        assert!(count(StreamTo::generation("g")).await >= 100);
        let few = count(StreamTo::generation("g").economy()).await;
        assert!((4..=6).contains(&few), "{few}");
        assert_eq!(count(StreamTo::generation("g").final_only()).await, 1);
    });
}

#[test]
fn events_are_left_out_and_changed_and_indexes_stay_dense() {
    simulate(|world| async move {
        let chunks: Collection<Chunk> = Db::new(&world.sys).local().unwrap();
        let how = StreamTo::generation("g")
            .from_index(10)
            .filter(|event| match &event.kind {
                EventKind::TextMessageContent(text) => text.delta != "secret",
                _ => true,
            })
            .transform(|mut event| {
                if let EventKind::TextMessageContent(text) = &mut event.kind {
                    text.delta = text.delta.to_uppercase();
                }
                event
            });
        let events = paced(run(&["a", "secret", "b"]), Duration::from_millis(20), &world.sys);
        stream_to_collection(events, &chunks, how).await.unwrap();
        let text = |index, word: &str| (index, ChunkType::Text, word.to_owned());
        let end = (12, ChunkType::End, "completed".to_owned());
        assert_eq!(shown(&chunks), [text(10, "A"), text(11, "B"), end]);
    });
}

#[test]
fn a_run_that_ends_in_the_middle_leaves_its_pieces_marked_or_nothing() {
    simulate(|world| async move {
        let half: Vec<_> = started().into_iter().chain([text("half")]).collect();
        let cut = |partial| {
            let (sys, half) = (world.sys.clone(), half.clone());
            async move {
                let chunks: Collection<Chunk> = Db::new(&sys).local().unwrap();
                let how = StreamTo::generation("g").partial(partial);
                let events = paced(half, Duration::from_millis(20), &sys);
                let streamed = stream_to_collection(events, &chunks, how).await.unwrap();
                assert_eq!((streamed.end, streamed.text.as_str()), (StreamEnd::Cancelled, "half"));
                shown(&chunks)
            }
        };
        let end = (1, ChunkType::End, "cancelled".to_owned());
        let kept = [(0, ChunkType::Text, "half".to_owned()), end];
        assert_eq!(cut(Partial::Keep).await, kept);
        assert_eq!(cut(Partial::Delete).await, []);
    });
}

#[test]
fn pieces_that_a_crash_left_are_given_an_end_by_whoever_finds_them() {
    simulate(|world| async move {
        let chunks = world.open().await.rows::<Chunk>().unwrap();
        for generation in ["g", "h"] {
            let mut events =
                Box::pin(stream::iter(run(&["left"])).take(3).chain(stream::pending()));
            let writing =
                stream_to_collection(&mut events, &chunks, StreamTo::generation(generation));
            let crashed = world.sys.clock.timeout(Duration::from_secs(1), writing).await;
            assert!(crashed.is_err());
        }
        assert_eq!(chunks.len(), 2);
        end_chunks(&chunks, "g", "cancelled", Partial::Keep).await.unwrap();
        end_chunks(&chunks, "g", "failed", Partial::Keep).await.unwrap();
        end_chunks(&chunks, "h", "cancelled", Partial::Delete).await.unwrap();
        let rows = chunks.rows();
        let ids: Vec<_> = rows.iter().map(|row| (row.id.as_str(), row.content.as_str())).collect();
        assert_eq!(ids, [("g:c0", "left"), ("g:c1", "cancelled")]);
    });
}

#[test]
fn generations_side_by_side_do_not_mix() {
    simulate(|world| async move {
        let chunks = world.open().await.rows::<Chunk>().unwrap();
        let one = |id: &str, word: &str, ms| {
            let events = paced(run(&[word; 20]), Duration::from_millis(ms), &world.sys);
            stream_to_collection(events, &chunks, StreamTo::generation(id))
        };
        let (a, b) = tokio::join!(one("a", "x", 3), one("b", "y", 5));
        assert_eq!(a.unwrap().end, StreamEnd::Completed);
        assert_eq!(b.unwrap().end, StreamEnd::Completed);
        let rows = chunks.rows();
        for (id, word) in [("a", "x"), ("b", "y")] {
            let own: Vec<_> = rows.iter().filter(|row| row.generation_id == id).collect();
            let mut indexes: Vec<_> = own.iter().map(|row| row.index).collect();
            indexes.sort_unstable();
            assert!(indexes.iter().copied().eq(0..own.len() as u64), "{indexes:?}");
            assert_eq!(text_of(own.iter().map(|row| &***row)), word.repeat(20));
        }
    });
}

#[test]
fn a_long_run_has_fewer_and_larger_rows_and_no_word_is_lost() {
    simulate(|world| async move {
        let chunks: Collection<Chunk> = Db::new(&world.sys).local().unwrap();
        let words = vec!["word "; 12_000];
        let events = paced(run(&words), Duration::from_millis(20), &world.sys);
        let how = StreamTo::generation("g");
        let streamed = stream_to_collection(events, &chunks, how).await.unwrap();
        assert_eq!(streamed.text, words.concat());
        assert_eq!(text_of(chunks.rows().iter().map(|row| &**row)), words.concat());
        assert!(streamed.next_index < CHUNKS_PER_GENERATION_MAX, "{}", streamed.next_index);
    });
}

#[test]
fn more_rows_than_one_write_holds_are_taken_back_from_the_end() {
    simulate(|world| async move {
        let chunks: Collection<Chunk> = Db::new(&world.sys).local().unwrap();
        let count = 2 * DELETES_PER_APPEND_MAX as u64 + 1;
        for index in 0..count {
            let content = "x".to_owned();
            let (generation_id, kind) = ("g".to_owned(), ChunkType::Text);
            let (id, is_final) = (Chunk::id_of("g", index), false);
            let (message_id, call_id) = (None, None);
            let row =
                Chunk { id, generation_id, message_id, index, kind, content, call_id, is_final };
            let _ = chunks.insert(row).unwrap();
        }
        let deleted: Arc<Mutex<Vec<Vec<live::Key>>>> = Arc::default();
        let kept = deleted.clone();
        let table = Table::written_by(&chunks, move |write| {
            if let Write::Delete(keys) = write {
                kept.lock().push(keys);
            }
            async { Ok(()) }
        });
        end_chunks(&table, "g", "cancelled", Partial::Delete).await.unwrap();
        let deleted = deleted.lock();
        assert!(deleted.iter().all(|keys| keys.len() <= DELETES_PER_APPEND_MAX));
        let from_last = (0..count).rev().map(|index| live::Key::from(Chunk::id_of("g", index)));
        assert!(deleted.iter().flatten().cloned().eq(from_last));
    });
}
