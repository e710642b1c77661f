//! When a session is worth compacting, also after a compaction by another process.

use std::time::Duration;

use agent::{
    rows::{self, GenerationStatus, KeepChunks, Message, Role},
    session::Session,
};
use live::{CompactError, Compacted, StreamDb};
use log::{Fork, ReadError};
use sys::UnixMs;
use wire::{Messages, Offset, Position, ReadFrom, Timestamp};

use crate::{
    fold::chunk,
    support::{World, generation, message},
};

const HOUR: u64 = 3_600_000;

/// A question, which the agent answers with so many chunks; that ends at this time.
async fn answer(world: &World, chunks: u64, ended_ms: u64) {
    let at = world.tail().await.position.get();
    world.say(&format!("q{at}"), 10).await;
    let mut answer = generation(at, None, GenerationStatus::Generating);
    world.put(None, &answer).await;
    for index in 0..chunks {
        world.put(None, &chunk(&answer.id, index, 500)).await;
    }
    let said = message(&format!("{}:1", answer.id), 10);
    world.put(None, &Message { role: Role::Assistant, target_agent: None, ..said }).await;
    answer.status = GenerationStatus::Completed;
    answer.completed_at = Some(Timestamp::from_unix_ms(ended_ms).to_string());
    world.put(None, &answer).await;
}

async fn compact(world: &World, keep: KeepChunks, now: u64) -> Result<Compacted, CompactError> {
    let compaction = live::compact(&world.log, world.address(), &world.sys);
    rows::drop_chunks(rows::compaction(compaction), keep, UnixMs::new(now)).run().await
}

async fn due(session: &mut Session, keep: KeepChunks) -> Option<u64> {
    session.catch_up().await.unwrap();
    session.compaction_due(keep).await.unwrap().map(UnixMs::get)
}

/// What a database shows: the texts of messages by their positions, and how many chunks.
async fn shown(world: &World) -> (Vec<(u64, String)>, usize) {
    let db = StreamDb::builder(world.log.clone(), world.address(), &world.sys);
    let db = rows::session(db).with::<rows::Chunk>().open().unwrap();
    db.ready().await.unwrap();
    let messages = db.rows::<Message>().unwrap().rows();
    let place = |row: &live::RowRef<Message>| row.meta().position.unwrap();
    let mut texts: Vec<_> = messages.iter().map(|row| (place(row), row.content.clone())).collect();
    texts.sort_unstable();
    (texts, db.rows::<rows::Chunk>().unwrap().rows().len())
}

#[tokio::test]
async fn chunks_that_a_compaction_has_left_are_counted_and_no_others() {
    let keep = KeepChunks::For(Duration::from_hours(1));
    let world = World::new().await;
    let (mut own, mut foreign) = (world.session(), world.session());
    for hour in 1..=3 {
        answer(&world, 100, hour * HOUR).await;
    }
    for session in [&mut own, &mut foreign] {
        assert_eq!(due(session, keep).await, Some(3 * HOUR), "an hour after the first two ended");
        session.rest().await;
    }
    let compacted = compact(&world, keep, 3 * HOUR).await.unwrap();
    own.compacted(&compacted, keep).await;
    assert_eq!(shown(&world).await.1, 100);
    let cold = world.session();
    for mut session in [own, foreign, cold] {
        assert_eq!(due(&mut session, keep).await, Some(4 * HOUR), "an hour after the last one");
    }
    // A process that has the snapshot of one that knew nothing of the compaction, and more.
    answer(&world, 30, 9 * HOUR).await;
    let mut later = world.session();
    assert_eq!(due(&mut later, keep).await, Some(5 * HOUR));
    assert_eq!(due(&mut later, KeepChunks::UntilMessage).await, Some(0));
    assert_eq!(due(&mut later, KeepChunks::Forever).await, None);
}

