//! Handlers over HTTP: asked with a key, believed once.

use serde_json::{Value, json};
use standardwebhooks::Webhook as Verifier;
use windrow_domain::{CallState, CrashPolicy};
use windrow_engine::messages::CallOutcome;
use windrow_engine::messages::http::{Options, Remote};
use windrow_store::call::NewCall;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::*;
use crate::watched::{Fate, Watched};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn remote(upstream: &Upstream) -> Remote {
    let url = format!("{}/hidden", upstream.url());
    Remote::new(&Options::default().url(url.into()).secrets(vec![SECRET.into()])).unwrap()
}

fn answer(value: &Value) -> Reply {
    Reply::json(200, value.to_string())
}

#[tokio::test]
async fn a_call_is_posted_signed_and_its_answer_is_committed() {
    let said = answer(&json!({
        "reply": {"cents": 15}, "state": {"cents": 15},
        "events": [{"kind": "money.deposited", "payload": {"cents": 5}}],
        "messages": [{"kind": "told", "queue": "inbox", "stream": "elsewhere", "payload": 1}],
    }));
    let upstream = Upstream::start(Script::always(said)).await.unwrap();
    let (store, log) = (store(Backend::Sqlite).await, Log::default());
    let seen = log.clone();
    let consumer = Does(move |context: windrow_engine::messages::Context, _| {
        seen.add(&context);
        Box::pin(async { Ok(windrow_engine::messages::Effects::none()) }) as _
    });
    let runner = runner(store.clone())
        .remote_object("wallet", remote(&upstream))
        .consumer("c", all(), consumer)
        .start()
        .await
        .unwrap();
    let client = runner.client();
    for id in ["r1", "r2"] {
        let outcome = client.call(deposit("7", id, 5), LONG).await.unwrap();
        assert_eq!(outcome, reply(r#"{"cents":15}"#));
    }
    settle(&*store).await;
    assert_eq!(log.of("elsewhere"), ["calls:r1:1", "calls:r2:1"]);
    assert_eq!(store.stream_version(&owner(), &stream("wallet/7")).await.unwrap(), 2);
    let requests = upstream.seen();
    for (request, id) in requests.iter().zip(["r1", "r2"]) {
        Verifier::new(SECRET).unwrap().verify(&request.body, &request.headers).unwrap();
        assert_eq!(request.headers["idempotency-key"], format!("ann/{id}"));
    }
    let body: Value = serde_json::from_slice(&requests[1].body).unwrap();
    let wanted = json!({
        "type": "call", "owner": "ann", "object_type": "wallet", "object_id": "7",
        "method": "deposit", "request_id": "r2", "attempt": 1, "caller_object": null,
        "caller_client": null, "headers": {"windrow-crash-policy": "retry"},
        "sent_at": body["sent_at"], "args": {"cents": 5}, "state": {"cents": 15},
    });
    assert_eq!(body, wanted);
}

#[tokio::test]
async fn a_handler_that_refuses_for_good_or_fails_for_a_while_is_understood() {
    let upstream = Upstream::start(Script::sequence([
        Reply::json(503, r#"{"error":"later"}"#),
        Reply::json(200, "no json"),
        answer(&json!({"reply": 1})),
        Reply::json(422, r#"{"error":{"message":"never"}}"#),
    ]))
    .await
    .unwrap();
    let runner = runner(store(Backend::Sqlite).await).remote_object("wallet", remote(&upstream));
    let runner = runner.start().await.unwrap();
    let client = runner.client();
    assert_eq!(client.call(deposit("7", "r1", 5), LONG).await.unwrap(), reply("1"));
    match client.call(deposit("7", "r2", 5), LONG).await.unwrap() {
        CallOutcome::Failed(error) => {
            assert!(error.contains("422: never") && !error.contains("hidden"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let attempts: Vec<Value> = upstream
        .seen()
        .iter()
        .map(|seen| serde_json::from_slice::<Value>(&seen.body).unwrap()["attempt"].clone())
        .collect();
    // The first one found nobody who was ready, and does not count.
    assert_eq!(attempts, [1, 1, 2, 1]);
}

/// The mark is committed, the result is not, and nobody knows.
#[tokio::test]
async fn a_call_that_must_not_run_twice_fails_when_its_result_is_lost() {
    let upstream = Upstream::start(Script::always(answer(&json!({"reply": 1})))).await.unwrap();
    let inner = store(Backend::Sqlite).await;
    let plan = |verb, no| if verb == "commit" && no == 1 { Fate::Lost } else { Fate::Passes };
    let runner = runner(Watched::new(inner.clone(), plan));
    let runner = runner.remote_object("wallet", remote(&upstream)).start().await.unwrap();
    let call = NewCall { policy: CrashPolicy::Fail, ..deposit("7", "r1", 5) };
    let outcome = runner.client().call(call, LONG).await.unwrap();
    let lost = "it ran, and what it gave could not be stored".to_owned();
    assert_eq!(outcome, CallOutcome::Failed(lost));
    assert_eq!(upstream.seen().len(), 1);
    assert_eq!(inner.call(&key("r1")).await.unwrap().state, CallState::Failed);
}
