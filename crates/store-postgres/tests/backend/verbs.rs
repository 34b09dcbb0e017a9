//! The whole contract once, on things of its own: every statement of the store runs.

use jiff::SignedDuration;
use windrow_domain::attempt::Status;
use windrow_domain::{AuditEntryId, BatchId, FileId, InstanceId, KeyId, LineSet, OutputKind, Role};
use windrow_store::audit_log::NewAuditEntry;
use windrow_store::batch::{Reprocess, Select};
use windrow_store::claim::Poll;
use windrow_store::finalise::{NewOutput, Rows};
use windrow_store::ingest::{FileVerdict, LineError};
use windrow_store::inspect::{BatchesQuery, FilesQuery, FinishedQuery, PendingQuery};
use windrow_store::key::{KeysQuery, NewKey};
use windrow_store::member::{Evidence, NewMember};
use windrow_store::record::{Fold, Outcomes};
use windrow_store::sweep::Retention;
use windrow_store::{
    Batches, Claim, Finalise, Ingest, Inspect, Keys, Members, Record, Scope, Sweep,
};
use windrow_store_postgres::PostgresStore;

use crate::support::{
    LEASE_MS, again, batch, chunk, completed, file, new_batch, new_file, owner, request, target,
};

const ALL: &Scope = &Scope::All;
const LINES: u64 = 40;

/// Runs every verb at least once.
pub(crate) async fn run_every_verb(store: &PostgresStore) {
    let me = join(store).await;
    ingest(store).await;
    let running = batch(store, file(store, LINES).await).await;
    store.set_limit(&target(), Some(1000)).await.unwrap();
    work(store, me, running).await;
    look(store, running).await;
    end(store, me, running).await;
    store.set_limit(&target(), None).await.unwrap();
    let_in(store).await;
    crate::messages::run_every_verb(store).await;
    leave(store, me).await;
}

/// A key from its making to its end.
async fn let_in(store: &PostgresStore) {
    let id = KeyId::new();
    let mut hash = [0; 32];
    hash[..16].copy_from_slice(id.0.as_bytes());
    let (name, hint) = ("ci".to_owned(), "wr_".to_owned());
    let role = Role::Member;
    let key = NewKey { id, hash, owner: owner(), role, name, hint, expires_at: None };
    store.add_key(key).await.unwrap();
    store.find_key(&hash).await.unwrap();
    store.touch_keys(&[id]).await.unwrap();
    store.keys(ALL, KeysQuery { after: None, limit: 5 }).await.unwrap();
    store.revoke_key(ALL, id).await.unwrap();
}

async fn join(store: &PostgresStore) -> InstanceId {
    let instance = InstanceId::new();
    let (service, host) = ("tests".to_owned(), "here".to_owned());
    let member =
        NewMember { instance, service, host, pid: 1, metadata: "{}".to_owned(), lock: None };
    store.register(member).await.unwrap();
    store.heartbeat(instance).await.unwrap();
    store.take_duty(instance, "sweep", 1).await.unwrap();
    assert!(store.members().await.unwrap().iter().any(|member| member.instance == instance));
    instance
}

/// An invalid file, a batch over it, and both gone again.
async fn ingest(store: &PostgresStore) {
    let new = new_file();
    let id = new.id;
    store.open_file(new).await.unwrap();
    store.add_lines(id, chunk(0, 0, 3)).await.unwrap();
    let (code, message) = ("invalid_json_line".to_owned(), "it is not JSON".to_owned());
    let error = LineError { code, line: Some(1), message, param: None };
    store.seal_file(id, FileVerdict::Invalid(vec![error])).await.unwrap();
    store.file(ALL, id).await.unwrap();
    for ascending in [false, true] {
        let query = FilesQuery { ascending, after_id: Some(id), limit: 5, ..FilesQuery::default() };
        store.files(ALL, query).await.unwrap();
    }
    assert_eq!(store.file_errors(ALL, id).await.unwrap().len(), 1);
    assert!(!store.read_chunk(ALL, id, 0).await.unwrap().is_empty());
    let failed = store.create_batch(new_batch(id)).await.unwrap();
    store.delete_batch(ALL, failed.id).await.unwrap();
    store.drop_file(ALL, id).await.unwrap();
}

