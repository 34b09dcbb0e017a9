//! Members: they share, take over, and give back what is drained.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use windrow_engine::clock::Clock;
use windrow_engine::messages::{Context, Effects, Options};
use windrow_store::partition::Setup;

use crate::support::*;
use crate::watched::{Fate, Watched};

crate::on_both_stores! {
    two_runners_share_and_one_takes_over_when_the_other_stops,
    a_partition_is_drained_before_it_is_given_back,
    a_runner_that_stops_takes_nothing_more,
    a_runner_that_was_taken_for_dead_joins_again_and_works_on,
    partitions_that_nobody_may_own_are_counted,
    one_who_may_own_little_leaves_the_rest_to_the_others,
    one_who_starts_with_less_takes_nothing_from_the_others,
    what_one_serves_is_set_up_again_when_it_was_taken_for_dead,
    a_partition_is_not_forgotten_when_giving_it_back_or_taking_it_is_lost,
}

async fn two_runners_share_and_one_takes_over_when_the_other_stops(backend: Backend) {
    let store = store(backend).await;
    let first = runner(store.clone()).typed(Wallet).start().await.unwrap();
    until("one has all", || async { first.gauges().partitions_owned == 8 }).await;
    let second = runner(store.clone()).typed(Wallet).start().await.unwrap();
    until("they share", || async {
        (first.gauges().partitions_owned, second.gauges().partitions_owned) == (4, 4)
    })
    .await;
    let (one, two) = (first.client(), second.client());
    for no in 0..20 {
        let wallet = format!("w{no}");
        let call = one.call(deposit(&wallet, &format!("a{no}"), 1), LONG).await.unwrap();
        assert_eq!(call, reply("1"));
        let call = two.call(deposit(&wallet, &format!("b{no}"), 1), LONG).await.unwrap();
        assert_eq!(call, reply("2"));
    }
    first.stop().await;
    let released = store.partitions().await.unwrap();
    assert!(released.iter().all(|partition| !partition.is_suspect), "{released:?}");
    until("the other has all", || async { second.gauges().partitions_owned == 8 }).await;
    for no in 0..20 {
        let call = two.call(deposit(&format!("w{no}"), &format!("c{no}"), 1), LONG).await.unwrap();
        assert_eq!(call, reply("3"));
    }
}

#[tokio::test]
async fn a_killed_runners_partitions_are_served_within_twice_the_stale_time() {
    let store = store(Backend::Sqlite).await;
    let first = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let second = runner(store.clone()).typed(Wallet).start().await.unwrap();
    until("they share", || async {
        (first.gauges().partitions_owned, second.gauges().partitions_owned) == (4, 4)
    })
    .await;
    drop(first);
    let clock = Clock::machine();
    let client = second.client();
    for no in 0..30 {
        client.submit(deposit(&format!("w{no}"), &format!("r{no}"), 1)).await.unwrap();
    }
    for no in 0..30 {
        assert_eq!(client.wait(&key(&format!("r{no}")), LONG).await.unwrap(), reply("1"));
    }
    let bound = 2 * options().stale_after;
    assert!(clock.elapsed() < bound, "it took {:?}", clock.elapsed());
}

async fn a_partition_is_drained_before_it_is_given_back(backend: Backend) {
    let (store, gate) = (store(backend).await, Arc::new(Semaphore::new(0)));
    let log = Log::default();
    let make = |gate: Arc<Semaphore>, log: Log| {
        Does(move |context: Context, _| {
            let (gate, log) = (gate.clone(), log.clone());
            Box::pin(async move {
                log.add(&context);
                gate.acquire().await.unwrap().forget();
                Ok(Effects::none())
            }) as _
        })
    };
    let slow = options().handler_timeout(MINUTE);
    let build = || runner(store.clone()).options(slow.clone());
    let first =
        build().consumer("c", all(), make(gate.clone(), log.clone())).start().await.unwrap();
    let messages = (0..32).map(|no| inbox(&format!("s{no}"), &format!("m{no}"))).collect();
    first.client().send(messages).await.unwrap();
    until("all run", || async { first.gauges().streams_in_flight == 32 }).await;
    let second =
        build().consumer("c", all(), make(gate.clone(), log.clone())).start().await.unwrap();
    until("the second is known", || async { store.members().await.unwrap().len() == 2 }).await;
    Clock::machine().sleep(Duration::from_millis(400)).await;
    assert_eq!(second.gauges().partitions_owned, 0, "they run, and nobody else may have them");
    gate.add_permits(1000);
    until("they share", || async { second.gauges().partitions_owned == 4 }).await;
    settle(&*store).await;
    for no in 0..32 {
        assert_eq!(log.count(&format!("m{no}")), 1, "m{no}");
    }
}

