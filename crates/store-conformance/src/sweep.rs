//! Sweeping: lost leases come back, late batches end, and what nobody needs goes.

use tokio::task::JoinSet;
use windrow_domain::attempt::Status;
use windrow_domain::{Ending, InstanceId, State};
use windrow_store::batch::NewBatch;
use windrow_store::claim::Tranche;
use windrow_store::error::Kind;
use windrow_store::ingest::FileVerdict;
use windrow_store::member::{Evidence, NewMember};
use windrow_store::sweep::{Lost, Pruned, Retention, WORKER_LOST};
use windrow_store::{Batches, Claim, Finalise, Ingest, Inspect, Members, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;

impl<S: Store> Worker<S> {
    /// Marks a tranche of one line: it runs alone.
    pub(crate) async fn mark(&self, tranche: &Tranche) -> bool {
        let (id, token) = (tranche.lease.held.id, tranche.lease.held.token);
        let mark = || self.store.mark_alone(self.instance, id, token);
        patiently(mark).await.expect("a mark is answered")
    }
}

/// A lease comes back when its time has passed, not a moment earlier, and at most so many at once.
pub async fn lost_leases_come_back(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 20).await;
    let worker = Worker::on(store);
    for _ in 0..3 {
        worker.take(4).await;
    }
    assert_eq!(store.return_lost(10, 3).await.unwrap(), Lost::default());
    pass(world, LEASE_MS - 1);
    let fresh = worker.take(2).await;
    assert_eq!(store.return_lost(10, 3).await.unwrap(), Lost::default());
    pass(world, 1);
    let lost = store.return_lost(2, 3).await.unwrap();
    assert_eq!((lost.leases, lost.returned, lost.failed), (2, 8, 0));
    check(store, batch).await;
    let lost = store.return_lost(2, 3).await.unwrap();
    assert_eq!((lost.leases, lost.returned), (1, 4));
    assert_eq!(store.return_lost(2, 3).await.unwrap(), Lost::default());
    assert_eq!(counts(store, batch).await.leased, 2, "the fresh one is not lost");
    assert!(!is_lost(&worker.complete(&fresh).await));
    check(store, batch).await;
}

/// Each loss counts one crash and no attempt, and halves the next tranche of its lines.
pub async fn a_loss_halves_the_next_tranche(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 16).await;
    let worker = Worker::on(store);
    let first = worker.take(16).await;
    worker.record(again(&first, now(world))).await;
    pass(world, 1000);
    for (crashes, size) in (0..).zip([16, 8, 4, 2, 1]) {
        let mut seen = windrow_domain::LineSet::new();
        while let Some(tranche) = worker.claim(100).await {
            assert_eq!((tranche.lease.attempts, tranche.lease.crashes), (1, crashes));
            assert_eq!(tranche.lines.len(), size, "after {crashes} crashes");
            seen = seen.union(&seqs(&tranche));
        }
        assert_eq!(seen.to_string(), "0-15");
        pass(world, LEASE_MS);
        let lost = store.return_lost(100, 9).await.unwrap();
        assert_eq!((lost.leases, lost.returned), (16 / size as u64, 16));
        check(store, batch).await;
    }
}

/// A try that comes to an end forgets the crashes; a release does not.
pub async fn a_try_forgets_the_crashes(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    worker.take(4).await;
    pass(world, LEASE_MS);
    store.return_lost(10, 9).await.unwrap();
    let half = worker.take(4).await;
    assert_eq!((half.lines.len(), half.lease.crashes), (2, 1));
    store.release_leases(worker.instance, vec![half.lease.held.id]).await.unwrap();
    let half = worker.take(4).await;
    assert_eq!((half.lines.len(), half.lease.crashes), (2, 1), "released lines stay suspect");
    worker.record(again(&half, now(world))).await;
    let other = worker.take(4).await;
    assert_eq!(other.lease.crashes, 1);
    worker.record(again(&other, now(world))).await;
    pass(world, 1000);
    let all = worker.take(4).await;
    assert_eq!((all.lines.len(), all.lease.crashes, all.lease.attempts), (4, 0, 1));
    check(store, batch).await;
}

