//! The status of closed batches in Redis, for others to read.

use redis::AsyncCommands as _;
use serde_json::{Value, json};
use tokio::task::block_in_place;
use windrow_e2e::Server;
use windrow_e2e::raw::Request;
use windrow_e2e::server::WITHIN;
use windrow_fault::{Backend, wait};
use windrow_testkit::broker::{self, Broker};
use windrow_testkit::required;

use crate::good_form;

/// Runs the good file to its end; gives the id of the batch.
async fn completed(server: &Server, key: &str) -> String {
    let to = server.address();
    let file = Request::upload(key, good_form()).send(to).await.json();
    let body = json!({
        "input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h",
    });
    let made = Request::new("POST", "/v1/batches", key).json(body.to_string()).send(to).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/batches/{id}");
    let look = || async {
        let batch = Request::new("GET", &path, key).send(to).await.json();
        (batch["status"] == "completed").then_some(())
    };
    wait::until(WITHIN, look, || async { "it does not end".to_owned() }).await;
    id
}

async fn read(broker: &Broker, key: &str) -> (Option<String>, i64) {
    let client = redis::Client::open(broker.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    (connection.get(key).await.unwrap(), connection.ttl(key).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_of_a_closed_batch_is_in_redis_and_redis_may_be_down() {
    if required("redis-server", broker::redis_server()).is_none() {
        return;
    }
    let mut broker = block_in_place(|| Broker::redis().unwrap());
    let tables = format!(
        "[status_cache]\nredis = \"{}\"\nttl_secs = 600\nconnect_ms_max = 200\nanswer_ms_max = 200\n",
        broker.url()
    );
    let server = Server::with_tables(Backend::Sqlite, &tables, &[]).await;
    let key = server.key("ann").await;
    let id = completed(&server, &key).await;
    // The API's id is the same number in another form.
    let plain = id.trim_start_matches("batch_");
    let parts = [&plain[..8], &plain[8..12], &plain[12..16], &plain[16..20], &plain[20..]];
    let name = format!("windrow:batch:{}", parts.join("-"));
    let look = || async { read(&broker, &name).await.0 };
    let status = wait::until(WITHIN, look, || async { name.clone() }).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["state"], &status["owner"]), (&json!("completed"), &json!("ann")));
    assert_eq!(
        (&status["counts"]["total"], &status["counts"]["completed"]),
        (&json!(1), &json!(1))
    );
    let ttl = read(&broker, &name).await.1;
    assert!((1..=600).contains(&ttl), "{ttl}");

    block_in_place(|| broker.stop());
    completed(&server, &key).await;
    let look = || async { server.said().contains("was not written to Redis").then_some(()) };
    wait::until(WITHIN, look, || async { server.said() }).await;
    server.check();
}
