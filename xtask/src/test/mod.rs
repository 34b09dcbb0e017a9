//! `cargo xtask test`: servers up, tests, servers gone.
//!
//! Holds throughout: what was started is stopped and removed, however the tests or this program end.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;

use anyhow::Result;
use windrow_testkit::postgres::DATABASE_URL;
use windrow_testkit::require;

mod needs;
mod parallel;
mod servers;

use needs::{missing, runs_clients, runs_faults, runs_nats};
use parallel::TestProgram;
use servers::Servers;

use crate::clients::{self, Clients};
use crate::install::install;
use crate::{brokers, shell};

/// The package of the faults.
const FAULT: &str = "windrow-fault";
/// The package of the official clients.
const E2E: &str = "windrow-e2e";
/// Tells the faults to take their time.
const FAULT_LONG: &str = "WINDROW_FAULT_LONG";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// `conformance` (the store contract on both backends), `fault` (what the real binary survives),
    /// `e2e` (official clients against the running server), or a part of a test's name
    subset: Option<String>,
    /// More rounds and more lines for the faults
    #[arg(long)]
    long: bool,
    /// Only this package; may be given several times
    #[arg(short, long)]
    package: Vec<String>,
    /// The folder of PostgreSQL's server programs, to test on another version
    #[arg(long)]
    postgres_bin: Option<PathBuf>,
    /// Says what would be installed, started and run, and does nothing
    #[arg(long)]
    dry_run: bool,
    /// Passed on to `cargo test`
    #[arg(last = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let given = env::var(DATABASE_URL).ok().filter(|url| !url.is_empty());
    let mut command = shell::cargo(cargo_args(args));
    if args.long {
        command.env(FAULT_LONG, "1");
    }
    require_all(&mut command);
    if args.dry_run {
        prepare(args, given.is_some(), &mut command)?;
        let binary = builds_binary(args).then(|| shell::cargo(binary_args(args)));
        for command in binary.iter().chain([&command]) {
            shell::say(&format!("would run: {}", shell::typed(command)));
        }
        return Ok(ExitCode::SUCCESS);
    }
    // Installing mostly waits, for the network and for disks; building computes.
    let built = thread::scope(|scope| {
        let building = scope.spawn(|| Built::make(args));
        prepare(args, given.is_some(), &mut command)?;
        building.join().expect("building does not panic")
    })?;
    let servers = match given {
        Some(url) => Servers::given(url),
        None => Servers::start(args)?,
    };
    servers.announce(&mut command);
    let code = match built {
        Built::Failed => ExitCode::FAILURE,
        Built::Programs(programs) => parallel::run(programs, &command)?,
        Built::Binary => shell::guarded(&mut command)?,
    };
    if servers.cluster.is_some() {
        shell::say("stopping and removing the throw-away PostgreSQL");
    }
    drop(servers);
    Ok(code)
}

/// What is compiled before servers are started.
enum Built {
    /// Every test program of the workspace.
    Programs(Vec<TestProgram>),
    /// The binary that the tests run, where they do; `cargo test` builds the rest.
    Binary,
    Failed,
}

impl Built {
    fn make(args: &Args) -> Result<Self> {
        if is_everything(args) {
            return Ok(parallel::build()?.map_or(Self::Failed, Self::Programs));
        }
        let passed = !builds_binary(args) || shell::succeeds(&mut shell::cargo(binary_args(args)))?;
        Ok(if passed { Self::Binary } else { Self::Failed })
    }
}

/// Whether all tests are run, and nothing is passed on to cargo.
fn is_everything(args: &Args) -> bool {
    args.subset.is_none() && args.package.is_empty() && args.args.is_empty()
}

/// Installs what the tests need, and tells them where it is.
fn prepare(args: &Args, has_server: bool, command: &mut Command) -> Result<()> {
    install(&missing(args, has_server), args.dry_run)?;
    if runs_clients(args) {
        let clients = Clients::below(&shell::target(), &clients::sources());
        clients.prepare(args.dry_run)?;
        clients.announce(command);
    }
    if runs_nats(args) {
        brokers::nats().prepare_python(args.dry_run)?;
    }
    Ok(())
}

