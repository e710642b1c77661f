//! The laws. Whoever breaks one is shown the smallest case that proptest found, and its seed.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use query::{Published, Query, QueryId};

use crate::{
    choices::{Choices, check, choices},
    generate,
    model::Synced,
    shape,
    world::{Folded, Step, World, changes_of, check_folded, fold, step, steps},
};

/// How often each law is tried, unless PROPTEST_CASES says otherwise.
const CASES: u32 = 3_000;

pub(crate) fn cases() -> ProptestConfig {
    let config = ProptestConfig { max_shrink_iters: 5_000, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig { cases: CASES, ..config },
    }
}

/// A database with some rows, and queries over them.
fn begun(c: &mut Choices, queries: usize) -> (World, Vec<Query>) {
    let queries = (0..queries).map(|_| generate::query(c)).collect();
    let mut world = World::new();
    let writes = generate::rows(c);
    let _ = world.take(&Step::Tick { writes, retires: vec![] });
    (world, queries)
}

fn live(world: &mut World, query: &Query) -> QueryId {
    world.db.live(query).unwrap_or_else(|error| panic!("{error}: {}", query.to_json()))
}

/// The random queries are of every shape, and most of them have rows: else the laws are empty.
#[test]
fn random_queries_are_of_every_shape() {
    let mut runner = TestRunner::deterministic();
    let (mut shapes, mut with_rows, mut refused, mut steps_taken) = (BTreeMap::new(), 0, 0, 0);
    for _ in 0..1_000 {
        let mut c = choices(1_200).new_tree(&mut runner).unwrap().current();
        let (mut world, queries) = begun(&mut c, 1);
        let id = live(&mut world, &queries[0]);
        shape::of(&queries[0], &mut |shape| *shapes.entry(shape).or_insert(0) += 1);
        let mut has_rows = false;
        for step in steps(&mut c, 12) {
            steps_taken += 1;
            refused += usize::from(world.take(&step).is_err());
            has_rows |= world.db.result_len(id) > 0;
        }
        with_rows += usize::from(has_rows);
    }
    for shape in shape::ALL {
        assert!(shapes.get(shape).is_some_and(|count| *count > 20), "{shape}: {shapes:?}");
    }
    assert!(with_rows > 500, "only {with_rows} of 1000 have rows");
    assert!(refused * 3 < steps_taken, "{refused} of {steps_taken} steps are refused");
}

proptest! {
    #![proptest_config(cases())]

    /// A query is what its JSON says.
    #[test]
    fn queries_go_through_json_and_back(mut c in choices(300)) {
        let query = generate::query(&mut c);
        prop_assert_eq!(&Query::from_json(&query.to_json()).unwrap(), &query);
    }

    /// A live query is what reading everything again would find, in its order, after every step.
    #[test]
    fn live_is_a_recomputation(c in choices(1_200)) {
        check(|| live_is_a_recomputation_in(c))?;
    }

    /// A query that is asked once has the rows of one that is live.
    #[test]
    fn once_is_live(c in choices(900)) {
        check(|| once_is_live_in(c))?;
    }

    /// Whoever takes in what is published has the rows of the query and of the collections.
    #[test]
    fn changes_fold_to_the_result(c in choices(1_200)) {
        check(|| changes_fold_to_the_result_in(c))?;
    }

    /// An event is what it says: nothing enters that is there, nothing changes or leaves that is
    /// not, nothing is lost. So an effect starts once for each row that comes.
    #[test]
    fn events_are_exact_by_net_presence(c in choices(1_200)) {
        check(|| events_are_exact_by_net_presence_in(c))?;
    }

    /// The same writes in one tick or in many come to the same.
    #[test]
    fn ticks_may_be_cut_anywhere(c in choices(1_200)) {
        check(|| ticks_may_be_cut_anywhere_in(c))?;
    }

    /// Queries that come and go change nothing for others.
    #[test]
    fn queries_do_not_disturb_each_other(c in choices(1_500)) {
        check(|| queries_do_not_disturb_each_other_in(c))?;
    }

    /// A transaction that ends leaves what would be if it had never been.
    #[test]
    fn a_transaction_that_ends_leaves_no_trace(c in choices(1_200)) {
        check(|| a_transaction_that_ends_leaves_no_trace_in(c))?;
    }

    /// What is refused has done nothing: not now, and not to what comes later.
    #[test]
    fn what_is_refused_changes_nothing(c in choices(1_200)) {
        check(|| what_is_refused_changes_nothing_in(c))?;
    }
}