/// Claims, retries, releases, extends and completes all lines.
async fn work(store: &PostgresStore, me: InstanceId, running: BatchId) {
    let only =
        |lines_max| windrow_store::claim::Request { only: Some(running), ..request(lines_max) };
    store.pause_batch(ALL, running, Some("a reason".to_owned())).await.unwrap();
    store.resume_batch(ALL, running, None).await.unwrap();
    assert!(!store.waiting(Poll::targets(10)).await.unwrap().waiting.is_empty());
    assert!(
        !store
            .waiting(Poll { only: Some(running), ..Poll::targets(10) })
            .await
            .unwrap()
            .waiting
            .is_empty()
    );
    let first = store.lease_tranche(me, only(10)).await.unwrap().unwrap();
    let extended = store.extend_leases(me, vec![first.lease.held.id], LEASE_MS).await.unwrap();
    assert_eq!(extended.extended.len(), 1);
    let line = &first.lines[0];
    // Long enough ago to be due at once, bucket and all.
    let due = first.lease.granted_at - SignedDuration::from_secs(1);
    let released = LineSet::span(first.lines[1].seq, 1);
    let held = first.lease.held.clone();
    let outcomes = Outcomes { again: vec![again(line, due)], released, ..Outcomes::of(held) };
    let reply = store.record(me, vec![outcomes.clone()]).await.unwrap();
    assert!(matches!(&reply.folds[..], [Fold::Kept { held: Some(_), .. }]));
    // The same again, as after a lost reply: the store looks before it plans.
    store.record(me, vec![outcomes]).await.unwrap();
    assert_eq!(store.attempts(ALL, running, line.line).await.unwrap().len(), 1);
    assert_eq!(store.attempt_counts(running, &[line.line]).await.unwrap().len(), 1);
    assert_eq!(store.release_leases(me, vec![first.lease.held.id]).await.unwrap(), 8);
    while let Some(tranche) = store.lease_tranche(me, only(15)).await.unwrap() {
        let mut outcomes = completed(&tranche);
        outcomes.finished[0].status = Status::Failed;
        store.record(me, vec![outcomes]).await.unwrap();
    }
}

async fn look(store: &PostgresStore, running: BatchId) {
    let shown = store.batch(ALL, running).await.unwrap();
    assert_eq!(shown.counts.finished(), LINES);
    store.batches(ALL, BatchesQuery { limit: 5, ..BatchesQuery::default() }).await.unwrap();
    assert_eq!(store.lanes(ALL, running).await.unwrap().len(), 1);
    let other = batch(store, shown.file).await;
    let pending = PendingQuery { batch: Some(other), limit: 5, ..PendingQuery::default() };
    assert_eq!(store.pending(ALL, pending).await.unwrap().rows.len(), 5);
    store.cancel_batch(ALL, other).await.unwrap();
    let finished = FinishedQuery { batch: Some(running), limit: 100, ..FinishedQuery::default() };
    assert_eq!(store.finished(ALL, finished.clone()).await.unwrap().rows.len(), 40);
    let failed = FinishedQuery { statuses: vec![Status::Failed], ..finished };
    assert!(!store.finished(ALL, failed).await.unwrap().rows.is_empty());
    store.verify(running).await.unwrap().check().unwrap();
}

/// Runs some lines again, in each of the ways there are, then closes and removes the batch.
async fn end(store: &PostgresStore, me: InstanceId, running: BatchId) {
    let ways = [
        Select::Statuses(vec![Status::Failed]),
        Select::Statuses(vec![Status::Completed]),
        Select::Lines(LineSet::span(1, 3)),
    ];
    for select in ways {
        let step = Reprocess { lines_max: 5, ..Reprocess::first(running, select) };
        assert!(store.reprocess(ALL, step).await.unwrap().moved > 0);
        while let Some(tranche) = store.lease_tranche(me, request(20)).await.unwrap() {
            store.record(me, vec![completed(&tranche)]).await.unwrap();
        }
    }
    assert!(store.find_unclosed(1000).await.unwrap().contains(&running));
    let right = store.take_finalisation(running, me, LEASE_MS).await.unwrap();
    let rows = Rows { completed: right.counts.completed, ..Rows::default() };
    let rows = Rows { failed: right.counts.failed, ..rows };
    let (actor, action) = ("ada".to_owned(), "reprocess".to_owned());
    let act = NewAuditEntry { id: AuditEntryId::new(), actor, address: None, action };
    store.add_audit_entry(ALL, running, act).await.unwrap();
    assert_eq!(store.audit_log(ALL, running).await.unwrap().len(), 1);
    let (kind, name) = (OutputKind::Output, "output.jsonl".to_owned());
    let place = format!("batches/{running}/1-output.jsonl");
    let output = NewOutput { kind, name, place, lines: right.counts.completed, bytes: 1 };
    let closed = store.close_batch(&right, rows, "{}", &[output]).await.unwrap();
    store.file(ALL, FileId::output_of(running)).await.unwrap();
    store.delete_batch(ALL, running).await.unwrap();
    let dropped = store.find_dropped_outputs(1000).await.unwrap();
    assert!(dropped.iter().any(|output| output.file == FileId::output_of(running)));
    store.forget_outputs(&dropped).await.unwrap();
    assert!(closed.closed_at.is_some());
}

async fn leave(store: &PostgresStore, me: InstanceId) {
    store.return_lost(10, 3).await.unwrap();
    store.expire_batches(10).await.unwrap();
    store.tombstone(me).await.unwrap();
    assert!(store.bury(me, Evidence::LockGot).await.unwrap(), "it is tombstoned already");
    let keep = 86_400;
    let retention =
        Retention { closed_batch_secs: Some(keep), open_file_secs: keep, member_secs: keep };
    store.prune(retention, 10).await.unwrap();
    while store.reap(1000).await.unwrap().more {}
}