/// A line that ran alone and took its worker down too often fails, with its own number and tries.
pub async fn a_line_that_kills_too_often_fails(world: &impl World) {
    let store = world.store();
    let id = Sheet::of("ada").raw(None, "\n").lines(MODEL, 1).run(store).await;
    let worker = Worker::on(store);
    worker.record(again(&worker.take(1).await, now(world))).await;
    pass(world, 1000);
    for crash in 1..=3 {
        let tranche = worker.take(1).await;
        assert_eq!(tranche.lease.crashes, crash - 1);
        assert!(worker.mark(&tranche).await);
        pass(world, LEASE_MS);
        let lost = store.return_lost(10, 3).await.unwrap();
        let failed = u64::from(crash == 3);
        assert_eq!((lost.leases, lost.returned, lost.failed), (1, 1 - failed, failed));
        assert_eq!(lost.finalizing, if crash == 3 { vec![id] } else { vec![] });
        check(store, id).await;
    }
    let rows = results(store, id).await;
    let result = &rows[0].result;
    assert_eq!((rows.len(), result.line, result.seq), (1, 2, 0));
    assert_eq!((result.status, result.attempts), (Status::Failed, 1));
    assert_eq!(result.error_code.as_deref(), Some(WORKER_LOST));
    assert_eq!(batch(store, id).await.state, State::Finalizing(Ending::Completed));
}

/// A line at its last crash whose lease is not marked may have died with another one: it goes back as it
/// was, however often, and fails only when it ran alone.
pub async fn a_line_that_did_not_run_alone_is_not_given_up_on(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 1).await;
    for crashes in [0, 1, 2, 2, 2] {
        let worker = Worker::on(store);
        assert_eq!(worker.take(1).await.lease.crashes, crashes);
        pass(world, LEASE_MS);
        let lost = store.return_lost(10, 3).await.unwrap();
        assert_eq!((lost.leases, lost.returned, lost.failed), (1, 1, 0), "{crashes}");
        check(store, batch).await;
    }
    let worker = Worker::on(store);
    assert!(worker.mark(&worker.take(1).await).await);
    check(store, batch).await;
    pass(world, LEASE_MS);
    assert_eq!(store.return_lost(10, 3).await.unwrap().failed, 1);
    check(store, batch).await;
}

/// Only the holder marks a lease, only one of a single line, one at a time; the mark ends with the lease.
pub async fn a_mark_is_fenced_and_one_for_each_instance(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 5).await;
    let (worker, other) = (Worker::on(store), Worker::on(store));
    let (pair, one, two) = (worker.take(2).await, worker.take(1).await, worker.take(1).await);
    assert!(!worker.mark(&pair).await, "two lines are not alone");
    assert!(!other.mark(&one).await, "another instance holds it");
    let held = &one.lease.held;
    let wrong = store.mark_alone(worker.instance, held.id, held.token + 1000).await.unwrap();
    assert!(!wrong, "the token is another's");
    assert!(worker.mark(&one).await && worker.mark(&one).await, "a repeat says the same");
    assert!(!worker.mark(&two).await, "one at a time");
    check(store, batch).await;
    // Released, it is no longer marked: lost again, it goes back.
    assert_eq!(store.release_leases(worker.instance, vec![held.id]).await.unwrap(), 1);
    assert!(!worker.mark(&one).await, "the lease is gone");
    assert!(worker.mark(&two).await);
    worker.complete(&two).await;
    let again = worker.take(1).await;
    assert_eq!(seqs(&again), seqs(&one));
    pass(world, LEASE_MS);
    let lost = store.return_lost(10, 1).await.unwrap();
    assert_eq!((lost.leases, lost.returned, lost.failed), (2, 3, 0));
    check(store, batch).await;
}

