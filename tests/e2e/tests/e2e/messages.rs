//! Messages through the running server: an object answers once, and a closed batch tells a webhook.

use serde_json::{Value, json};
use windrow::engine::deliver::signature::{self, SigningKey};
use windrow_e2e::Server;
use windrow_e2e::raw::{Request, Response};
use windrow_e2e::server::WITHIN;
use windrow_fault::{Backend, wait};
use windrow_testkit::upstream::{ReceivedRequest, Reply, Script, Upstream};

use crate::good_form;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A wallet that keeps its money in its state, and a webhook.
async fn receiver() -> Upstream {
    let script = Script::new(|seen| {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        if seen.path != "/wallet" {
            return Reply::json(200, "");
        }
        let cents = body["state"]["cents"].as_i64().unwrap_or(0)
            + body["args"]["cents"].as_i64().unwrap_or(0);
        let now = json!({ "cents": cents });
        Reply::json(200, json!({ "reply": now, "state": now }).to_string())
    });
    Upstream::start(script).await.unwrap()
}

/// That the receiver can trust what it got.
fn check_signed(seen: &ReceivedRequest) {
    let key = SigningKey::read(SECRET).unwrap();
    let (id, at) = (seen.header(signature::ID), seen.header(signature::TIMESTAMP));
    let wanted = signature::sign(&[key], id, at.parse().unwrap(), &seen.body);
    assert_eq!(seen.header(signature::SIGNATURE), wanted);
}

async fn ask(server: &Server, key: &str, id: &str, args: Value) -> Response {
    Request::new("POST", "/v1/objects/wallet/7/deposit", key)
        .header("idempotency-key", id)
        .json(args.to_string())
        .send(server.address())
        .await
}

async fn messages_are_run(backend: Backend) {
    let receiver = receiver().await;
    let tables = format!(
        "[objects.wallet]\nurl = \"{url}/wallet\"\nsecrets = [{{ file = \"secret\" }}]\n\
         [publish.hook]\ntype = \"webhook\"\nkinds = [\"batch.*\"]\nurl = \"{url}/hook\"\n\
         secrets = [{{ file = \"secret\" }}]\n",
        url = receiver.url()
    );
    let server = Server::with_tables(backend, &tables, &[("secret", SECRET)]).await;
    let (key, to) = (server.key("ann").await, server.address());

    let first = ask(&server, &key, "r1", json!({ "cents": 5 })).await;
    assert_eq!((first.status, first.json()), (200, json!({ "cents": 5 })), "{}", first.head);
    let again = ask(&server, &key, "r1", json!({ "cents": 5 })).await;
    assert_eq!((again.status, &again.body), (200, &first.body), "the same id, the same answer");
    let more = ask(&server, &key, "r2", json!({ "cents": 2 })).await;
    assert_eq!(more.json(), json!({ "cents": 7 }), "the repeat added nothing");
    let other = ask(&server, &key, "r1", json!({ "cents": 6 })).await;
    assert_eq!(
        (other.status, &other.json()["error"]["code"]),
        (400, &json!("idempotency_key_reused"))
    );
    let calls: Vec<ReceivedRequest> =
        receiver.seen().into_iter().filter(|seen| seen.path == "/wallet").collect();
    assert_eq!(calls.len(), 2, "each is run once");
    calls.iter().for_each(check_signed);

    let file = Request::upload(&key, good_form()).send(to).await.json();
    let body = json!({
        "input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h",
    });
    let made = Request::new("POST", "/v1/batches", &key).json(body.to_string()).send(to).await;
    assert_eq!(made.status, 200, "{}", made.head);
    let is_end = |seen: &ReceivedRequest| seen.header("windrow-kind") == "batch.completed";
    let hooks = || receiver.seen().into_iter().filter(|seen| seen.path == "/hook");
    let look = || async { hooks().find(is_end) };
    let told = wait::until(WITHIN, look, || async { server.said() }).await;
    check_signed(&told);
    let payload: Value = serde_json::from_slice(&told.body).unwrap();
    let id = payload["id"].as_str().unwrap().replace('-', "");
    assert_eq!(made.json()["id"], format!("batch_{id}"), "{payload}");
    assert_eq!(
        (told.header("windrow-kind"), told.header("windrow-owner")),
        ("batch.completed", "ann")
    );
    assert_eq!(payload["state"], "completed");
    let kinds: Vec<String> = hooks().map(|seen| seen.header("windrow-kind").to_owned()).collect();
    assert_eq!(kinds, ["batch.created", "batch.completed"], "in their order");
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_answer_once_and_batches_tell_their_end() {
    messages_are_run(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_answer_once_and_batches_tell_their_end_on_postgres() {
    messages_are_run(Backend::Postgres).await;
}
