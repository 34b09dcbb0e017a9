//! What the engine costs next to the bare database, and next to a bare HTTP client.
//!
//! Holds throughout: a figure is a ratio of two things measured interleaved in the same run, so that
//! a slow or noisy machine slows both, or a cost against its bar where there is nothing to compare
//! it with. `cargo xtask bench` starts the database and runs this.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock, and runs tasks of its own"
)]

mod backend;
mod bare;
mod closing;
mod figures;
mod idle;
mod load;
mod messages;
mod plan;
mod postgres;
mod report;
mod server;
mod sqlite;
mod throughput;
mod upstream;
mod windrow;
mod worker_memory;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use windrow_store::Store;
use windrow_store_postgres::PostgresStore;
use windrow_store_sqlite::SqliteStore;

#[derive(Parser)]
enum Command {
    /// Measures and prints a table.
    Run(plan::Run),
    /// Ingests one file and prints the peak memory of this process, in MiB.
    IngestOne {
        #[arg(long)]
        database: String,
        file: PathBuf,
    },
    /// Runs messages on PostgreSQL until standard input ends.
    Instance {
        #[arg(long)]
        database: String,
        #[arg(long)]
        heartbeat_ms: u64,
    },
    /// Answers every request at once, until standard input ends; prints its URL.
    Upstream,
    /// Sends the bodies of a file with the engine's HTTP client and no store; prints requests a
    /// second.
    Bare {
        #[arg(long)]
        to: String,
        #[arg(long)]
        concurrency: usize,
        file: PathBuf,
    },
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Run(run) => return plan::measure(run).await,
        Command::IngestOne { database, file } => ingest_one(&database, &file).await?,
        Command::Instance { database, heartbeat_ms } => {
            messages::serve(&database, heartbeat_ms).await?;
        }
        Command::Upstream => upstream::serve().await?,
        Command::Bare { to, concurrency, file } => bare::send(&to, concurrency, &file).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn ingest_one(database: &str, file: &std::path::Path) -> Result<()> {
    let store: Box<dyn Store> = if database.contains("://") {
        let options = windrow_store_postgres::Options::new(database);
        Box::new(PostgresStore::connect(options).await?)
    } else {
        Box::new(SqliteStore::open(windrow_store_sqlite::Options::file(database)).await?)
    };
    figures::ingest_file(&*store, file).await?;
    let status = std::fs::read_to_string("/proc/self/status").context("reading the peak memory")?;
    println!("{:.1}", windrow::mib(&status, "VmHWM:")?);
    Ok(())
}
