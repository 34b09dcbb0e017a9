//! Sending and committing messages against plain inserts and deletes of the same rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use windrow_domain::{InstanceId, Queue, Stream};
use windrow_store::member::NewMember;
use windrow_store::message::{Commit, Done, Headers, MessagesQuery, NewMessage};
use windrow_store::partition::{Fence, Setup};
use windrow_store::{Members as _, Messages as _, Partitions as _, Scope};
use windrow_store_postgres::PostgresStore;

use crate::figures::Size;
use crate::load::{CONNECTIONS, owner};
use crate::postgres::{PostgresBackend, client};
use crate::report::Figure;

const STREAMS: u64 = 1000;
const BATCH: u64 = 200;
const PAYLOAD_BYTES: usize = 300;

const PLAIN_TABLE: &str = "DROP TABLE IF EXISTS plain_messages; CREATE TABLE plain_messages \
     (LIKE windrow.messages INCLUDING STORAGE INCLUDING DEFAULTS, PRIMARY KEY (partition, stream_no, position))";
const PLAIN_INSERT: &str = "INSERT INTO plain_messages (partition, stream_no, position, id, kind, payload, sent_at)
    SELECT partition, stream_no, position, id, 'bench', payload, now()
      FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[]) u(partition, stream_no, position, id, payload)";
const PLAIN_DELETE: &str = "DELETE FROM plain_messages m
     USING unnest($1::int[], $2::bigint[], $3::bigint[]) u(partition, stream_no, position)
     WHERE (m.partition, m.stream_no, m.position) = (u.partition, u.stream_no, u.position)";

/// Messages a second through send and commit, against rows a second through insert and delete.
pub(crate) async fn relay(backend: &PostgresBackend, size: Size) -> Result<Figure> {
    let owner = PartitionOwner::take(backend.plane()).await?;
    // Once, like the other table: both grow old with the rounds, and no row comes twice.
    client(backend.url()).await?.batch_execute(PLAIN_TABLE).await?;
    let (mut these, mut those) = (Vec::new(), Vec::new());
    for round in 0..size.rounds as u64 {
        these.push(owner.relay(size.relayed).await?);
        those.push(plain(backend, round * size.relayed, size.relayed).await?);
    }
    let query = MessagesQuery { limit: 1, ..MessagesQuery::default() };
    let left = owner.store.messages(&Scope::All, query).await?;
    ensure!(left.rows.is_empty(), "a message was left behind");
    owner.store.tombstone(owner.instance).await?;
    Ok(Figure::speed(
        "relay, send and commit / plain rows",
        "postgres",
        "messages/s",
        &mut these,
        &mut those,
        0.5,
    ))
}

/// Which stream the n-th message goes to: spread, and the same for both sides.
fn stream_of(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// A store with an instance that owns every partition.
#[derive(Clone)]
struct PartitionOwner {
    store: Arc<PostgresStore>,
    instance: InstanceId,
    fences: Arc<Vec<Fence>>,
}

impl PartitionOwner {
    async fn take(store: Arc<PostgresStore>) -> Result<Self> {
        let setup = Setup {
            service: "bench".to_owned(),
            partitions: windrow_domain::partition::PARTITIONS_DEFAULT,
            object_types: Vec::new(),
            lifecycle: false,
        };
        let partitions = store.set_up(setup).await?.partitions;
        let instance = InstanceId::new();
        let (service, host) = ("bench".to_owned(), "bench".to_owned());
        let member =
            NewMember { instance, service, host, pid: 1, metadata: "{}".to_owned(), lock: None };
        store.register(member).await?;
        let wanted: Vec<_> = (0..partitions).collect();
        let taken = store.take_partitions(instance, &wanted).await?;
        ensure!(taken.len() == wanted.len(), "{} partitions were taken", taken.len());
        let fences = Arc::new(taken.iter().map(|taken| taken.fence).collect());
        Ok(Self { store, instance, fences })
    }

    async fn relay(&self, messages: u64) -> Result<f64> {
        let next = Arc::new(AtomicU64::new(0));
        timed(
            messages,
            (0..CONNECTIONS).map(|_| {
                let (owner, next) = (self.clone(), Arc::clone(&next));
                async move {
                    while let Some(first) = claim(&next, messages) {
                        owner.cycle(first).await?;
                    }
                    Ok(())
                }
            }),
        )
        .await
    }

    async fn cycle(&self, first: u64) -> Result<()> {
        let payload = Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
        let messages = (first..first + BATCH).map(|n| NewMessage {
            queue: Queue::Outbox,
            owner: owner(),
            stream: Stream::new(format!("stream-{}", stream_of(n) % STREAMS))
                .expect("a short name"),
            id: format!("message-{n:012}"),
            kind: "bench".to_owned(),
            payload: payload.clone(),
            headers: Headers::new(),
            not_before: None,
            consumers: Vec::new(),
            dedupe: false,
        });
        let sent = self.store.send(messages.collect()).await?;
        let touched: std::collections::BTreeSet<_> =
            sent.iter().map(|sent| sent.at.partition).collect();
        let fences = self.fences.iter().filter(|fence| touched.contains(&fence.partition)).copied();
        self.store
            .commit(Commit {
                fences: fences.collect(),
                done: sent.iter().map(|sent| Done { at: sent.at, consumer: None }).collect(),
                ..Commit::new(self.instance)
            })
            .await?;
        Ok(())
    }
}

/// The first message of the next batch, as long as there is one before the end.
fn claim(next: &AtomicU64, end: u64) -> Option<u64> {
    let first = next.fetch_add(BATCH, Ordering::Relaxed);
    (first < end).then_some(first)
}

/// How many a second all of them make together.
async fn timed<W>(messages: u64, workers: impl Iterator<Item = W>) -> Result<f64>
where
    W: Future<Output = Result<()>> + Send + 'static,
{
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    workers.for_each(|worker| drop(tasks.spawn(worker)));
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    Ok(messages as f64 / started.elapsed().as_secs_f64())
}

async fn plain(backend: &PostgresBackend, first: u64, messages: u64) -> Result<f64> {
    let next = Arc::new(AtomicU64::new(first));
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(client(backend.url()).await?);
    }
    timed(
        messages,
        clients.into_iter().map(|client| {
            let next = Arc::clone(&next);
            async move { write_plainly(&client, &next, first + messages).await }
        }),
    )
    .await
}

async fn write_plainly(client: &Client, next: &AtomicU64, end: u64) -> Result<()> {
    let (insert, delete) =
        (client.prepare(PLAIN_INSERT).await?, client.prepare(PLAIN_DELETE).await?);
    let payload = vec![b'x'; PAYLOAD_BYTES];
    while let Some(first) = claim(next, end) {
        let numbers: Vec<u64> = (first..first + BATCH).collect();
        let streams: Vec<i64> =
            numbers.iter().map(|n| (stream_of(*n) % STREAMS).cast_signed()).collect();
        let partitions: Vec<i32> = streams
            .iter()
            .map(|stream| i32::try_from(stream % 256).expect("less than 256"))
            .collect();
        let positions: Vec<i64> = numbers.iter().map(|n| n.cast_signed()).collect();
        let ids: Vec<String> = numbers.iter().map(|n| format!("message-{n:012}")).collect();
        let payloads = vec![&payload[..]; numbers.len()];
        client.execute(&insert, &[&partitions, &streams, &positions, &ids, &payloads]).await?;
        let deleted = client.execute(&delete, &[&partitions, &streams, &positions]).await?;
        ensure!(deleted == BATCH, "{deleted} plain rows were deleted");
    }
    Ok(())
}
