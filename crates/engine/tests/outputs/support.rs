//! A store in memory, a file, a batch over it, and results for its lines.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use serde_json::Value;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, FileId, InstanceId, LeaseId, Owner, Target};
use windrow_engine::Options;
use windrow_engine::clock::Clock;
use windrow_engine::finalise::{Closing, Finaliser, Summary};
use windrow_engine::ingest::ingest;
use windrow_engine::storage::Storage;
use windrow_store::batch::{Batch, NewBatch};
use windrow_store::claim::Request;
use windrow_store::ingest::NewFile;
use windrow_store::record::{Finished, Outcomes};
use windrow_store::{Batches as _, Claim as _, Inspect as _, Record as _, Scope, Time};
use windrow_store_sqlite::SqliteStore;

/// How long a finalisation is held in these tests.
pub(crate) const LEASE_MS: u64 = 60_000;
const TARGETS: [&str; 3] = ["small", "large", "tiny"];

pub(crate) struct World {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) time: Time,
    pub(crate) clock: Clock,
}

impl World {
    pub(crate) async fn new() -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let time = Time::given(start);
        let options = windrow_store_sqlite::Options::default().time(time.clone());
        let store = Arc::new(SqliteStore::open(options).await.unwrap());
        Self { store, time, clock: Clock::manual(start) }
    }

    /// A batch over so many lines in three lanes, with a blank line here and there.
    pub(crate) async fn batch(&self, lines: u64, window_secs: Option<u64>) -> BatchId {
        let owner = Owner::new("ann").unwrap();
        let file = NewFile {
            id: FileId::new(),
            owner: owner.clone(),
            name: "in.jsonl".to_owned(),
            purpose: "batch".to_owned(),
            expires_at: None,
        };
        let text: String = (0..lines).map(request).collect();
        let small = windrow_engine::ingest::Options::default().chunk_bytes_max(5000);
        let done = ingest(&*self.store, text.as_bytes(), file, small).await.unwrap();
        assert_eq!(done.errors, []);
        let batch = NewBatch { window_secs, ..NewBatch::over(done.file.id, owner, "/v1/x") };
        self.store.create_batch(batch).await.unwrap().id
    }

    /// Claims up to so many lines and finishes them as `result` says.
    pub(crate) async fn finish(
        &self,
        lines_max: u32,
        result: impl Fn(Finished) -> Finished,
    ) -> Vec<BatchId> {
        let (instance, mut left, mut finalizing) = (InstanceId::new(), lines_max, Vec::new());
        while left > 0 {
            let request = Request {
                lease: LeaseId::new(),
                routes: TARGETS.map(|target| Target::new(target).unwrap().into()).to_vec(),
                binds: false,
                only: None,
                lines_max: left.min(500),
                lease_ms: 60_000,
            };
            let Some(tranche) = self.store.lease_tranche(instance, request).await.unwrap() else {
                break;
            };
            left -= u32::try_from(tranche.lines.len()).unwrap();
            let mut outcomes = Outcomes::of(tranche.lease.held);
            // Backwards: the order of outputs must not be the order of recording.
            outcomes.finished = (tranche.lines.iter().rev())
                .map(|line| {
                    let request: Value = serde_json::from_slice(&line.raw).unwrap();
                    let custom_id = request["custom_id"].as_str().map(str::to_owned);
                    let bare = Finished::bare(line.seq, line.line, Status::Completed, 1);
                    result(Finished { custom_id, http_status: Some(200), ..bare })
                })
                .collect();
            let reply = self.store.record(instance, vec![outcomes]).await.unwrap();
            finalizing.extend(reply.finalizing);
        }
        finalizing
    }

    /// A batch of so many completed lines that waits to be closed.
    pub(crate) async fn settled(&self, lines: u64) -> BatchId {
        let id = self.batch(lines, None).await;
        assert_eq!(self.finish(u32::MAX, answered).await, [id]);
        id
    }

    pub(crate) fn finaliser(&self, storage: &Storage) -> Finaliser {
        self.finaliser_with(Some(storage.clone()), InstanceId::new())
    }

    pub(crate) fn finaliser_with(&self, storage: Option<Storage>, who: InstanceId) -> Finaliser {
        let options = Options::default().finalise_lease(Duration::from_millis(LEASE_MS));
        Finaliser::new(self.store.clone(), storage, who, self.clock.clone(), &options)
    }

    pub(crate) async fn state(&self, batch: BatchId) -> Batch {
        self.store.batch(&Scope::All, batch).await.unwrap()
    }
}

/// Line `number` of a file, counted from 0.
fn request(number: u64) -> String {
    let model = TARGETS[usize::try_from(number % 3).unwrap()];
    let blank = if number % 7 == 6 { "\n" } else { "" };
    format!(
        "{{\"custom_id\":\"c-{number}\",\"method\":\"POST\",\"url\":\"/v1/x\",\
         \"body\":{{\"model\":\"{model}\"}}}}\n{blank}"
    )
}

/// A plain answer.
pub(crate) fn answered(line: Finished) -> Finished {
    let body = format!("{{\n  \"answer\": {}, \"usage\": {{\"total_tokens\": 3}}\n}}\n", line.line);
    Finished { response: Some(Bytes::from(body)), ..line }
}

pub(crate) fn closed(closing: Closing) -> (Batch, Summary) {
    match closing {
        Closing::Closed(batch) => {
            let summary = Summary::of(&batch).unwrap();
            (*batch, summary)
        }
        Closing::Left => panic!("it was left"),
    }
}

pub(crate) async fn bytes(storage: &Storage, name: &str) -> Vec<u8> {
    let pieces: Vec<Bytes> = storage.read(name).await.unwrap().try_collect().await.unwrap();
    pieces.concat()
}

pub(crate) async fn lines(storage: &Storage, name: &str) -> Vec<Value> {
    let text = String::from_utf8(bytes(storage, name).await).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The numbers in the custom ids, in the order of the lines.
pub(crate) fn numbers(lines: &[Value]) -> Vec<u64> {
    let number = |line: &Value| line["custom_id"].as_str().unwrap()[2..].parse().unwrap();
    lines.iter().map(number).collect()
}

pub(crate) async fn names(storage: &Storage) -> Vec<String> {
    let found = storage.list("batches", 1000).await.unwrap();
    let mut names: Vec<_> = found.into_iter().map(|stored| stored.name).collect();
    names.sort();
    names
}
