//! `windrow`: the one binary, and the only place that picks a backend.
//!
//! Holds throughout: an error says what happened, where, and what to do; exit codes are documented
//! in `--help` and stay; results and summaries go to standard output, everything else to standard
//! error.

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
mod doctor;
mod error;
mod exit_code;
mod files;
mod ingest;
mod keys;
mod list;
mod log;
mod message_runner;
mod messages;
mod migrate;
mod output_target;
mod outputs;
mod process;
mod progress;
mod results;
mod retry;
mod run;
mod serve;
mod signals;
mod table;
mod text;
mod upstream;
mod watch;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use config::{Config, Flags};
use context::Context;
use exit_code::{EXIT_CODES, Exit};

/// Runs millions of requests from a file; every line ends in exactly one place.
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
    /// Runs every line of a JSONL file against an upstream and writes the results beside it
    Run(run::Args),
    /// Shows the whole engine at work on a built-in upstream in a bad mood
    Demo(demo::Args),
    /// Works on every batch until it is stopped; several may share one database
    Work(work::Args),
    /// Serves OpenAI's files and batches and the jobs API, and works on every batch
    Serve(serve::Args),
    /// Makes, lists and revokes the keys of the API
    Keys(keys::Args),
    /// Takes a JSONL file of requests in, for workers to run
    Ingest(ingest::Args),
    /// List, show and delete files: inputs of batches, and their outputs
    Files(files::Args),
    /// Lists batches, newest first
    Batches(batches::ListArgs),
    /// Shows one batch: its counts and its lanes
    Status(batches::StatusArgs),
    /// Follows a batch until it is closed
    Watch(watch::Args),
    /// Claims nothing more from a batch until it is resumed
    Pause(control::PauseArgs),
    /// Lets a paused batch go on
    Resume(control::Args),
    /// Stops a batch: what is in flight may finish, the rest never runs
    Cancel(control::Args),
    /// Puts finished lines of a batch back to run again
    Retry(retry::Args),
    /// Delete a closed batch with its results
    Delete(delete::Args),
    /// Writes the results of a batch
    Results(results::Args),
    /// Writes finished lines of a batch as a table
    Export(results::ExportArgs),
    /// Shows the tries of one line that failed and were repeated
    Attempts(batches::AttemptsArgs),
    /// Asks an object and waits for its answer
    Call(messages::call::Args),
    /// Lists calls, shows one, or says how they do
    Calls(messages::calls::Args),
    /// Lists messages that wait, or sends one
    Messages(messages::queues::Args),
    /// Reads, follows and appends events
    Events(messages::events::Args),
    /// Lists messages that were given up on, sends them again, or forgets them
    DeadLetters(messages::dead_letters::Args),
    /// Lists the processes that take part
    Instances(messages::members::InstancesArgs),
    /// Lists the partitions of messages and who runs them
    Partitions(messages::members::PartitionsArgs),
    /// Prints or applies the least rights that roles of PostgreSQL need
    Grants(messages::grants::Args),
    /// Brings a database's schema up to date
    Migrate(migrate::Args),
    /// Audits every batch of a database: is every line in exactly one place?
    Doctor(doctor::Args),
    /// Shows the configuration in force, and where each value came from
    Config(config::ShowArgs),
    /// Prints a completion script for a shell
    Completions(completions::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Cli { command, flags } = Cli::parse();
    let json = flags.json;
    match Box::pin(start(command, &flags)).await {
        Ok(exit_code) => exit_code.into(),
        Err(error) => {
            eprint!("{}", if json { error::to_json(&error) } else { error::to_text(&error) });
            error::exit_code(&error).into()
        }
    }
}

async fn start(command: Command, flags: &Flags) -> anyhow::Result<Exit> {
    if let Command::Completions(args) = command {
        return completions::run(args);
    }
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
        Command::Batches(args) => batches::list(&context, args).await,
        Command::Status(args) => batches::status(&context, args).await,
        Command::Watch(args) => watch::run(&context, args).await,
        Command::Pause(args) => control::pause(&context, args).await,
        Command::Resume(args) => control::resume(&context, args).await,
        Command::Cancel(args) => control::cancel(&context, args).await,
        Command::Retry(args) => retry::run(&context, args).await,
        Command::Attempts(args) => batches::attempts(&context, args).await,
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
