//! The pipeline into the embedded store, end to end: what comes in is what is there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use windrow_domain::{FileId, InstanceId, LeaseId, Owner, Target};
use windrow_engine::ingest::{Ingested, Options, ingest};
use windrow_store::batch::NewBatch;
use windrow_store::claim::Request;
use windrow_store::ingest::{FileState, NewFile};
use windrow_store::{Batches as _, Claim as _, Inspect as _, Kind, Scope};
use windrow_store_sqlite::SqliteStore;

fn owner() -> Owner {
    Owner::new("ann").unwrap()
}

fn new_file() -> NewFile {
    let (name, purpose) = ("in.jsonl".to_owned(), "batch".to_owned());
    NewFile { id: FileId::new(), owner: owner(), name, purpose, expires_at: None }
}

fn small() -> Options {
    let (block_bytes, chunk_bytes_max, duplicates_bytes_max) = (1000, 3000, 240);
    Options::default()
        .block_bytes(block_bytes)
        .chunk_bytes_max(chunk_bytes_max)
        .duplicates_bytes_max(duplicates_bytes_max)
        .line_bytes_max(2000)
}

async fn store() -> SqliteStore {
    SqliteStore::open(windrow_store_sqlite::Options::default()).await.unwrap()
}

async fn read(store: &SqliteStore, done: &Ingested) -> Vec<u8> {
    let (scope, mut bytes) = (Scope::Owner(owner()), Vec::new());
    for no in 0..done.file.chunks {
        bytes.extend_from_slice(&store.read_chunk(&scope, done.file.id, no).await.unwrap());
    }
    bytes
}

fn line(number: usize, ending: &str) -> String {
    let model = ["small", "large", "tiny"][number % 3];
    let body = format!(r#"{{"model":"{model}","text":"{}"}}"#, "ü".repeat(number % 50));
    format!(r#"{{"custom_id":"c-{number}","method":"POST","url":"/v1/x","body":{body}}}{ending}"#)
}

#[tokio::test]
async fn a_valid_file_reads_back_exactly_and_can_be_claimed() {
    let store = store().await;
    let mut text = "\u{feff}".to_owned();
    for number in 0..500 {
        text.push_str(&line(number, if number % 7 == 0 { "\r\n\n" } else { "\n" }));
    }
    text.push_str(&line(500, ""));
    let done = ingest(&store, text.as_bytes(), new_file(), small()).await.unwrap();
    assert_eq!((done.file.state, done.file.lines), (FileState::Sealed, 501));
    assert_eq!(done.file.bytes, text.len() as u64);
    assert!(done.file.chunks > 10);
    assert_eq!(read(&store, &done).await, text.as_bytes());

    let batch = NewBatch::over(done.file.id, owner(), "/v1/x");
    let batch = store.create_batch(batch).await.unwrap();
    let lanes = store.lanes(&Scope::All, batch.id).await.unwrap();
    let lanes: Vec<_> = lanes.iter().map(|l| (l.target.as_str(), l.counts.total)).collect();
    assert_eq!(lanes, [("small", 167), ("large", 167), ("tiny", 167)]);
    let request = Request {
        lease: LeaseId::new(),
        routes: vec![Target::new("large").unwrap().into()],
        binds: false,
        only: None,
        lines_max: 2,
        lease_ms: 1000,
    };
    let tranche = store.lease_tranche(InstanceId::new(), request).await.unwrap().unwrap();
    assert_eq!(tranche.lines[0].raw, line(1, "\n").as_bytes());
    assert_eq!((tranche.lines[1].seq, &tranche.lines[1].raw[..]), (1, line(4, "\n").as_bytes()));
}

#[tokio::test]
async fn an_invalid_file_keeps_its_bytes_and_its_errors() {
    let store = store().await;
    let mut bytes = line(0, "\n").into_bytes();
    bytes.extend_from_slice(b"\xff\n\n{\n");
    bytes.extend(std::iter::repeat_n(b'x', 2_500_000));
    bytes.extend_from_slice(line(0, "").as_bytes());
    let done = ingest(&store, &bytes[..], new_file(), small()).await.unwrap();
    let codes: Vec<_> = done.errors.iter().map(|e| (e.line.unwrap(), e.code.as_str())).collect();
    assert_eq!(codes, [(2, "invalid_json_line"), (4, "invalid_json_line"), (5, "line_too_long")]);
    assert_eq!(done.file.state, FileState::Invalid);
    assert_eq!(read(&store, &done).await, bytes);
    let kept = store.file_errors(&Scope::Owner(owner()), done.file.id).await.unwrap();
    assert_eq!(kept, done.errors);
}

#[tokio::test]
async fn a_file_that_breaks_off_is_not_there() {
    let store = store().await;
    let (file, options) = (new_file(), small().file_bytes_max(5000));
    let id = file.id;
    let text: String = (0..200).map(|number| line(number, "\n")).collect();
    ingest(&store, text.as_bytes(), file, options).await.unwrap_err();
    let missing = store.file(&Scope::All, id).await.unwrap_err();
    assert_eq!(missing.kind, Kind::Missing);
}
