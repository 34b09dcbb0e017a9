//! The server as a process, on a database of its own, with the upstream it sends lines to.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use windrow_fault::program::windrow;
use windrow_fault::{Backend, Fixture, Program, wait};
use windrow_testkit::upstream::Upstream;

use crate::upstream;

/// Longest any single state may take to be reached, on a machine that is busy.
pub const WITHIN: Duration = Duration::from_secs(60);
/// The key of the admin, who may act for all.
pub const ADMIN_KEY: &str = "admin-of-the-end-to-end-tests";
/// Few at once, so that a few that are held keep the rest from being sent.
const FEW: &[&str] = &["--concurrency", "4", "--set", "claim_max=8"];
/// How a command ends that is wrongly configured.
const WRONGLY_CONFIGURED: i32 = 9;
/// What the server's first words go to.
const LOG: &str = "serve";

/// A server that runs, and all that belongs to it.
pub struct Server {
    /// Dropped first: the upstream and the database outlive who uses them.
    programs: Vec<Program>,
    origin: String,
    address: SocketAddr,
    upstream: Upstream,
    fixture: Fixture,
}

impl Server {
    /// API and worker in one process, on SQLite.
    ///
    /// # Panics
    /// When it does not start, as in all of these.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// The same, with these keys of the configuration set.
    pub async fn with(settings: &[&str]) -> Self {
        let fixture = Fixture::on(Backend::Sqlite).await;
        let upstream = upstream::start().await.expect("an upstream starts");
        let mut command = serve(&fixture);
        command.args(["--to", &upstream.url()]).args(FEW);
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        Self::over(fixture, upstream, command, Vec::new()).await
    }

    /// The same, where outputs are kept in that storage, which these variables of the environment reach.
    pub async fn with_storage(storage: &str, environment: &[(&str, &str)]) -> Self {
        let fixture = Fixture::on(Backend::Sqlite).await;
        let upstream = upstream::start().await.expect("an upstream starts");
        let mut command = serve(&fixture);
        command.args(["--to", &upstream.url()]).args(FEW);
        command.env("WINDROW_STORAGE", storage).envs(environment.iter().copied());
        Self::over(fixture, upstream, command, Vec::new()).await
    }

    /// Kills it, and starts it again with the same storage.
    pub async fn start_again(&mut self, storage: &str, environment: &[(&str, &str)]) {
        self.programs.clear();
        fs::remove_file(log(&self.fixture)).expect("it said something");
        let mut command = serve(&self.fixture);
        command.args(["--to", &self.upstream.url()]).args(FEW);
        command.env("WINDROW_STORAGE", storage).envs(environment.iter().copied());
        self.programs.push(Program::start(&self.fixture, LOG, command));
        (self.origin, self.address) = listening(&self.fixture).await;
    }

    /// The same, where only this model is served, and only at this endpoint.
    pub async fn for_model(model: &str, endpoint: &str) -> Self {
        let fixture = Fixture::on(Backend::Sqlite).await;
        let upstream = upstream::start().await.expect("an upstream starts");
        let (path, url) = (fixture.folder().join("windrow.toml"), upstream.url());
        let table = format!(
            "[upstreams.only]\nbase_url = \"{url}\"\ntargets = [\"{model}\"]\nendpoints = \
             [\"{endpoint}\"]\n"
        );
        fs::write(path, table).expect("a configuration is written");
        let command = serve(&fixture);
        Self::over(fixture, upstream, command, Vec::new()).await
    }

    /// The same, with a table for its upstream that has these keys besides its URL, and no other upstream.
    pub async fn with_upstream_keys(backend: Backend, keys: &str) -> Self {
        let fixture = Fixture::on(backend).await;
        let upstream = upstream::start().await.expect("an upstream starts");
        let table = format!("[upstreams.shop]\nbase_url = \"{}\"\n{keys}", upstream.url());
        let path = fixture.folder().join("windrow.toml");
        fs::write(path, table).expect("a configuration is written");
        let command = serve(&fixture);
        Self::over(fixture, upstream, command, Vec::new()).await
    }

    /// API and worker in one process, with these tables of the configuration and these files beside it.
    pub async fn with_tables(backend: Backend, tables: &str, files: &[(&str, &str)]) -> Self {
        let fixture = Fixture::on(backend).await;
        let upstream = upstream::start().await.expect("an upstream starts");
        for (name, text) in files.iter().chain(&[("windrow.toml", tables)]) {
            fs::write(fixture.folder().join(name), text).expect("a file is written");
        }
        let mut command = serve(&fixture);
        command.args(["--to", &upstream.url()]).args(FEW);
        Self::over(fixture, upstream, command, Vec::new()).await
    }

