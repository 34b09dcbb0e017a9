//! The whole workspace's tests: built once, then several test programs at a time.
//!
//! `cargo test` runs one program after the other, and most of ours wait (for a lease to end, a server
//! to come back) rather than compute. Here programs run side by side; what each one printed is kept
//! apart and printed when it ends.
//!
//! Holds throughout: what is run is what cargo says it built, so a new test program cannot be left
//! out; a program that fails does not keep the others from running; programs that judge how long something
//! took run alone.

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use serde_json::Value;
use windrow_testkit::process::Keeper;

use crate::shell;

/// Programs that run at the same time.
const AT_ONCE: usize = 3;
/// Their tests judge times (a take-over within seconds, nobody waits for a neighbour): beside other programs
/// on a small machine they would judge those. Each runs alone, before the others.
const ALONE: [&str; 3] =
    ["fault tests/messages/main.rs", "fault tests/fault/main.rs", "engine tests/messages/main.rs"];
/// Started first of the others and in this order, since they take longest: the end of one of these is the
/// end of all. A program that is not named here only starts later.
const LONGEST: [&str; 7] = [
    "e2e tests/e2e/main.rs",
    POSTGRES_POOLED,
    "store-sqlite tests/conformance.rs",
    POSTGRES,
    "store-postgres tests/backend/main.rs",
    "brokers tests/rabbitmq.rs",
    "cli tests/cli/main.rs",
];
const POSTGRES: &str = "store-postgres tests/conformance.rs";
const POSTGRES_POOLED: &str = "store-postgres tests/conformance_pooler.rs";
/// Cases of the contract on PostgreSQL wait for the server four fifths of their time, each on a
/// database of its own. As many at a time as there are cores, the usual number, took five times as
/// long as this many.
const POSTGRES_CASES_AT_ONCE: &str = "6";
/// How many tests of a program run at the same time.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// A test program, ready to be started.
#[derive(Debug)]
pub(super) struct TestProgram {
    name: String,
    command: Command,
}

/// How a program ended.
struct Outcome {
    name: String,
    passed: bool,
    took: Duration,
}

/// Builds every test program of the workspace; none when something does not compile.
pub(super) fn build() -> Result<Option<Vec<TestProgram>>> {
    let words = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let mut cargo = shell::cargo(words);
    shell::say(&shell::typed(&cargo));
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("could not run cargo")?;
    let told = BufReader::new(child.stdout.take().context("cargo's output is piped")?);
    let mut programs = Vec::new();
    for line in told.lines() {
        programs.extend(program(&line?)?);
    }
    let status = child.wait().context("could not wait for cargo")?;
    if !status.success() {
        return Ok(None);
    }
    if programs.is_empty() {
        bail!("cargo built no test program: its messages are not as expected");
    }
    let mut docs = shell::cargo(["test", "--workspace", "--doc"]);
    docs.stdin(Stdio::null());
    programs.push(TestProgram { name: "documentation".to_owned(), command: docs });
    Ok(Some(programs))
}

/// Reads one of cargo's messages; none when it tells of something else than a test program.
fn program(message: &str) -> Result<Option<TestProgram>> {
    let message: Value = serde_json::from_str(message).context("cargo said what is not JSON")?;
    let (Some(executable), true) =
        (message["executable"].as_str(), message["profile"]["test"] == true)
    else {
        return Ok(None);
    };
    let text = |value: &Value| value.as_str().map(PathBuf::from);
    let manifest = text(&message["manifest_path"]).context("an artifact has a manifest")?;
    let source = text(&message["target"]["src_path"]).context("an artifact has a source")?;
    let folder = manifest.parent().unwrap_or(Path::new("/"));
    let inner = source.strip_prefix(folder).unwrap_or(&source);
    let package = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{package} {}", inner.display());
    let mut command = Command::new(executable);
    // As cargo runs it.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).stdin(Stdio::null());
    if [POSTGRES, POSTGRES_POOLED].contains(&&*name) && env::var_os(TEST_THREADS).is_none() {
        command.env(TEST_THREADS, POSTGRES_CASES_AT_ONCE);
    }
    Ok(Some(TestProgram { name, command }))
}

