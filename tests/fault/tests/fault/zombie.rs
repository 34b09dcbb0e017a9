//! A worker stands still past its lease, others do its work, and it wakes up: it must change
//! nothing, and be of use again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use windrow::domain::BatchId;
use windrow_fault::check::Ended;
use windrow_fault::program::worker;
use windrow_fault::{Backend, Fixture, Program, wait};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores, saw};

const LINES: u64 = 600;

on_both_stores!(
    a_worker_that_slept_past_its_lease_changes_nothing,
    a_worker_that_was_taken_for_dead_joins_again,
    a_worker_that_slept_past_its_lease_sends_nothing_more_of_it,
);

/// It is silent for longer than it may be, but its lock says that it lives: only its leases are lost.
async fn a_worker_that_slept_past_its_lease_changes_nothing(backend: Backend) {
    sleep_through(backend, true).await;
}

/// Its lock is gone, so nothing proves that it lives, and its silence decides.
async fn a_worker_that_was_taken_for_dead_joins_again(backend: Backend) {
    sleep_through(backend, false).await;
}

/// The target may see a line more than once after a lost lease: those that were sent before it was lost. What the
/// worker holds and has not sent when it wakes up, others have sent meanwhile, and it must not send it again.
async fn a_worker_that_slept_past_its_lease_sends_nothing_more_of_it(backend: Backend) {
    let lines = 200;
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(lines).await;
    let answer = Reply::Echo.after(Duration::from_millis(100));
    let upstream = Upstream::start(Script::always(answer)).await.unwrap();
    let start = |name: &str| {
        let mut command = worker(&fixture, &upstream.url());
        command.args(["--concurrency", "8"]);
        Program::start(&fixture, name, command)
    };
    // Some lines in flight, and many that wait behind them.
    let sleeper = start("sleeper");
    saw(&upstream, 10).await;
    sleeper.freeze_outside_a_commit(&fixture).await;
    let _other = start("other");
    fixture.closed(batch, WITHIN).await;
    let sent = || -> u64 {
        let of = batch.to_string();
        let keys = upstream.keys().into_iter();
        keys.filter(|(key, _)| key.starts_with(&of)).map(|(_, times)| times).sum()
    };
    let before = sent();
    sleeper.thaw();
    // Long enough for it to learn what it lost, and to be of use again.
    let second = fixture.batch(lines).await;
    fixture.closed(second, WITHIN).await;
    assert_eq!(sent() - before, 0, "it sent lines of a lease that it had lost");
    Ended::check(&fixture, second, lines, 0).await.check_upstream(&upstream, 0);
    Ended::check(&fixture, batch, lines, 0).await.check_upstream(&upstream, 1);
}

async fn sleep_through(backend: Backend, keeps_lock: bool) {
    let fixture = Fixture::on(backend).await;
    let batch = fixture.batch(LINES).await;
    let answer = Reply::Echo.after(Duration::from_millis(100));
    let upstream = Upstream::start(Script::always(answer)).await.unwrap();
    let start = |name: &str| {
        let mut command = worker(&fixture, &upstream.url());
        command.env("WINDROW_MEMBER_STALE_MS", "1200");
        Program::start(&fixture, name, command)
    };
    let sleeper = start("sleeper");
    saw(&upstream, LINES / 10).await;
    sleeper.freeze_outside_a_commit(&fixture).await;
    if !keeps_lock {
        fs::remove_dir_all(crate::dead::live_folder(&fixture, backend)).unwrap();
    }
    let mut other = start("other");
    fixture.closed(batch, WITHIN).await;
    let before = look(&fixture, batch).await;
    let buried = async || {
        let members = fixture.store().members().await.unwrap();
        members.iter().filter(|member| member.tombstoned_at.is_some()).count()
    };
    if keeps_lock {
        assert_eq!(buried().await, 0, "its lock says that it lives");
    } else {
        let is_buried = || async { (buried().await == 1).then_some(()) };
        wait::until(WITHIN, is_buried, || async { "it is not taken for dead".to_owned() }).await;
    }
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

/// Everything that is to stay as it is: results with their times, and outputs byte by byte.
async fn look(fixture: &Fixture, batch: BatchId) -> (String, Vec<(PathBuf, Vec<u8>)>) {
    let ended = Ended::check(fixture, batch, LINES, 0).await;
    let mut files = ended.named(&fixture.outputs());
    files.sort();
    let files = files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap()));
    (format!("{:?} {:?}", ended.batch, ended.results), files.collect())
}
