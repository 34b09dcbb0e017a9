//! The same `windrow run`, stopped in every way and started again: it goes on where it stopped.

use std::time::Duration;

use windrow::domain::attempt::Status;
use windrow_fault::{Backend, rounds, wait};
use windrow_testkit::upstream::{Reply, Script};

use crate::run::Run;
use crate::{WITHIN, on_both_stores, saw};

/// Another seed is another test: change it to look for trouble.
const SEED: u64 = 7;
/// Kills before the first request: while the file comes in, as far as luck has it.
const EARLY_KILLS: u64 = 4;
/// Kills in the middle of the work.
const KILLS: u64 = 5;
/// The exit code of a run that was asked to stop.
const STOPPED: i32 = 10;

on_both_stores!(
    a_run_that_is_killed_again_and_again_goes_on,
    a_run_that_is_asked_to_stop_sends_no_line_twice,
    the_same_run_twice_at_once_sends_no_line_twice,
);

async fn echoing(backend: Backend) -> (Run, u64) {
    let lines = rounds(2_000, 20_000);
    let script = Script::always(Reply::Echo.after(Duration::from_millis(10)));
    (Run::new(backend, script, lines).await, lines)
}

async fn a_run_that_is_killed_again_and_again_goes_on(backend: Backend) {
    let (run, lines) = echoing(backend).await;
    let mut rng = fastrand::Rng::with_seed(SEED);
    for _ in 0..EARLY_KILLS {
        let program = run.start("run");
        wait::pause(Duration::from_millis(rng.u64(5..150))).await;
        program.kill();
    }
    let mut moments: Vec<u64> = (0..KILLS).map(|_| rng.u64(1..lines * 9 / 10)).collect();
    moments.sort_unstable();
    for moment in moments {
        let program = run.start("run");
        saw(&run.upstream, moment).await;
        program.kill();
    }
    let ended = run.end(&mut run.start("run"), 0, EARLY_KILLS + KILLS).await;
    assert_eq!(ended.count(Status::Completed), lines);
    let repeats = run.upstream.counts().requests - lines;
    println!("{backend:?}: {} kills, {repeats} requests were repeated", EARLY_KILLS + KILLS);
}

/// What is in flight finishes, the rest goes back: no request is paid for twice.
async fn a_run_that_is_asked_to_stop_sends_no_line_twice(backend: Backend) {
    let (run, lines) = echoing(backend).await;
    for percent in [10, 30, 60] {
        let mut program = run.start("run");
        saw(&run.upstream, lines * percent / 100).await;
        program.terminate();
        let status = program.ended(WITHIN).await;
        assert_eq!(status.code(), Some(STOPPED), "{}", program.said());
    }
    run.end(&mut run.start("run"), 0, 0).await;
    assert_eq!(run.upstream.counts().requests, lines);
    let mut once_more = run.start("once-more");
    run.end(&mut once_more, 0, 0).await;
    assert_eq!(run.upstream.counts().requests, lines, "a finished run sends nothing");
}

/// With the leases and the time for an answer that people have. With short ones, a machine that stands still for a
/// second loses a lease, or an answer, and a line is sent again as is promised for that (`zombie`, `upstream`).
async fn the_same_run_twice_at_once_sends_no_line_twice(backend: Backend) {
    let (mut run, lines) = echoing(backend).await;
    run.with_usual_bounds();
    let (mut one, mut two) = (run.start("one"), run.start("two"));
    run.end(&mut one, 0, 0).await;
    run.end(&mut two, 0, 0).await;
    assert_eq!(run.upstream.counts().requests, lines);
}
