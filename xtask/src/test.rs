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

use crate::brokers;
use crate::clients::{self, Clients};
use crate::install::{Program, install};
use crate::shell;

/// The package of the faults.
const FAULT: &str = "windrow-fault";
/// The package of the official clients.
const E2E: &str = "windrow-e2e";
/// The packages that start brokers.
const BROKERS: [&str; 3] = ["windrow-brokers", "windrow-testkit", E2E];
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
    install(&missing(args, given.is_some()), args.dry_run)?;
    let clients = runs_clients(args).then(|| Clients::below(&shell::target(), &clients::sources()));
    if let Some(clients) = &clients {
        clients.prepare(args.dry_run)?;
    }
    if runs_nats(args) {
        brokers::nats().prepare_python(args.dry_run)?;
    }
    let mut command = shell::cargo(cargo_args(args));
    if args.long {
        command.env(FAULT_LONG, "1");
    }
    if let Some(clients) = &clients {
        clients.announce(&mut command);
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
    if runs_clients(args) {
        missing.extend(clients::missing());
    }
    let servers = match runs_brokers(args) {
        true => brokers::missing(),
        false if runs_nats(args) && clients::python().is_none() => vec![Program::Python],
        false => Vec::new(),
    };
    for program in servers {
        // The clients may have asked for Python already.
        if !missing.contains(&program) {
            missing.push(program);
        }
    }
    missing
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

/// Whether the faults are among what is run.
fn runs_faults(args: &Args) -> bool {
    match args.package.is_empty() {
        true => !matches!(args.subset.as_deref(), Some("conformance" | "e2e")),
        false => args.package.iter().any(|package| package == FAULT),
    }
}

/// Whether the official clients are among what is run.
fn runs_clients(args: &Args) -> bool {
    match args.package.is_empty() {
        true => !matches!(args.subset.as_deref(), Some("conformance" | "fault")),
        false => args.package.iter().any(|package| package == E2E),
    }
}

/// Whether brokers are started by what is run.
fn runs_brokers(args: &Args) -> bool {
    match args.package.is_empty() {
        true => !matches!(args.subset.as_deref(), Some("conformance" | "fault")),
        false => args.package.iter().any(|package| BROKERS.contains(&&**package)),
    }
}

/// Whether NATS is started by what is run. Of the brokers, the faults take this one.
fn runs_nats(args: &Args) -> bool {
    runs_brokers(args) || runs_faults(args)
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

    fn parsed(words: &[&str]) -> Args {
        Line::parse_from(std::iter::once("test").chain(words.iter().copied())).args
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

    #[test]
    fn clients_are_prepared_only_where_they_are_run() {
        for words in [&[][..], &["e2e"], &["some_name"], &["-p", E2E]] {
            assert!(runs_clients(&parsed(words)), "{words:?}");
        }
        for words in [&["fault"][..], &["conformance"], &["-p", "xtask"]] {
            assert!(!runs_clients(&parsed(words)), "{words:?}");
        }
    }

    #[test]
    fn brokers_are_installed_only_where_they_are_run() {
        for words in [&[][..], &["some_name"], &["e2e"], &["-p", BROKERS[0]]] {
            assert!(runs_brokers(&parsed(words)), "{words:?}");
        }
        for words in [&["fault"][..], &["conformance"], &["-p", "xtask"]] {
            assert!(!runs_brokers(&parsed(words)), "{words:?}");
        }
        assert!(runs_nats(&parsed(&["fault"])) && !runs_nats(&parsed(&["conformance"])));
    }
}
