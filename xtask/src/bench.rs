//! `cargo xtask bench`: a durable PostgreSQL up, the figures, PostgreSQL gone.
//!
//! Holds throughout: the server commits as in production, and nothing else talks to it. A server
//! that someone else uses is never measured.

use std::fs;
use std::path::{Path, PathBuf, absolute};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::ValueEnum;
use windrow_testkit::postgres::{Cluster, Options};
use windrow_testkit::programs;

use crate::install::{Program, install};
use crate::shell;

#[derive(clap::Args)]
#[command(after_help = "Both databases live below the temporary folder. Where that is memory, \
                        set TMPDIR to a folder on a disk, or commits cost nothing.")]
pub(crate) struct Args {
    /// Small sizes, not judged, to show that everything runs; built with cargo's dev profile and
    /// the features of the whole workspace, as the tests have compiled it already
    #[arg(long)]
    small: bool,
    /// Only figures whose name begins so: drain, ingest, create, claim, crowd, status, closing,
    /// snapshot, memory, run, worker, idle, upload, poll, export, visit
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Only this store; `sqlite` needs no server
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// Where the figures go as JSON; bench.json in cargo's target folder when absent
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// The folder of PostgreSQL's server programs, to measure another version
    #[arg(long)]
    postgres_bin: Option<PathBuf>,
    /// Says what would be installed and run, and does nothing
    #[arg(long)]
    dry_run: bool,
}

/// The figures that start the `windrow` program.
const NEEDS_PROGRAM: [&str; 7] = ["run", "worker", "idle", "upload", "poll", "export", "visit"];

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Store {
    Postgres,
    Sqlite,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let needs_server = args.store != Some(Store::Sqlite);
    if needs_server && args.postgres_bin.is_none() && programs::postgres_folder().is_none() {
        install(&[Program::Postgres], args.dry_run)?;
    }
    if !args.small && needs_program(args, "run") && !shell::has("wrk") {
        // Its figure is only printed beside ours.
        if let Err(error) = install(&[Program::Wrk], args.dry_run) {
            shell::say(&format!("going on without wrk: {error}"));
        }
    }
    let json = absolute(args.json.clone().unwrap_or_else(|| shell::target().join("bench.json")))?;
    let program = NEEDS_PROGRAM.iter().any(|figure| needs_program(args, figure));
    let mut build = shell::cargo(build_args(args, program));
    let mut command = Command::new(built(args, "windrow-bench"));
    command.current_dir(shell::root()).args(bench_args(args, &json, program));
    if args.dry_run {
        shell::say(&format!("would run: {}", shell::typed(&build)));
        shell::say(&format!("would run: {}", shell::typed(&command)));
        return Ok(ExitCode::SUCCESS);
    }
    // Before an hour of measuring, not after it.
    let folder = json.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).context("no folder for the JSON file")?;
    if !shell::succeeds(&mut build)? {
        return Ok(ExitCode::FAILURE);
    }
    let cluster = needs_server.then(|| start(args, &mut command)).transpose()?;
    let code = shell::guarded(&mut command)?;
    if cluster.is_some() {
        shell::say("stopping and removing the throw-away PostgreSQL");
    }
    drop(cluster);
    Ok(code)
}

fn start(args: &Args, command: &mut Command) -> Result<Cluster> {
    let programs = args.postgres_bin.clone();
    let bare = Options { durable: true, programs, ..Options::default() };
    // Loaded, but off where the bench does not turn it on.
    let counting =
        [("shared_preload_libraries", "pg_stat_statements"), ("pg_stat_statements.track", "none")];
    let settings = counting.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let cluster = Cluster::start(&Options { settings, ..bare.clone() });
    // Some systems have it in a package of its own.
    let cluster = cluster.or_else(|_| Cluster::start(&bare)).context("no PostgreSQL to measure")?;
    // What the bench writes goes with the cluster, also when we are killed.
    let scratch = cluster.folder().join("scratch");
    fs::create_dir(&scratch).context("could not make a folder for the bench")?;
    command.env("TMPDIR", scratch);
    // Nobody used the cluster before, so its first database is an empty one.
    command.args(["--database", &cluster.url()]);
    Ok(cluster)
}

