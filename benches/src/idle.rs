//! What a worker with nothing to do costs: its CPU, and what it asks of PostgreSQL.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio_postgres::Client;

use crate::figures::Size;
use crate::messages::Instance;
use crate::postgres::client;
use crate::report::{Bar, Figure};
use crate::windrow::{Windrow, cpu_secs};

const CPU_MAX: f64 = 0.01;
const STATEMENTS_MAX: f64 = 2.0;
/// How often an instance of messages says that it is alive, as it does unless told otherwise.
const HEARTBEAT_MS: u64 = 5_000;
/// Until it has joined, prepared its statements and swept for the first time.
const SETTLE: Duration = Duration::from_secs(3);
const JOIN_SECS_MAX: u64 = 30;
/// A database of its own, so that what others ask is not counted.
const DATABASE: &str = "windrow_idle";

/// Whether the server counts statements.
pub(crate) async fn is_counted(url: &str) -> Result<bool> {
    let row = client(url).await?.query_one("SHOW shared_preload_libraries", &[]).await?;
    Ok(row.get::<_, &str>(0).contains("pg_stat_statements"))
}

/// CPU and statements of `windrow work` over a quiet while.
pub(crate) async fn idle(windrow: &Windrow, url: &str, size: Size) -> Result<[Figure; 2]> {
    let data = tempfile::tempdir()?;
    let names = ["idle CPU, of a core / 1 %", "idle statements a second / 2"];
    watch(url, size, names, |url| {
        let mut command = windrow.command("work", data.path(), Some(url))?;
        // Nobody listens there, and nothing is sent.
        command.args(["--to", "http://127.0.0.1:9"]);
        Ok(Worker(command.spawn().context("could not start windrow")?))
    })
    .await
}

/// The same of an instance that owns every partition.
pub(crate) async fn idle_messages(url: &str, size: Size) -> Result<[Figure; 2]> {
    let names = ["idle messages CPU, of a core / 1 %", "idle messages statements a second / 2"];
    watch(url, size, names, |url| Instance::spawn(url, HEARTBEAT_MS)).await
}

/// A process that is to be watched.
trait Watched {
    fn child(&mut self) -> &mut Child;
}

impl Watched for Worker {
    fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Watched for Instance {
    fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

async fn watch<W: Watched>(
    url: &str,
    size: Size,
    names: [&'static str; 2],
    start: impl FnOnce(&str) -> Result<W>,
) -> Result<[Figure; 2]> {
    let side = client(url).await?;
    // Elsewhere nothing is counted, so that counting costs the other figures nothing.
    for statement in [
        "CREATE EXTENSION IF NOT EXISTS pg_stat_statements".to_owned(),
        format!("CREATE DATABASE {DATABASE}"),
        format!("ALTER DATABASE {DATABASE} SET pg_stat_statements.track = 'top'"),
    ] {
        side.batch_execute(&statement).await.context("a database whose statements are counted")?;
    }
    let (server, _) = url.rsplit_once('/').context("a URL that ends with a database")?;
    let url = format!("{server}/{DATABASE}");
    windrow_store_postgres::PostgresStore::connect(windrow_store_postgres::Options::new(&url))
        .await?
        .migrate()
        .await?;
    let mut worker = start(&url)?;
    wait_until_joined(worker.child(), &url).await?;
    tokio::time::sleep(SETTLE).await;
    let before = statements(&side).await?;
    let (cpu, started) = (cpu_secs(worker.child().id())?, Instant::now());
    tokio::time::sleep(size.idle).await;
    let secs = started.elapsed().as_secs_f64();
    let cpu = (cpu_secs(worker.child().id())? - cpu) / secs;
    let after = statements(&side).await?;
    drop(worker);
    side.batch_execute(&format!("DROP DATABASE {DATABASE} WITH (FORCE)")).await?;
    Ok(figures(names, secs, cpu, &difference(&before, after)))
}

fn figures(names: [&'static str; 2], secs: f64, cpu: f64, calls: &[(String, i64)]) -> [Figure; 2] {
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    let speed = calls.iter().map(|(_, calls)| *calls as f64).sum::<f64>() / secs;
    let list: Vec<String> = calls.iter().map(|(query, n)| format!("{n} × {query}")).collect();
    let figure = |name, this, ratio, detail| Figure {
        name,
        store: "postgres",
        this,
        that: format!("{secs:.0} s"),
        ratio,
        bar: Bar::AtMost(1.0),
        samples: 1,
        detail,
    };
    let percent = format!("{:.2} %", cpu * 100.0);
    [
        figure(names[0], percent, cpu / CPU_MAX, None),
        figure(names[1], format!("{speed:.2}"), speed / STATEMENTS_MAX, Some(list.join("; "))),
    ]
}

/// The worker's process; gone when dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A worker that is not a member yet still starts up, or failed to.
async fn wait_until_joined(worker: &mut Child, url: &str) -> Result<()> {
    let side = client(url).await?;
    let started = Instant::now();
    while started.elapsed().as_secs() < JOIN_SECS_MAX {
        if let Some(status) = worker.try_wait()? {
            bail!("windrow work ended with {status}");
        }
        let members = side.query_one("SELECT count(*) FROM windrow.members", &[]).await?;
        if members.get::<_, i64>(0) > 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("windrow work did not join")
}

/// Calls of each statement in the worker's database so far. The pool checks a connection by its
/// state and sends nothing, so there are no checks to leave out.
async fn statements(side: &Client) -> Result<BTreeMap<i64, (String, i64)>> {
    let query = "SELECT queryid, query, sum(calls)::bigint FROM pg_stat_statements s \
                 JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = $1 GROUP BY 1, 2";
    let rows = side.query(query, &[&DATABASE]).await?;
    Ok(rows.iter().map(|row| (row.get(0), (short(row.get(1)), row.get(2)))).collect())
}

/// The statement's own name when it has one, else how it begins.
fn short(query: &str) -> String {
    let name = query.split_once("/*").and_then(|(_, rest)| rest.split_once("*/"));
    match name {
        Some((name, _)) => name.trim().to_owned(),
        None => query.split_whitespace().take(4).collect::<Vec<_>>().join(" "),
    }
}

/// What was called between the two, most often first.
fn difference(
    before: &BTreeMap<i64, (String, i64)>,
    after: BTreeMap<i64, (String, i64)>,
) -> Vec<(String, i64)> {
    let mut calls = BTreeMap::new();
    for (id, (query, now)) in after {
        let then = before.get(&id).map_or(0, |(_, calls)| *calls);
        if now > then {
            *calls.entry(query).or_insert(0) += now - then;
        }
    }
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    calls
}
