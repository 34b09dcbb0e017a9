//! Webhooks against a real HTTP server: what is sent can be verified by others, and what comes back
//! is understood.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use standardwebhooks::Webhook as Verifier;
use windrow_domain::Owner;
use windrow_domain::attempt::{Class, Failure};
use windrow_engine::deliver::webhook::{Options, Webhook};
use windrow_engine::deliver::{OutgoingMessage, Publisher};
use windrow_testkit::upstream::{Reply, Script, Upstream};

const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn outgoing(id: &str) -> OutgoingMessage {
    OutgoingMessage {
        id: id.to_owned(),
        owner: Owner::new("acme").unwrap(),
        stream: "orders-7".to_owned(),
        kind: "order.placed".to_owned(),
        payload: Bytes::from_static(b"{\"total\": 12}"),
        headers: BTreeMap::new(),
        sent_at: Timestamp::from_second(1_794_792_285).unwrap(),
        attempt: 2,
    }
}

fn options(upstream: &Upstream) -> Options {
    let url = format!("{}/hooks/hidden", upstream.url());
    Options::default().url(url.into()).secrets(vec![NEW.into(), OLD.into()])
}

async fn refused(act: Reply) -> Failure {
    let upstream = Upstream::start(Script::always(act)).await.unwrap();
    let options = options(&upstream).total_ms_max(300);
    let webhook = Webhook::new("hook", &options).unwrap();
    let failure = webhook.publish(&outgoing("m")).await.unwrap_err();
    assert!(!failure.message.contains("hidden"), "{}", failure.message);
    failure
}

#[tokio::test]
async fn a_message_is_posted_whole_and_any_current_key_verifies_it() {
    let upstream = Upstream::start(Script::always(Reply::json(204, ""))).await.unwrap();
    let webhook = Webhook::new("hook", &options(&upstream)).unwrap();
    let mut sent = outgoing("order.7/ü");
    for (name, value) in [
        ("traceparent", "00-1"),
        ("Content-Type", "application/cloudevents+json"),
        ("webhook-id", "forged"),
        ("host", "elsewhere"),
        ("no header", "x"),
        ("note", "line\nbreak"),
    ] {
        sent.headers.insert(name.to_owned(), value.to_owned());
    }
    webhook.publish(&sent).await.unwrap();
    let seen = upstream.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/hooks/hidden"));
    assert_eq!(seen.body, sent.payload);
    for secret in [NEW, OLD] {
        Verifier::new(secret).unwrap().verify(&seen.body, &seen.headers).unwrap();
    }
    Verifier::new(OTHER).unwrap().verify(&seen.body, &seen.headers).unwrap_err();
    Verifier::new(NEW).unwrap().verify(b"{\"total\": 13}", &seen.headers).unwrap_err();
    for (name, value) in [
        ("webhook-id", "order%2E7/%C3%BC"),
        ("idempotency-key", "order%2E7/%C3%BC"),
        ("windrow-owner", "acme"),
        ("windrow-stream", "orders-7"),
        ("windrow-kind", "order.placed"),
        ("windrow-sent-at", "2026-11-16T01:24:45Z"),
        ("windrow-attempt", "2"),
        ("traceparent", "00-1"),
        ("content-type", "application/cloudevents+json"),
        ("windrow-header-webhook-id", "forged"),
        ("windrow-header-host", "elsewhere"),
        ("windrow-header-note", "line%0Abreak"),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    assert_eq!(seen.header("host"), upstream.address().to_string());
}

#[tokio::test]
async fn each_answer_says_whether_to_try_again() {
    let gone = refused(Reply::json(410, "")).await;
    assert_eq!((gone.class, gone.code.as_str()), (Class::Permanent, "http_410"));
    assert!(gone.message.ends_with("gone, the endpoint wants no more."));
    let throttled = refused(Reply::throttle("7")).await;
    assert_eq!(throttled.class, Class::Throttled);
    assert_eq!(throttled.retry_after, Some(Duration::from_secs(7)));
    assert!(throttled.message.ends_with("answered 429: slow down"), "{}", throttled.message);
    let down = refused(Reply::json(503, "").with_header("retry-after", "3")).await;
    assert_eq!((down.class, down.retry_after), (Class::Server, Some(Duration::from_secs(3))));
    for (status, class) in [
        (400, Class::Permanent),
        (422, Class::Permanent),
        (401, Class::Unacceptable),
        (404, Class::Unacceptable),
        (409, Class::Server),
        (500, Class::Server),
    ] {
        assert_eq!(refused(Reply::json(status, "")).await.class, class, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let aim = Upstream::start(Script::echo()).await.unwrap();
    let failure = refused(Reply::json(307, "").with_header("location", aim.url())).await;
    assert_eq!((failure.class, aim.counts().requests), (Class::Unacceptable, 0));
}

#[tokio::test]
async fn silence_is_a_timeout_and_a_lost_connection_is_the_networks() {
    let silent = refused(Reply::Hang).await;
    assert_eq!((silent.class, silent.code.as_str()), (Class::Timeout, "first_byte_timeout"));
    let reset = refused(Reply::Reset).await;
    assert_eq!((reset.class, reset.code.as_str()), (Class::Network, "connection_cut"));
    let upstream = Upstream::start(Script::echo()).await.unwrap();
    upstream.stop().await;
    let webhook = Webhook::new("hook", &options(&upstream)).unwrap();
    let refused = webhook.publish(&outgoing("m")).await.unwrap_err();
    assert_eq!((refused.class, refused.code.as_str()), (Class::Network, "connect_refused"));
}

#[tokio::test]
async fn a_receiver_that_said_yes_has_it_whatever_its_body_does() {
    for act in [
        Reply::BigBody { bytes: 1 << 30, told: true },
        Reply::BigBody { bytes: 1 << 30, told: false },
        Reply::CloseMidBody,
        Reply::HangMidBody,
    ] {
        let upstream = Upstream::start(Script::always(act)).await.unwrap();
        let options = options(&upstream).idle_ms_max(100);
        Webhook::new("hook", &options).unwrap().publish(&outgoing("m")).await.unwrap();
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_not_sent() {
    let upstream = Upstream::start(Script::echo()).await.unwrap();
    let options = options(&upstream).payload_bytes_max(4);
    let failure =
        Webhook::new("hook", &options).unwrap().publish(&outgoing("m")).await.unwrap_err();
    assert_eq!((failure.class, failure.code.as_str()), (Class::Permanent, "payload_too_large"));
    assert_eq!(upstream.counts().requests, 0);
}
