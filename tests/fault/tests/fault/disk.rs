//! Outputs that cannot be written: nothing is lost, and the same command finishes once they can.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use windrow::store::Scope;
use windrow::store::inspect::BatchesQuery;
use windrow_fault::check::Ended;
use windrow_fault::{Backend, Fixture, Program, input, program};
use windrow_testkit::required;
use windrow_testkit::upstream::{Script, Upstream};

use crate::{WITHIN, on_both_stores};

const LINES: u64 = 2_000;
/// The exit code of outputs that cannot be written.
const OUTPUTS: i32 = 8;
/// Far less than the results take.
const SMALL: &str = "size=64k,mode=777";
const READ_ONLY: &str = "ro";

on_both_stores!(
    a_full_disk_under_the_outputs_is_told_and_the_same_command_finishes,
    a_full_disk_under_the_results_is_told_and_the_same_command_finishes,
    a_read_only_output_folder_is_told_and_the_same_command_finishes,
    a_read_only_results_folder_is_told_before_anything_is_sent,
);

/// Where what cannot be written belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The storage of the engine.
    Outputs,
    /// The file of `--out`.
    Results,
}

async fn a_full_disk_under_the_outputs_is_told_and_the_same_command_finishes(backend: Backend) {
    fail_then_finish(backend, What::Outputs, SMALL, LINES).await;
}

async fn a_full_disk_under_the_results_is_told_and_the_same_command_finishes(backend: Backend) {
    fail_then_finish(backend, What::Results, SMALL, LINES).await;
}

async fn a_read_only_output_folder_is_told_and_the_same_command_finishes(backend: Backend) {
    fail_then_finish(backend, What::Outputs, READ_ONLY, LINES).await;
}

async fn a_read_only_results_folder_is_told_before_anything_is_sent(backend: Backend) {
    fail_then_finish(backend, What::Results, READ_ONLY, 0).await;
}

/// A folder of a private mount, seen by one process and gone with it; it needs no rights.
fn mounted(folder: &Path, options: &str, inner: &Command) -> Command {
    let script = r#"mount -t tmpfs -o "$1" windrow-fault "$2" && shift 2 && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh", options]).arg(folder);
    command.arg(inner.get_program()).args(inner.get_args()).env_clear();
    let set = |(name, value): (_, Option<&OsStr>)| Some((name, value?.to_owned()));
    command.envs(inner.get_envs().filter_map(set));
    if let Some(folder) = inner.get_current_dir() {
        command.current_dir(folder);
    }
    command
}

/// Whether this machine lets a process mount something for itself.
fn can_mount(folder: &Path) -> bool {
    let tried = mounted(folder, SMALL, Command::new("true").env("PATH", env_path())).output();
    tried.is_ok_and(|tried| tried.status.success())
}

fn env_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Runs with the fault, then without; `sent` lines reach the upstream the first time, and none of
/// them again the second time.
async fn fail_then_finish(backend: Backend, what: What, options: &str, sent: u64) {
    let fixture = Fixture::on(backend).await;
    let results_folder = fixture.folder().join("results");
    fs::create_dir_all(&results_folder).unwrap();
    fs::create_dir_all(fixture.outputs()).unwrap();
    let folder = match what {
        What::Outputs => fixture.outputs(),
        What::Results => results_folder.clone(),
    };
    let mounts = can_mount(&folder).then_some(());
    if required("the right to mount a small disk (`unshare`)", mounts).is_none() {
        return;
    }
    let upstream = Upstream::start(Script::echo()).await.unwrap();
    let file = fixture.folder().join("in.jsonl");
    fs::write(&file, input::text(LINES)).unwrap();
    let results = results_folder.join("out.jsonl");
    let command = || program::run(&fixture, &file, &upstream.url(), &results);
    let mut failing = Program::start(&fixture, "failing", mounted(&folder, options, &command()));
    let status = failing.ended(WITHIN).await;
    let said = failing.said();
    assert_eq!(status.code(), Some(OUTPUTS), "{said}");
    let named = folder.file_name().unwrap().to_str().unwrap();
    assert!(said.contains(named), "it does not say where: {said}");
    assert_eq!(upstream.counts().requests, sent, "{said}");
    assert_eq!(left(&results_folder), Vec::<PathBuf>::new(), "half of a file is left");

    let mut finishing = Program::start(&fixture, "finishing", command());
    let status = finishing.ended(WITHIN).await;
    assert_eq!(status.code(), Some(0), "{}", finishing.said());
    let query = BatchesQuery { limit: 10, ..BatchesQuery::default() };
    let batches = fixture.store().batches(&Scope::All, query).await.unwrap().rows;
    assert_eq!(batches.len(), 1, "one command makes one batch");
    let ended = Ended::rows(&fixture, batches[0].id, LINES).await;
    ended.check_files(Some(&results), None);
    ended.check_upstream(&upstream, 0);
}

fn left(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}
