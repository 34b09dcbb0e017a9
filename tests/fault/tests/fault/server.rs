//! PostgreSQL goes away in the middle of the work, in every way there is.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::{JoinSet, block_in_place};
use tokio_postgres::{Client, NoTls};
use windrow::domain::BatchId;
use windrow_fault::check::Ended;
use windrow_fault::program::worker;
use windrow_fault::{Fixture, Program, rounds, wait};
use windrow_testkit::postgres::{Cluster, Options, Shutdown};
use windrow_testkit::proxy::{Mode, Proxy, Toward};
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::{WITHIN, saw};

/// Long enough for calls to fail, and for a lease to run out.
const AWAY: Duration = Duration::from_secs(2);

/// Work under way on a server of its own.
struct Work {
    fixture: Fixture,
    upstream: Upstream,
    batch: BatchId,
    lines: u64,
    workers: Vec<Program>,
}

impl Work {
    async fn begin(mut fixture: Fixture, through: Option<String>) -> Self {
        let lines = rounds(3_000, 30_000);
        let batch = fixture.batch(lines).await;
        through.into_iter().for_each(|url| fixture.reach_by(url));
        let answer = Reply::Echo.after(Duration::from_millis(10));
        let upstream = Upstream::start(Script::always(answer)).await.unwrap();
        let start = |name| Program::start(&fixture, name, worker(&fixture, &upstream.url()));
        let workers = vec![start("one"), start("two")];
        Self { fixture, upstream, batch, lines, workers }
    }

    /// Waits until that part of the lines was sent.
    async fn reaches(&self, percent: u64) {
        saw(&self.upstream, self.lines * percent / 100).await;
    }

    /// Each fault may cost every worker its leases once.
    async fn end(mut self, faults: u64) {
        self.fixture.closed(self.batch, WITHIN).await;
        let crashes = faults * self.workers.len() as u64;
        let ended = Ended::check(&self.fixture, self.batch, self.lines, crashes).await;
        ended.check_upstream(&self.upstream, crashes);
        let repeats = self.upstream.counts().requests - self.lines;
        println!("{faults} faults, {} lines, {repeats} requests were repeated", self.lines);
        for worker in &mut self.workers {
            assert!(worker.runs(), "a worker ended: {}", worker.said());
        }
    }
}

/// Commits survive a crash of the server, as in production.
fn cluster(connections_max: u32) -> Cluster {
    let options = Options { durable: true, connections_max, ..Options::default() };
    Cluster::start(&options).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_or_is_killed_loses_no_line() {
    let mut cluster = block_in_place(|| cluster(100));
    let work = Work::begin(Fixture::at(cluster.url()).await, None).await;
    for (percent, how) in [(20, Shutdown::Fast), (50, Shutdown::Immediate)] {
        work.reaches(percent).await;
        block_in_place(|| cluster.stop(how));
        wait::pause(AWAY).await;
        block_in_place(|| cluster.start_again()).unwrap();
    }
    work.end(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_and_stalled_lose_no_line() {
    let cluster = block_in_place(|| cluster(100));
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], cluster.port()))).await.unwrap();
    let through = proxy.url(&cluster.url());
    let work = Work::begin(Fixture::at(cluster.url()).await, Some(through)).await;
    let reply_lost = Mode::Cut { toward: Toward::Client, after: 0 };
    let torn = Mode::Cut { toward: Toward::Server, after: 5_000 };
    let faults = [
        (10, Mode::Reset),
        (20, reply_lost),
        (30, Mode::Stall),
        (45, torn),
        (60, Mode::BlackHole),
        (75, Mode::Delay(Duration::from_millis(50))),
    ];
    for (percent, mode) in faults {
        work.reaches(percent).await;
        proxy.set(mode);
        wait::pause(AWAY).await;
        proxy.set(Mode::Pass);
    }
    work.end(faults.len() as u64).await;
}

/// Takes every connection the server gives, those of the workers too.
async fn take_all(url: &str, tasks: &mut JoinSet<()>) -> Vec<Client> {
    let mut taken = Vec::new();
    loop {
        // Refused when there are none left; those that are ended make room for us.
        match tokio_postgres::connect(url, NoTls).await {
            Ok((client, connection)) => {
                tasks.spawn(async move { drop(connection.await) });
                taken.push(client);
            }
            Err(_) => {
                let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                              WHERE backend_type = 'client backend'
                                AND application_name <> 'taker' AND pid <> pg_backend_pid()";
                let ended = taken[0].query_one(others, &[]).await.unwrap();
                if ended.get::<_, i64>(0) == 0 {
                    return taken;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_free_connection_loses_no_line() {
    let cluster = block_in_place(|| cluster(20));
    let work = Work::begin(Fixture::at(cluster.url()).await, None).await;
    work.reaches(20).await;
    let mut tasks = JoinSet::new();
    let taken = take_all(&format!("{}?application_name=taker", cluster.url()), &mut tasks).await;
    assert!(taken.len() > 10, "took {}", taken.len());
    wait::pause(AWAY).await;
    drop(taken);
    work.end(1).await;
}
