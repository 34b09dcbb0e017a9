//! What the engine costs next to the bare database.
//!
//! Holds throughout: every figure is a ratio of two things measured interleaved in the same run, so
//! that a slow or noisy machine slows both. `cargo xtask bench` starts the database and runs this.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock, and runs tasks of its own"
)]

mod bed;
mod figures;
mod load;
mod postgres;
mod report;
mod sqlite;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use windrow_store::Store;
use windrow_store_postgres::PostgresStore;
use windrow_store_sqlite::SqliteStore;

use bed::Bed;
use figures::Size;
use postgres::PostgresBed;
use report::Figure;
use sqlite::SqliteBed;

#[derive(Parser)]
enum Command {
    /// Measures and prints a table.
    Run(Run),
    /// Ingests one file and prints the peak memory of this process, in MiB.
    IngestOne {
        #[arg(long)]
        database: String,
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct Run {
    /// An empty PostgreSQL database; without it only SQLite is measured.
    #[arg(long)]
    database: Option<String>,
    /// `small` shows that everything runs; only `full` is judged.
    #[arg(long, value_enum, default_value_t = Scale::Full)]
    size: Scale,
    /// Only figures whose name and store contain this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Where to write the figures as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Scale {
    Full,
    Small,
}

impl Scale {
    fn size(self) -> Size {
        match self {
            Scale::Full => Size {
                lines: 1_000_000,
                samples: 1000,
                open: 1000,
                rounds: 5,
                drained: 500_000,
                held: (Duration::from_secs(80), Duration::from_secs(15)),
                watched: 1_000_000_000,
            },
            Scale::Small => Size {
                lines: 40_000,
                samples: 20,
                open: 20,
                rounds: 1,
                drained: 20_000,
                held: (Duration::from_secs(2), Duration::from_secs(1)),
                watched: 10_000_000,
            },
        }
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Run(run) => measure(run).await,
        Command::IngestOne { database, file } => ingest_one(&database, &file).await,
    }
}

/// The figures of a run, printed as they come.
struct Table {
    only: String,
    figures: Vec<Figure>,
}

impl Table {
    fn wants(&self, store: &str, name: &str) -> bool {
        format!("{store} {name}").contains(&self.only)
    }

    fn add(&mut self, figure: Figure) {
        report::print(&figure);
        self.figures.push(figure);
    }
}

async fn measure(run: Run) -> Result<ExitCode> {
    let size = run.size.size();
    let mut table = Table { only: run.only, figures: Vec::new() };
    report::print_head();
    let sqlite = SqliteBed::open().await?;
    both(&sqlite, size, &mut table).await?;
    if let Some(url) = &run.database {
        let postgres = PostgresBed::open(url).await?;
        both(&postgres, size, &mut table).await?;
        if table.wants("postgres", "snapshot") {
            table.add(figures::snapshot(&postgres, size).await?);
        }
        if table.wants("postgres", "memory") {
            postgres.empty().await?;
            table.add(figures::memory("postgres", url, size)?);
        }
    }
    if table.wants("sqlite", "memory") {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("memory.db");
        let path = path.to_str().context("the temporary folder has a plain name")?;
        table.add(figures::memory("sqlite", path, size)?);
    }
    if let Some(path) = run.json {
        std::fs::write(path, serde_json::to_vec_pretty(&table.figures)?)?;
    }
    anyhow::ensure!(
        !table.figures.is_empty(),
        "no figure's name and store contain {:?}",
        table.only
    );
    let missed: Vec<_> = table.figures.iter().filter(|figure| !figure.holds()).collect();
    if run.size == Scale::Small {
        println!("small sizes show that everything runs; their figures are not judged");
        return Ok(ExitCode::SUCCESS);
    }
    for figure in &missed {
        eprintln!("missed: {} on {}: {:.2}", figure.name, figure.store, figure.ratio);
    }
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The figures that both stores have.
async fn both(bed: &dyn Bed, size: Size, table: &mut Table) -> Result<()> {
    let name = bed.name();
    if table.wants(name, "drain") {
        table.add(figures::draining(bed, size).await?);
        bed.empty().await?;
    }
    if table.wants(name, "ingest") {
        table.add(figures::ingesting(bed, size).await?);
        bed.empty().await?;
    }
    if !["create", "claim", "status", "crowd"].iter().any(|figure| table.wants(name, figure)) {
        return Ok(());
    }
    let store = bed.store();
    let large = load::file(&*store, size.lines).await?;
    let small = load::file(&*store, 1000).await?;
    if table.wants(name, "create") {
        table.add(figures::create(bed, size, large, small).await?);
    }
    if table.wants(name, "claim") {
        table.add(figures::claim_position(bed, size, large).await?);
    }
    if table.wants(name, "crowd") {
        table.add(figures::claim_crowded(bed, size, large).await?);
    }
    if table.wants(name, "status") {
        table.add(figures::status(bed, size, large, small).await?);
    }
    bed.empty().await
}

async fn ingest_one(database: &str, file: &std::path::Path) -> Result<ExitCode> {
    let store: Box<dyn Store> = if database.contains("://") {
        let options = windrow_store_postgres::Options::new(database);
        Box::new(PostgresStore::connect(options).await?)
    } else {
        Box::new(SqliteStore::open(windrow_store_sqlite::Options::file(database)).await?)
    };
    figures::ingest_file(&*store, file).await?;
    let status = std::fs::read_to_string("/proc/self/status").context("reading the peak memory")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.trim().strip_suffix(" kB")).context("VmHWM")?;
    println!("{:.1}", kib.trim().parse::<f64>()? / 1024.0);
    Ok(ExitCode::SUCCESS)
}
