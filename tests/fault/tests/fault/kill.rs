//! Three workers on one batch, and one of them dies again and again.

use std::time::Duration;

use windrow::domain::attempt::Status;
use windrow_fault::check::Ended;
use windrow_fault::program::worker;
use windrow_fault::{Backend, Fixture, Program, rounds};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores, saw};

const WORKERS: usize = 3;
const KILLS: usize = 10;
/// Another seed is another test: change it to look for trouble.
const SEED: u64 = 42;

on_both_stores!(workers_killed_at_random_moments_lose_no_line_and_double_none);

async fn workers_killed_at_random_moments_lose_no_line_and_double_none(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    let lines = rounds(4_000, 40_000);
    let batch = fixture.batch(lines).await;
    let answer = Reply::Echo.after(Duration::from_millis(10));
    let upstream = Upstream::start(Script::always(answer)).await.unwrap();
    let start = |no: usize| {
        Program::start(&fixture, &format!("worker-{no}"), worker(&fixture, &upstream.url()))
    };
    let mut workers: Vec<Option<Program>> = (0..WORKERS).map(|no| Some(start(no))).collect();
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut moments: Vec<u64> = (0..KILLS).map(|_| rng.u64(1..lines * 9 / 10)).collect();
    moments.sort_unstable();
    for moment in moments {
        saw(&upstream, moment).await;
        let no = rng.usize(0..WORKERS);
        workers[no].take().unwrap().kill();
        workers[no] = Some(start(no));
    }
    fixture.closed(batch, WITHIN).await;
    let ended = Ended::check(&fixture, batch, lines, KILLS as u64).await;
    assert_eq!(ended.count(Status::Completed), lines);
    ended.check_upstream(&upstream, KILLS as u64);
    let repeats = upstream.counts().requests - lines;
    println!("{backend:?}: {KILLS} kills, {lines} lines, {repeats} requests were repeated");
    for worker in workers.iter_mut().flatten() {
        worker.terminate();
        let status = worker.ended(WITHIN).await;
        assert!(status.success(), "{status}: {}", worker.said());
    }
}
