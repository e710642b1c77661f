//! A session that is opened by a snapshot is the same as one that is read from its beginning.

use agent::rows::{Chunk, ChunkType, GenerationStatus, Role, Runner, Stop};
use log::Delete;
use proptest::prelude::*;

use crate::support::{AGENT, World, generation, message};

/// What may happen to a session.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A person says so many bytes.
    Say(usize),
    /// The agent begins to answer.
    Begin,
    /// A piece of its answer.
    Chunk,
    /// It is done.
    End,
    /// A person says stop.
    Stop,
    /// A runner takes over, or shows that it is there.
    Run(u64),
    /// Another agent is spoken to.
    Other,
    /// The session rests, and may be kept as a snapshot.
    Rest,
    /// Another process has the session from here on.
    Reopen,
}

fn any_step() -> impl Strategy<Value = Step> {
    use Step::*;
    prop_oneof![
        4 => prop::sample::select(vec![Say(10), Say(3_000), Say(70_000), Say(200_000)]),
        2 => Just(Begin),
        3 => Just(Chunk),
        2 => Just(End),
        1 => Just(Stop),
        1 => (1..4u64).prop_map(Run),
        1 => Just(Other),
        3 => Just(Rest),
        2 => Just(Reopen),
    ]
}

async fn is_the_same(steps: Vec<Step>) {
    let world = World::new().await;
    let mut session = world.session();
    let mut open = None;
    for (number, step) in steps.into_iter().enumerate() {
        let number = number as u64;
        let at = world.tail().await.position.get();
        match step {
            Step::Say(bytes) => world.say(&format!("m{number}"), bytes).await,
            Step::Other => {
                let said = message(&format!("o{number}"), 10);
                let target_agent = Some("other".to_owned());
                world.put(None, &agent::rows::Message { target_agent, ..said }).await;
            }
            Step::Begin => {
                let begun = generation(at.saturating_sub(1), None, GenerationStatus::Generating);
                world.put(Some(&format!("agent/{AGENT}.1.{number:x}")), &begun).await;
                open = Some(begun);
            }
            Step::Chunk => {
                let Some(generation) = &open else { continue };
                let row = chunk(&generation.id, number, 5_000);
                world.put(Some(&format!("agent/{AGENT}.1.{number:x}")), &row).await;
            }
            Step::End => {
                let Some(mut ended) = open.take() else { continue };
                ended.status = GenerationStatus::Completed;
                ended.completed_at = Some("2026-01-01T00:00:00.000Z".to_owned());
                let said = message(&format!("{}:1", ended.id), 100);
                let said =
                    agent::rows::Message { role: Role::Assistant, target_agent: None, ..said };
                world.put(None, &said).await;
                world.put(None, &ended).await;
            }
            Step::Stop => {
                let row = Stop {
                    id: format!("s{number}"),
                    generation_id: None,
                    agent_name: None,
                    actor_id: "ada".to_owned(),
                    reason: None,
                    created_at: String::new(),
                };
                world.put(None, &row).await;
            }
            Step::Run(epoch) => {
                let runner =
                    Runner { id: AGENT.to_owned(), epoch, lease_ms: Some(9), ..Runner::default() };
                world.put(Some(&format!("agent/{AGENT}.{epoch:x}.{number:x}")), &runner).await;
            }
            Step::Rest => {
                session.catch_up().await.unwrap();
                session.rest().await;
            }
            Step::Reopen => session = world.session(),
        }
    }
    session.catch_up().await.unwrap();
    let mut opened = world.session();
    opened.catch_up().await.unwrap();
    let _ = world.log.delete(&world.index(), Delete::Stream).await;
    let mut read = world.session();
    read.catch_up().await.unwrap();
    assert_eq!(session.state(), read.state(), "a session that is in use");
    assert_eq!(opened.state(), read.state(), "a snapshot, and the tail");
}

pub(crate) fn chunk(generation: &str, index: u64, bytes: usize) -> Chunk {
    Chunk {
        id: Chunk::id_of(generation, index),
        generation_id: generation.to_owned(),
        message_id: Some(format!("{generation}:1")),
        index,
        kind: ChunkType::Text,
        content: "x".repeat(bytes),
        call_id: None,
        is_final: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_snapshot_and_the_tail_are_the_same_as_all_of_it(
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(is_the_same(steps));
    }
}