fn live_is_a_recomputation_in(mut c: Choices) {
    let (mut world, queries) = begun(&mut c, 1);
    let id = live(&mut world, &queries[0]);
    world.check_live(id, &queries[0]);
    for step in steps(&mut c, 12) {
        let _ = world.take(&step);
        world.check_rows();
        world.check_live(id, &queries[0]);
    }
}

fn once_is_live_in(mut c: Choices) {
    let (mut world, queries) = begun(&mut c, 1);
    let id = live(&mut world, &queries[0]);
    for step in steps(&mut c, 5) {
        let _ = world.take(&step);
        world.check_once(&queries[0]);
        let once = world.db.once(&queries[0]).unwrap();
        let live: Vec<_> = world.db.result(id).cloned().collect();
        assert_eq!(once, live);
    }
}

fn changes_fold_to_the_result_in(mut c: Choices) {
    let (mut world, queries) = begun(&mut c, 1);
    let id = live(&mut world, &queries[0]);
    let mut folded: Folded =
        world.db.result(id).map(|row| (row.key.clone(), row.clone())).collect();
    let mut collections = [(); 3].map(|()| Folded::new());
    for (index, rows) in collections.iter_mut().enumerate() {
        let own = world.db.rows(world.collection(index), query::View::Visible);
        rows.extend(own.map(|row| (row.key.clone(), row.clone())));
    }
    for step in steps(&mut c, 12) {
        let Ok(published) = world.take(&step) else { continue };
        let changes = changes_of(&published, id);
        // Only in an order can a row that looks the same have another place.
        let is_told_in_vain = |change: &query::Change| change.old == change.new;
        assert!(!queries[0].order_by.is_empty() || !changes.iter().any(is_told_in_vain));
        fold(&mut folded, changes);
        check_folded(&folded, &world.db, id);
        for (index, rows) in collections.iter_mut().enumerate() {
            let collection = world.collection(index);
            let own = published.collections.iter().filter(|(own, _)| *own == collection);
            own.for_each(|(_, changes)| fold(rows, changes));
            let visible = world.db.rows(collection, query::View::Visible);
            assert!(visible.eq(rows.values()));
        }
    }
}

fn events_are_exact_by_net_presence_in(mut c: Choices) {
    let (mut world, queries) = begun(&mut c, 1);
    let (watch, entered) = world.db.watch(&queries[0]).unwrap();
    let live = live(&mut world, &queries[0]);
    let mut folded = Folded::new();
    fold(&mut folded, &entered);
    check_folded(&folded, &world.db, live);
    for step in steps(&mut c, 12) {
        let Ok(published) = world.take(&step) else { continue };
        fold(&mut folded, changes_of(&published, watch));
        check_folded(&folded, &world.db, live);
        assert_eq!(changes_of(&published, watch), changes_of(&published, live));
    }
}

fn ticks_may_be_cut_anywhere_in(mut c: Choices) {
    let (mut whole, queries) = begun(&mut c, 1);
    let mut cut = World::new();
    for (index, collection) in whole.model.synced.iter().enumerate() {
        let writes = collection.values().map(|row| (index, Synced::Put(row.clone())));
        let _ = cut.take(&Step::Tick { writes: writes.collect(), retires: vec![] });
    }
    let ids = [live(&mut whole, &queries[0]), live(&mut cut, &queries[0])];
    let mut folded: Folded =
        cut.db.result(ids[1]).map(|row| (row.key.clone(), row.clone())).collect();
    let mut writes = generate::synced(&mut c, 20);
    // An insert may be refused in the middle, and then the other half has happened.
    writes.retain(|(_, write)| !matches!(write, Synced::Insert(_)));
    let _ = whole.take(&Step::Tick { writes: writes.clone(), retires: vec![] });
    while !writes.is_empty() {
        let rest = writes.split_off(1 + c.below(writes.len()));
        let published = cut.take(&Step::Tick { writes, retires: vec![] }).unwrap();
        fold(&mut folded, changes_of(&published, ids[1]));
        writes = rest;
    }
    assert_eq!(whole.result(ids[0]), cut.result(ids[1]));
    check_folded(&folded, &whole.db, ids[0]);
}

