//! The work that is measured: files of about 300-byte lines, batches over them, and draining.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, FileId, InstanceId, LeaseId, Owner, Target};
use windrow_store::Store;
use windrow_store::batch::NewBatch;
use windrow_store::claim::{Request, Tranche};
use windrow_store::ingest::{Chunk, FileVerdict, NewFile, NewLane, NewLine};
use windrow_store::record::{Finished, Outcomes, Turn};

/// Lines of a tranche.
pub(crate) const TRANCHE: u32 = 500;
/// Connections that work at the same time.
pub(crate) const CONNECTIONS: usize = 4;
const CHUNK_LINES: u64 = 16_384;
const LEASE_MS: u64 = 60_000;

pub(crate) fn owner() -> Owner {
    Owner::new("bench").expect("a short name")
}

pub(crate) fn target() -> Target {
    Target::new("echo").expect("a short name")
}

/// A request of about 300 bytes.
pub(crate) fn line_text(line: u64) -> String {
    let filler =
        "the quick brown fox jumps over the lazy dog and then rests a while in the warm hay";
    format!(
        "{{\"custom_id\":\"request-{line:09}\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\
         \"body\":{{\"model\":\"echo\",\"max_tokens\":64,\"messages\":[{{\"role\":\"user\",\
         \"content\":\"{filler} {line:09}\"}}]}}}}\n"
    )
}

/// A response of about 300 bytes.
pub(crate) fn response() -> Bytes {
    let text = "x".repeat(180);
    Bytes::from(format!(
        "{{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"choices\":[{{\"index\":0,\
         \"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}}}}]}}"
    ))
}

/// Writes and seals a file of so many lines, all for one target.
pub(crate) async fn file(store: &dyn Store, lines: u64) -> Result<FileId> {
    let id = FileId::new();
    let (name, purpose) = ("bench.jsonl".to_owned(), "batch".to_owned());
    store.open_file(NewFile { id, owner: owner(), name, purpose, expires_at: None }).await?;
    for (no, first) in (0..).zip((0..lines).step_by(usize::try_from(CHUNK_LINES)?)) {
        let count = CHUNK_LINES.min(lines - first);
        let chunk = Chunk {
            no,
            lanes: if no == 0 { vec![NewLane { lane: 0, target: target() }] } else { vec![] },
            lines: (first..first + count).map(new_line).collect(),
        };
        store.add_lines(id, chunk).await?;
    }
    store.seal_file(id, FileVerdict::Valid).await?;
    Ok(id)
}

pub(crate) fn new_line(seq: u64) -> NewLine {
    NewLine { lane: Some(0), seq, line: seq + 1, raw: Bytes::from(line_text(seq + 1)) }
}

pub(crate) async fn batch(store: &dyn Store, file: FileId) -> Result<BatchId> {
    let id = BatchId::new();
    let made = store.create_batch(new_batch(id, file)).await?;
    Ok(made.id)
}

pub(crate) fn new_batch(id: BatchId, file: FileId) -> NewBatch {
    NewBatch {
        id,
        window_secs: Some(86_400),
        ..NewBatch::over(file, owner(), "/v1/chat/completions")
    }
}

pub(crate) fn request() -> Request {
    Request {
        lease: LeaseId::new(),
        routes: vec![target().into()],
        binds: false,
        only: None,
        lines_max: TRANCHE,
        lease_ms: LEASE_MS,
    }
}

/// What a worker reports when every line of its tranche completed.
pub(crate) fn outcomes(tranche: Tranche, response: &Bytes) -> Outcomes {
    let finished = tranche.lines.iter().map(|line| Finished {
        custom_id: Some(format!("request-{:09}", line.line)),
        http_status: Some(200),
        response: Some(response.clone()),
        ..Finished::bare(line.seq, line.line, Status::Completed, tranche.lease.attempts + 1)
    });
    let finished = finished.collect();
    Outcomes { finished, ..Outcomes::of(tranche.lease.held) }
}

/// How far a drain may go.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// Until so many lines are finished.
    Lines(u64),
    /// For so long.
    Time(Duration),
}

/// Turn after turn on several connections, nothing executed between. Gives lines a second, over
/// `window` at the end when one is given.
pub(crate) async fn drain(
    store: &Arc<dyn Store>,
    until: Until,
    window: Option<Duration>,
) -> Result<f64> {
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (store, done) = (Arc::clone(store), Arc::clone(&done));
        workers.spawn(async move { work(&*store, &done, until, started).await });
    }
    let mut tail = None;
    if let (Some(window), Until::Time(all)) = (window, until) {
        tokio::time::sleep(all.saturating_sub(window)).await;
        tail = Some((done.load(Ordering::Relaxed), started.elapsed()));
    }
    while let Some(worker) = workers.join_next().await {
        worker.context("a worker panicked")??;
    }
    let (before, from) = tail.unwrap_or((0, Duration::ZERO));
    let lines = done.load(Ordering::Relaxed) - before;
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    Ok(lines as f64 / (started.elapsed() - from).as_secs_f64())
}

async fn work(store: &dyn Store, done: &AtomicU64, until: Until, started: Instant) -> Result<()> {
    let (instance, response) = (InstanceId::new(), response());
    let mut held: Option<Tranche> = None;
    loop {
        let finished = held.as_ref().map_or(0, |tranche| tranche.lines.len() as u64);
        let stop = match until {
            Until::Lines(lines) => done.load(Ordering::Relaxed) + finished >= lines,
            Until::Time(time) => started.elapsed() >= time,
        };
        let outcomes = held.take().map(|tranche| outcomes(tranche, &response));
        let idle = outcomes.is_none();
        let claim = (!stop).then(request);
        let outcomes = outcomes.into_iter().collect();
        let reply = store.turn(Turn { instance, outcomes, claim }).await?;
        done.fetch_add(finished, Ordering::Relaxed);
        held = reply.claimed;
        if held.is_none() && (stop || idle) {
            return Ok(());
        }
        if held.is_none() && !stop {
            continue;
        }
    }
}

/// The four places add up, against the rows.
pub(crate) async fn verify(store: &dyn Store, batch: BatchId) -> Result<()> {
    let verify = store.verify(batch).await?;
    let checked = verify.check();
    ensure!(checked.is_ok(), "{checked:?}");
    Ok(())
}