/// Who was buried marks nothing: what it holds is lost already.
pub async fn the_buried_mark_nothing(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 1).await;
    let worker = Worker::on(store);
    store.register(crate::rules::new_member(&worker)).await.unwrap();
    let tranche = worker.take(1).await;
    assert!(store.bury(worker.instance, Evidence::LockGot).await.unwrap());
    assert!(!worker.mark(&tranche).await);
    let lost = store.return_lost(10, 1).await.unwrap();
    assert_eq!((lost.returned, lost.failed), (1, 0));
    check(store, batch).await;
}

/// With a bound of one crash a single line that ran alone fails on the first loss; several lines still go
/// back.
pub async fn several_lines_never_fail_together(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 3).await;
    let worker = Worker::on(store);
    worker.take(2).await;
    assert!(worker.mark(&worker.take(1).await).await);
    pass(world, LEASE_MS);
    let lost = store.return_lost(10, 1).await.unwrap();
    assert_eq!((lost.leases, lost.returned, lost.failed), (2, 2, 1));
    check(store, batch).await;
}

/// Sweeps on several instances at the same moment take each lease back once.
pub async fn many_sweeps_take_each_lease_once(world: &impl World) {
    let batch = batch_of(world.store(), "ada", 60).await;
    let worker = Worker::on(world.store());
    for _ in 0..20 {
        worker.take(3).await;
    }
    pass(world, LEASE_MS);
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let store = world.another().await;
        tasks.spawn(async move { sweep_until_nothing(&store).await });
    }
    let taken: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(taken, 20);
    assert_eq!(counts(world.store(), batch).await.returned, 60);
    check(world.store(), batch).await;
}

async fn sweep_until_nothing(store: &impl Store) -> u64 {
    let mut taken = 0;
    // A sweep may pass over what another one holds right now, so nothing found once is not the end.
    for _ in 0..20 {
        taken += patiently(|| store.return_lost(3, 9)).await.expect("a sweep is answered").leases;
    }
    taken
}

/// Batches past their deadline stop, paused ones too; what is leased may finish.
pub async fn late_batches_expire(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 4).seal(store).await;
    let window = |secs| NewBatch { window_secs: secs, ..run_over(file, "ada") };
    let soon = store.create_batch(window(Some(60))).await.unwrap().id;
    let paused = store.create_batch(window(Some(60))).await.unwrap().id;
    let late = store.create_batch(window(Some(61))).await.unwrap().id;
    let never = store.create_batch(window(None)).await.unwrap().id;
    store.pause_batch(&Scope::All, paused, None).await.unwrap();
    let worker = Worker::on(store);
    let held = worker.claim_only(soon, &[MODEL], 2).await.expect("two lines");
    pass(world, 59_999);
    assert!(store.expire_batches(10).await.unwrap().is_empty());
    pass(world, 1);
    let mut expired = store.expire_batches(1).await.unwrap();
    assert_eq!(expired.len(), 1, "at most so many");
    expired.extend(store.expire_batches(10).await.unwrap());
    expired.sort();
    let mut expected = [soon, paused];
    expected.sort();
    assert_eq!(expired, expected);
    assert!(store.expire_batches(10).await.unwrap().is_empty(), "each once");

    assert_eq!(batch(store, soon).await.state, State::Expiring);
    let settled = State::Finalizing(Ending::Expired);
    assert_eq!(batch(store, paused).await.state, settled, "nothing of it was leased");
    assert_eq!(batch(store, paused).await.finalizing_at, Some(now(world)));
    assert_eq!(batch(store, late).await.state, State::InProgress);
    assert_eq!(worker.claim_only(soon, &[MODEL], 2).await, None);
    assert_eq!(worker.complete(&held).await.finalizing, [soon]);
    assert_eq!(batch(store, soon).await.state, settled);
    for id in [soon, paused, late, never] {
        check(store, id).await;
    }
}

