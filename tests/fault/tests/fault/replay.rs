//! Crash replay: the process ends at every store call of a small run, on either side of the call,
//! again at the same call of its second life, and its third comes to the same end.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::task::JoinSet;
use windrow::domain::BatchId;
use windrow::domain::attempt::Status;
use windrow::store::Kind;
use windrow_fault::check::Ended;
use windrow_fault::crash::{self, Cut, Entry, LINES, Side};
use windrow_fault::{Backend, Fixture, rounds};

/// Lives are mostly spent waiting for what the one before held.
const TOGETHER_MAX: usize = 8;
const LIFE: Duration = Duration::from_secs(60);
/// Far beyond what a run needs, should one never come to its end.
const CALLS_MAX: u64 = 2_000;

/// One life of the process: the number of calls when it came to its end, none when it was cut.
async fn live(fixture: &Fixture, batch: BatchId, cut: Option<Cut>) -> Option<u64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crash"));
    command.arg(fixture.database()).arg(fixture.folder()).arg(batch.to_string());
    if let Some(Cut { call, side }) = cut {
        command.arg(call.to_string()).arg(if side == Side::Before { "before" } else { "after" });
    }
    command.kill_on_drop(true).stdin(Stdio::null());
    let output = tokio::time::timeout(LIFE, command.output()).await;
    let Ok(output) = output else {
        panic!("{cut:?} did not end: {}", fixture.describe(batch).await);
    };
    let output = output.unwrap();
    if output.status.success() {
        return Some(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), None, "{cut:?} ended with an error: {said}");
    assert!(cut.is_some(), "{:?}: {said}", output.status);
    None
}

/// Every line is in exactly one place at every moment, also right after a crash.
async fn verify(fixture: &Fixture, batch: BatchId) {
    match fixture.store().verify(batch).await {
        Ok(audit) => audit.check().unwrap(),
        Err(error) => assert_eq!(error.kind, Kind::Missing, "{error:?}"),
    }
}

/// How a line ended: nothing that depends on time or on crashes.
type End = (u64, Status, u32, Option<String>);

/// Lives through the cuts, then to the end. Gives that end and whether the cut was ever reached.
async fn replay(fixture: &Fixture, cut: Option<Cut>) -> (Vec<End>, bool) {
    let batch = BatchId::new();
    let mut crashes = 0;
    for _ in 0..2 {
        if let Some(cut) = cut {
            crashes += u64::from(live(fixture, batch, Some(cut)).await.is_none());
            verify(fixture, batch).await;
        }
    }
    live(fixture, batch, None).await.unwrap();
    let ended = Ended::check(fixture, batch, LINES, crashes).await;
    check_journal(&fixture.folder().join("journal"), &ended, crashes);
    let members = fixture.store().members().await.unwrap();
    assert!(members.len() as u64 <= 3, "{members:?}");
    let ends = ended.results.into_iter().map(|line| line.result);
    let ends = ends.map(|line| (line.line, line.status, line.attempts, line.error_code));
    (ends.collect(), crashes > 0)
}

/// No line was tried after its result was kept, and none more often than crashes explain.
fn check_journal(journal: &Path, ended: &Ended, crashes: u64) {
    let mut kept = HashSet::new();
    let mut tried = HashMap::<u64, u64>::new();
    let mut keys = HashMap::<u64, HashSet<String>>::new();
    let entries = crash::read(journal);
    for entry in entries.clone() {
        match entry {
            Entry::Tried(line, key) => {
                assert!(!kept.contains(&line), "line {line} was tried again after its result");
                *tried.entry(line).or_default() += 1;
                keys.entry(line).or_default().insert(key);
            }
            Entry::Kept(line) => assert!(kept.insert(line), "line {line} was kept twice"),
        }
    }
    for line in &ended.results {
        // A skipped line was looked at once, which is no attempt.
        let (line, attempts) = (line.result.line, u64::from(line.result.attempts).max(1));
        let times = tried.get(&line).copied().unwrap_or(0);
        let most = attempts + crashes;
        assert!(times <= most, "line {line}: tried {times}, explained {most}: {entries:#?}");
        let keys = keys.get(&line).map_or(0, HashSet::len) as u64;
        assert!(keys <= attempts, "line {line}: {attempts} attempts, {keys} keys");
    }
}

/// Every `step`-th call, on both sides, until a run comes to its end before the cut.
async fn every_cut(backend: Backend, step: usize) {
    let (reference, _) = replay(&Fixture::on(backend).await, None).await;
    let statuses = |wanted| reference.iter().filter(|(_, status, ..)| *status == wanted).count();
    assert_eq!(Status::ALL.map(statuses), [17, 1, 1, 1]);
    let calls = (1..CALLS_MAX).step_by(step);
    let mut cuts =
        calls.flat_map(|call| [Side::Before, Side::After].map(|side| Cut { call, side }));
    let mut replays = JoinSet::new();
    let (mut over, mut done) = (false, 0);
    loop {
        while !over && replays.len() < TOGETHER_MAX {
            let cut = cuts.next().expect("a run comes to its end");
            replays.spawn(async move {
                let fixture = Fixture::on(backend).await;
                (cut, replay(&fixture, Some(cut)).await)
            });
        }
        let Some(replayed) = replays.join_next().await else { break };
        let (cut, (ends, crashed)) = replayed.unwrap();
        assert_eq!(ends, reference, "{cut:?}");
        over |= !crashed;
        done += u32::from(crashed);
    }
    println!("{backend:?}: {done} cuts, each came to the same end");
    assert!(done > 10, "a run makes more calls than that");
}

#[tokio::test]
async fn a_crash_at_any_store_call_comes_to_the_same_end_on_sqlite() {
    every_cut(Backend::Sqlite, 1).await;
}

#[tokio::test]
async fn a_crash_at_any_store_call_comes_to_the_same_end_on_postgres() {
    every_cut(Backend::Postgres, rounds(7, 1)).await;
}
