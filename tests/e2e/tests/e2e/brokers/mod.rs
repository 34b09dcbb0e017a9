//! Real brokers at the running server: what is sent reaches each of them, and what they bring is
//! handled once, though they are stopped and started in between.

mod fixture;

use serde_json::{Value, json};
use windrow_e2e::Server;
use windrow_e2e::raw::Request;
use windrow_e2e::server::WITHIN;
use windrow_fault::{Backend, wait};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use fixture::Brokers;

/// Brokers are away for longer than the usual number of tries lasts.
const PATIENT: &str =
    "[messages]\nattempts_max = 1000\nbackoff_ms_min = 50\nbackoff_ms_max = 500\n";
const STREAM: &str = "orders/17";

/// Sends a message of ann's; whether it was there before.
async fn send(server: &Server, key: &str, id: &str) -> bool {
    let message =
        json!({ "stream": STREAM, "kind": "order.placed", "id": id, "payload": { "of": id } });
    let request = Request::new("POST", "/v1/messages", key).json(message.to_string());
    let response = request.send(server.address()).await;
    assert_eq!(response.status, 202, "{response:?}");
    response.json()["data"][0]["duplicate"].as_bool().unwrap()
}

async fn rows(server: &Server, key: &str, path: &str) -> Vec<Value> {
    let mut page = Request::new("GET", path, key).send(server.address()).await.json();
    serde_json::from_value(page["data"].take()).unwrap()
}

/// Waits until the outbox is as it should be.
async fn outbox(server: &Server, key: &str, is_so: impl Fn(&[Value]) -> bool) {
    let look = || async { is_so(&rows(server, key, "/v1/messages").await).then_some(()) };
    let state = || async { format!("{:#?}", rows(server, key, "/v1/messages").await) };
    wait::until(WITHIN, look, state).await;
}

/// Each once, in the order in which they were first seen: receivers know a repeat by its id.
fn once<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    all.into_iter().fold(Vec::new(), |mut known, one| {
        if !known.contains(&one) {
            known.push(one);
        }
        known
    })
}

fn publishers(brokers: &Brokers) -> String {
    let (nats, redis, rabbitmq) = (brokers.nats.url(), brokers.redis.url(), brokers.rabbitmq.url());
    let exchange = brokers.exchange();
    format!(
        "{PATIENT}\
         [publish.to-nats]\ntype = \"nats\"\nserver = {{ url = \"{nats}\" }}\nstream = \"OUT\"\n\
         create = true\nack_ms_max = 2000\n\
         [publish.to-redis]\ntype = \"redis\"\nurl = \"{redis}\"\nkey = \"out:{{owner}}\"\n\
         [publish.to-rabbitmq]\ntype = \"rabbitmq\"\nserver = {{ url = \"{rabbitmq}\" }}\n\
         exchange = \"{exchange}\"\nrouting_prefix = \"shop\"\n"
    )
}

