//! Programs that use the official clients, run against a server.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use windrow_testkit::required;

use crate::server::{ADMIN_KEY, Server, WITHIN};

/// Python with the pinned client, made by `cargo xtask test`.
const PYTHON: &str = "WINDROW_E2E_PYTHON";
/// The folder with the pinned client of Node.
const NODE: &str = "WINDROW_E2E_NODE";

/// Whose client it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The `openai` package of PyPI.
    Python,
    /// The `openai` package of npm.
    Node,
}

impl Client {
    /// Whether it is there; a test is skipped where it is not and may be missing.
    pub fn is_there(self) -> bool {
        let variable = self.variable();
        required(&format!("${variable}"), std::env::var_os(variable)).is_some()
    }

    fn variable(self) -> &'static str {
        match self {
            Client::Python => PYTHON,
            Client::Node => NODE,
        }
    }

    /// Runs a program of this package to its end, which must be a good one.
    ///
    /// # Panics
    /// When it fails, with what it said.
    pub async fn run(self, server: &Server, program: &str, more: &[(&str, &str)]) {
        let (one, other) = (server.key("ann").await, server.key("bob").await);
        let mut command = self.command(program);
        command
            .env("WINDROW_URL", server.url())
            .env("WINDROW_KEY", one)
            .env("WINDROW_OTHER_KEY", other)
            .env("WINDROW_ADMIN_KEY", ADMIN_KEY)
            .env("WINDROW_UPSTREAM", server.upstream().url())
            .envs(more.iter().copied())
            .current_dir(server.fixture().folder())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(WITHIN, command.output()).await;
        let output = output.unwrap_or_else(|_| panic!("{program} does not end")).expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{program} failed:\n{out}\n{err}");
    }

    fn command(self, program: &str) -> Command {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let given = std::env::var_os(self.variable()).map(PathBuf::from);
        let given = given.expect("a client that is not there is not run");
        let mut command = match self {
            Client::Python => Command::new(given),
            Client::Node => Command::new("node"),
        };
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        match self {
            // No compiled files beside the sources.
            Client::Python => command.arg("-B").arg(here.join("python").join(program)),
            Client::Node => command
                .env(NODE, std::env::var_os(NODE).unwrap_or_default())
                .arg(here.join("node").join(program)),
        };
        command
    }
}