/// Whether a figure of whole commands is asked for.
fn needs_program(args: &Args, figure: &str) -> bool {
    args.only.as_deref().is_none_or(|only| figure.contains(only))
}

/// The program and the bench are built alike, or their speeds could not be compared. With the
/// features of the whole workspace when small: any other set of features compiles most of the
/// dependencies and all of our crates once more.
fn build_args(args: &Args, program: bool) -> Vec<&'static str> {
    let (bench, windrow): (&[&str], &[&str]) = if args.small {
        (&["--workspace", "--bin", "windrow-bench"], &["--bin", "windrow"])
    } else {
        (&["--release", "--package", "windrow-bench"], &["--package", "windrow-cli"])
    };
    let windrow = if program { windrow } else { &[] };
    ["build"].iter().chain(bench).chain(windrow).copied().collect()
}

/// Where cargo puts a program.
fn built(args: &Args, program: &str) -> PathBuf {
    shell::target().join(if args.small { "debug" } else { "release" }).join(program)
}

fn bench_args(args: &Args, json: &Path, program: bool) -> Vec<String> {
    let mut words = vec!["run"];
    if args.small {
        words.extend(["--size", "small"]);
    }
    // The bench knows a figure as its store and its name.
    let store = args.store.map(|store| match store {
        Store::Postgres => "postgres",
        Store::Sqlite => "sqlite",
    });
    let only: Vec<&str> = store.into_iter().chain(args.only.as_deref()).collect();
    let (only, json) = (only.join(" "), json.to_string_lossy());
    if !only.is_empty() {
        words.extend(["--only", &only]);
    }
    words.extend(["--json", &json]);
    let windrow = built(args, "windrow");
    let windrow = windrow.to_string_lossy();
    if program {
        words.extend(["--windrow", &windrow]);
    }
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: Args,
    }

    fn typed(words: &[&str]) -> String {
        bench_args(&parsed(words), Path::new("/j"), false).join("|")
    }

    fn parsed(words: &[&str]) -> Args {
        CommandLine::parse_from(std::iter::once("bench").chain(words.iter().copied())).args
    }

    #[test]
    fn only_the_judged_size_is_optimised() {
        assert_eq!(typed(&[]), "run|--json|/j");
        assert_eq!(typed(&["--small"]), "run|--size|small|--json|/j");
        assert!(built(&parsed(&[]), "windrow").ends_with("release/windrow"));
        assert!(built(&parsed(&["--small"]), "windrow").ends_with("debug/windrow"));
    }

    #[test]
    fn the_program_is_built_as_the_bench_is_and_only_when_it_is_measured() {
        let built = |words: &[&str], program| build_args(&parsed(words), program).join(" ");
        let release = "build --release --package windrow-bench";
        assert_eq!(built(&[], true), format!("{release} --package windrow-cli"));
        assert_eq!(built(&[], false), release);
        let small = "build --workspace --bin windrow-bench --bin windrow";
        assert_eq!(built(&["--small"], true), small);
        assert!(needs_program(&parsed(&["--only", "run"]), "run"));
        assert!(!needs_program(&parsed(&["--only", "drain"]), "run"));
    }

    #[test]
    fn a_store_and_a_name_are_one_text() {
        let only =
            |words| typed(words).split('|').skip_while(|w| *w != "--only").nth(1).map(String::from);
        assert_eq!(only(&["--store", "sqlite"]).as_deref(), Some("sqlite"));
        assert_eq!(only(&["--only", "drain"]).as_deref(), Some("drain"));
        let both = only(&["--store", "postgres", "--only", "drain"]);
        assert_eq!(both.as_deref(), Some("postgres drain"));
    }
}
