//! A desk to work at: a folder of its own, a clean environment, and the binary.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::{Child, Command};

/// A folder with a home and the files of one test.
pub(crate) struct Workdir(tempfile::TempDir);

/// What the binary said.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap_or(-1);
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// The command that follows these words, to the end of its line.
    pub(crate) fn command_after(&self, words: &str) -> String {
        let text = format!("{}\n{}", self.out, self.err);
        let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no {words:?}: {self:?}"));
        let at = rest.find("windrow ").unwrap_or_else(|| panic!("no command: {self:?}"));
        rest[at..].lines().next().unwrap().to_owned()
    }

    /// The one JSON document on standard output.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.out.trim()).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

impl Workdir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// A file of that many good requests.
    pub(crate) fn requests(&self, name: &str, lines: u64) {
        self.write(name, &(1..=lines).map(request).collect::<String>());
    }

    /// Everything in the folder but the home, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != "home").collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn command(&self, args: &[&str], environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(args).current_dir(self.0.path()).env_clear();
        command.env("HOME", self.path("home")).envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    pub(crate) async fn windrow(&self, args: &[&str]) -> CommandOutput {
        self.windrow_with(args, &[]).await
    }

    pub(crate) async fn windrow_with(
        &self,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> CommandOutput {
        CommandOutput::of(self.command(args, environment).output().await.unwrap())
    }

    /// Runs a line as a person types it into a shell, with the binary on the path.
    pub(crate) async fn shell(&self, line: &str, environment: &[(&str, &str)]) -> CommandOutput {
        let binary = Path::new(env!("CARGO_BIN_EXE_windrow"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", binary.parent().unwrap().display());
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(self.0.path()).env_clear().env("PATH", path);
        command.env("HOME", self.path("home")).envs(environment.iter().copied());
        command.stdin(Stdio::null()).kill_on_drop(true);
        CommandOutput::of(command.output().await.unwrap())
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args, &[]).spawn().unwrap()
    }
}

/// Sends a signal, as a person or a service manager would.
pub(crate) async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().await.unwrap();
    assert!(sent.success());
}

/// Waits for its end.
pub(crate) async fn ended(child: Child) -> CommandOutput {
    CommandOutput::of(child.wait_with_output().await.unwrap())
}

/// A good request.
pub(crate) fn request(number: u64) -> String {
    format!(
        "{{\"custom_id\":\"r-{number}\",\"method\":\"POST\",\"url\":\"/v1/x\",\"body\":{{\"model\":\
         \"m\",\"n\":{number}}}}}\n"
    )
}

/// The ids of the lines of an output, in their order.
pub(crate) fn ids(text: &str) -> Vec<String> {
    let id = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["custom_id"].as_str().unwrap().to_owned()
    };
    text.lines().map(id).collect()
}

/// `r-1`, `r-2`, …
pub(crate) fn ids_of(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("r-{number}")).collect()
}

/// Whether a file or folder is there.
pub(crate) fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}
