//! Rules 9, 10 and 13: what becomes of single lines, and which go first.

use windrow_domain::attempt::Status;
use windrow_domain::lease::is_suspect;
use windrow_store::batch::NewBatch;
use windrow_store::claim::Tranche;
use windrow_store::record::{Outcomes, Turn};
use windrow_store::sweep::WORKER_LOST;
use windrow_store::{Batches, Inspect, Record, Sweep};

use crate::World;
use crate::fixture::*;

/// Rule 9: a line that kills its worker ends as one failed result and takes none of its 499
/// neighbours with it; attempts count only when a line was tried.
pub async fn rule_09_a_killing_line_fails_alone(world: &impl World) {
    const KILLER: u64 = 137;
    const CRASHES_MAX: u32 = 3;
    let store = world.store();
    let batch = batch_of(store, "ada", 500).await;
    let mut deaths = 0;
    loop {
        let worker = Worker::on(store);
        let Some(tranche) = worker.claim(500).await else { break };
        assert_eq!(tranche.lease.attempts, 0, "nobody ever tried a line and failed");
        if is_suspect(tranche.lines.len() as u64, tranche.lease.crashes, CRASHES_MAX) {
            assert!(worker.mark(&tranche).await, "it runs alone");
        }
        if seqs(&tranche).contains(KILLER) {
            deaths += 1;
            assert!(deaths <= 12, "the halving finds it");
            pass(world, LEASE_MS);
            store.return_lost(10, CRASHES_MAX).await.unwrap();
            check(store, batch).await;
        } else {
            worker.complete(&tranche).await;
        }
    }
    let counts = counts(store, batch).await;
    assert_eq!((counts.completed, counts.failed, counts.unfinished()), (499, 1, 0));
    let failed =
        results(store, batch).await.into_iter().find(|row| row.result.status == Status::Failed);
    let failed = failed.expect("one failed").result;
    assert_eq!((failed.seq, failed.line, failed.attempts), (KILLER, KILLER + 1, 0));
    assert_eq!(failed.error_code.as_deref(), Some(WORKER_LOST));
    check(store, batch).await;
}

/// Rule 9: an instance that dies holds other lines, each alone in its lease. However often that happens, only
/// the one that ran alone when it died fails.
pub async fn rule_09_a_killing_line_takes_no_other_with_it(world: &impl World) {
    const KILLER: u64 = 5;
    const CRASHES_MAX: u32 = 3;
    let store = world.store();
    let batch = batch_of(store, "ada", 8).await;
    for life in 0.. {
        assert!(life < 12, "the killer is found");
        let worker = Worker::on(store);
        let mut held = Vec::new();
        while let Some(tranche) = worker.claim(1).await {
            held.push(tranche);
        }
        // Suspects first, one after the other, each marked; the rest together.
        let suspects = |tranche: &&Tranche| tranche.lease.crashes + 1 >= CRASHES_MAX;
        for tranche in held.iter().filter(suspects) {
            assert!(worker.mark(tranche).await);
            if seqs(tranche).contains(KILLER) {
                break;
            }
            worker.complete(tranche).await;
        }
        if held.is_empty() {
            break;
        }
        pass(world, LEASE_MS);
        store.return_lost(100, CRASHES_MAX).await.unwrap();
        check(store, batch).await;
    }
    let counts = counts(store, batch).await;
    assert_eq!((counts.completed, counts.failed), (7, 1));
    let failed = results(store, batch).await;
    let failed = failed.into_iter().find(|row| row.result.status == Status::Failed);
    assert_eq!(failed.expect("one failed").result.seq, KILLER);
}

/// Rule 10: a retry storm makes few rows, and what is due becomes one tranche again.
pub async fn rule_10_a_retry_storm_makes_few_rows(world: &impl World) {
    const LINES: u64 = 600;
    let store = world.store();
    let batch = batch_of(store, "ada", LINES).await;
    let worker = Worker::on(store);
    let mut dice = Dice::seeded(10);
    // Every line fails in a turn of its own share and is to come back at a time of its own within a
    // second: five buckets at most.
    while let Some(tranche) = worker.claim(10).await {
        let mut outcomes = Outcomes::of(tranche.lease.held.clone());
        let base = now(world);
        for line in &tranche.lines {
            let at = base.checked_add(std::time::Duration::from_micros(dice.below(1_000_000)));
            outcomes.again.extend(again_some(&tranche, at.unwrap(), |seq| seq == line.seq).again);
        }
        worker.record(outcomes).await;
    }
    check(store, batch).await;
    let rows = store.verify(batch).await.unwrap();
    let rows = rows.lanes[0].returned.len();
    assert!(rows <= 10, "{LINES} retries within a second make few rows, not {rows}");
    pass(world, 2000);
    let due = worker.take(1000).await;
    assert_eq!((due.lines.len() as u64, due.lease.attempts), (LINES, 1), "one tranche");
    check(store, batch).await;
}

/// Rule 13: the owner with the least in flight, then priority, then deadline, then due returned
/// lines before untouched ones, then line.
pub async fn rule_13_claims_go_in_the_order_of_the_design(world: &impl World) {
    let store = world.store();
    let large = Sheet::of("busy").lines(MODEL, 2000).seal(store).await;
    let urgent = NewBatch { priority: 50, window_secs: Some(60), ..run_over(large, "busy") };
    let busy = store.create_batch(urgent).await.unwrap().id;
    let file = Sheet::of("ada").lines(MODEL, 6).seal(store).await;
    let create = async |priority, window_secs| {
        let new = NewBatch { priority, window_secs, ..run_over(file, "ada") };
        store.create_batch(new).await.unwrap().id
    };
    let worker = Worker::on(store);
    let flight = worker.claim_only(busy, &[MODEL], 100).await.expect("a hundred lines");
    let late = create(0, Some(7200)).await;
    let soon = create(0, Some(3600)).await;
    let high = create(1, None).await;
    // Of the urgent batch two lines come back: they go before its untouched ones.
    let tranche = worker.claim_only(high, &[MODEL], 2).await.expect("two lines");
    worker.record(again(&tranche, now(world))).await;
    pass(world, 1000);

    let mut order = Vec::new();
    for _ in 0..8 {
        let tranche: Tranche = worker.take(3).await;
        order.push((tranche.lease.batch, seqs(&tranche).to_string()));
    }
    let expected = [
        (high, "0-1"),
        (high, "2-4"),
        (high, "5"),
        (soon, "0-2"),
        (soon, "3-5"),
        (late, "0-2"),
        (late, "3-5"),
        (busy, "100-102"),
    ];
    let expected: Vec<_> = expected.map(|(id, lines)| (id, lines.to_owned())).into();
    assert_eq!(order, expected);
    worker.complete(&flight).await;
    let reply = store
        .turn(Turn {
            instance: worker.instance,
            outcomes: vec![],
            claim: Some(request(&[MODEL], 1)),
        })
        .await
        .unwrap();
    assert_eq!(reply.claimed.expect("lines are left").lease.batch, busy, "all that is left");
}
