//! The HTTP executor against an upstream that does what it is told.

mod answers;
mod configuration;
mod requests;
mod tls;
mod trouble;

use bytes::Bytes;
use windrow_domain::attempt::{Class, Failure};
use windrow_domain::{BatchId, Target, UpstreamId};
use windrow_engine::execute::http::{Config, HttpExecutor, Upstream as Settings};
use windrow_engine::execute::{Attempt, Executor, Outcome, Verdict};
use windrow_testkit::upstream::{Reply, Script, Upstream};

const LINE: &str = r#"{"custom_id":"a","method":"POST","url":"/v1/x","body":{"model":"m","n":1}}"#;

async fn start(script: Script) -> Upstream {
    Upstream::start(script).await.expect("a port is free")
}

fn target(name: &str) -> Target {
    Target::new(name).expect("a short name")
}

/// The first try of a line.
fn attempt(line: &str) -> Attempt {
    Attempt {
        gate: windrow_engine::execute::Gate::default(),
        batch: BatchId::new(),
        upstream: UpstreamId::own(),
        target: target("m"),
        lane: 0,
        line: 1,
        raw: Bytes::copy_from_slice(line.as_bytes()),
        number: 1,
        tried: 0,
        answered: 0,
        row: None,
    }
}

/// An executor for one upstream, with settings that the test changes.
fn executor(upstream: &Upstream, change: impl FnOnce(&mut Settings)) -> HttpExecutor {
    executor_of(&upstream.url(), change)
}

fn executor_of(base_url: &str, change: impl FnOnce(&mut Settings)) -> HttpExecutor {
    let mut settings = Settings::new(base_url);
    change(&mut settings);
    HttpExecutor::new(Config { upstreams: Vec::new(), default: Some(settings) })
        .expect("the settings are good")
}

/// One try of the usual line against an upstream that always does the same.
async fn meet(act: Reply, change: impl FnOnce(&mut Settings)) -> Outcome {
    let upstream = start(Script::always(act)).await;
    executor(&upstream, change).execute(attempt(LINE)).await
}

#[track_caller]
fn failure(tried: &Outcome) -> &Failure {
    match &tried.verdict {
        Verdict::Failed(failure) => failure,
        other => panic!("it should have failed: {other:?}"),
    }
}

#[track_caller]
fn assert_failed(tried: &Outcome, class: Class, code: &str) {
    let failure = failure(tried);
    assert_eq!((failure.class, failure.code.as_str()), (class, code), "{}", failure.message);
    assert!(failure.message.ends_with(['.', '…']) || failure.message.contains(": "), "{failure:?}");
}
