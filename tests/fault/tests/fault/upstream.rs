//! An upstream that does everything wrong, under `windrow run`.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use windrow::domain::BatchId;
use windrow::domain::attempt::Status;
use windrow::store::Scope;
use windrow::store::inspect::BatchesQuery;
use windrow_fault::check::Ended;
use windrow_fault::{Backend, Ground, Program, input, program, rounds, wait};
use windrow_testkit::upstream::{Act, Script, Upstream};

use crate::{WITHIN, on_both_stores, saw};

/// The exit code of a run that finished with failed lines.
const SOME_FAILED: i32 = 5;
const BIG_BYTES: u64 = 10 << 20;
/// Lines that get a big answer: few, since each is kept whole.
const BIG_LINES: u64 = 3;

on_both_stores!(
    every_kind_of_bad_answer_ends_in_one_result_per_line,
    an_upstream_that_refuses_for_a_while_costs_no_line_its_attempts,
    errors_in_bursts_are_waited_out,
);

/// A run over a file, and where its results go.
struct Run {
    ground: Ground,
    upstream: Upstream,
    lines: u64,
    input: PathBuf,
    results: PathBuf,
    errors: PathBuf,
}

impl Run {
    async fn new(backend: Backend, script: Script, lines: u64) -> Self {
        let ground = Ground::on(backend).await;
        let upstream = Upstream::start(script).await.unwrap();
        let input = ground.folder().join("in.jsonl");
        fs::write(&input, input::text(lines)).unwrap();
        let bounds = "first_byte_ms_max = 1000\nidle_ms_max = 500\ntotal_ms_max = 20000\n\
                      breaker_open_ms_min = 200\nbreaker_open_ms_max = 500\n";
        let config = format!("[upstreams.default]\nbase_url = \"{}\"\n{bounds}", upstream.url());
        fs::write(ground.folder().join("windrow.toml"), config).unwrap();
        let (results, errors) = ("out.jsonl", "out.errors.jsonl");
        let (results, errors) = (ground.folder().join(results), ground.folder().join(errors));
        Self { ground, upstream, lines, input, results, errors }
    }

    fn command(&self) -> Command {
        program::run(&self.ground, &self.input, &self.upstream.url(), &self.results)
    }

    fn start(&self) -> Program {
        let mut command = self.command();
        // Faults come by number here, and a line may meet many of them.
        command.env("WINDROW_MAX_ATTEMPTS_ERROR", "50");
        Program::start(&self.ground, "run", command)
    }

    async fn end(&self, program: &mut Program, code: i32) -> Ended {
        let status = program.ended(WITHIN).await;
        assert_eq!(status.code(), Some(code), "{}", program.said());
        let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
        let batches = self.ground.store().batches(&Scope::All, query).await.unwrap().rows;
        let batch: Vec<BatchId> = batches.iter().map(|batch| batch.id).collect();
        assert_eq!(batch.len(), 1, "one command makes one batch");
        let ended = Ended::check(&self.ground, batch[0], self.lines, 0).await;
        let errors = self.errors.is_file().then_some(self.errors.as_path());
        ended.check_files(Some(&self.results), errors);
        ended
    }
}

/// What the upstream does with the first try of a line; further ones are answered, unless the line
/// is wrong for good.
fn first_try(line: u64) -> Option<Act> {
    Some(match line % 20 {
        0 => Act::Hang,
        1 => Act::CloseMidBody,
        2 => Act::throttle("1"),
        3 => Act::error(500, "out of order"),
        4 => Act::InvalidJson,
        5 => Act::Reset,
        6 => Act::HangMidBody,
        7 => Act::Drip { bytes: 10, pieces: 4, every: Duration::from_millis(100) },
        8 => Act::Drip { bytes: 10, pieces: 4, every: Duration::from_millis(800) },
        9 if line < 20 * BIG_LINES => Act::BigBody { bytes: BIG_BYTES, told: line > 20 },
        _ => return None,
    })
}

fn is_wrong(line: u64) -> bool {
    line % 20 == 10
}

fn is_missing(line: u64) -> bool {
    line % 20 == 11
}

/// How many tries of the line the upstream saw before this one.
fn count(seen: &Mutex<HashMap<u64, u64>>, line: u64) -> u64 {
    let mut seen = seen.lock().unwrap();
    let times = seen.entry(line).or_default();
    *times += 1;
    *times - 1
}

async fn every_kind_of_bad_answer_ends_in_one_result_per_line(backend: Backend) {
    let lines = rounds(200, 2_000);
    let tries = Mutex::new(HashMap::new());
    let script = Script::new(move |seen| {
        let line = input::line_of(&seen.body);
        match count(&tries, line) {
            _ if is_wrong(line) => Act::error(400, "no such parameter"),
            _ if is_missing(line) => Act::error(404, "no such model"),
            0 => first_try(line).unwrap_or(Act::Echo),
            _ => Act::Echo,
        }
    });
    let run = Run::new(backend, script, lines).await;
    let ended = run.end(&mut run.start(), SOME_FAILED).await;
    for line in &ended.results {
        let line = &line.result;
        let no = line.line;
        let (status, attempts) = match no {
            _ if is_wrong(no) => (Status::Failed, 1),
            _ if is_missing(no) => (Status::NotFound, 2),
            // These two came slowly, or were large, but came.
            _ if matches!(no % 20, 7 | 9) || first_try(no).is_none() => (Status::Completed, 1),
            _ => (Status::Completed, 2),
        };
        assert_eq!((line.status, line.attempts), (status, attempts), "line {no}: {line:?}");
    }
    ended.check_upstream(&run.upstream, 0);
    let big = fs::metadata(&run.results).unwrap().len();
    assert!(big > BIG_BYTES * BIG_LINES, "{big} bytes of results");
}

async fn an_upstream_that_refuses_for_a_while_costs_no_line_its_attempts(backend: Backend) {
    let lines = rounds(2_000, 20_000);
    let answer = Act::Echo.after(Duration::from_millis(5));
    let run = Run::new(backend, Script::always(answer), lines).await;
    let mut program = run.start();
    for percent in [20, 60] {
        saw(&run.upstream, lines * percent / 100).await;
        run.upstream.stop().await;
        wait::pause(Duration::from_secs(2)).await;
        run.upstream.start_again().await.unwrap();
    }
    let ended = run.end(&mut program, 0).await;
    ended.check_upstream(&run.upstream, 0);
    let most = ended.results.iter().map(|line| line.result.attempts).max().unwrap();
    println!("{backend:?}: refused twice for 2 s, most attempts of a line {most}");
    assert!(most <= 10, "a line was tried {most} times while nobody was there");
}

async fn errors_in_bursts_are_waited_out(backend: Backend) {
    let lines = rounds(1_000, 10_000);
    let answer = Script::always(Act::Echo.after(Duration::from_millis(5)));
    let script = answer
        .burst(100, 160, Act::error(500, "out of order"))
        .burst(400, 420, Act::throttle("1"))
        .burst(700, 720, Act::error(503, "overloaded"));
    let run = Run::new(backend, script, lines).await;
    let ended = run.end(&mut run.start(), 0).await;
    ended.check_upstream(&run.upstream, 0);
    let (attempts, faults) = (run.upstream.counts().requests, 61 + 21 + 21);
    assert_eq!(attempts, lines + faults, "every fault was one try, and no more");
}
