//! Which figures are measured, in which order, and what becomes of them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::backend::Backend;
use crate::figures::{self, Size};
use crate::load;
use crate::postgres::PostgresBackend;
use crate::report::{self, Figure};
use crate::sqlite::SqliteBackend;
use crate::windrow::Windrow;
use crate::{closing, idle, messages, server, throughput, worker_memory};

#[derive(clap::Args)]
pub(crate) struct Run {
    /// An empty PostgreSQL database; without it only SQLite is measured.
    #[arg(long)]
    database: Option<String>,
    /// The `windrow` program; without it the figures of whole commands are left out.
    #[arg(long)]
    windrow: Option<PathBuf>,
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
                run: (100_000, 5),
                idle: Duration::from_secs(30),
                closed: 100,
                worked: 1_000_000,
                crowded: Duration::from_secs(60),
                relayed: 200_000,
            },
            Scale::Small => Size {
                lines: 40_000,
                samples: 20,
                open: 20,
                rounds: 1,
                drained: 20_000,
                held: (Duration::from_secs(2), Duration::from_secs(1)),
                watched: 10_000_000,
                run: (5_000, 1),
                idle: Duration::from_secs(5),
                closed: 5,
                worked: 20_000,
                crowded: Duration::from_secs(3),
                relayed: 4_000,
            },
        }
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

pub(crate) async fn measure(run: Run) -> Result<ExitCode> {
    let size = run.size.size();
    let mut table = Table { only: run.only, figures: Vec::new() };
    report::print_head();
    let windrow = run.windrow.map(Windrow::new);
    let sqlite = SqliteBackend::open().await?;
    both(&sqlite, size, &mut table).await?;
    if let Some(url) = &run.database {
        let postgres = PostgresBackend::open(url).await?;
        both(&postgres, size, &mut table).await?;
        if table.wants("postgres", "relay") {
            table.add(messages::relay(&postgres, size).await?);
        }
        if table.wants("postgres", "takeover") {
            table.add(messages::takeover(&postgres).await?);
        }
        if table.wants("postgres", "idle messages") && idle::is_counted(url).await? {
            idle::idle_messages(url, size).await?.into_iter().for_each(|figure| table.add(figure));
        }
        if table.wants("postgres", "snapshot") {
            table.add(figures::snapshot(&postgres, size).await?);
        }
        if table.wants("postgres", "memory") {
            postgres.empty().await?;
            table.add(figures::memory("postgres", url, size)?);
        }
        if let Some(windrow) = &windrow {
            postgres.empty().await?;
            commands(windrow, Some((&postgres, url)), size, &mut table).await?;
        }
    }
    if let Some(windrow) = &windrow {
        commands(windrow, None, size, &mut table).await?;
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
    judge(&table, run.size)
}

fn judge(table: &Table, scale: Scale) -> Result<ExitCode> {
    anyhow::ensure!(
        !table.figures.is_empty(),
        "no figure's name and store contain {:?}",
        table.only
    );
    let missed: Vec<_> = table.figures.iter().filter(|figure| !figure.holds()).collect();
    if scale == Scale::Small {
        println!("small sizes show that everything runs; their figures are not judged");
        return Ok(ExitCode::SUCCESS);
    }
    for figure in &missed {
        eprintln!("missed: {} on {}: {:.2}", figure.name, figure.store, figure.ratio);
    }
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The figures that both stores have.
async fn both(backend: &dyn Backend, size: Size, table: &mut Table) -> Result<()> {
    let name = backend.name();
    if table.wants(name, "drain") {
        table.add(figures::draining(backend, size).await?);
        backend.empty().await?;
    }
    if table.wants(name, "ingest") {
        table.add(figures::ingesting(backend, size).await?);
        backend.empty().await?;
    }
    if table.wants(name, "latency") {
        table.add(messages::latency(backend.store(), name, size).await?);
    }
    if table.wants(name, "closing") {
        table.add(closing::closing(backend, size).await?);
        backend.empty().await?;
    }
    if !["create", "claim", "status", "crowd"].iter().any(|figure| table.wants(name, figure)) {
        return Ok(());
    }
    let store = backend.store();
    let large = load::file(&*store, size.lines).await?;
    let small = load::file(&*store, 1000).await?;
    if table.wants(name, "create") {
        table.add(figures::create(backend, size, large, small).await?);
    }
    if table.wants(name, "claim") {
        table.add(figures::claim_position(backend, size, large).await?);
    }
    if table.wants(name, "crowd") {
        table.add(figures::claim_crowded(backend, size, large).await?);
    }
    if table.wants(name, "status") {
        table.add(figures::status(backend, size, large, small).await?);
    }
    backend.empty().await
}

/// The figures of whole commands; on PostgreSQL when there is one, else on a SQLite file each.
async fn commands(
    windrow: &Windrow,
    postgres: Option<(&PostgresBackend, &String)>,
    size: Size,
    table: &mut Table,
) -> Result<()> {
    let store = if postgres.is_some() { "postgres" } else { "sqlite" };
    if table.wants(store, "run") {
        table.add(throughput::run(windrow, postgres, size).await?);
    }
    if table.wants(store, "worker") {
        for figure in worker_memory::worker_memory(windrow, postgres, size).await? {
            table.add(figure);
        }
    }
    if postgres.is_none() {
        served(windrow, size, table).await?;
    }
    if let (Some((_, url)), true) = (postgres, table.wants(store, "idle")) {
        if !idle::is_counted(url).await? {
            println!("idle: left out, since this server has no pg_stat_statements");
            return Ok(());
        }
        for figure in idle::idle(windrow, url, size).await? {
            table.add(figure);
        }
    }
    Ok(())
}

/// The figures of the server.
async fn served(windrow: &Windrow, size: Size, table: &mut Table) -> Result<()> {
    if table.wants("sqlite", "upload") {
        server::upload(windrow, size).await?.into_iter().for_each(|figure| table.add(figure));
    }
    if table.wants("sqlite", "poll") {
        table.add(server::poll(windrow, size).await?);
    }
    if table.wants("sqlite", "export") {
        server::export(windrow, size).await?.into_iter().for_each(|figure| table.add(figure));
    }
    if table.wants("sqlite", "visit") {
        table.add(server::visits(windrow, size).await?);
    }
    Ok(())
}
