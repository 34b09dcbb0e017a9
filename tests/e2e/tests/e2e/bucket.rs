//! Outputs in a bucket of a real S3 server: in parts, whole or not at all, there after a restart.

use futures_util::TryStreamExt as _;
use serde_json::{Value, json};
use windrow::engine::storage::{PART_BYTES, Storage};
use windrow_e2e::Server;
use windrow_e2e::raw::Request;
use windrow_e2e::s3::S3;
use windrow_e2e::server::WITHIN;
use windrow_fault::wait;

use crate::good_form;

/// What a page of the S3 server says.
pub(crate) async fn page(s3: &S3, path: &str) -> String {
    reqwest::get(format!("{}{path}", s3.url())).await.unwrap().text().await.unwrap()
}

pub(crate) async fn bucket(s3: &S3) {
    let made = reqwest::Client::new().put(format!("{}/outputs", s3.url())).send().await.unwrap();
    assert!(made.status().is_success(), "{made:?}");
}

/// Uploads that were begun and have not ended.
pub(crate) async fn uploads(s3: &S3) -> usize {
    page(s3, "/outputs?uploads").await.matches("<Upload>").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_goes_to_a_bucket_in_parts_and_a_writer_that_is_dropped_leaves_none() {
    let Some(s3) = S3::start().await else { return };
    bucket(&s3).await;
    let storage = Storage::open_with("s3://outputs/some/where", &s3.settings()).unwrap();
    let bytes: Vec<u8> =
        (0..2 * PART_BYTES + 12_345).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let mut writer = storage.create("large").unwrap();
    for piece in bytes.chunks(1 << 20) {
        writer.write(piece).await.unwrap();
    }
    assert_eq!(uploads(&s3).await, 1, "it is under way");
    assert!(storage.size("large").await.is_err(), "it is not there before its end");
    assert_eq!(writer.finish().await.unwrap(), bytes.len() as u64);
    assert_eq!(storage.size("large").await.unwrap(), bytes.len() as u64);
    assert!(page(&s3, "/outputs?list-type=2").await.contains("<Key>some/where/large</Key>"));
    let read = storage.read("large").await.unwrap().map_ok(|piece| piece.to_vec());
    assert!(read.try_concat().await.unwrap() == bytes);
    assert_eq!(uploads(&s3).await, 0);

    for drops in [true, false] {
        let mut writer = storage.create("lost").unwrap();
        writer.write(&bytes).await.unwrap();
        assert_eq!(uploads(&s3).await, 1);
        if drops {
            drop(writer);
        } else {
            writer.abort().await;
        }
        let look = || async { (uploads(&s3).await == 0).then_some(()) };
        wait::until(WITHIN, look, || page(&s3, "/outputs?uploads")).await;
        assert!(storage.size("lost").await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_writes_its_outputs_to_a_bucket_and_another_process_reads_them() {
    let Some(s3) = S3::start().await else { return };
    bucket(&s3).await;
    let mut server = Server::with_storage("s3://outputs/batches", &s3.settings()).await;
    let (key, to) = (server.key("ann").await, server.address());
    let file = Request::upload(&key, good_form()).send(to).await.json();
    let body = json!({
        "input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h",
    });
    let made = Request::new("POST", "/v1/batches", &key).json(body.to_string()).send(to).await;
    let path = format!("/v1/batches/{}", made.json()["id"].as_str().unwrap());
    let look = || async {
        let batch = Request::new("GET", &path, &key).send(to).await.json();
        (batch["status"] == "completed").then_some(batch)
    };
    let batch: Value = wait::until(WITHIN, look, || async { "it does not end".to_owned() }).await;
    let listed = page(&s3, "/outputs?list-type=2").await;
    assert!(listed.contains("<Key>batches/"), "{listed}");
    assert_eq!(uploads(&s3).await, 0);
    let path = format!("/v1/files/{}/content", batch["output_file_id"].as_str().unwrap());
    let before = Request::new("GET", &path, &key).send(to).await;
    assert_eq!(before.status, 200);
    let part = Request::new("GET", &path, &key).header("range", "bytes=1-9").send(to).await;
    assert_eq!((part.status, &part.body[..]), (206, &before.body[1..10]), "it is read from there");

    server.start_again("s3://outputs/batches", &s3.settings()).await;
    let after =
        Request::new("GET", &path, &key).header("range", "bytes=1-9").send(server.address()).await;
    assert_eq!((after.status, &after.body[..]), (206, &before.body[1..10]));
    server.check();
}