/// Runs them all with these variables; succeeds when each of them did.
pub(super) fn run(mut programs: Vec<TestProgram>, like: &Command) -> Result<ExitCode> {
    programs.sort_by_key(|program| place(&program.name));
    for program in &mut programs {
        for (name, value) in like.get_envs() {
            program.command.env(name, value.unwrap_or_default());
        }
    }
    let folder = shell::target().join("test-output");
    fs::create_dir_all(&folder).context("no folder for what tests print")?;
    let done = Mutex::new(Vec::new());
    let (alone, others): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| ALONE.contains(&&*program.name));
    run_lanes(alone, 1, &folder, &done)?;
    run_lanes(others, AT_ONCE, &folder, &done)?;
    Ok(report(done.into_inner()))
}

/// Runs programs to their ends, so many at a time.
fn run_lanes(
    programs: Vec<TestProgram>,
    at_once: usize,
    folder: &Path,
    done: &Mutex<Vec<Outcome>>,
) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let work = |lane: usize| -> Result<()> {
        let file = folder.join(format!("{lane}.txt"));
        loop {
            let Some(program) = waiting.lock().pop_front() else { return Ok(()) };
            shell::say(&format!("started: {}", program.name));
            let outcome = run_one(program, &file)?;
            let mut done = done.lock();
            print(&outcome, &file)?;
            done.push(outcome);
        }
    };
    thread::scope(|scope| {
        let work = &work;
        let lanes: Vec<_> = (0..at_once).map(|lane| scope.spawn(move || work(lane))).collect();
        let ended = lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic"));
        ended.collect::<Result<()>>()
    })
}

/// Where a program stands in the order.
fn place(name: &str) -> usize {
    LONGEST.iter().position(|slow| *slow == name).unwrap_or(LONGEST.len())
}

/// Runs one to its end in a process group with a keeper, so that whatever it starts ends with us.
fn run_one(mut program: TestProgram, file: &Path) -> Result<Outcome> {
    let name = program.name;
    let log = File::create(file).with_context(|| format!("no file for what {name} prints"))?;
    let start = Instant::now();
    let command = program.command.process_group(0).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn().with_context(|| format!("could not run {name}"))?;
    let keeper = Keeper::of_group(&child)?;
    let status = child.wait().with_context(|| format!("could not wait for {name}"))?;
    drop(keeper);
    Ok(Outcome { name, passed: status.success(), took: start.elapsed() })
}

/// What it printed, whole, under a line that says whose it is.
fn print(outcome: &Outcome, file: &Path) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (word, took) = (word(outcome), outcome.took.as_secs_f64());
    writeln!(out, "\n     Running {} ({word} after {took:.1} s)", outcome.name)?;
    std::io::copy(&mut File::open(file)?, &mut out)?;
    Ok(())
}

fn word(outcome: &Outcome) -> &'static str {
    if outcome.passed { "passed" } else { "FAILED" }
}

/// All of them, the longest first.
fn report(mut outcomes: Vec<Outcome>) -> ExitCode {
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    println!();
    for outcome in &outcomes {
        println!("{:>7.1} s  {}  {}", outcome.took.as_secs_f64(), word(outcome), outcome.name);
    }
    let passed = outcomes.iter().all(|outcome| outcome.passed);
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARTIFACT: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml",
        "target":{"src_path":"/w/crates/a/tests/all/main.rs"},"profile":{"test":true},
        "executable":"/t/all-1"}"#;

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_tells() {
        let found = program(ARTIFACT).unwrap().unwrap();
        assert_eq!(found.name, "a tests/all/main.rs");
        assert_eq!(found.command.get_current_dir(), Some(Path::new("/w/crates/a")));
        let plain = ARTIFACT.replace("true", "false");
        assert!(program(&plain).unwrap().is_none());
        assert!(program(r#"{"reason":"build-finished","success":true}"#).unwrap().is_none());
        assert!(program("not JSON").is_err());
    }
}
