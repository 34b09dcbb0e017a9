//! A small world: a file with lines, and a batch over it.

use bytes::Bytes;
use windrow_domain::attempt::Status;
use windrow_domain::{FileId, LeaseId, Owner, Target};
use windrow_store::batch::{Batch, NewBatch};
use windrow_store::claim::{Request, Tranche};
use windrow_store::ingest::{Chunk, FileVerdict, NewFile, NewLane, NewLine};
use windrow_store::record::{Finished, Outcomes};
use windrow_store::{Batches as _, Ingest as _};
use windrow_store_sqlite::SqliteStore;

pub(crate) const TARGET: &str = "model-a";

pub(crate) fn owner() -> Owner {
    Owner::new("ann").unwrap()
}

/// A sealed file of `lines` lines for one target.
pub(crate) async fn sealed_file(store: &SqliteStore, lines: u64) -> FileId {
    let id = FileId::new();
    let (name, purpose) = ("in.jsonl".to_owned(), "batch".to_owned());
    let file = NewFile { id, owner: owner(), name, purpose, expires_at: None };
    store.open_file(file).await.unwrap();
    let target = Target::new(TARGET).unwrap();
    let line = |seq| {
        let raw = Bytes::from(format!("{{\"custom_id\":\"c{seq}\"}}\n"));
        NewLine { lane: Some(0), seq, line: seq + 1, raw }
    };
    let lanes = vec![NewLane { lane: 0, target }];
    let chunk = Chunk { no: 0, lanes, lines: (0..lines).map(line).collect() };
    store.add_lines(id, chunk).await.unwrap();
    store.seal_file(id, FileVerdict::Valid).await.unwrap();
    id
}

pub(crate) fn new_batch(file: FileId) -> NewBatch {
    NewBatch::over(file, owner(), "/v1/echo")
}

pub(crate) async fn batch_of(store: &SqliteStore, lines: u64) -> Batch {
    let file = sealed_file(store, lines).await;
    store.create_batch(new_batch(file)).await.unwrap()
}

pub(crate) fn request(lines_max: u32) -> Request {
    let routes = vec![Target::new(TARGET).unwrap().into()];
    let (lease, binds) = (LeaseId::new(), false);
    Request { lease, routes, binds, only: None, lines_max, lease_ms: 60_000 }
}

/// Every line of the tranche, answered.
pub(crate) fn all_completed(tranche: &Tranche) -> Outcomes {
    let finish = |line: &windrow_store::claim::Line| Finished {
        response: Some(line.raw.clone()),
        ..Finished::bare(line.seq, line.line, Status::Completed, 1)
    };
    let finished = tranche.lines.iter().map(finish).collect();
    Outcomes { finished, ..Outcomes::of(tranche.lease.held.clone()) }
}
