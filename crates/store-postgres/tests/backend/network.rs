//! A network that cuts, resets, stalls and swallows: a typed error in bounded time, and the same
//! turn again has its effect exactly once.

use std::net::ToSocketAddrs;
use std::time::Duration;

use tokio::time::timeout;
use windrow_domain::{BatchId, InstanceId};
use windrow_store::claim::Tranche;
use windrow_store::ingest::FileVerdict;
use windrow_store::record::Turn;
use windrow_store::{Claim, Ingest, Inspect, Kind, Record, Retry, Scope};
use windrow_store_postgres::{Options, PostgresStore};
use windrow_testkit::pgbouncer::Upstream;
use windrow_testkit::postgres::Database;
use windrow_testkit::proxy::{Mode, Proxy, Toward};

use crate::support::{
    assert_finished, batch, chunk, file, fresh, new_file, persist, request, store, turn, whole,
};

const TRANCHE_LINES: u32 = 20;
const LINES: u64 = 2_000;
const CHUNK_LINES: u64 = 1_000;
/// Longer than every timeout of the store under test together, shorter than a hang.
const ANSWER_SECS_MAX: u64 = 15;

/// A worker in the middle of a batch, behind a network of the test's own.
struct Far {
    proxy: Proxy,
    /// Reaches the server itself.
    near: PostgresStore,
    far: PostgresStore,
    batch: BatchId,
    instance: InstanceId,
    tranche: Tranche,
    finished: u64,
    _database: Database,
}

impl Far {
    async fn start() -> Self {
        let database = fresh().await;
        let url = database.url();
        let server = Upstream::parse(&url).expect("the test server is reached by TCP");
        let address = (server.host, server.port).to_socket_addrs().unwrap().next().unwrap();
        let proxy = Proxy::start(address).await.unwrap();
        let options = Options::new(proxy.url(&url))
            .acquire_timeout(Duration::from_millis(500))
            .lock_timeout(Duration::from_millis(500))
            .statement_timeout(Duration::from_secs(1))
            .idle_timeout(Duration::from_secs(1));
        let far = PostgresStore::connect(options).await.unwrap();
        let near = store(&url).await;
        let batch = batch(&near, file(&near, LINES).await).await;
        let instance = InstanceId::new();
        let first = far.lease_tranche(instance, request(TRANCHE_LINES)).await.unwrap().unwrap();
        let mut worker = Self {
            proxy,
            near,
            far,
            batch,
            instance,
            tranche: first,
            finished: 0,
            _database: database,
        };
        // Statements are prepared from here on: a turn is one write and one answer.
        let next = worker.next();
        worker.complete(&next).await;
        worker
    }

    fn next(&self) -> Turn {
        turn(self.instance, Some(&self.tranche), TRANCHE_LINES)
    }

    /// Repeats the turn until it is answered; what it did, it did once.
    async fn complete(&mut self, turn: &Turn) {
        let reply = persist(|| self.far.turn(turn.clone())).await;
        self.finished += self.tranche.lines.len() as u64;
        self.tranche = reply.claimed.expect("the batch has many lines");
        assert_eq!(self.tranche.lines.len(), usize::try_from(TRANCHE_LINES).unwrap());
        let counts = self.near.batch(&Scope::All, self.batch).await.unwrap().counts;
        assert_eq!((counts.finished(), counts.leased), (self.finished, u64::from(TRANCHE_LINES)));
    }

    /// A turn while the network is so: answered, or refused as unavailable, in bounded time.
    async fn turn_while(&mut self, mode: Mode) -> bool {
        let turn = self.next();
        self.proxy.set(mode);
        let tried = timeout(Duration::from_secs(ANSWER_SECS_MAX), self.far.turn(turn.clone()));
        let tried = tried.await;
        self.proxy.set(Mode::Pass);
        let tried = tried.unwrap_or_else(|_| panic!("{mode:?}: no answer in {ANSWER_SECS_MAX} s"));
        if let Err(error) = &tried {
            assert_eq!(error.kind, Kind::Unavailable, "{mode:?}: {}", whole(error));
            assert_eq!(error.kind.retry(), Retry::Later, "{mode:?}");
        }
        self.complete(&turn).await;
        tried.is_ok()
    }

    async fn end(self) {
        assert_finished(&self.near, self.batch, self.finished).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_asked_for_again_and_the_turn_counts_once() {
    let mut far = Far::start().await;
    for after in [0, 1, 5, 30, 60, 150, 400, 1_000] {
        let cut = Mode::Cut { toward: Toward::Client, after };
        assert!(!far.turn_while(cut).await, "{after} bytes are no whole answer");
    }
    far.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_cut_off_on_its_way_happens_once() {
    let mut far = Far::start().await;
    for after in [0, 1, 5, 100, 300, 600, 900] {
        let cut = Mode::Cut { toward: Toward::Server, after };
        assert!(!far.turn_while(cut).await, "{after} bytes are no whole turn");
    }
    far.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reset_is_unavailable() {
    let mut far = Far::start().await;
    assert!(!far.turn_while(Mode::Reset).await);
    assert!(!far.turn_while(Mode::Reset).await);
    far.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_stalls_is_unavailable_in_bounded_time() {
    let mut far = Far::start().await;
    assert!(!far.turn_while(Mode::Stall).await);
    assert!(far.turn_while(Mode::Pass).await);
    far.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_swallows_is_unavailable_in_bounded_time() {
    let mut far = Far::start().await;
    assert!(!far.turn_while(Mode::BlackHole).await);
    assert!(far.turn_while(Mode::Pass).await);
    far.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_on_a_bad_network_is_written_once() {
    let far = Far::start().await;
    let modes = [
        Mode::Cut { toward: Toward::Client, after: 0 },
        Mode::Cut { toward: Toward::Client, after: 60 },
        Mode::Cut { toward: Toward::Server, after: 100 },
        Mode::Cut { toward: Toward::Server, after: 20_000 },
        Mode::Reset,
        Mode::Stall,
        Mode::BlackHole,
    ];
    let new = new_file();
    let id = new.id;
    far.far.open_file(new).await.unwrap();
    for (no, mode) in (0..).zip(modes) {
        let piece = chunk(no, u64::from(no) * CHUNK_LINES, CHUNK_LINES);
        far.proxy.set(mode);
        let tried = far.far.add_lines(id, piece.clone());
        let tried = timeout(Duration::from_secs(ANSWER_SECS_MAX), tried).await;
        far.proxy.set(Mode::Pass);
        let tried = tried.unwrap_or_else(|_| panic!("{mode:?}: no answer in {ANSWER_SECS_MAX} s"));
        let error = tried.expect_err("the network failed");
        assert_eq!(error.kind, Kind::Unavailable, "{mode:?}: {}", whole(&error));
        persist(|| far.far.add_lines(id, piece.clone())).await;
    }
    let sealed = far.near.seal_file(id, FileVerdict::Valid).await.unwrap();
    assert_eq!(sealed.lines, modes.len() as u64 * CHUNK_LINES);
    far.end().await;
}