fn queries_do_not_disturb_each_other_in(mut c: Choices) {
    let (mut busy, queries) = begun(&mut c, 3);
    let mut calm = World::new();
    for (index, collection) in busy.model.synced.iter().enumerate() {
        let writes = collection.values().map(|row| (index, Synced::Put(row.clone())));
        let _ = calm.take(&Step::Tick { writes: writes.collect(), retires: vec![] });
    }
    let mut guests = vec![live(&mut busy, &queries[1])];
    let ids = [live(&mut busy, &queries[0]), live(&mut calm, &queries[0])];
    for step in steps(&mut c, 10) {
        let published = [busy.take(&step), calm.take(&step)];
        if let [Ok(busy_told), Ok(calm_told)] = &published {
            assert_eq!(changes_of(busy_told, ids[0]), changes_of(calm_told, ids[1]));
        }
        assert_eq!(busy.result(ids[0]), calm.result(ids[1]));
        match c.below(3) {
            0 => guests.push(live(&mut busy, c.pick(&[&queries[0], &queries[1], &queries[2]]))),
            1 => guests.push(busy.db.watch(&queries[2]).unwrap().0),
            _ => guests.pop().into_iter().for_each(|guest| busy.db.drop_query(guest)),
        }
    }
    busy.check_live(ids[0], &queries[0]);
}

fn a_transaction_that_ends_leaves_no_trace_in(mut c: Choices) {
    let (mut world, queries) = begun(&mut c, 1);
    let mut never = World::new();
    for (index, collection) in world.model.synced.iter().enumerate() {
        let writes = collection.values().map(|row| (index, Synced::Put(row.clone())));
        let _ = never.take(&Step::Tick { writes: writes.collect(), retires: vec![] });
    }
    let ids = [live(&mut world, &queries[0]), live(&mut never, &queries[0])];
    let mut number = 3;
    let (begins, gone) = ([Step::Begin, Step::Begin, Step::Begin], 1 + c.below(3) as u64);
    let steps = begins.into_iter().chain((0..10).map(|_| step(&mut c, &mut number)));
    for step in steps.collect::<Vec<_>>() {
        let is_own = matches!(step, Step::Mutate(id, _) | Step::End(id) if id == gone);
        let done = world.take(&step).is_ok();
        // What stood on the rows of the one that goes has nothing to stand on without it.
        if !is_own && never.take(&step).is_ok() != done {
            return;
        }
    }
    let _ = (world.take(&Step::End(gone)), never.take(&Step::End(gone)));
    world.check_rows();
    for collection in (0..3).map(|index| world.collection(index)) {
        let rows = |world: &World| -> Vec<_> {
            world.db.rows(collection, query::View::Visible).cloned().collect()
        };
        assert_eq!(rows(&world), rows(&never));
    }
    assert_eq!(world.result(ids[0]), never.result(ids[1]));
}

fn what_is_refused_changes_nothing_in(mut c: Choices) {
    let (mut tried, queries) = begun(&mut c, 1);
    let mut clean = World::new();
    for (index, collection) in tried.model.synced.iter().enumerate() {
        let writes = collection.values().map(|row| (index, Synced::Put(row.clone())));
        let _ = clean.take(&Step::Tick { writes: writes.collect(), retires: vec![] });
    }
    let ids = [live(&mut tried, &queries[0]), live(&mut clean, &queries[0])];
    for step in steps(&mut c, 10) {
        refuse(&mut tried, &mut c);
        let told: [Option<Published>; 2] = [tried.take(&step).ok(), clean.take(&step).ok()];
        assert_eq!(&told[0], &told[1]);
        tried.check_rows();
        assert_eq!(tried.result(ids[0]), clean.result(ids[1]));
    }
}

/// Good writes and a bad one after them.
fn refuse(world: &mut World, c: &mut Choices) {
    use query::{Meta, Mutation, MutationKind, Record, Tick, Value, Write};
    let collection = world.collection(c.below(3));
    let bad: Record = world.db.record(collection, r#"{"id":null,"a":1}"#).unwrap();
    let good = world.db.record(collection, r#"{"id":"new","a":1,"other":2}"#).unwrap();
    let mut writes = vec![(collection, Write::Put(good.clone(), Meta::default()))];
    if c.chance(1, 2) {
        writes.push((collection, Write::Truncate));
    }
    writes.push((collection, Write::Put(bad.clone(), Meta::default())));
    assert!(world.db.apply(Tick { writes, retires: vec![] }).is_err());
    let open = world.db.begin();
    let update = MutationKind::Update("new".into(), vec![("b".into(), Value::Int(3))]);
    let kinds = [MutationKind::Insert(good), update, MutationKind::Insert(bad)];
    let writes = kinds.map(|write| Mutation { collection, write });
    assert!(world.db.mutate(open, writes.into()).is_err());
    assert_eq!(world.db.end(open), Published::default());
}
