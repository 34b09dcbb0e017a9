//! `windrow`: the one binary, and the only place that picks a backend.
//!
//! Holds throughout: an error says what happened, where, and what to do; exit codes are documented
//! in `--help` and stay.

mod clock;
mod database;
mod demo;
mod doctor;
mod failure;
mod ingest;
mod text;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use database::Database;

/// Runs millions of requests from a file; every line ends in exactly one place.
#[derive(Debug, Parser)]
#[command(name = "windrow", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
Exit codes:
  0  it happened
  1  it did not: the message says why and what to do
  2  the command line is wrong
  3  the file does not validate (it is kept with its errors, and can be read)
  4  the doctor found a batch whose rows contradict each other

Try it: windrow demo";

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a file, runs it through the whole engine with a built-in echo, and checks the result
    Demo(demo::Args),
    /// Takes a JSONL file of requests in
    Ingest(ingest::Args),
    /// Audits every batch of a database: is every line in exactly one place?
    Doctor(doctor::Args),
}

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Good,
    Invalid,
    Contradiction,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Good => ExitCode::SUCCESS,
            Ending::Invalid => ExitCode::from(3),
            Ending::Contradiction => ExitCode::from(4),
        }
    }
}

/// Where the lines are kept.
#[derive(Clone, Debug, clap::Args)]
struct Where {
    /// An SQLite file, `:memory:`, or postgres://user@host/database
    #[arg(long, env = "WINDROW_DATABASE_URL", value_name = "PATH|URL", hide_env_values = true)]
    database: Option<Database>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let command = Cli::parse().command.unwrap_or_else(|| Command::Demo(demo::Args::default()));
    let done = match command {
        Command::Demo(args) => Box::pin(demo::run(args)).await,
        Command::Ingest(args) => Box::pin(ingest::run(args)).await,
        Command::Doctor(args) => Box::pin(doctor::run(args)).await,
    };
    match done {
        Ok(ending) => ending.into(),
        Err(error) => {
            eprint!("{}", failure::explain(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
