//! An upstream that does everything wrong, under `windrow run`.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::time::Duration;

use windrow::domain::attempt::Status;
use windrow_fault::{Backend, input, rounds, wait};
use windrow_testkit::upstream::{Reply, Script};

use crate::run::Run;
use crate::{on_both_stores, saw};

/// The exit code of a run that finished with failed lines.
const SOME_FAILED: i32 = 5;
const BIG_BYTES: u64 = 10 << 20;
/// Every so many lines, each of the faults comes once; the others are what keeps the limit in flight
/// from staying at its least.
const KINDS: u64 = 40;
/// Lines that get a big answer: few, since each is kept whole.
const BIG_LINES: u64 = 3;

on_both_stores!(
    every_kind_of_bad_answer_ends_in_one_result_per_line,
    an_upstream_that_refuses_for_a_while_costs_no_line_its_attempts,
    errors_in_bursts_are_waited_out,
);

/// What the upstream does with the first try of a line; further ones are answered, unless the line
/// is wrong for good.
fn first_try(line: u64) -> Option<Reply> {
    Some(match line % KINDS {
        0 => Reply::Hang,
        1 => Reply::CloseMidBody,
        2 => Reply::throttle("1"),
        3 => Reply::error(500, "out of order"),
        4 => Reply::InvalidJson,
        5 => Reply::Reset,
        6 => Reply::HangMidBody,
        7 => Reply::Drip { bytes: 10, pieces: 4, every: Duration::from_millis(100) },
        8 => Reply::Drip { bytes: 10, pieces: 4, every: Duration::from_millis(800) },
        9 if line < KINDS * BIG_LINES => Reply::BigBody { bytes: BIG_BYTES, told: line > KINDS },
        _ => return None,
    })
}

fn is_wrong(line: u64) -> bool {
    line % KINDS == 10
}

fn is_missing(line: u64) -> bool {
    line % KINDS == 11
}

/// How many tries of the line the upstream saw before this one.
fn count(seen: &Mutex<HashMap<u64, u64>>, line: u64) -> u64 {
    let mut seen = seen.lock().unwrap();
    let times = seen.entry(line).or_default();
    *times += 1;
    *times - 1
}

async fn every_kind_of_bad_answer_ends_in_one_result_per_line(backend: Backend) {
    let lines = rounds(200, 600);
    let attempts = Mutex::new(HashMap::new());
    let script = Script::new(move |seen| {
        let line = input::line_of(&seen.body);
        match count(&attempts, line) {
            _ if is_wrong(line) => Reply::error(400, "no such parameter"),
            _ if is_missing(line) => Reply::error(404, "no such model"),
            0 => first_try(line).unwrap_or(Reply::Echo),
            _ => Reply::Echo,
        }
    });
    let run = Run::new(backend, script, lines).await;
    let ended = run.end(&mut run.start("run"), SOME_FAILED, 0).await;
    for line in &ended.results {
        let line = &line.result;
        let no = line.line;
        let (status, attempts) = match no {
            _ if is_wrong(no) => (Status::Failed, 1),
            _ if is_missing(no) => (Status::NotFound, 2),
            // These two came slowly, or were large, but came.
            _ if matches!(no % KINDS, 7 | 9) || first_try(no).is_none() => (Status::Completed, 1),
            _ => (Status::Completed, 2),
        };
        assert_eq!((line.status, line.attempts), (status, attempts), "line {no}: {line:?}");
    }
    let big = fs::metadata(&run.results).unwrap().len();
    assert!(big > BIG_BYTES * BIG_LINES, "{big} bytes of results");
}

async fn an_upstream_that_refuses_for_a_while_costs_no_line_its_attempts(backend: Backend) {
    let lines = rounds(2_000, 20_000);
    let answer = Reply::Echo.after(Duration::from_millis(5));
    let run = Run::new(backend, Script::always(answer), lines).await;
    let mut program = run.start("run");
    for percent in [20, 60] {
        saw(&run.upstream, lines * percent / 100).await;
        run.upstream.stop().await;
        wait::pause(Duration::from_secs(2)).await;
        run.upstream.start_again().await.unwrap();
    }
    let ended = run.end(&mut program, 0, 0).await;
    let most = ended.results.iter().map(|line| line.result.attempts).max().unwrap();
    println!("{backend:?}: refused twice for 2 s, most attempts of a line {most}");
    assert!(most <= 10, "a line was tried {most} times while nobody was there");
}

async fn errors_in_bursts_are_waited_out(backend: Backend) {
    let lines = rounds(1_000, 10_000);
    let answer = Script::always(Reply::Echo.after(Duration::from_millis(5)));
    let script = answer
        .burst(100, 160, Reply::error(500, "out of order"))
        .burst(400, 420, Reply::throttle("1"))
        .burst(700, 720, Reply::error(503, "overloaded"));
    let run = Run::new(backend, script, lines).await;
    // A 503 does not count for its line while the target is left alone (docs/adr/0016).
    run.end(&mut run.start("run"), 0, 21).await;
    let (attempts, faults) = (run.upstream.counts().requests, 61 + 21 + 21);
    assert_eq!(attempts, lines + faults, "every fault was one try, and no more");
}
