//! Calls, messages and events of a stored database.

use serde_json::{Value, json};
use windrow::domain::{Owner, Stream};
use windrow_fault::stored::Server;
use windrow_fault::{fixture, input};
use windrow_testkit::upstream::{ReceivedRequest, Upstream};

use super::keys;
use super::unpack::Unpacked;

pub(super) async fn calls_are_answered_once(server: &Server, receiver: &Upstream) {
    let calls = [(7, "first", 5, 5), (7, "second", 2, 7), (7, "third", 3, 10), (8, "fourth", 1, 1)];
    for (wallet, name, cents, now) in calls {
        let path = format!("/v1/objects/wallet/{wallet}/deposit?waitMs=60000");
        let answer = server.ask(("POST", &path), Some(name), &json!({ "cents": cents })).await;
        assert_eq!((answer.status, answer.json()), (200, json!({ "cents": now })), "{name}");
    }
    let mut run = keys(receiver, |seen| seen.path == "/wallet");
    run.sort_unstable();
    assert_eq!(
        run,
        ["local/fourth", "local/second", "local/third"],
        "the first was answered before"
    );
}

pub(super) async fn messages_arrive_once_and_in_order(
    left: &Unpacked,
    server: &Server,
    receiver: &Upstream,
) {
    let replay = json!({ "ids": [left.told("letter")] });
    let replayed = server.ask(("POST", "/v1/dead-letters/replay"), None, &replay).await;
    assert_eq!(replayed.status, 200, "{replayed:?}");
    for no in [0, 1] {
        let (id, payload) = (format!("o-{no}"), json!({ "no": no }));
        let message =
            json!({ "stream": "orders/1", "kind": "order.placed", "id": id, "payload": payload });
        let again = server.ask(("POST", "/v1/messages"), None, &message).await;
        assert_eq!(again.json()["data"][0]["duplicate"], true, "{again:?}");
    }
    server.until("/v1/messages", |waits| waits["data"] == json!([])).await;
    let at = |path: &'static str, stream: &'static str| {
        move |seen: &ReceivedRequest| seen.path == path && seen.header("windrow-stream") == stream
    };
    assert_eq!(keys(receiver, at("/hook", "orders/1")), ["o-1", "o-2", "o-3"]);
    assert_eq!(keys(receiver, at("/hook", "orders/2")), ["bad"]);
    let taken = keys(receiver, |seen| seen.path == "/orders");
    assert_eq!(taken, ["local/i-1", "local/i-2", "local/i-3"]);
    let states = |id: &str| -> Vec<Value> {
        let bodies = receiver.seen().into_iter().filter(|seen| seen.path == "/hook");
        let bodies = bodies.map(|seen| serde_json::from_slice::<Value>(&seen.body).unwrap());
        bodies.filter(|body| body["id"] == id).map(|mut body| body["state"].take()).collect()
    };
    assert_eq!(states(left.told("run")), ["in_progress", "completed"]);
    let wanted = ["in_progress", "paused", "in_progress", "completed"];
    assert_eq!(states(left.told("job")), wanted);
    assert_eq!(states(left.told("done")), [] as [&str; 0], "it was told of before");
}

pub(super) async fn events_are_as_they_were(left: &Unpacked, server: &Server) {
    let read = async |path: &str| {
        let answer = server.ask(("GET", path), None, &Value::Null).await.json();
        answer["data"].as_array().unwrap_or_else(|| panic!("{path}: {answer}")).clone()
    };
    let deposits = read("/v1/streams/wallet%2F7/events").await;
    let deposits: Vec<[&Value; 2]> =
        deposits.iter().map(|event| [&event["version"], &event["payload"]["cents"]]).collect();
    assert_eq!(json!(deposits), json!([[1, 5], [2, 2], [3, 3]]));
    let note = json!({ "expected": 0, "events": [{ "kind": "noted", "id": "n-1", "payload": 1 }] });
    let again = server.ask(("POST", "/v1/streams/notes/events"), None, &note).await;
    assert_eq!(again.status, 201, "a repeat: {again:?}");
    assert_eq!(read("/v1/streams/notes/events").await.len(), 1);
    let done = format!("batch/{}", left.told("done"));
    let feed = read("/v1/events").await;
    let of_done = feed.iter().filter(|event| event["stream"] == done.as_str());
    assert_eq!(of_done.count(), 2, "{feed:?}");
}

pub(super) async fn the_snapshot_stands(left: &Unpacked) {
    let store = fixture::open(&left.database).await.unwrap();
    let owner = Owner::new(input::OWNER).unwrap();
    let stream = Stream::new(format!("batch/{}", left.told("done"))).unwrap();
    let snapshot = store.snapshot(&owner, &stream).await.unwrap().unwrap();
    assert_eq!(snapshot.version, store.stream_version(&owner, &stream).await.unwrap());
}