/// What is drained first is not taken back while the last handler runs: it would be taken and given
/// back all the time, and nobody else could have it.
async fn a_runner_that_stops_takes_nothing_more(backend: Backend) {
    let (store, gate) = (store(backend).await, Arc::new(Semaphore::new(0)));
    let waits = gate.clone();
    let slow = Does(move |_, _| {
        let gate = waits.clone();
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            Ok(Effects::none())
        }) as _
    });
    let runner = runner(store.clone()).consumer("c", all(), slow).start().await.unwrap();
    until("it has all", || async { runner.gauges().partitions_owned == 8 }).await;
    runner.client().send(vec![inbox("s", "m")]).await.unwrap();
    until("it runs", || async { runner.gauges().streams_in_flight == 1 }).await;
    runner.handle().stop();
    until("all others are free", || async {
        let partitions = store.partitions().await.unwrap();
        partitions.iter().filter(|partition| partition.instance.is_some()).count() == 1
    })
    .await;
    Clock::machine().sleep(Duration::from_millis(300)).await;
    gate.add_permits(1);
    runner.stop().await;
    let partitions = store.partitions().await.unwrap();
    assert!(
        partitions.iter().all(|one| one.epoch == 1 && one.instance.is_none()),
        "{partitions:?}"
    );
    assert!(is_empty(&*store).await);
}

async fn a_runner_that_was_taken_for_dead_joins_again_and_works_on(backend: Backend) {
    let store = store(backend).await;
    let runner = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let client = runner.client();
    assert_eq!(client.call(deposit("a", "r1", 1), LONG).await.unwrap(), reply("1"));
    let before = runner.instance();
    store.tombstone(before).await.unwrap();
    assert_eq!(client.call(deposit("a", "r2", 1), LONG).await.unwrap(), reply("2"));
    assert_ne!(runner.instance(), before);
    assert!(runner.gauges().lease_losses > 0);
}

async fn partitions_that_nobody_may_own_are_counted(backend: Backend) {
    let options = options().own_max(3);
    let runner = runner(store(backend).await).options(options).start().await.unwrap();
    until("it has its most", || async { runner.gauges().partitions_owned == 3 }).await;
    assert_eq!(runner.gauges().partitions_unowned, 5);
}

async fn one_who_may_own_little_leaves_the_rest_to_the_others(backend: Backend) {
    let store = store(backend).await;
    let start = async |own_max| {
        let options = options().own_max(own_max);
        runner(store.clone()).options(options).start().await.unwrap()
    };
    let (little, most) = (start(1).await, start(4096).await);
    until("all are owned", || async {
        (little.gauges().partitions_owned, most.gauges().partitions_owned) == (1, 7)
    })
    .await;
    until("nobody misses one", || async {
        (little.gauges().partitions_unowned, most.gauges().partitions_unowned) == (0, 0)
    })
    .await;
    most.stop().await;
    until("it is said", || async { little.gauges().partitions_unowned == 7 }).await;
}

/// A worker without publishers, or an old instance that restarts while new ones come.
async fn one_who_starts_with_less_takes_nothing_from_the_others(backend: Backend) {
    let store = store(backend).await;
    let publishes = options().lifecycle(true);
    let start = async |options: Options| runner(store.clone()).options(options);
    let all = start(publishes).await.typed(Wallet).start().await.unwrap();
    let little = start(options()).await.start().await.unwrap();
    let setup = store.setup().await.unwrap().unwrap();
    assert_eq!((setup.object_types, setup.lifecycle), (vec!["wallet".to_owned()], true));
    little.stop().await;
    all.stop().await;
    let last = start(options()).await.start().await.unwrap();
    let setup = store.setup().await.unwrap().unwrap();
    assert_eq!((setup.object_types, setup.lifecycle), (Vec::new(), false), "nobody has it");
    last.stop().await;
}

async fn what_one_serves_is_set_up_again_when_it_was_taken_for_dead(backend: Backend) {
    let store = store(backend).await;
    let runner = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let before = store.setup().await.unwrap().unwrap();
    store.tombstone(runner.instance()).await.unwrap();
    let none = Setup { object_types: Vec::new(), ..before.clone() };
    store.set_up(none).await.unwrap();
    until("it is there again", || async { store.setup().await.unwrap().as_ref() == Some(&before) })
        .await;
}

/// A release or a take that nobody knows of must not leave a partition with an owner that does not
/// know it.
async fn a_partition_is_not_forgotten_when_giving_it_back_or_taking_it_is_lost(backend: Backend) {
    let inner = store(backend).await;
    let plan = |verb, no| match (verb, no) {
        ("release_partitions", 0) => Fate::Lost,
        ("take_partitions", 0) => Fate::ReplyLost,
        _ => Fate::Passes,
    };
    let first = runner(Watched::new(inner.clone(), plan)).typed(Wallet).start().await.unwrap();
    let second = runner(inner.clone()).typed(Wallet).start().await.unwrap();
    until("they share", || async {
        (first.gauges().partitions_owned, second.gauges().partitions_owned) == (4, 4)
    })
    .await;
    let instances = [first.instance(), second.instance()];
    let partitions = inner.partitions().await.unwrap();
    let counts = instances.map(|instance| {
        partitions.iter().filter(|partition| partition.instance == Some(instance)).count()
    });
    assert_eq!(counts, [4, 4]);
}
