//! `windrow`: the one binary, and the only place that picks a backend.
//!
//! Holds throughout: an error says what happened, where, and what to do; exit codes are documented
//! in `--help` and stay; results and summaries go to standard output, everything else to standard
//! error.

mod attempts;
mod batch_run;
mod batch_selector;
mod batches;
mod clock;
mod completions;
mod config;
mod context;
mod control;
mod database;
mod delete;
mod demo;
mod destination;
mod doctor;
mod error;
mod exit_code;
mod files;
mod hint;
mod holders;
mod ingest;
mod ingest_rows;
mod input_format;
mod keys;
mod list;
mod log;
mod message_runner;
mod messages;
mod migrate;
mod output_files;
mod output_target;
mod outputs;
mod process;
mod progress;
mod ranges;
mod recipe;
mod results;
mod retry;
mod run;
mod serve;
mod signals;
mod table;
mod text;
mod upstream;
mod upstreams;
mod watch;
mod work;
mod workers;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use config::{Config, Flags};
use context::Context;
use exit_code::{EXIT_CODES, Exit};

/// Run millions of requests from a file, and keep exactly one result for each.
#[derive(Debug, Parser)]
#[command(
    name = "windrow",
    version,
    after_help = format!("{EXIT_CODES}\n\nTry it: windrow demo"),
    max_term_width = 100,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send every line of a JSONL file to an HTTP upstream and write the results beside it
    Run(run::Args),
    /// Run a generated file against a built-in upstream that sometimes fails
    Demo(demo::Args),
    /// Start a worker for batches and messages; several may share one database
    Work(work::Args),
    /// Start the HTTP API (OpenAI batches, jobs, messages) with a worker
    Serve(serve::Args),
    /// Create, list and revoke API keys
    Keys(keys::Args),
    /// Load a JSONL file of requests into the database, for workers to run
    Ingest(ingest::Args),
    /// List, show and delete files: inputs of batches, and their outputs
    Files(files::Args),
    /// List batches, newest first, or move one to another upstream
    Batches(batches::Args),
    /// Show one batch with its counts
    Status(batches::StatusArgs),
    /// Show the progress of a batch until it is closed
    Watch(watch::Args),
    /// Pause a batch: requests in flight may finish, no new ones start
    Pause(control::PauseArgs),
    /// Resume a paused batch
    Resume(control::ResumeArgs),
    /// Cancel a batch: requests in flight may finish, the rest never runs
    Cancel(control::Args),
    /// Run finished lines of a batch again, by default the failed ones
    Retry(retry::Args),
    /// Delete a closed batch with its results, for good
    Delete(delete::Args),
    /// Write the results of a batch
    Results(results::Args),
    /// Export finished lines of a batch as JSONL, CSV or XLSX
    Export(results::ExportArgs),
    /// Show every attempt of one line
    Attempts(attempts::Args),
    /// List upstreams and which processes serve them; accept a new URL or key of one
    Upstreams(upstreams::Args),
    /// Call a method of an object and wait for the reply
    Call(messages::call::Args),
    /// List calls, show one call, or show call statistics
    Calls(messages::calls::Args),
    /// List waiting messages, or send one
    Messages(messages::queues::Args),
    /// Read, follow and append events; read and keep snapshots
    Events(messages::events::Args),
    /// List, replay and discard messages that were given up on
    DeadLetters(messages::dead_letters::Args),
    /// List the processes that work on this database
    Instances(messages::members::InstancesArgs),
    /// List the partitions of messages and their owners
    Partitions(messages::members::PartitionsArgs),
    /// Print or apply the minimal privileges for PostgreSQL roles
    Grants(messages::grants::Args),
    /// Migrate the database schema
    Migrate(migrate::Args),
    /// Check the database for inconsistencies
    Doctor(doctor::Args),
    /// Show the effective configuration and where each value comes from
    Config(config::ShowArgs),
    /// Check and show recipes, which make requests of the rows of a table
    Recipe(recipe::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { command, flags } = match parse() {
        Ok(cli) => cli,
        Err(error) => return usage_error(&error),
    };
    let json = flags.json;
    match Box::pin(start(command, &flags)).await {
        Ok(exit_code) => exit_code.into(),
        Err(error) => {
            eprint!("{}", if json { error::to_json(&error) } else { error::to_text(&error) });
            error::exit_code(&error).into()
        }
    }
}

/// Reads the command line, and remembers its flags for the commands that messages print.
fn parse() -> Result<Cli, clap::Error> {
    let mut definition = Cli::command();
    let matches = definition.try_get_matches_from_mut(std::env::args_os())?;
    hint::remember(&definition, &matches);
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut definition))
}

/// Prints what is wrong with the command line, or the help that was asked for.
fn usage_error(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|word| word == "--json");
    if error.use_stderr() && wants_json {
        eprint!("{}", error::usage_to_json(error));
        return Exit::Usage.into();
    }
    // A reader that went away is no error.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Success.into() }
}

async fn start(command: Command, flags: &Flags) -> anyhow::Result<Exit> {
    match command {
        Command::Completions(args) => completions::run(args),
        Command::Recipe(args) => recipe::run(args, flags.json),
        command => start_configured(command, flags).await,
    }
}

/// Starts a command that needs the configuration.
async fn start_configured(command: Command, flags: &Flags) -> anyhow::Result<Exit> {
    let config = Config::load(flags, &std::env::vars().collect())?;
    let context = Context { config, json: flags.json };
    match command {
        Command::Run(args) => Box::pin(run::run(&context, args)).await,
        Command::Demo(args) => Box::pin(demo::run(&context, args)).await,
        Command::Work(args) => Box::pin(work::run(&context, args)).await,
        Command::Serve(args) => Box::pin(serve::run(&context, args)).await,
        Command::Keys(args) => keys::run(&context, args).await,
        Command::Results(args) => results::run(&context, args).await,
        Command::Export(args) => results::export(&context, args).await,
        Command::Ingest(args) => ingest::run(&context, args).await,
        Command::Files(args) => files::run(&context, args).await,
        Command::Delete(args) => delete::run(&context, args).await,
        Command::Batches(args) => batches::run(&context, args).await,
        Command::Upstreams(args) => upstreams::run(&context, args).await,
        Command::Status(args) => batches::status(&context, args).await,
        Command::Watch(args) => watch::run(&context, args).await,
        Command::Pause(args) => control::pause(&context, args).await,
        Command::Resume(args) => control::resume(&context, args).await,
        Command::Cancel(args) => control::cancel(&context, args).await,
        Command::Retry(args) => retry::run(&context, args).await,
        Command::Attempts(args) => attempts::run(&context, args).await,
        Command::Call(args) => messages::call::run(&context, args).await,
        Command::Calls(args) => messages::calls::run(&context, args).await,
        Command::Messages(args) => messages::queues::run(&context, args).await,
        Command::Events(args) => messages::events::run(&context, args).await,
        Command::DeadLetters(args) => messages::dead_letters::run(&context, args).await,
        Command::Instances(args) => messages::members::instances(&context, args).await,
        Command::Partitions(args) => messages::members::partitions(&context, args).await,
        Command::Grants(args) => messages::grants::run(&context, args).await,
        Command::Migrate(args) => migrate::run(&context, args).await,
        Command::Doctor(args) => doctor::run(&context, args).await,
        Command::Config(args) => config::show(&context, args),
        Command::Recipe(args) => recipe::run(args, flags.json),
        Command::Completions(args) => completions::run(args),
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