    /// The API in one process and a worker in another, on PostgreSQL.
    pub async fn apart() -> Self {
        let fixture = Fixture::on(Backend::Postgres).await;
        let upstream = upstream::start().await.expect("an upstream starts");
        let mut work = windrow(&fixture, "work");
        work.args(["--to", &upstream.url()]).args(FEW);
        let worker = Program::start(&fixture, "work", work);
        let mut command = serve(&fixture);
        command.arg("--no-work");
        Self::over(fixture, upstream, command, vec![worker]).await
    }

    async fn over(
        fixture: Fixture,
        upstream: Upstream,
        command: Command,
        mut programs: Vec<Program>,
    ) -> Self {
        programs.push(Program::start(&fixture, LOG, command));
        let (origin, address) = listening(&fixture).await;
        Self { programs, origin, address, upstream, fixture }
    }

    /// What it says of a start that it refuses, with these keys of the configuration and this key of
    /// the admin.
    ///
    /// # Panics
    /// When it starts, or ends otherwise than by telling what is wrong with how it is configured.
    pub async fn refusal(fixture: &Fixture, settings: &[&str], admin_key: &str) -> Value {
        let mut command = serve(fixture);
        command.arg("--no-work").env("WINDROW_ADMIN_KEY", admin_key);
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let mut program = Program::start(fixture, LOG, command);
        let ended = program.ended(WITHIN).await;
        let said = fs::read_to_string(log(fixture)).unwrap_or_default();
        assert_eq!(ended.code(), Some(WRONGLY_CONFIGURED), "{said}");
        let values = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut told = values.filter(|value| value["error"].is_object()).collect::<Vec<_>>();
        told.pop().unwrap_or_else(|| panic!("nothing is told: {said}"))["error"].take()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL that clients are given.
    pub fn url(&self) -> String {
        format!("{}/v1", self.origin)
    }

    /// What its lines are sent to.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Its database, to look past it.
    pub fn fixture(&self) -> &Fixture {
        &self.fixture
    }

    /// Everything it said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(log(&self.fixture)).unwrap_or_default()
    }

    /// That nothing went wrong inside it, whatever was asked of it.
    ///
    /// # Panics
    /// When it logged an error or a panic, or answered with a 5xx.
    pub fn check(&self) {
        let said = self.said();
        let bad = |line: &&str| {
            line.contains(" ERROR ") || line.contains(" status=5") || line.contains("panicked")
        };
        let trouble: Vec<&str> = said.lines().filter(bad).collect();
        assert!(trouble.is_empty(), "{trouble:#?}");
    }

    /// A new key of that owner, no admin.
    ///
    /// # Panics
    /// When it is not made.
    pub async fn key(&self, owner: &str) -> String {
        let made = keys(&self.fixture, &["create", "--owner", owner]).await;
        made["secret"].as_str().expect("a new key is shown").to_owned()
    }
}

/// What `windrow keys` says.
///
/// # Panics
/// When it is no JSON.
pub async fn keys(fixture: &Fixture, args: &[&str]) -> Value {
    let mut command = windrow(fixture, "keys");
    command.args(args).arg("--json");
    let output = tokio::process::Command::from(command).output().await.expect("it runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

fn serve(fixture: &Fixture) -> Command {
    let mut command = windrow(fixture, "serve");
    command.args(["--json", "--listen", "127.0.0.1:0"]).env("WINDROW_ADMIN_KEY", ADMIN_KEY);
    // What an upstream does not have is asked for once more, soon.
    command.env("NO_COLOR", "1").env("WINDROW_BACKOFF_NOT_FOUND_MS_MIN", "500");
    command
}

fn log(fixture: &Fixture) -> PathBuf {
    fixture.folder().join(format!("{LOG}.log"))
}

/// The address that it says it listens on, with and without its scheme.
async fn listening(fixture: &Fixture) -> (String, SocketAddr) {
    let path = log(fixture);
    let look = || async {
        let said = fs::read_to_string(&path).ok()?;
        let values = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut urls = values.filter_map(|value| Some(value["listening"].as_str()?.to_owned()));
        let url = urls.next()?;
        let address = url.split_once("://")?.1.parse().ok()?;
        Some((url, address))
    };
    let state = || async { fs::read_to_string(&path).unwrap_or_default() };
    wait::until(WITHIN, look, state).await
}