async fn what_is_sent_reaches_every_broker(backend: Backend) {
    let Some(mut brokers) = Brokers::start(format!("out-{backend:?}")).await else { return };
    brokers.make_queue().await;
    let server = Server::with_tables(backend, &publishers(&brokers), &[]).await;
    let key = server.key("ann").await;
    assert!(!send(&server, &key, "m1").await);
    outbox(&server, &key, <[Value]>::is_empty).await;
    assert!(send(&server, &key, "m1").await, "it is known though it is gone");

    brokers.stop();
    send(&server, &key, "m2").await;
    send(&server, &key, "m3").await;
    let failed = |rows: &[Value]| rows.len() == 2 && rows[0]["error"].is_string();
    outbox(&server, &key, failed).await;
    brokers.start_again();
    outbox(&server, &key, <[Value]>::is_empty).await;
    assert!(rows(&server, &key, "/v1/dead-letters").await.is_empty());

    let sent = ["m1", "m2", "m3"];
    let names = ["Nats-Msg-Id", "Windrow-Id"];
    let at_nats = brokers.stored_in_nats("OUT", names).await;
    assert_eq!(at_nats, sent.map(|id| [format!("ann:{id}"), id.to_owned()]), "no repeat is kept");
    let at_redis = once(brokers.stored_in_redis("out:ann").await);
    let ids: Vec<&str> = at_redis.iter().map(|entry| entry["id"].as_str()).collect();
    assert_eq!(ids, sent);
    assert_eq!((&*at_redis[0]["stream"], &*at_redis[0]["payload"]), (STREAM, r#"{"of":"m1"}"#));
    let at_rabbitmq = once(brokers.taken_from_rabbitmq().await);
    let routed = "shop.orders/17.order.placed";
    assert_eq!(at_rabbitmq, sent.map(|id| [routed.to_owned(), id.to_owned()]));
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_reaches_every_broker_though_they_stop() {
    what_is_sent_reaches_every_broker(Backend::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_reaches_every_broker_though_they_stop_on_postgres() {
    what_is_sent_reaches_every_broker(Backend::Postgres).await;
}

fn consumers(brokers: &Brokers, handler: &Upstream) -> String {
    let (nats, rabbitmq, url) = (brokers.nats.url(), brokers.rabbitmq.url(), handler.url());
    let exchange = brokers.exchange();
    format!(
        "{PATIENT}\
         [inbox.orders]\nkinds = [\"order.*\"]\nurl = \"{url}/orders\"\n\
         [consume.from-nats]\ntype = \"nats\"\nowner = \"ann\"\nserver = {{ url = \"{nats}\" }}\n\
         stream = \"IN\"\nsubject_prefix = \"shop\"\nbackoff_ms_max = 500\n\
         [consume.from-rabbitmq]\ntype = \"rabbitmq\"\nowner = \"ann\"\n\
         server = {{ url = \"{rabbitmq}\" }}\nqueue = \"{exchange}\"\ndeclare = true\n\
         bindings = [{{ exchange = \"{exchange}\", routing_key = \"shop.#\" }}]\n\
         routing_prefix = \"shop\"\nbackoff_ms_max = 500\n"
    )
}

/// The messages that the handler was given, as (stream, id, key), of each broker apart.
fn handled(handler: &Upstream) -> [Vec<(String, String)>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for seen in handler.seen() {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        assert_eq!(seen.path, "/orders");
        assert_eq!((text("type"), text("owner")), ("message".into(), "ann".into()), "{body}");
        assert_eq!((text("kind"), &body["payload"]), ("order.placed".into(), &json!({ "n": 1 })));
        all[usize::from(text("stream") == "rabbitmq")].push((text("id"), seen.key().to_owned()));
    }
    all
}

/// Gives both brokers these messages, each under its own id.
async fn put(brokers: &Brokers, numbers: &[u32]) {
    for no in numbers {
        let text = r#"{"n": 1}"#;
        brokers.put_to_nats("shop.nats.order.placed", &format!("n{no}"), text).await;
        brokers.put_to_rabbitmq("shop.rabbitmq.order.placed", &format!("r{no}"), text).await;
    }
}

async fn handles(server: &Server, handler: &Upstream, count: usize) {
    let look = || async { handled(handler).iter().all(|of| of.len() >= count).then_some(()) };
    let state = || async { format!("{:#?}\n{}", handled(handler), server.said()) };
    wait::until(WITHIN, look, state).await;
}

async fn what_brokers_bring_is_handled_once(backend: Backend) {
    let Some(mut brokers) = Brokers::start(format!("in-{backend:?}")).await else { return };
    brokers.make_stream("IN", "shop.>").await;
    brokers.make_exchange().await;
    let handler = Upstream::start(Script::always(Reply::json(200, ""))).await.unwrap();
    let server = Server::with_tables(backend, &consumers(&brokers, &handler), &[]).await;
    // The server makes the queue.
    let consuming = || async { (server.said().matches("Consuming.").count() == 2).then_some(()) };
    wait::until(WITHIN, consuming, || async { server.said() }).await;
    put(&brokers, &[1]).await;
    handles(&server, &handler, 1).await;
    // The same again, and something new behind it: when that was handled, the repeat was passed over.
    put(&brokers, &[1, 2]).await;
    handles(&server, &handler, 2).await;
    brokers.stop();
    brokers.start_again();
    put(&brokers, &[2, 1, 3]).await;
    handles(&server, &handler, 3).await;

    let of = |letter: &str| -> Vec<(String, String)> {
        let id = |no| format!("{letter}{no}");
        (1..=3).map(|no| (id(no), format!("ann/{}", id(no)))).collect()
    };
    assert_eq!(handled(&handler), [of("n"), of("r")]);
    server.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_brokers_bring_is_handled_once_though_they_stop() {
    what_brokers_bring_is_handled_once(Backend::Sqlite).await;
}
