//! `cargo xtask test`: servers up, tests, servers gone.
//!
//! Holds throughout: what was started is stopped and removed, however the tests or this program end.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use windrow_testkit::pgbouncer::{Pooler, Upstream};
use windrow_testkit::postgres::{Cluster, DATABASE_URL, Options, POOLER_URL};
use windrow_testkit::programs;

use crate::install::{Program, install};
use crate::shell;

/// The package of the faults.
const FAULT: &str = "windrow-fault";
/// Tells it to take its time.
const FAULT_LONG: &str = "WINDROW_FAULT_LONG";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// `conformance` (the store contract on both backends), `fault` (what the real binary survives),
    /// or a part of a test's name
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
    install(&missing(args, given.is_some()), args.dry_run)?;
    let mut command = shell::cargo(cargo_args(args));
    if args.long {
        command.env(FAULT_LONG, "1");
    }
    let binary = builds_binary(args).then(|| shell::cargo(binary_args(args)));
    if args.dry_run {
        if let Some(build) = &binary {
            shell::say(&format!("would run: {}", shell::typed(build)));
        }
        shell::say(&format!("would run: {}", shell::typed(&command)));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(mut build) = binary
        && !shell::succeeds(&mut build)?
    {
        return Ok(ExitCode::FAILURE);
    }
    let servers = match given {
        Some(url) => Servers::given(url),
        None => Servers::start(args)?,
    };
    servers.announce(&mut command);
    let code = shell::guarded(&mut command)?;
    if servers.cluster.is_some() {
        shell::say("stopping and removing the throw-away PostgreSQL");
    }
    drop(servers);
    Ok(code)
}

fn missing(args: &Args, has_server: bool) -> Vec<Program> {
    let mut missing = Vec::new();
    if !has_server && args.postgres_bin.is_none() && programs::postgres_folder().is_none() {
        missing.push(Program::Postgres);
    }
    if !has_server && programs::pgbouncer().is_none() {
        missing.push(Program::Pgbouncer);
    }
    missing
}

/// The faults happen to the binary, which the tests of the whole workspace build by themselves.
fn builds_binary(args: &Args) -> bool {
    args.package.iter().any(|package| package == FAULT)
        || (args.package.is_empty() && args.subset.as_deref() == Some("fault"))
}

/// With the profile of the tests, since they look for it beside themselves.
fn binary_args(args: &Args) -> Vec<String> {
    let words = ["build", "--package", "windrow-cli"].map(str::to_owned);
    let release = args.args.iter().find(|word| *word == "--release");
    words.into_iter().chain(release.cloned()).collect()
}

fn cargo_args(args: &Args) -> Vec<String> {
    let mut words = vec!["test".to_owned()];
    let conformance = args.subset.as_deref() == Some("conformance");
    let fault = args.subset.as_deref() == Some("fault");
    for package in &args.package {
        words.extend(["--package".to_owned(), package.clone()]);
    }
    if args.package.is_empty() && (conformance || fault) {
        let stores: &[&str] = &["windrow-store-sqlite", "windrow-store-postgres"];
        for package in if fault { &[FAULT] } else { stores } {
            words.extend(["--package".to_owned(), (*package).to_owned()]);
        }
    } else if args.package.is_empty() {
        words.push("--workspace".to_owned());
    }
    if conformance {
        words.extend(["--test".to_owned(), "conformance*".to_owned()]);
    }
    words.extend(args.args.iter().cloned());
    if let Some(filter) = args.subset.as_ref().filter(|_| !conformance && !fault) {
        // Cargo passes what follows the dashes to each test program.
        if !args.args.iter().any(|word| word == "--") {
            words.push("--".to_owned());
        }
        words.push(filter.clone());
    }
    words
}

/// What the tests run on. The pooler is declared first, so that it goes before its server does.
struct Servers {
    pooler: Option<Pooler>,
    cluster: Option<Cluster>,
    database_url: String,
}

impl Servers {
    fn start(args: &Args) -> Result<Self> {
        let options = Options { programs: args.postgres_bin.clone(), ..Options::default() };
        let cluster = Cluster::start(&options).context("no PostgreSQL to test on")?;
        let pooler = Pooler::start(&cluster).context("no transaction pooler to test on")?;
        let database_url = cluster.url();
        shell::say(&format!("PostgreSQL at {database_url}, pgbouncer at {}", pooler.url()));
        Ok(Self { pooler: Some(pooler), cluster: Some(cluster), database_url })
    }

    fn given(database_url: String) -> Self {
        shell::say(&format!("using the server of {DATABASE_URL}"));
        let pooler = match pooler_for(&database_url) {
            Ok(pooler) => pooler,
            Err(reason) => {
                shell::say(&format!("no pooler in front of it, its tests are skipped: {reason:#}"));
                None
            }
        };
        Self { pooler, cluster: None, database_url }
    }

    fn announce(&self, command: &mut Command) {
        command.env(DATABASE_URL, &self.database_url);
        if let Some(pooler) = &self.pooler {
            command.env(POOLER_URL, pooler.url());
        }
    }
}

/// None when the caller brings a pooler too.
fn pooler_for(database_url: &str) -> Result<Option<Pooler>> {
    if env::var_os(POOLER_URL).is_some() {
        return Ok(None);
    }
    let upstream = Upstream::parse(database_url)
        .context("only plain postgres://user@host:port/name addresses can have one")?;
    Ok(Some(Pooler::in_front_of(&upstream)?))
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
        let line = Line::parse_from(std::iter::once("test").chain(words.iter().copied()));
        cargo_args(&line.args).join(" ")
    }

    #[test]
    fn subsets_become_cargo_arguments() {
        let stores = "--package windrow-store-sqlite --package windrow-store-postgres";
        assert_eq!(typed(&[]), "test --workspace");
        assert_eq!(typed(&["conformance"]), format!("test {stores} --test conformance*"));
        assert_eq!(typed(&["stale_token"]), "test --workspace -- stale_token");
        assert_eq!(typed(&["fault", "--long"]), "test --package windrow-fault");
        assert_eq!(
            typed(&["-p", "xtask", "tidy", "--", "--release", "--", "--nocapture"]),
            "test --package xtask --release -- --nocapture tidy"
        );
    }
}