/// What is cancelled, settled or closed does not expire.
pub async fn an_ended_batch_does_not_expire(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 2).seal(store).await;
    let worker = Worker::on(store);
    let mut ids = Vec::new();
    for _ in 0..4 {
        let new = NewBatch { window_secs: Some(60), ..run_over(file, "ada") };
        ids.push(store.create_batch(new).await.unwrap().id);
    }
    worker.claim_only(ids[0], &[MODEL], 1).await.unwrap();
    store.cancel_batch(&Scope::All, ids[0]).await.unwrap();
    store.cancel_batch(&Scope::All, ids[1]).await.unwrap();
    worker.drain(ids[2], &[MODEL]).await;
    worker.drain(ids[3], &[MODEL]).await;
    worker.close(ids[3]).await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(batch(store, *id).await);
    }
    pass(world, 120_000);
    assert!(store.expire_batches(10).await.unwrap().is_empty());
    for (id, before) in ids.iter().zip(&before) {
        assert_eq!(&batch(store, *id).await, before);
    }
}

fn keep_long() -> Retention {
    Retention { closed_batch_secs: None, open_file_secs: 1_000_000, member_secs: 1_000_000 }
}

/// Closed batches go after their retention, counted from their closing; open ones never do.
pub async fn closed_batches_are_pruned_after_their_retention(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    let mut closed = Vec::new();
    for _ in 0..3 {
        let id = batch_of(store, "ada", 5).await;
        worker.drain(id, &[MODEL]).await;
        closed.push(id);
    }
    let open = batch_of(store, "ada", 5).await;
    pass(world, 500_000);
    for id in &closed {
        worker.close(*id).await;
    }
    let retention = Retention { closed_batch_secs: Some(60), ..keep_long() };
    pass(world, 59_999);
    assert_eq!(store.prune(retention, 10).await.unwrap().batches, 0);
    pass(world, 1_001);
    assert_eq!(store.prune(keep_long(), 10).await.unwrap(), Pruned::default());
    assert_eq!(store.prune(retention, 2).await.unwrap().batches, 2);
    assert_eq!(store.prune(retention, 2).await.unwrap().batches, 1);
    assert_eq!(store.prune(retention, 2).await.unwrap().batches, 0);
    for id in closed {
        assert_eq!(kind(store.batch(&Scope::All, id).await), Kind::Missing);
    }
    let (rows, _) = reap_all(store, 4).await;
    assert!(rows >= 15, "results were reaped: {rows}");
    check(store, open).await;
}

/// An upload that was left is pruned after its last chunk's retention, and reaped whole.
pub async fn abandoned_uploads_are_pruned(world: &impl World) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 30).in_chunks_of(10);
    let chunks = sheet.chunks();
    let retention = Retention { open_file_secs: 60, ..keep_long() };
    store.open_file(sheet.new_file()).await.unwrap();
    pass(world, 50_000);
    store.add_lines(sheet.id, chunks[0].clone()).await.unwrap();
    pass(world, 50_000);
    assert_eq!(store.prune(retention, 10).await.unwrap().files, 0, "a chunk came since");
    store.add_lines(sheet.id, chunks[1].clone()).await.unwrap();
    let sealed = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    pass(world, 61_000);
    assert_eq!(store.prune(retention, 10).await.unwrap().files, 1);
    assert!(store.add_lines(sheet.id, chunks[2].clone()).await.is_err());
    assert!(store.seal_file(sheet.id, FileVerdict::Valid).await.is_err());
    let (rows, _) = reap_all(store, 7).await;
    assert!(rows >= 20, "its lines were reaped: {rows}");
    assert_eq!(kind(store.seal_file(sheet.id, FileVerdict::Valid).await), Kind::Missing);
    assert_eq!(store.file(&Scope::All, sealed).await.unwrap().lines, 1, "a sealed one stays");
}

