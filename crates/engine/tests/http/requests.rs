//! What is sent.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use windrow_domain::attempt::Class;
use windrow_engine::execute::http::{Headers, Http, KeySource, Variant};
use windrow_engine::execute::{Executor, Verdict};
use windrow_testkit::upstream::{Reply, Script};

use crate::{LINE, assert_failed, attempt, executor, failure, start};

fn headers(pairs: &[(&str, &str)]) -> Headers {
    Headers(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
}

#[tokio::test]
async fn a_line_is_sent_with_its_exact_body_and_its_key() {
    let upstream = start(Script::echo()).await;
    let line = r#"{"custom_id":"é\n","body": {"n": 1.00, "s":"\u00e9"} ,"url":"/v1/x?q=1","method":"PUT"}"#;
    let mut attempt = attempt(line);
    attempt.line = 7;
    attempt.answered = 2;
    attempt.tried = 5;
    let tried =
        executor(&upstream, |it| it.base_url.push_str("/v1/")).execute(attempt.clone()).await;
    assert_eq!(tried.custom_id.as_deref(), Some("é\n"));
    let seen = &upstream.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("PUT", "/v1/x?q=1"));
    assert_eq!(&seen.body[..], br#"{"n": 1.00, "s":"\u00e9"}"#);
    assert_eq!(seen.key(), format!("{}:7:3", attempt.batch));
    assert_eq!(seen.header("content-type"), "application/json");
    assert!(seen.header("user-agent").starts_with("windrow/"));
    assert_eq!(seen.header("authorization"), "");
}

#[tokio::test]
async fn a_get_without_a_body_sends_none() {
    let upstream = start(Script::always(Reply::json(200, "{}"))).await;
    let line = r#"{"custom_id":"a","method":"GET","url":"/v1/x"}"#;
    let tried = executor(&upstream, |_| ()).execute(attempt(line)).await;
    assert_eq!(tried.verdict, Verdict::Completed);
    let seen = &upstream.seen()[0];
    assert_eq!((seen.method.as_str(), seen.body.len()), ("GET", 0));
    assert_eq!((seen.header("content-type"), seen.header("content-length")), ("", ""));
}

#[tokio::test]
async fn the_operator_chooses_method_headers_and_key() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "sk-hay-12345\n").unwrap();
    let upstream = start(Script::always(Reply::error(401, "bad key sk-hay-12345!"))).await;
    let tried = executor(&upstream, |it| {
        it.method = Some("PATCH".to_owned());
        it.headers = headers(&[("X-Team", "hay"), ("Content-Type", "application/vnd.x+json")]);
        it.api_key = Some(KeySource::File(key.path().to_owned()));
        it.api_key_header = "X-Api-Key".to_owned();
        it.api_key_scheme = String::new();
    })
    .execute(attempt(LINE))
    .await;
    let seen = &upstream.seen()[0];
    assert_eq!((seen.method.as_str(), seen.header("x-team")), ("PATCH", "hay"));
    assert_eq!(seen.header("content-type"), "application/vnd.x+json");
    assert_eq!(seen.header("x-api-key"), "sk-hay-12345");
    assert_eq!(failure(&tried).message, "The target answered 401: bad key …!");
}

#[tokio::test]
async fn variants_take_turns_each_with_a_key_of_its_own() {
    let upstream = start(Script::echo()).await;
    let executor = executor(&upstream, |it| {
        it.headers = headers(&[("x-tier", "slow")]);
        it.variants = vec![
            Variant::default(),
            Variant {
                query: Some("fast=1".to_owned()),
                headers: headers(&[("x-tier", "fast")]),
                body: Some(json!({"n": null, "model": "other"})),
            },
        ];
    });
    for number in 1..=3 {
        let mut attempt = attempt(LINE);
        attempt.number = number;
        attempt.tried = number + 9;
        executor.execute(attempt).await;
    }
    let seen = upstream.seen();
    let paths: Vec<&str> = seen.iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!(paths, ["/v1/x", "/v1/x?fast=1", "/v1/x"]);
    let tiers: Vec<&str> = seen.iter().map(|seen| seen.header("x-tier")).collect();
    assert_eq!(tiers, ["slow", "fast", "slow"]);
    assert_eq!(&seen[0].body[..], br#"{"model":"m","n":1}"#);
    assert_eq!(&seen[1].body[..], br#"{"model":"other"}"#);
    let numbers: Vec<&str> = seen.iter().filter_map(|seen| seen.key().rsplit(':').next()).collect();
    assert_eq!(numbers, ["11", "12", "13"]);
}

#[tokio::test]
async fn a_line_that_may_not_be_sent_is_not() {
    let upstream = start(Script::echo()).await;
    let executor = executor(&upstream, |it| it.endpoints = vec!["/v1/x".to_owned()]);
    let line = |method: &str, url: &str| {
        format!(r#"{{"custom_id":"a","method":"{method}","url":"{url}","body":{{}}}}"#)
    };
    for (line, code) in [
        (line("POST", "//evil/v1/x"), "url_not_allowed"),
        (line("POST", "http://evil/v1/x"), "url_not_allowed"),
        (line("POST", "/v1/../x"), "url_not_allowed"),
        (line("POST", "/v1/y"), "url_not_allowed"),
        (line("POST", "/v1/x/"), "url_not_allowed"),
        (line("CONNECT", "/v1/x"), "method_not_allowed"),
        (line("", "/v1/x"), "method_not_allowed"),
        ("{".to_owned(), "invalid_line"),
        (r#"{"url":"/v1/x","url":"/v1/x"}"#.to_owned(), "invalid_line"),
        (r#"{"method":"POST","body":{}}"#.to_owned(), "invalid_line"),
    ] {
        let tried = executor.execute(attempt(&line)).await;
        assert_failed(&tried, Class::Permanent, code);
        assert!(!tried.reached, "{line}");
    }
    assert_eq!(upstream.counts().connections, 0);
    let allowed = executor.execute(attempt(&line("POST", "/v1/x?y"))).await;
    assert_eq!(allowed.verdict, Verdict::Completed);
}

#[tokio::test]
async fn connections_are_used_again() {
    let upstream = start(Script::echo()).await;
    let executor = executor(&upstream, |_| ());
    for _ in 0..20 {
        assert_eq!(executor.execute(attempt(LINE)).await.verdict, Verdict::Completed);
    }
    assert_eq!((upstream.counts().requests, upstream.counts().connections), (20, 1));
}

#[tokio::test]
async fn many_requests_at_once_share_a_few_http2_connections() {
    let upstream = start(Script::echo()).await;
    let executor = Arc::new(executor(&upstream, |it| {
        it.http = Http::Http2;
        it.concurrency_max = 300;
    }));
    let attempts = (0..300).map(|_| executor.execute(attempt(LINE)));
    let tried = join_all(attempts).await;
    assert!(tried.iter().all(|tried| tried.verdict == Verdict::Completed));
    assert_eq!(upstream.counts().requests, 300);
    assert!((1..=3).contains(&upstream.counts().connections), "{:?}", upstream.counts());
}
