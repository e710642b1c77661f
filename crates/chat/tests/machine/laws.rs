//! What holds for every run. A failing one prints its seed.

use chat::{
    CallEnd, Message, ModelEvent, Role, StopReason, Structured, ToolResult, Transcript,
    caps::{REPAIRS_MAX, TURNS_DEFAULT, TURNS_MAX},
    machine::{Done, Failure, Input, Machine, Plan, Start, Step, Strategy},
};

use crate::play::{
    Dice, Play, Played, call_turn, plan, random_start, random_turns, text_turn, with_output,
};

const SEEDS: u64 = 2_000;

fn random_plan(dice: &mut Dice) -> Plan {
    let plan = match dice.below(5) {
        0 => with_output(Structured::Combined),
        1 => with_output(Structured::Final),
        2 => with_output(Structured::Prompted),
        _ => plan(),
    };
    let strategies = strategies();
    let (strategy, _) = &strategies[usize::try_from(dice.below(strategies.len() as u64)).unwrap()];
    Plan { strategy: strategy.clone(), ..plan }
}

/// Strategies, and the turns that each allows a model that calls tools and says so; the first turn
/// is always made.
fn strategies() -> Vec<(Strategy, u32)> {
    let both = vec![Strategy::TurnsMax(3), Strategy::when(|run| run.calls < 5)];
    vec![
        (Strategy::TurnsMax(0), 1),
        (Strategy::TurnsMax(1), 1),
        (Strategy::TurnsMax(3), 3),
        (Strategy::default(), TURNS_DEFAULT),
        (Strategy::Until(vec![StopReason::ToolCalls]), 1),
        (Strategy::Until(vec![StopReason::End]), TURNS_MAX),
        (Strategy::All(both), 3),
        (Strategy::when(|run| run.calls_of_last_turn == 0), 1),
    ]
}

/// The turns that a strategy allows a model that may lie about why it stops.
fn allowed(strategy: &Strategy) -> u32 {
    if matches!(strategy, Strategy::Until(_)) {
        return TURNS_MAX;
    }
    let told = format!("{strategy:?}");
    let strategies = strategies();
    let same = strategies.iter().filter(|(other, _)| format!("{other:?}") == told);
    same.map(|(_, turns)| *turns).max().unwrap()
}

fn play(seed: u64, arrivals: u64, stops: bool) -> Played {
    let mut dice = Dice::new(seed);
    let play = Play {
        plan: random_plan(&mut dice),
        start: random_start(&mut dice),
        turns: random_turns(&mut dice),
        arrivals: Dice::new(arrivals),
        stops,
    };
    play.play()
}

#[test]
fn arrival_order_does_not_matter() {
    for seed in 0..SEEDS {
        let first = play(seed, 1, false);
        for arrivals in 2..5 {
            let other = play(seed, arrivals, false);
            assert_eq!(first.messages, other.messages, "seed {seed}, arrivals {arrivals}");
            assert_eq!(first.done, other.done, "seed {seed}, arrivals {arrivals}");
        }
    }
}

#[test]
fn stopping_at_every_step_is_not_stopping() {
    for seed in 0..SEEDS {
        assert_eq!(play(seed, 1, false), play(seed, 1, true), "seed {seed}");
    }
}

#[test]
fn the_events_tell_the_whole_conversation() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let mut play = Play::new(random_turns(&mut dice));
        play.plan = random_plan(&mut dice);
        let played = play.play();
        let mut transcript = Transcript::with(played.messages[..1].to_vec()).unwrap();
        for event in &played.events {
            transcript.push(event).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        assert_eq!(transcript.into_messages(), played.messages, "seed {seed}");
    }
}

#[test]
fn every_run_ends_within_its_bounds() {
    for seed in 0..SEEDS {
        let allowed = allowed(&random_plan(&mut Dice::new(seed)).strategy);
        let played = play(seed, 1, false);
        assert!(played.done.is_some(), "seed {seed}");
        // The scripts of chance have four turns at most; then the model only talks.
        let bound = allowed.min(4 + 1) + REPAIRS_MAX + 1;
        assert!(played.requests <= bound as usize, "seed {seed}: {} requests", played.requests);
    }
}

#[test]
fn a_model_that_always_calls_tools_is_stopped_by_every_strategy_in_every_mode() {
    let modes = [
        plan(),
        with_output(Structured::Combined),
        with_output(Structured::Final),
        with_output(Structured::Prompted),
    ];
    for (plan, (strategy, allowed)) in
        modes.iter().flat_map(|plan| strategies().into_iter().map(move |strategy| (plan, strategy)))
    {
        let turns = (0..TURNS_MAX + 10).map(|_| call_turn(&[("add", "{\"n\":1}")])).collect();
        let mut play = Play::new(turns);
        play.plan = Plan { strategy, ..plan.clone() };
        let told = format!("{:?}, {:?}", play.plan.strategy, play.plan.output);
        let played = play.play();
        let (requests, bound) = (played.requests, allowed + REPAIRS_MAX + 1);
        assert!(requests <= bound as usize, "{told}: {requests} requests, not {bound}");
        let done = |result: &&ToolResult| result.end == CallEnd::Done;
        let results = played.messages.iter().flat_map(|message| message.results());
        assert!(results.filter(done).count() <= allowed as usize, "{told}: too many calls run");
    }
}

