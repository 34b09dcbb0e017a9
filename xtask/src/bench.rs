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
    /// Small sizes, not judged, to show that everything runs; built with cargo's dev profile, most
    /// of which the tests have compiled already
    #[arg(long)]
    small: bool,
    /// Only figures whose name begins so: drain, ingest, create, claim, crowd, status, snapshot,
    /// memory
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
    let json = absolute(args.json.clone().unwrap_or_else(|| shell::target().join("bench.json")))?;
    let mut command = shell::cargo(cargo_args(args, &json));
    if args.dry_run {
        shell::say(&format!("would run: {}", shell::typed(&command)));
        return Ok(ExitCode::SUCCESS);
    }
    // Before an hour of measuring, not after it.
    let folder = json.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).context("no folder for the JSON file")?;
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
    let options = Options { durable: true, programs, ..Options::default() };
    let cluster = Cluster::start(&options).context("no PostgreSQL to measure")?;
    // What the bench writes goes with the cluster, also when we are killed.
    let scratch = cluster.folder().join("scratch");
    fs::create_dir(&scratch).context("could not make a folder for the bench")?;
    command.env("TMPDIR", scratch);
    // Nobody used the cluster before, so its first database is an empty one.
    command.args(["--database", &cluster.url()]);
    Ok(cluster)
}

fn cargo_args(args: &Args, json: &Path) -> Vec<String> {
    let mut words = vec!["run"];
    if !args.small {
        words.push("--release");
    }
    words.extend(["--package", "windrow-bench", "--", "run"]);
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
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn typed(words: &[&str]) -> String {
        let line = Line::parse_from(std::iter::once("bench").chain(words.iter().copied()));
        cargo_args(&line.args, Path::new("/j")).join("|")
    }

    #[test]
    fn only_the_judged_size_is_optimised() {
        assert_eq!(typed(&[]), "run|--release|--package|windrow-bench|--|run|--json|/j");
        let small = "run|--package|windrow-bench|--|run|--size|small|--json|/j";
        assert_eq!(typed(&["--small"]), small);
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
