//! One binary over one data folder: its commands, its run, its server.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{HAY, HAY_LINES, KEY, address, requests};
use crate::program::BOUNDS;
use crate::raw::{Request, Response};
use crate::{Backend, Program, wait};

/// Longest any single state may take to be reached, on a machine that is busy.
const WITHIN: Duration = Duration::from_secs(90);

/// A folder with a data folder in it, and who works on it.
pub struct Stage {
    binary: PathBuf,
    backend: Backend,
    /// PostgreSQL's; SQLite's is where the binary puts it.
    database: Option<String>,
    folder: TempDir,
}

impl Stage {
    /// A new one, with nothing in its data folder.
    ///
    /// # Panics
    /// When there is no room for it, as in all of these.
    pub fn new(binary: PathBuf, database: Option<String>) -> Self {
        let folder = tempfile::Builder::new().prefix("windrow-stored-").tempdir();
        let folder = folder.expect("a temporary folder");
        let backend = if database.is_some() { Backend::Postgres } else { Backend::Sqlite };
        let stage = Self { binary, backend, database, folder };
        fs::create_dir(stage.data()).expect("a folder is made");
        fs::write(stage.folder().join("in.jsonl"), requests(HAY, HAY_LINES))
            .expect("it is written");
        stage
    }

    /// The folder for everything.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// A command of the binary, with short bounds and nothing of this process's own environment.
    pub fn command<W: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = W>) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear().env("HOME", self.folder()).envs(BOUNDS.iter().copied());
        command.current_dir(self.folder()).stdin(Stdio::null()).env("NO_COLOR", "1");
        command.args(words).arg("--json").arg("--data").arg(self.data());
        command.args(self.database.iter().flat_map(|url| ["--database", url]));
        command
    }

    /// What a command says that ends well.
    pub async fn says(&self, words: &[&str]) -> Value {
        let output = tokio::process::Command::from(self.command(words)).output().await;
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
    }

    /// Starts the run, or goes on with it: its lines come from standard input, so that it is the same
    /// one wherever the folder is.
    pub fn run(&self, settings: &[(&str, &str)]) -> Program {
        let to = format!("http://{}", address(self.backend));
        let mut command = self.command(["run", "-", "--to", &to, "--out", "out.jsonl"]);
        let input = File::open(self.folder().join("in.jsonl")).expect("the lines are there");
        command.envs(settings.iter().copied()).stdin(input);
        Program::start_in(self.folder(), "run", command)
    }

    /// Starts a server and waits until it listens.
    pub async fn serve(&self, name: &str, words: &[&str], settings: &[(&str, &str)]) -> Server {
        let words = ["serve", "--listen", "127.0.0.1:0"].iter().chain(words);
        let mut command = self.command(words);
        command.envs(settings.iter().copied());
        let program = Program::start_in(self.folder(), name, command);
        let log = self.folder().join(format!("{name}.log"));
        let look = || async {
            let said = fs::read_to_string(&log).ok()?;
            let mut values = said.lines().filter_map(|line| serde_json::from_str(line).ok());
            let url = values.find_map(|value: Value| Some(value["listening"].as_str()?.to_owned()));
            url?.split_once("://")?.1.parse().ok()
        };
        let address = wait::until(WITHIN, look, || async { program.said() }).await;
        Server { program, address }
    }
}

/// A server that runs.
pub struct Server {
    program: Program,
    address: SocketAddr,
}

impl Server {
    /// What it answers to a request with the admin's key and, if there is one, under that name.
    pub async fn ask(&self, request: (&str, &str), name: Option<&str>, body: &Value) -> Response {
        let (method, path) = request;
        let request = Request::new(method, path, KEY);
        let request = name.iter().fold(request, |it, name| it.header("idempotency-key", name));
        let request = match body {
            Value::Null => request,
            // A file.
            Value::String(text) => {
                request.header("content-type", "application/jsonl").body(text.clone())
            }
            body => request.json(body.to_string()),
        };
        request.send(self.address).await
    }

    /// Asks for something until it is as wanted.
    pub async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let look = || async {
            let answer = self.ask(("GET", path), None, &Value::Null).await.json();
            is_so(&answer).then_some(answer)
        };
        let state = || async {
            let answer = self.ask(("GET", path), None, &Value::Null).await;
            format!("{path}: {}\n{}", String::from_utf8_lossy(&answer.body), self.program.said())
        };
        wait::until(WITHIN, look, state).await
    }

    /// Asks it to end, and waits for that.
    pub async fn stop(mut self) {
        self.program.terminate();
        let status = self.program.ended(WITHIN).await;
        assert!(status.success(), "{status}: {}", self.program.said());
    }
}
