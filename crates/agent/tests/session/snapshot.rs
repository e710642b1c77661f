//! Opening a session costs its newest snapshot and the tail, and a snapshot that is of no use
//! changes nothing.

use agent::session::Print;
use log::Delete;

use crate::support::{World, key, message};

/// A session with so many messages that were answered, and one that waits.
async fn long(world: &World, messages: usize) {
    for number in 0..messages {
        world.say(&format!("m{number}"), 100).await;
        if number % 10 == 9 {
            world.answer(None).await;
        }
    }
    world.say("open", 10).await;
}

#[tokio::test]
async fn opening_a_session_does_not_cost_its_history() {
    let mut sizes = Vec::new();
    for messages in [300, 3_000] {
        let world = World::new().await;
        long(&world, messages).await;
        let (mut session, read) = world.opened().await;
        assert!(read > 100 * messages as u64, "the first has to read all: {read}");
        session.rest().await;
        world.say("later", 10).await;
        let (again, read) = world.opened().await;
        assert!(read < 1_000, "{read} bytes were read of a session of {messages} messages");
        assert!(again.state().has_work_for("assistant"));
        assert_eq!(again.state().messages(), messages as u64 + 2);
        sizes.push(world.last_of_index().await.len());
    }
    assert!(sizes[1] < sizes[0] + 100, "a snapshot does not grow with messages: {sizes:?}");
}

#[tokio::test]
async fn an_id_is_known_for_ever() {
    let world = World::new().await;
    let (mut session, _) = world.opened().await;
    for number in 0..5_000 {
        world.say(&format!("m{number}"), 200).await;
        if number % 97 == 0 {
            session.catch_up().await.unwrap();
            session.rest().await;
        }
    }
    session.catch_up().await.unwrap();
    let (fresh, _) = world.opened().await;
    for mut session in [session, fresh] {
        for number in (0..5_000).step_by(7) {
            let id = format!("m{number}");
            let row = serde_json::to_value(message(&id, 200)).unwrap();
            let entered = session.entered(key(&id)).await.unwrap().unwrap();
            assert_eq!(entered.print, Print::of(row), "{id}");
            assert_eq!(entered.offset.position.get(), number + 1, "{id}");
        }
        assert_eq!(session.entered(key("m5000")).await.unwrap(), None);
    }
}

/// What a fresh process makes of a session whose index is this.
async fn check_ignored(world: &World) {
    let (mut session, read) = world.opened().await;
    assert!(read > 30_000, "all of it is read: {read}");
    assert!(session.state().has_work_for("assistant"));
    assert!(session.entered(key("m7")).await.unwrap().is_some());
    assert!(session.entered(key("m-7")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_damaged_snapshot_is_ignored() {
    let world = World::new().await;
    long(&world, 600).await;
    world.opened().await.0.rest().await;
    let whole = world.last_of_index().await;
    for damage in [0, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 1;
        world.append_to_index(bytes).await;
        check_ignored(&world).await;
    }
    world.append_to_index(whole[..whole.len() / 2].to_vec()).await;
    check_ignored(&world).await;
    world.append_to_index(whole).await;
    assert!(world.opened().await.1 < 1_000);
}

#[tokio::test]
async fn a_snapshot_of_another_version_is_ignored() {
    let world = World::new().await;
    long(&world, 600).await;
    world.opened().await.0.rest().await;
    let whole = String::from_utf8(world.last_of_index().await).unwrap();
    let (body, _) = whole.rsplit_once('\n').unwrap();
    let body = body.replacen(r#""version":2"#, r#""version":3"#, 1);
    let other = format!("{body}\n{:08x}", crc32fast::hash(body.as_bytes()));
    world.append_to_index(other.into_bytes()).await;
    check_ignored(&world).await;
}

/// A snapshot that is whole, with another value of this field.
fn forged(whole: &[u8], field: &str, value: &str) -> Vec<u8> {
    let whole = std::str::from_utf8(whole).unwrap();
    let (body, _) = whole.rsplit_once('\n').unwrap();
    let (before, rest) = body.split_once(&format!(r#""{field}":""#)).unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    let body = format!(r#"{before}"{field}":"{value}"{after}"#);
    format!("{body}\n{:08x}", crc32fast::hash(body.as_bytes())).into_bytes()
}

#[tokio::test]
async fn a_snapshot_of_more_than_the_stream_holds_is_ignored() {
    let world = World::new().await;
    long(&world, 600).await;
    world.opened().await.0.rest().await;
    let (whole, tail) = (world.last_of_index().await, world.tail().await);
    let same = forged(&whole, "offset", &tail.to_string());
    world.append_to_index(same).await;
    assert!(world.opened().await.1 < 1_000, "it is of use as it is");
    world.append_to_index(forged(&whole, "offset", &tail.after(1, 1).to_string())).await;
    check_ignored(&world).await;
}

#[tokio::test]
async fn a_snapshot_from_before_what_is_kept_is_ignored() {
    let world = World::new().await;
    long(&world, 600).await;
    world.opened().await.0.rest().await;
    for number in 1_000..1_400 {
        world.say(&format!("m{number}"), 100).await;
    }
    world.say("m7", 100).await;
    // All that the snapshot was followed by, and a little more.
    let tail = world.tail().await;
    for number in 2_000..2_300 {
        world.say(&format!("m{number}"), 100).await;
    }
    world.say("m7", 100).await;
    let _ = world.log.trim(&world.address(), tail).await.unwrap();
    check_ignored(&world).await;
}

#[tokio::test]
async fn a_snapshot_of_another_life_is_ignored_and_removed() {
    let world = World::new().await;
    long(&world, 600).await;
    world.opened().await.0.rest().await;
    world.log.delete(&world.address(), Delete::Stream).await.unwrap();
    world.create().await;
    long(&world, 600).await;
    check_ignored(&world).await;
    assert!(world.log.head(&world.index()).await.is_err());
}

#[tokio::test]
async fn the_index_goes_with_its_session() {
    let world = World::new().await;
    long(&world, 600).await;
    let mut session = world.opened().await.0;
    session.rest().await;
    assert!(world.log.head(&world.index()).await.is_ok());
    world.log.delete(&world.address(), Delete::Stream).await.unwrap();
    assert!(session.catch_up().await.is_err());
    assert!(world.log.head(&world.index()).await.is_err());
}

#[tokio::test]
async fn two_processes_keep_one_index_and_forget_no_id() {
    let world = World::new().await;
    let (mut one, mut other) = (world.opened().await.0, world.opened().await.0);
    for number in 0..4_000 {
        world.say(&format!("m{number}"), 100).await;
        let session = if number % 600 < 300 { &mut one } else { &mut other };
        if number % 150 == 0 {
            session.catch_up().await.unwrap();
            session.rest().await;
        }
    }
    for mut session in [one, other, world.session()] {
        session.catch_up().await.unwrap();
        for number in (0..4_000).step_by(13) {
            assert!(session.entered(key(&format!("m{number}"))).await.unwrap().is_some());
        }
    }
}
