//! What happens without a whole answer.

use std::time::Duration;

use tokio::net::TcpListener;
use windrow_domain::attempt::Class;
use windrow_engine::execute::http::Http;
use windrow_engine::execute::{Executor, Verdict};
use windrow_testkit::upstream::{Reply, Script};

use crate::{LINE, assert_failed, attempt, executor, executor_of, failure, meet, start};

#[tokio::test]
async fn an_upstream_that_is_not_there_was_not_reached() {
    let upstream = start(Script::echo()).await;
    let executor = executor(&upstream, |_| ());
    upstream.stop().await;
    let tried = executor.execute(attempt(LINE)).await;
    assert_failed(&tried, Class::Network, "connect_refused");
    assert!(!tried.reached && tried.http_status.is_none());
    assert!(failure(&tried).message.starts_with("There was no connection to http://127.0.0.1:"));
    upstream.start_again().await.unwrap();
    assert_eq!(executor.execute(attempt(LINE)).await.verdict, Verdict::Completed);
}

#[tokio::test]
async fn a_name_that_nobody_has_is_a_failure_of_its_own() {
    let tried = executor_of("http://no-such-host.invalid", |_| ()).execute(attempt(LINE)).await;
    assert_failed(&tried, Class::Network, "dns_failed");
    assert!(!tried.reached);
}

#[tokio::test]
async fn https_to_a_closed_port_is_refused_and_to_a_plain_one_fails() {
    let upstream = start(Script::echo()).await;
    let url = upstream.url().replace("http:", "https:");
    let executor = executor_of(&url, |it| it.connect_ms_max = 5000);
    let tried = executor.execute(attempt(LINE)).await;
    assert_failed(&tried, Class::Network, "tls_failed");
    assert!(!tried.reached);
    upstream.stop().await;
    assert_failed(&executor.execute(attempt(LINE)).await, Class::Network, "connect_refused");
}

#[tokio::test]
async fn a_connection_that_takes_too_long_is_given_up() {
    // Nobody accepts, and TLS waits for a word that never comes.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap());
    let executor = executor_of(&url, |it| it.connect_ms_max = 50);
    let tried = executor.execute(attempt(LINE)).await;
    assert_failed(&tried, Class::Network, "connect_timeout");
    assert!(!tried.reached);
}

#[tokio::test]
async fn each_part_of_an_answer_has_its_own_time() {
    let tried = meet(Reply::Hang, |it| it.first_byte_ms_max = 50).await;
    assert_failed(&tried, Class::Timeout, "first_byte_timeout");
    assert!(tried.reached && tried.http_status.is_none());

    let tried = meet(Reply::HangMidBody, |it| it.idle_ms_max = 50).await;
    assert_failed(&tried, Class::Timeout, "idle_timeout");
    assert_eq!((tried.http_status, tried.body), (Some(200), None));

    let tried = meet(Reply::Hang, |it| it.total_ms_max = 50).await;
    assert_failed(&tried, Class::Timeout, "total_timeout");

    let drip = Reply::Drip { bytes: 1, pieces: 10_000, every: Duration::from_millis(5) };
    let tried = meet(drip, |it| {
        it.idle_ms_max = 1000;
        it.total_ms_max = 100;
    })
    .await;
    assert_failed(&tried, Class::Timeout, "total_timeout");
}

#[tokio::test]
async fn a_slow_answer_is_an_answer() {
    let drip = Reply::Drip { bytes: 3, pieces: 20, every: Duration::from_millis(2) };
    let tried = meet(drip.after(Duration::from_millis(20)), |it| it.idle_ms_max = 5000).await;
    assert_eq!(tried.verdict, Verdict::Completed);
    assert_eq!(tried.body.map(|body| body.len()), Some(62));
}

#[tokio::test]
async fn a_connection_that_ends_early_may_have_reached_its_target() {
    let tried = meet(Reply::Reset, |_| ()).await;
    assert_failed(&tried, Class::Network, "connection_lost");
    assert!(tried.reached);
    let tried = meet(Reply::CloseMidBody, |_| ()).await;
    assert_failed(&tried, Class::Network, "body_cut");
    assert!(tried.reached && tried.body.is_none());
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_read() {
    for told in [true, false] {
        let limit = |it: &mut crate::Settings| it.body_bytes_max = 1000;
        let tried = meet(Reply::BigBody { bytes: 1 << 40, told }, limit).await;
        assert_failed(&tried, Class::Permanent, "body_too_large");
        assert_eq!(tried.body, None);
        let tried = meet(Reply::BigBody { bytes: 1000, told }, limit).await;
        assert_eq!(tried.body.map(|body| body.len()), Some(1000));
        let tried = meet(Reply::BigBody { bytes: 1001, told }, limit).await;
        assert_failed(&tried, Class::Permanent, "body_too_large");
    }
}

#[tokio::test]
async fn ten_megabytes_come_whole() {
    for http in [Http::Http1, Http::Http2] {
        let tried =
            meet(Reply::BigBody { bytes: 10 << 20, told: false }, |it| it.http = http).await;
        assert_eq!(tried.verdict, Verdict::Completed);
        assert_eq!(tried.body.map(|body| body.len()), Some(10 << 20));
    }
}

#[tokio::test]
async fn a_refusal_counts_although_its_body_does_not_come() {
    let big = Reply::Answer { status: 500, headers: vec![], body: vec![b' '; 2000].into() };
    let tried = meet(big, |it| it.body_bytes_max = 1000).await;
    assert_failed(&tried, Class::Server, "http_500");
    assert_eq!((tried.http_status, tried.body), (Some(500), None));
}

#[tokio::test]
async fn http2_meets_the_same_troubles() {
    let http2 = |it: &mut crate::Settings| it.http = Http::Http2;
    let hasty = |it: &mut crate::Settings| {
        it.http = Http::Http2;
        it.first_byte_ms_max = 50;
    };
    assert_failed(&meet(Reply::Hang, hasty).await, Class::Timeout, "first_byte_timeout");
    assert_failed(&meet(Reply::CloseMidBody, http2).await, Class::Network, "body_cut");
    assert_failed(&meet(Reply::Reset, http2).await, Class::Network, "connection_lost");
    assert_failed(&meet(Reply::error(503, "no"), http2).await, Class::Server, "http_503");
}

#[tokio::test]
async fn whoever_drops_a_try_ends_it() {
    let upstream = start(Script::always(Reply::Hang)).await;
    let executor = executor(&upstream, |_| ());
    let mut trying = Box::pin(executor.execute(attempt(LINE)));
    tokio::select! {
        _ = &mut trying => panic!("nobody answers"),
        () = upstream.saw(1) => {}
    }
    assert_eq!(upstream.counts().in_flight, 1);
    drop(trying);
    while upstream.counts().in_flight > 0 {
        tokio::task::yield_now().await;
    }
}