/// A session that was compacted as far as an effect let it, and the effect.
async fn held(world: &World) -> Session {
    let mut session = world.session();
    answer(world, 100, HOUR).await;
    let at = world.tail().await.position.get();
    let now = world.sys.clock.unix_ms().get();
    let cursor = format!(r#"{{"start":0,"position":{at},"epoch":1,"seenAt":{now}}}"#);
    let headers = r#"{"operation":"upsert"}"#;
    let cursor = format!(
        r#"{{"type":"headwater.cursor","key":"slow","value":{cursor},"headers":{headers}}}"#
    );
    world.append(Messages::one(cursor).unwrap()).await;
    answer(world, 100, HOUR).await;
    assert!(due(&mut session, KeepChunks::UntilMessage).await.is_some());
    let compacted = compact(world, KeepChunks::UntilMessage, 2 * HOUR).await.unwrap();
    assert_eq!(compacted.held_by.as_deref(), Some("slow"));
    session.compacted(&compacted, KeepChunks::UntilMessage).await;
    assert_eq!(shown(world).await.1, 100, "what the effect needs is there");
    session
}

#[tokio::test]
async fn what_an_effect_holds_is_left_alone_until_there_is_more_and_then_dropped() {
    let world = World::new().await;
    let mut session = held(&world).await;
    let keep = KeepChunks::UntilMessage;
    assert_eq!(due(&mut session, keep).await, None, "nothing has changed");
    let delete = r#"{"type":"headwater.cursor","key":"slow","headers":{"operation":"delete"}}"#;
    world.append(Messages::one(delete).unwrap()).await;
    answer(&world, 50, HOUR).await;
    assert!(due(&mut session, keep).await.is_some(), "chunks that were held are counted");
    let compacted = compact(&world, keep, 2 * HOUR).await.unwrap();
    session.compacted(&compacted, keep).await;
    assert_eq!(shown(&world).await.1, 0);
    assert_eq!(due(&mut session, keep).await, None);
}

#[tokio::test]
async fn a_compaction_that_is_refused_is_not_tried_again_at_once() {
    let world = World::new().await;
    let mut session = world.session();
    answer(&world, 100, HOUR).await;
    world.append(Messages::one("[1]").unwrap()).await;
    let keep = KeepChunks::UntilMessage;
    assert!(due(&mut session, keep).await.is_some());
    let refused = compact(&world, keep, 2 * HOUR).await.unwrap_err();
    assert!(matches!(refused, CompactError::NotState { .. }), "{refused}");
    session.not_compacted();
    answer(&world, 10, HOUR).await;
    assert_eq!(due(&mut session, keep).await, None, "it has grown by a tenth");
    answer(&world, 30, HOUR).await;
    assert!(due(&mut session, keep).await.is_some(), "by more than a third");
}

#[tokio::test]
async fn a_compaction_in_vain_is_not_tried_again_at_once() {
    let world = World::new().await;
    let mut session = world.session();
    // Chunks of messages that never came.
    for index in 0..100 {
        world.put(None, &chunk("lost-1", index, 500)).await;
    }
    let keep = KeepChunks::UntilMessage;
    assert!(due(&mut session, keep).await.is_some());
    let vain = compact(&world, keep, HOUR).await.unwrap();
    assert_eq!(vain.snapshot, None);
    session.compacted(&vain, keep).await;
    assert_eq!(due(&mut session, keep).await, None);
    answer(&world, 60, HOUR).await;
    assert!(due(&mut session, keep).await.is_some());
}

#[tokio::test]
async fn forks_of_a_stream_without_its_chunks_show_the_same_messages_and_go_on() {
    let world = World::new().await;
    for _ in 0..5 {
        answer(&world, 50, HOUR).await;
    }
    let (texts, _) = shown(&world).await;
    let early = world.forked("early", Fork::of(world.address())).await;
    compact(&world, KeepChunks::UntilMessage, 2 * HOUR).await.unwrap();
    let late = world.forked("late", Fork::of(world.address())).await;
    for (fork, chunks) in [(&early, 250), (&late, 0)] {
        assert_eq!(shown(fork).await, (texts.clone(), chunks));
        answer(fork, 50, HOUR).await;
        let (grown, chunks_then) = shown(fork).await;
        assert_eq!((&grown[..10], grown.len(), chunks_then), (&texts[..], 12, chunks + 50));
        compact(fork, KeepChunks::UntilMessage, 2 * HOUR).await.unwrap();
        assert_eq!(shown(fork).await, (grown, 0));
    }
    assert_eq!(shown(&world).await, (texts, 0));
}

/// The text of each message, as a reader of raw rows has it.
async fn texts_from(world: &World, from: ReadFrom) -> Result<Vec<(String, String)>, ReadError> {
    let chunk = world.log.read(&world.address(), from, 64 << 20).await?;
    let texts = chunk.messages().filter_map(|message| {
        let state::Body::Change(change) = state::decode(message).body else { return None };
        let row: Message = serde_json::from_str(change.value?.get()).ok()?;
        (change.type_name == "message").then_some((row.id, row.content))
    });
    Ok(texts.collect())
}

#[tokio::test]
async fn a_reader_that_comes_back_to_dropped_chunks_is_told_where_to_begin_and_finds_the_same_text()
{
    let world = World::new().await;
    for _ in 0..5 {
        answer(&world, 50, HOUR).await;
    }
    let all = texts_from(&world, ReadFrom::Start).await.unwrap();
    let chunk = world.log.read(&world.address(), ReadFrom::Start, 64 << 20).await.unwrap();
    // In the middle of the chunks of the third answer.
    let read = chunk.messages().take(130);
    let within = read.fold(Offset::START, |at, message| at.after(1, message.len() as u64));
    compact(&world, KeepChunks::UntilMessage, 2 * HOUR).await.unwrap();
    let earliest = world.log.head(&world.address()).await.unwrap().earliest;
    for old in [Offset::START, within] {
        let refused = texts_from(&world, ReadFrom::At(old)).await.unwrap_err();
        let ReadError::Trimmed(fact) = refused else { panic!("{refused}") };
        assert_eq!(fact.earliest, earliest, "the oldest place that is kept");
    }
    assert_eq!(texts_from(&world, ReadFrom::At(earliest)).await.unwrap(), all);
    // A window on a position that is not kept as it was shows what was written from there on.
    let window = world.session().window(Position::new(130)).await.unwrap();
    let since = texts_from(&world, ReadFrom::At(window.offset)).await.unwrap();
    assert_eq!(since, all[5..], "the third answer, and all that came after it");
}
