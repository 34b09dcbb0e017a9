//! `cargo xtask check`: everything that can be judged without running the code.
//!
//! Holds throughout: every step runs, whatever the ones before it said, so that one run shows all
//! there is to mend.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::{generate, shell, tidy};

/// Pinned, so that a new release cannot fail a build that did not change.
const DENY_VERSION: &str = "0.20.2";

type Step = (&'static str, fn() -> Result<bool>);

const STEPS: &[Step] = &[
    ("tidy", tidy::check),
    ("generated files", generate::check),
    ("format", format),
    ("lints", lints),
    ("docs", docs),
    ("licences, sources, bans", deny),
];

pub(crate) fn run() -> Result<ExitCode> {
    let mut lines = Vec::new();
    let mut failed = 0;
    for (name, step) in STEPS {
        let start = Instant::now();
        let passed = step().unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            false
        });
        failed += usize::from(!passed);
        let word = if passed { "ok" } else { "FAILED" };
        lines.push(format!("{word:>6}  {name} ({:.0} s)", start.elapsed().as_secs_f64()));
    }
    println!("\n{}", lines.join("\n"));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Names the files only: the remedy is `cargo fmt`, not reading.
fn format() -> Result<bool> {
    let words = ["fmt", "--all", "--check", "--", "--files-with-diff"];
    shell::succeeds(&mut shell::cargo(words))
}

fn lints() -> Result<bool> {
    let words = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    shell::succeeds(&mut shell::cargo(words))
}

fn docs() -> Result<bool> {
    let mut command = shell::cargo(["doc", "--workspace", "--no-deps"]);
    shell::succeeds(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Advisories are left out: their database comes over the network, and a new one is no fault of the
/// change at hand.
fn deny() -> Result<bool> {
    let mut command = Command::new(deny_program()?);
    command.current_dir(shell::root());
    command.args(["--workspace", "check", "--hide-inclusion-graph"]);
    shell::succeeds(command.args(["bans", "licenses", "sources"]))
}

/// The one on the path, or our own; installed the first time, which takes a minute or two.
fn deny_program() -> Result<PathBuf> {
    if shell::has("cargo-deny") {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let tools = shell::target().join("tools");
    let program = tools.join("bin").join("cargo-deny");
    if program.is_file() {
        return Ok(program);
    }
    let build = tools.join("build");
    let words =
        ["install", "--locked", "--quiet", "--debug", "cargo-deny", "--version", DENY_VERSION];
    let mut command = shell::cargo(words);
    command.arg("--root").arg(&tools).arg("--target-dir").arg(&build);
    // Nobody debugs it, and without it takes less time to build.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    let installed = shell::succeeds(&mut command)? && program.is_file();
    // Half a gigabyte that nobody needs again; if it stays, it only takes space.
    let _ = fs::remove_dir_all(build);
    installed.then_some(program).context("cargo-deny could not be installed")
}
