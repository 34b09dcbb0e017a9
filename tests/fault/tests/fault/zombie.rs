//! A worker stands still past its lease, others do its work, and it wakes up: it must change
//! nothing, and be of use again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use windrow::domain::{BatchId, Target};
use windrow_fault::check::Ended;
use windrow_fault::program::worker;
use windrow_fault::{Backend, Fixture, Program, wait};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores, saw};

const LINES: u64 = 600;
/// A free database answers a write long before that.
const FREE: Duration = Duration::from_millis(500);

on_both_stores!(
    a_worker_that_slept_past_its_lease_changes_nothing,
    a_worker_that_was_taken_for_dead_joins_again,
);

async fn a_worker_that_slept_past_its_lease_changes_nothing(backend: Backend) {
    sleep_through(backend, "600000").await;
}

async fn a_worker_that_was_taken_for_dead_joins_again(backend: Backend) {
    sleep_through(backend, "1200").await;
}

async fn sleep_through(backend: Backend, member_stale_ms: &str) {
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(LINES).await;
    let answer = Reply::Echo.after(Duration::from_millis(100));
    let upstream = Upstream::start(Script::always(answer)).await.unwrap();
    let start = |name: &str| {
        let mut command = worker(&fixture, &upstream.url());
        command.env("WINDROW_MEMBER_STALE_MS", member_stale_ms);
        Program::start(&fixture, name, command)
    };
    let sleeper = start("sleeper");
    saw(&upstream, LINES / 10).await;
    freeze_outside_a_commit(&fixture, &sleeper).await;
    let mut other = start("other");
    fixture.closed(batch, WITHIN).await;
    let before = look(&fixture, batch).await;
    other.terminate();
    assert!(other.ended(WITHIN).await.success(), "{}", other.said());

    sleeper.thaw();
    // Only the sleeper is left to do it, and with it everything it woke up with is behind it.
    let second = fixture.batch(LINES).await;
    fixture.closed(second, WITHIN).await;
    assert_eq!(look(&fixture, batch).await, before, "the zombie changed a closed batch");
    Ended::check(&fixture, second, LINES, 0).await.check_upstream(&upstream, 0);
    let first = Ended::check(&fixture, batch, LINES, 0).await;
    first.check_upstream(&upstream, 1);
}

/// A stopped process keeps the lock of an SQLite file that it is writing to, and everybody waits for
/// it; that is no zombie. On PostgreSQL it holds no lock for longer than a statement.
async fn freeze_outside_a_commit(fixture: &Fixture, program: &Program) {
    let probe = Target::new("probe").unwrap();
    let freeze = || async {
        program.freeze().await;
        match tokio::time::timeout(FREE, fixture.store().set_limit(&probe, None)).await {
            Ok(free) => {
                free.unwrap();
                Some(())
            }
            Err(_) => {
                program.thaw();
                None
            }
        }
    };
    wait::until(WITHIN, freeze, || async { "it is always writing".to_owned() }).await;
}

/// Everything that is to stay as it is: results with their times, and outputs byte by byte.
async fn look(fixture: &Fixture, batch: BatchId) -> (String, Vec<(PathBuf, Vec<u8>)>) {
    let ended = Ended::check(fixture, batch, LINES, 0).await;
    let mut files = ended.named(&fixture.outputs());
    files.sort();
    let files = files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap()));
    (format!("{:?} {:?}", ended.batch, ended.results), files.collect())
}
