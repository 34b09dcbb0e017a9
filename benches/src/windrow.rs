//! The `windrow` program under measurement, started as a user starts it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// Requests at the same time, of every client that is compared.
pub(crate) const CONCURRENCY: usize = 64;

/// Where it says what went wrong, in its data folder.
const SAID: &str = "said.txt";

/// The program.
pub(crate) struct Windrow {
    program: PathBuf,
}

impl Windrow {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// A command with nothing of this machine's configuration in it, and a data folder of its own.
    pub(crate) fn command(
        &self,
        name: &str,
        data: &Path,
        database: Option<&str>,
    ) -> Result<Command> {
        let mut command = Command::new(&self.program);
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("WINDROW_") {
                command.env_remove(key);
            }
        }
        command.current_dir(data).arg(name).arg("--data").arg(data);
        if let Some(url) = database {
            command.args(["--database", url]);
        }
        // A file never fills up as a pipe does that nobody reads.
        let said = fs::File::create(data.join(SAID))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        Ok(command)
    }

    /// `windrow run` of a file, not started yet; its results lie in the data folder.
    pub(crate) fn run(&self, job: &Job<'_>, database: Option<&str>) -> Result<Command> {
        let mut command = self.command("run", job.data.path(), database)?;
        command.arg(job.file).args(["--to", job.to, "--quiet"]);
        command.args(["--concurrency", &CONCURRENCY.to_string()]);
        command.arg("--out").arg(job.results());
        Ok(command)
    }
}

/// One `windrow run` from a file to its results.
pub(crate) struct Job<'a> {
    pub(crate) file: &'a Path,
    pub(crate) to: &'a str,
    pub(crate) data: TempDir,
}

impl Job<'_> {
    fn results(&self) -> PathBuf {
        self.data.path().join("results.jsonl")
    }

    /// After its end: every line must have its result.
    pub(crate) fn check(&self, status: ExitStatus, lines: u64) -> Result<()> {
        let said = fs::read_to_string(self.data.path().join(SAID)).unwrap_or_default();
        ensure!(status.success(), "windrow run ended with {status}: {said}");
        let results = fs::read(self.results()).context("the results are there")?;
        let found = results.iter().filter(|byte| **byte == b'\n').count() as u64;
        ensure!(found == lines, "{found} results of {lines} lines");
        Ok(())
    }
}

/// A figure of `/proc/<pid>/status`, in MiB.
pub(crate) fn mib(status: &str, name: &str) -> Result<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = value.and_then(|text| text.trim().strip_suffix(" kB"));
    let kib = kib.with_context(|| format!("no {name} in the status"))?;
    Ok(kib.trim().parse::<f64>()? / 1024.0)
}

/// CPU time that a process has used so far, in seconds.
pub(crate) fn cpu_secs(pid: u32) -> Result<f64> {
    // The kernel counts for programs in hundredths of a second, whatever its own ticks are.
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name is in parentheses, and may hold anything.
    let (_, rest) = stat.rsplit_once(") ").context("a name in parentheses")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("times in the process's state")?;
    Ok((user + system) / TICKS_A_SECOND)
}
