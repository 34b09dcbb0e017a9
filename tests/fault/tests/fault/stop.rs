//! A stop stops: after `cancel`, `pause` or the end of the window nothing more reaches the upstream, by the
//! upstream's own clock.
//!
//! 60 lines of half a second, one at a time: what is leased then is far more than what is in flight.

#![expect(
    clippy::disallowed_methods,
    reason = "the time of a stop is compared with the upstream's own"
)]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use windrow::domain::State;
use windrow::store::Scope;
use windrow::store::batch::Batch;
use windrow::store::inspect::BatchesQuery;
use windrow_fault::{Backend, Fixture, Program, input, program, wait};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores, saw};

pub(crate) const LINES: u64 = 60;
/// How long the upstream takes for a line.
pub(crate) const LINE: Duration = Duration::from_millis(500);
/// After a stop returned, nothing arrives later than this.
const LATE_MAX: Duration = Duration::from_secs(1);
/// Lines that were seen when the stop is asked for.
pub(crate) const SEEN: u64 = 3;
/// Bounds as users have them, where those of other tests are shorter.
pub(crate) const USUAL_BOUNDS: [(&str, &str); 3] = [
    ("WINDROW_POLL_MS", "1000"),
    ("WINDROW_LOCK_FLOOR_MS", "30000"),
    ("WINDROW_CLAIM_MAX", "1000"),
];

on_both_stores!(
    after_a_cancel_from_another_process_nothing_is_sent,
    after_a_pause_nothing_is_sent_until_it_is_resumed,
    after_the_window_nothing_is_sent,
);

struct Stage {
    fixture: Fixture,
    upstream: Upstream,
    input: PathBuf,
}

impl Stage {
    async fn new(backend: Backend) -> Self {
        let fixture = Fixture::on(backend).await;
        let upstream = Upstream::start(Script::always(Reply::Echo.after(LINE))).await.unwrap();
        let input = fixture.folder().join("in.jsonl");
        fs::write(&input, input::text(LINES)).unwrap();
        Self { fixture, upstream, input }
    }

    /// `windrow run` with one request at a time, and bounds as users have them.
    fn run(&self, words: &[&str]) -> Program {
        let out = self.fixture.folder().join("out.jsonl");
        let mut command = program::run(&self.fixture, &self.input, &self.upstream.url(), out);
        command.args(["--concurrency", "1"]).args(words);
        command.envs(USUAL_BOUNDS);
        Program::start(&self.fixture, "run", command)
    }

    /// Runs a command to its end; gives when it returned.
    async fn command(&self, words: &[&str]) -> Instant {
        let mut command = program::windrow(&self.fixture, words[0]);
        command.args(&words[1..]);
        let mut program = Program::start(&self.fixture, words[0], command);
        let status = program.ended(WITHIN).await;
        let returned = Instant::now();
        assert!(status.success(), "{words:?}: {}", program.said());
        returned
    }

    /// No request came later than a moment after that time.
    fn check_quiet_since(&self, stopped: Instant) {
        check_quiet_since(&self.upstream, stopped);
    }

    async fn batch(&self) -> Batch {
        let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
        let mut batches = self.fixture.store().batches(&Scope::All, query).await.unwrap().rows;
        assert_eq!(batches.len(), 1, "one command makes one batch");
        batches.remove(0)
    }

    /// Every line is in one place, and what was sent is what has a result.
    async fn check_ended(&self, state: State) {
        let batch = self.batch().await;
        assert_eq!(batch.state, state);
        let rows = self.fixture.store().verify(batch.id).await.unwrap();
        rows.check().unwrap();
        let counts = self.upstream.counts();
        assert_eq!(batch.counts.completed, counts.requests, "{:?}", batch.counts);
    }
}

/// No request reached the upstream later than a moment after that time.
pub(crate) fn check_quiet_since(upstream: &Upstream, stopped: Instant) {
    let late = upstream.seen().iter().map(|seen| seen.at).max().expect("some came");
    let late = late.saturating_duration_since(stopped);
    let counts = upstream.counts();
    println!("the last of {} requests came {late:?} after the stop", counts.requests);
    assert!(late <= LATE_MAX, "{late:?} after the stop: {counts:?}");
}

async fn after_a_cancel_from_another_process_nothing_is_sent(backend: Backend) {
    let stage = Stage::new(backend).await;
    let mut run = stage.run(&[]);
    saw(&stage.upstream, SEEN).await;
    let cancelled = stage.command(&["cancel", "last"]).await;
    let status = run.ended(WITHIN).await;
    assert_eq!(status.code(), Some(5), "{}", run.said());
    stage.check_quiet_since(cancelled);
    stage.check_ended(State::Cancelled).await;
}

async fn after_a_pause_nothing_is_sent_until_it_is_resumed(backend: Backend) {
    let stage = Stage::new(backend).await;
    let mut run = stage.run(&[]);
    saw(&stage.upstream, SEEN).await;
    let paused = stage.command(&["pause", "last"]).await;
    let released = || async { (stage.batch().await.counts.leased == 0).then_some(()) };
    wait::until(WITHIN, released, || async { "its leases stay".to_owned() }).await;
    stage.check_quiet_since(paused);
    let sent = stage.upstream.counts().requests;
    stage.command(&["resume", "last"]).await;
    saw(&stage.upstream, sent + 1).await;
    stage.command(&["cancel", "last"]).await;
    run.ended(WITHIN).await;
    stage.check_ended(State::Cancelled).await;
}

async fn after_the_window_nothing_is_sent(backend: Backend) {
    let stage = Stage::new(backend).await;
    let begun = Instant::now();
    let mut run = stage.run(&["--window", "2s"]);
    let status = run.ended(WITHIN).await;
    assert_eq!(status.code(), Some(5), "{}", run.said());
    // The window began after the command did.
    let deadline = stage.batch().await.deadline.unwrap();
    let window = deadline.duration_since(stage.batch().await.created_at);
    assert_eq!(window.as_secs(), 2);
    let seen = stage.upstream.seen();
    let first = seen.first().map_or(begun, |seen| seen.at);
    stage.check_quiet_since(first + Duration::from_secs(2));
    stage.check_ended(State::Expired).await;
}
