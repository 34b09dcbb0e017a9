//! The race of seed 004: many workers commit the last lines of a batch at the same moment, and
//! exactly one of them closes it.

use std::collections::HashMap;
use std::sync::Mutex;

use windrow::domain::BatchId;
use windrow::domain::attempt::Status;
use windrow_fault::check::Ended;
use windrow_fault::program::worker;
use windrow_fault::{Backend, Fixture, Program, rounds};
use windrow_testkit::upstream::{Gate, Reply, Script, Upstream};

use crate::{WITHIN, on_both_stores};

const WORKERS: usize = 8;
/// One for each worker, as far as claims of a single line can see to that.
const LINES: u64 = 8;
/// Batches at the same time: all their lines must fit in flight, since all are held back.
const TOGETHER: usize = 40;
/// Requests in flight of one worker.
const IN_FLIGHT: &str = "64";

on_both_stores!(
    a_batch_whose_last_lines_end_together_is_closed_once,
    the_sweep_alone_closes_every_batch,
);

async fn a_batch_whose_last_lines_end_together_is_closed_once(backend: Backend) {
    race(backend, rounds(40, 200), true).await;
}

async fn the_sweep_alone_closes_every_batch(backend: Backend) {
    race(backend, rounds(10, 40), false).await;
}

/// Holds the answers of a batch back until all of its lines are there.
fn together() -> Script {
    let gates = Mutex::new(HashMap::<String, (Gate, u64)>::new());
    Script::new(move |seen| {
        let batch = seen.key().split(':').next().unwrap().to_owned();
        let mut gates = gates.lock().unwrap();
        let (gate, came) = gates.entry(batch).or_default();
        *came += 1;
        if *came >= LINES {
            gate.open();
        }
        Reply::Echo.held(gate)
    })
}

async fn race(backend: Backend, batches: usize, inline: bool) {
    let fixture = Fixture::on(backend).await;
    let upstream = Upstream::start(together()).await.unwrap();
    let start = |no: usize| {
        let mut command = worker(&fixture, &upstream.url());
        command.args(["--concurrency", IN_FLIGHT]).env("WINDROW_CLAIM_MAX", "1");
        command.env("WINDROW_FINALISE_INLINE", inline.to_string());
        // Answers are held back for long; that is not what this is about.
        command.env("WINDROW_LOCK_FLOOR_MS", "60000");
        Program::start(&fixture, &format!("worker-{no}"), command)
    };
    let mut workers: Vec<Program> = (0..WORKERS).map(start).collect();
    let mut done: Vec<BatchId> = Vec::new();
    while done.len() < batches {
        let mut wave = Vec::new();
        for _ in 0..TOGETHER.min(batches - done.len()) {
            wave.push(fixture.batch(LINES).await);
        }
        for batch in &wave {
            fixture.closed(*batch, WITHIN).await;
        }
        done.extend(wave);
    }
    let mut closed = Vec::new();
    for worker in &mut workers {
        worker.terminate();
        assert!(worker.ended(WITHIN).await.success(), "{}", worker.said());
        closed.push(closings(&worker.said()));
    }
    println!("{backend:?}: closed by each worker {closed:?}");
    assert_eq!(closed.iter().sum::<u64>(), batches as u64, "each batch is closed by one worker");
    for batch in done {
        let ended = Ended::check(&fixture, batch, LINES, 0).await;
        assert_eq!(ended.count(Status::Completed), LINES);
        ended.check_upstream(&upstream, 0);
    }
}

/// How many batches a worker says that it closed.
fn closings(said: &str) -> u64 {
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words.windows(3).find(|words| words[0] == "closed" && words[2].starts_with("batch"));
    at.unwrap_or_else(|| panic!("it does not say how many it closed: {said}"))[1].parse().unwrap()
}
