//! Files of requests, and batches over them.

use windrow::domain::{BatchId, FileId, Owner, UpstreamId};
use windrow::engine::ingest::{Options as IngestOptions, ingest};
use windrow::store::Store;
use windrow::store::batch::NewBatch;
use windrow::store::ingest::NewFile;

/// Whose everything is.
pub const OWNER: &str = "local";
/// What every line asks for.
pub const ENDPOINT: &str = "/v1/echo";

/// The request's own id of a line.
pub fn custom_id(line: u64) -> String {
    format!("line-{line}")
}

/// A file of that many requests for one target; the bodies say which line they are.
pub fn text(lines: u64) -> String {
    let request = |line| {
        let id = custom_id(line);
        format!(
            r#"{{"custom_id":"{id}","method":"POST","url":"{ENDPOINT}","body":{{"model":"echo","line":{line}}}}}"#
        )
    };
    (1..=lines).map(|line| request(line) + "\n").collect()
}

/// The line that a request's body says it is.
///
/// # Panics
/// When the body is none that [`text`] made.
pub fn line_of(body: &[u8]) -> u64 {
    let body: serde_json::Value = serde_json::from_slice(body).expect("a request is JSON");
    body["line"].as_u64().expect("a request says which line it is")
}

/// Takes a file of that many lines in and makes a batch over it.
///
/// # Panics
/// When the store refuses.
pub async fn batch(store: &dyn Store, id: BatchId, lines: u64) {
    let owner = Owner::new(OWNER).expect("a valid name");
    let file = NewFile {
        id: FileId::new(),
        owner: owner.clone(),
        name: "in.jsonl".to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    };
    let text = text(lines);
    let taken = ingest(store, text.as_bytes(), file, IngestOptions::default()).await;
    let taken = taken.expect("the file is taken in");
    assert!(taken.errors.is_empty(), "{:?}", taken.errors);
    // Whoever comes first runs it, to the upstream that it knows.
    let upstreams = UpstreamId::unknown().into();
    let batch = NewBatch { id, upstreams, ..NewBatch::over(taken.file.id, owner, ENDPOINT) };
    store.create_batch(batch).await.expect("the batch is made");
}