/// A test that misses something fails, unless the caller says otherwise.
fn require_all(command: &mut Command) {
    if env::var_os(require::REQUIRE).is_none() {
        command.env(require::REQUIRE, require::ALL);
    }
}

/// The package that a subset means, where it is one.
fn subset_package(args: &Args) -> Option<&'static str> {
    match args.subset.as_deref() {
        Some("fault") => Some(FAULT),
        Some("e2e") => Some(E2E),
        _ => None,
    }
}

/// These tests run the binary, which the tests of the whole workspace build by themselves.
fn builds_binary(args: &Args) -> bool {
    args.package.iter().any(|package| package == FAULT || package == E2E)
        || (args.package.is_empty() && subset_package(args).is_some())
}

/// With the profile of the tests, since they look for it beside themselves. The faults also run an
/// example.
fn binary_args(args: &Args) -> Vec<String> {
    let binary = ["build", "--package", "windrow-cli", "--bin", "windrow"].as_slice();
    let example = ["--package", "windrow", "--example", "wallet"].as_slice();
    let example = if runs_faults(args) { example } else { &[] };
    let release = args.args.iter().map(String::as_str).find(|word| *word == "--release");
    binary.iter().chain(example).copied().chain(release).map(str::to_owned).collect()
}

fn cargo_args(args: &Args) -> Vec<String> {
    let mut words = vec!["test".to_owned()];
    let conformance = args.subset.as_deref() == Some("conformance");
    let only = subset_package(args);
    for package in &args.package {
        words.extend(["--package".to_owned(), package.clone()]);
    }
    if args.package.is_empty() && (conformance || only.is_some()) {
        let stores = vec!["windrow-store-sqlite", "windrow-store-postgres"];
        for package in only.map_or(stores, |only| vec![only]) {
            words.extend(["--package".to_owned(), package.to_owned()]);
        }
    } else if args.package.is_empty() {
        words.push("--workspace".to_owned());
    }
    if conformance {
        words.extend(["--test".to_owned(), "conformance*".to_owned()]);
    }
    words.extend(args.args.iter().cloned());
    if let Some(filter) = args.subset.as_ref().filter(|_| !conformance && only.is_none()) {
        // Cargo passes what follows the dashes to each test program.
        if !args.args.iter().any(|word| word == "--") {
            words.push("--".to_owned());
        }
        words.push(filter.clone());
    }
    words
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

    pub(super) fn parsed(words: &[&str]) -> Args {
        CommandLine::parse_from(std::iter::once("test").chain(words.iter().copied())).args
    }

    fn typed(words: &[&str]) -> String {
        cargo_args(&parsed(words)).join(" ")
    }

    #[test]
    fn subsets_become_cargo_arguments() {
        let stores = "--package windrow-store-sqlite --package windrow-store-postgres";
        assert_eq!(typed(&[]), "test --workspace");
        assert_eq!(typed(&["conformance"]), format!("test {stores} --test conformance*"));
        assert_eq!(typed(&["stale_token"]), "test --workspace -- stale_token");
        assert_eq!(typed(&["fault", "--long"]), "test --package windrow-fault");
        assert_eq!(typed(&["e2e"]), "test --package windrow-e2e");
        assert_eq!(
            typed(&["-p", "xtask", "tidy", "--", "--release", "--", "--nocapture"]),
            "test --package xtask --release -- --nocapture tidy"
        );
    }

    #[test]
    fn the_faults_find_an_example_beside_the_binary() {
        let typed = |words| binary_args(&parsed(words)).join(" ");
        let binary = "build --package windrow-cli --bin windrow";
        assert_eq!(typed(&["e2e"]), binary);
        let both = format!("{binary} --package windrow --example wallet --release");
        assert_eq!(typed(&["fault", "--", "--release"]), both);
    }
}