#[test]
fn a_call_in_a_turn_that_only_asks_for_the_output_is_not_made() {
    let call = || call_turn(&[("add", "{\"n\":1}")]);
    let mut stubborn = Play::new(vec![text_turn("Four."), call(), call(), call(), call()]);
    stubborn.plan = with_output(Structured::Final);
    let played = stubborn.play();
    assert_eq!(played.requests, 1 + 1 + REPAIRS_MAX as usize);
    assert!(matches!(played.done, Some(Done::Failed(Failure::NoOutput { .. }))), "{played:?}");
    let results: Vec<_> = played.messages.iter().flat_map(|message| message.results()).collect();
    assert!(results.iter().all(|result| result.end == CallEnd::Failed), "{results:?}");
    assert_eq!(results.len(), 3);

    let mut mends = Play::new(vec![text_turn("Four."), call(), text_turn("{\"n\":4}")]);
    mends.plan = with_output(Structured::Final);
    let done = mends.play().done;
    assert!(matches!(done, Some(Done::Finished { output: Some(_), .. })), "{done:?}");
}

#[test]
fn a_model_that_only_calls_tools_is_stopped() {
    let turns = (0..50).map(|_| call_turn(&[("add", "{\"n\":1}")])).collect();
    let played = Play::new(turns).play();
    assert_eq!((played.done, played.requests), (Some(Done::TurnsExhausted), 5));
}

#[test]
fn no_strategy_goes_on_for_ever() {
    let turns = (0..TURNS_MAX + 5).map(|_| call_turn(&[("add", "{}")])).collect();
    let mut play = Play::new(turns);
    play.plan.strategy = Strategy::when(|_| true);
    let played = play.play();
    assert_eq!(played.requests, TURNS_MAX as usize);
}

fn start(messages: Vec<Message>) -> Machine {
    let run_id = "run".into();
    let start = Start { thread_id: "thread".into(), run_id, parent_run_id: None, messages };
    Machine::start(plan(), start).unwrap().0
}

#[test]
fn a_turn_that_was_written_down_is_said_again_exactly() {
    let mut count = 0;
    for seed in 0..SEEDS {
        let said = play(seed, 1, false).messages;
        let by_model = |it: &&Message| it.role == Role::Assistant && it.id.starts_with("run:");
        for message in said.iter().filter(by_model) {
            let mut machine = start(vec![Message::text("m", Role::User, "hi")]);
            for event in ModelEvent::saying(message) {
                machine.feed(Input::Model(event), &mut Vec::new()).unwrap();
            }
            machine.feed(Input::ModelEnded, &mut Vec::new()).unwrap();
            assert_eq!(machine.messages()[1].parts, message.parts, "seed {seed}");
            count += 1;
        }
    }
    assert!(count > 1_000, "{count} turns are too few to tell");
}

#[test]
fn another_run_of_the_same_machine_is_a_run_of_the_whole_conversation() {
    let hi = |id: &str| Message::text(id, Role::User, "hi");
    let mut machine = start(vec![hi("m1")]);
    assert!(machine.begin_again("run2".into(), vec![hi("m2")]).is_err(), "it is not over");
    let mut events = Vec::new();
    for event in ModelEvent::saying(&Message::text("x", Role::Assistant, "hello")) {
        machine.feed(Input::Model(event), &mut events).unwrap();
    }
    machine.feed(Input::ModelEnded, &mut events).unwrap();
    assert!(machine.begin_again("run2".into(), Vec::new()).is_err(), "nothing was said");
    machine.begin_again("run2".into(), vec![hi("m2")]).unwrap();

    let whole = machine.messages().iter().map(|it| Message::clone(it)).collect();
    let (Step::CallModel(again), Step::CallModel(fresh)) =
        (machine.next_step(), start(whole).next_step())
    else {
        panic!("both ask the model");
    };
    assert_eq!(again, fresh);
}

#[test]
fn a_model_that_is_asked_again_begins_anew() {
    let mut machine = start(vec![Message::text("m", Role::User, "hi")]);
    let asked = machine.next_step();
    let half = ModelEvent::saying(&Message::text("x", Role::Assistant, "half"));
    for event in half.into_iter().take(2) {
        machine.feed(Input::Model(event), &mut Vec::new()).unwrap();
    }
    machine.ask_again();
    assert_eq!(machine.next_step(), asked);
    machine.feed(Input::ModelEnded, &mut Vec::new()).unwrap();
    assert_eq!(machine.messages().len(), 1, "what was said was never said");
}
