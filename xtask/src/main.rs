//! Windrow's own commands, as `cargo xtask …`.
//!
//! Holds throughout: each command says what it runs before it runs it, so that a person can run the
//! same thing by hand. One module per command.

#![expect(
    clippy::disallowed_methods,
    reason = "commands measure how long their steps take; no code under test lives here"
)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

mod bench;
mod brokers;
mod check;
mod clients;
mod generate;
mod install;
mod shell;
mod test;
mod tidy;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Windrow's own commands")]
enum Command {
    /// Runs the tests on SQLite and on a throw-away PostgreSQL
    Test(test::Args),
    /// Measures Windrow against the bare databases and judges the figures
    Bench(bench::Args),
    /// Format, lints, docs, licences, generated files and the house rules
    Check,
    /// The house rules that no other tool knows
    Tidy,
    /// Writes the files that are generated from the code
    Gen(generate::Args),
}

fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Test(args) => test::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Check => check::run(),
        Command::Tidy => tidy::run(),
        Command::Gen(args) => generate::run(&args),
    }
}