/// A file that has expired goes when no batch needs it any more, and not before.
pub async fn expired_files_are_pruned_when_no_batch_needs_them(world: &impl World) {
    let store = world.store();
    let expiring = |ms| {
        let mut sheet = Sheet::of("ada").lines(MODEL, 2);
        sheet.expires_at = Some(later(world, ms));
        sheet
    };
    let unused = expiring(60_000).seal(store).await;
    let used = expiring(60_000).seal(store).await;
    let young = expiring(600_000).seal(store).await;
    let id = store.create_batch(run_over(used, "ada")).await.unwrap().id;
    pass(world, 61_000);
    assert_eq!(store.prune(keep_long(), 10).await.unwrap().files, 1);
    assert_eq!(kind(store.file(&Scope::All, unused).await), Kind::Missing);
    assert_eq!(store.file(&Scope::All, used).await.unwrap().id, used);
    let worker = Worker::on(store);
    assert_eq!(worker.drain(id, &[MODEL]).await, [id]);
    assert_eq!(store.prune(keep_long(), 10).await.unwrap().files, 0);
    worker.close(id).await;
    assert_eq!(store.prune(keep_long(), 10).await.unwrap().files, 1);
    assert_eq!(kind(store.file(&Scope::All, used).await), Kind::Missing);
    assert_eq!(store.file(&Scope::All, young).await.unwrap().id, young);
    has_one_result_per_line(store, id, 2).await;
}

/// Tombstoned members go after their retention; living ones stay.
pub async fn old_tombstones_are_pruned(world: &impl World) {
    let store = world.store();
    let new = |instance| NewMember {
        instance,
        service: "windrow".to_owned(),
        host: "h".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
        lock: None,
    };
    let ids = [InstanceId::new(), InstanceId::new(), InstanceId::new()];
    for id in ids {
        store.register(new(id)).await.unwrap();
    }
    store.tombstone(ids[0]).await.unwrap();
    store.tombstone(ids[1]).await.unwrap();
    let retention = Retention { member_secs: 60, ..keep_long() };
    pass(world, 59_000);
    assert_eq!(store.prune(retention, 10).await.unwrap().members, 0);
    pass(world, 2_000);
    assert_eq!(store.prune(retention, 1).await.unwrap().members, 1);
    assert_eq!(store.prune(retention, 10).await.unwrap().members, 1);
    assert_eq!(store.prune(retention, 10).await.unwrap().members, 0);
    let left = store.members().await.unwrap();
    assert_eq!(left.iter().map(|member| member.instance).collect::<Vec<_>>(), [ids[2]]);
}

/// Reaping an orderly store removes nothing.
pub async fn reaping_spares_what_is_alive(world: &impl World) {
    let store = world.store();
    let running = batch_of(store, "ada", 5).await;
    let worker = Worker::on(store);
    worker.complete(&worker.take(2).await).await;
    let held = worker.take(1).await;
    let upload = Sheet::of("ada").lines("model-b", 3);
    upload.write(store).await;
    assert_eq!(reap_all(store, 1000).await, (0, 1));
    check(store, running).await;
    assert!(!is_lost(&worker.complete(&held).await));
    assert_eq!(store.seal_file(upload.id, FileVerdict::Valid).await.unwrap().lines, 3);
    worker.drain(running, &[MODEL]).await;
    assert_eq!(store.find_unclosed(10).await.unwrap(), [running]);
    has_one_result_per_line(store, running, 5).await;
}

/// Expired files that open batches still need, however many and however old, do not keep others
/// from going, also with a small limit.
pub async fn needed_files_do_not_hide_expired_ones(world: &impl World) {
    let store = world.store();
    let expiring = |ms| {
        let mut sheet = Sheet::of("ada").lines(MODEL, 1);
        sheet.expires_at = Some(later(world, ms));
        sheet
    };
    let mut needed = Vec::new();
    for no in 0..6 {
        let file = expiring(1000 + no).seal(store).await;
        store.create_batch(run_over(file, "ada")).await.unwrap();
        needed.push(file);
    }
    let unneeded =
        [expiring(2000).seal(store).await, expiring(3000).seal_invalid(store, vec![]).await.id];
    pass(world, 60_000);
    for _ in &unneeded {
        assert_eq!(store.prune(keep_long(), 1).await.unwrap().files, 1);
    }
    assert_eq!(store.prune(keep_long(), 1).await.unwrap().files, 0);
    for file in unneeded {
        assert_eq!(kind(store.file(&Scope::All, file).await), Kind::Missing);
    }
    for file in needed {
        assert_eq!(store.file(&Scope::All, file).await.unwrap().id, file);
    }
}
