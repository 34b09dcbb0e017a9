//! What each answer means.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use windrow_domain::attempt::Class;
use windrow_engine::clock::Clock;
use windrow_engine::execute::http::{Predicate, Upstream};
use windrow_engine::execute::{Executor, Verdict};
use windrow_testkit::upstream::{Reply, Script};

use crate::{LINE, assert_failed, attempt, executor, failure, meet, start};

#[tokio::test]
async fn an_answer_completes_the_line_with_its_exact_bytes() {
    let tried = meet(Reply::json(200, "{ \"a\" : 1.0 }"), |_| ()).await;
    assert_eq!(tried.verdict, Verdict::Completed);
    assert_eq!((tried.http_status, tried.custom_id.as_deref()), (Some(200), Some("a")));
    assert_eq!(tried.body.as_deref(), Some(&b"{ \"a\" : 1.0 }"[..]));
    assert!(tried.reached);
    for act in [
        Reply::json(201, "1"),
        Reply::Answer { status: 204, headers: vec![], body: "".into() },
        Reply::json(204, ""),
        Reply::Answer { status: 200, headers: vec![], body: "not json".into() },
    ] {
        assert_eq!(meet(act.clone(), |_| ()).await.verdict, Verdict::Completed, "{act:?}");
    }
}

#[tokio::test]
async fn each_status_has_its_class() {
    for (status, class) in [
        (400, Class::Permanent),
        (401, Class::Permanent),
        // There is no such model, or no such path: the line asks for no thing that may be missing.
        (404, Class::Permanent),
        (408, Class::Server),
        (409, Class::Permanent),
        (410, Class::Permanent),
        (422, Class::Permanent),
        (429, Class::Throttled),
        (500, Class::Server),
        (503, Class::Server),
        (529, Class::Server),
        (599, Class::Server),
    ] {
        let tried = meet(Reply::error(status, "no"), |_| ()).await;
        assert_failed(&tried, class, &format!("http_{status}"));
        assert_eq!(failure(&tried).message, format!("The target answered {status}: no"));
        assert_eq!(tried.http_status, Some(status));
        assert!(tried.body.is_some_and(|body| body.starts_with(b"{\"error\"")));
    }
}

#[tokio::test]
async fn not_found_is_what_the_operator_says() {
    let tried =
        meet(Reply::error(410, "gone"), |it| it.not_found_statuses = Some(vec![404, 410])).await;
    assert_failed(&tried, Class::NotFound, "http_410");
    let tried = meet(Reply::error(404, "no"), |it| it.not_found_statuses = Some(vec![])).await;
    assert_failed(&tried, Class::Permanent, "http_404");
    // What is usual depends on the method, what is named does not.
    let named = |it: &mut Upstream| it.not_found_statuses = Some(vec![404]);
    assert_failed(&meet(Reply::error(404, "no"), named).await, Class::NotFound, "http_404");
    let get = |it: &mut Upstream| it.method = Some("GET".to_owned());
    assert_failed(&meet(Reply::error(404, "no"), get).await, Class::NotFound, "http_404");
    let put = |it: &mut Upstream| it.method = Some("PUT".to_owned());
    assert_failed(&meet(Reply::error(404, "no"), put).await, Class::Permanent, "http_404");

    let when = Predicate { pointer: "/result/state".to_owned(), equals: json!("unknown") };
    let found = |body: &'static str| {
        meet(Reply::json(200, body), |it| it.not_found_when = vec![when.clone()])
    };
    let tried = found(r#"{"result":{"state":"unknown"}}"#).await;
    assert_failed(&tried, Class::NotFound, "not_found_in_body");
    assert!(tried.body.is_some());
    assert_eq!(found(r#"{"result":{"state":"known"}}"#).await.verdict, Verdict::Completed);
    assert_eq!(found("[]").await.verdict, Verdict::Completed);
}

#[tokio::test]
async fn json_that_is_none_is_not_acceptable() {
    assert_failed(&meet(Reply::InvalidJson, |_| ()).await, Class::Unacceptable, "invalid_json");
    for (kind, body) in [
        ("application/json; charset=utf-8", &b""[..]),
        ("application/problem+JSON", b"{"),
        ("application/json", b"\"\xff\""),
        ("application/json", b"{} {}"),
    ] {
        let headers = vec![("content-type", kind.to_owned())];
        let tried = meet(Reply::Answer { status: 200, headers, body: body.into() }, |_| ()).await;
        assert_failed(&tried, Class::Unacceptable, "invalid_json");
    }
}

#[tokio::test]
async fn a_wait_is_read_as_seconds_as_a_date_and_as_milliseconds() {
    // 2026-11-16 01:24:45 UTC.
    let clock = Clock::manual(Timestamp::from_second(1_794_792_285).unwrap());
    let upstream = start(Script::sequence([
        Reply::throttle("7"),
        Reply::throttle("Mon, 16 Nov 2026 01:25:00 GMT"),
        Reply::throttle("Mon, 16 Nov 2026 01:00:00 GMT"),
        Reply::error(503, "later").with_header("retry-after-ms", "250"),
        Reply::error(500, "never"),
        Reply::error(400, "no").with_header("retry-after", "5"),
    ]))
    .await;
    let executor = executor(&upstream, |_| ()).clock(clock);
    for wait_ms in [Some(7000), Some(15_000), Some(0), Some(250), None, None] {
        let tried = executor.execute(attempt(LINE)).await;
        assert_eq!(failure(&tried).retry_after, wait_ms.map(Duration::from_millis));
    }
}

#[tokio::test]
async fn a_redirect_is_final_and_names_the_host_only() {
    let elsewhere = start(Script::echo()).await;
    let location = format!("{}/x?token=secret", elsewhere.url());
    let act = Reply::Answer { status: 307, headers: vec![("location", location)], body: "".into() };
    let tried = meet(act, |_| ()).await;
    assert_failed(&tried, Class::Permanent, "http_307");
    let message = &failure(&tried).message;
    assert!(message.contains("127.0.0.1") && !message.contains("secret"), "{message}");
    assert_eq!(elsewhere.counts().requests, 0);
}

#[tokio::test]
async fn what_an_upstream_says_is_bounded_and_harmless() {
    let long = "é".repeat(5000);
    let message = failure(&meet(Reply::error(500, &long), |_| ()).await).message.clone();
    assert_eq!(message.chars().filter(|char| *char == 'é').count(), 300);
    for (body, said) in [
        (r#"{"error":"plain"}"#, "The target answered 500: plain"),
        (r#"{"detail":"fast"}"#, "The target answered 500: fast"),
        (r#"{"message":"a\u001b[31m\nb"}"#, "The target answered 500: a[31mb"),
        (r#"{"error":{"message":7}}"#, "The target answered 500."),
        ("<html>", "The target answered 500."),
        ("", "The target answered 500."),
    ] {
        let tried = meet(Reply::json(500, body), |_| ()).await;
        assert_eq!(failure(&tried).message, said);
    }
}
