//! The figures, each a ratio of two things measured interleaved in the same run.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use windrow_domain::{BatchId, FileId, InstanceId};
use windrow_engine::ingest;
use windrow_store::ingest::NewFile;
use windrow_store::{Scope, Store};

use crate::backend::Backend;
use crate::load::{self, CONNECTIONS, TRANCHE, Until, drain, verify};
use crate::postgres::PostgresBackend;
use crate::report::{Bar, Figure, LINES};

/// No machine drains faster than this, as far as the amount of work to prepare goes.
const LINES_A_SECOND_MAX: u64 = 400_000;

/// How large the measured things are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Lines of the large file.
    pub(crate) lines: u64,
    /// Interleaved samples of anything under a few milliseconds.
    pub(crate) samples: usize,
    /// Open batches of the crowded claim.
    pub(crate) open: usize,
    /// Rounds of drains and ingests.
    pub(crate) rounds: usize,
    /// Lines of a drain and of an ingest.
    pub(crate) drained: u64,
    /// How long a snapshot is held, and how much of its end counts.
    pub(crate) held: (Duration, Duration),
    /// Bytes of the file whose ingest is watched.
    pub(crate) watched: u64,
    /// Lines of a whole `windrow run`, and how often it is measured.
    pub(crate) run: (u64, usize),
    /// How long an idle worker is watched.
    pub(crate) idle: Duration,
    /// Batches that are closed one after the other.
    pub(crate) closed: usize,
    /// Lines of the run whose memory is watched.
    pub(crate) worked: u64,
    /// How long the crowd visits the server.
    pub(crate) crowded: Duration,
    /// Messages that are sent and committed.
    pub(crate) relayed: u64,
}

/// Creating a batch: the large file against a small one.
pub(crate) async fn create(
    backend: &dyn Backend,
    size: Size,
    large: FileId,
    small: FileId,
) -> Result<Figure> {
    let store = backend.store();
    let (mut these, mut those) = (Vec::new(), Vec::new());
    for _ in 0..size.samples {
        for (file, times) in [(large, &mut these), (small, &mut those)] {
            let batch = load::new_batch(BatchId::new(), file);
            let started = Instant::now();
            let made = store.create_batch(batch).await?;
            times.push(started.elapsed());
            close(&*store, made.id).await?;
        }
    }
    Ok(Figure::cost("create batch, large / small", backend.name(), &mut these, &mut those, 1.5))
}

/// Ends a batch that nobody claimed from, so that it crowds nothing.
async fn close(store: &dyn Store, batch: BatchId) -> Result<()> {
    store.cancel_batch(&Scope::All, batch).await?;
    let held = store.take_finalisation(batch, InstanceId::new(), 60_000).await?;
    store.close_batch(&held, Default::default(), "{}", &[]).await?;
    Ok(())
}

/// Claiming a tranche at 95 % of the large file against its start.
pub(crate) async fn claim_position(
    backend: &dyn Backend,
    size: Size,
    large: FileId,
) -> Result<Figure> {
    let store = backend.store();
    let deep = load::batch(&*store, large).await?;
    // Workers finish a few tranches more than is asked for; the last claims must still be full.
    let at = size.lines / 100 * 95 - 4 * u64::from(TRANCHE) * CONNECTIONS as u64;
    drain(&store, Until::Lines(at), None).await?;
    let at = store.batch(&Scope::All, deep).await?.counts.completed;
    let fresh = load::batch(&*store, large).await?;
    let (mut these, mut those) = (Vec::new(), Vec::new());
    for _ in 0..size.samples {
        for (batch, cursor, times) in [(deep, at, &mut these), (fresh, 0, &mut those)] {
            times.push(timed_claim(&*store, Some(batch)).await?);
            backend.rewind(batch, cursor).await?;
        }
    }
    verify(&*store, deep).await?;
    store.cancel_batch(&Scope::All, deep).await?;
    store.cancel_batch(&Scope::All, fresh).await?;
    Ok(Figure::cost("claim, line 950k / line 0", backend.name(), &mut these, &mut those, 1.3))
}

/// One claim of a full tranche, timed.
async fn timed_claim(store: &dyn Store, only: Option<BatchId>) -> Result<Duration> {
    let request = windrow_store::claim::Request { only, ..load::request() };
    let started = Instant::now();
    let tranche = store.lease_tranche(InstanceId::new(), request).await?;
    let took = started.elapsed();
    let lines = tranche.context("there is a tranche to claim")?.lines.len();
    ensure!(lines == TRANCHE as usize, "a full tranche, not {lines} lines");
    Ok(took)
}

/// Claiming with many open batches against one.
pub(crate) async fn claim_crowded(
    backend: &dyn Backend,
    size: Size,
    large: FileId,
) -> Result<Figure> {
    let store = backend.store();
    let first = load::batch(&*store, large).await?;
    let (mut these, mut those) = (Vec::new(), Vec::new());
    let mut crowd = Vec::new();
    // A block of claims alone, a block in the crowd, and again: drift meets both alike.
    let blocks = 4;
    for _ in 0..blocks {
        for _ in 0..size.samples.div_ceil(blocks) {
            those.push(timed_claim(&*store, None).await?);
            backend.rewind(first, 0).await?;
        }
        if crowd.is_empty() {
            for _ in 1..size.open {
                crowd.push(load::batch(&*store, large).await?);
            }
        } else {
            for batch in &crowd {
                store.resume_batch(&Scope::All, *batch, None).await?;
            }
        }
        for _ in 0..size.samples.div_ceil(blocks) {
            these.push(timed_claim(&*store, None).await?);
            backend.rewind(first, 0).await?;
        }
        for batch in &crowd {
            store.pause_batch(&Scope::All, *batch, None).await?;
        }
    }
    for batch in crowd {
        close(&*store, batch).await?;
    }
    store.cancel_batch(&Scope::All, first).await?;
    Ok(Figure::cost("claim, 1,000 open / one", backend.name(), &mut these, &mut those, 2.0))
}

/// Status of a batch over the large file against a small one.
pub(crate) async fn status(
    backend: &dyn Backend,
    size: Size,
    large: FileId,
    small: FileId,
) -> Result<Figure> {
    let store = backend.store();
    let big = load::batch(&*store, large).await?;
    drain(&store, Until::Lines(size.lines / 4), None).await?;
    let little = load::batch(&*store, small).await?;
    let (mut these, mut those) = (Vec::new(), Vec::new());
    for _ in 0..size.samples {
        for (batch, times) in [(big, &mut these), (little, &mut those)] {
            let started = Instant::now();
            store.batch(&Scope::All, batch).await?;
            times.push(started.elapsed());
        }
    }
    store.cancel_batch(&Scope::All, big).await?;
    store.cancel_batch(&Scope::All, little).await?;
    Ok(Figure::cost("status, large / small", backend.name(), &mut these, &mut those, 1.5))
}

/// Draining against plain inserts of the same rows.
pub(crate) async fn draining(backend: &dyn Backend, size: Size) -> Result<Figure> {
    let store = backend.store();
    let file = load::file(&*store, size.drained).await?;
    let (mut these, mut those) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        let batch = load::batch(&*store, file).await?;
        these.push(drain(&store, Until::Lines(size.drained), None).await?);
        verify(&*store, batch).await?;
        those.push(backend.plain_results(size.drained).await?);
    }
    Ok(Figure::speed("drain / plain insert", backend.name(), LINES, &mut these, &mut those, 0.5))
}

/// Ingest of a JSONL file against the plain way in for the same rows.
pub(crate) async fn ingesting(backend: &dyn Backend, size: Size) -> Result<Figure> {
    let texts: Vec<String> = (1..=size.drained).map(load::line_text).collect();
    let mut source = tempfile::NamedTempFile::new()?;
    for text in &texts {
        source.write_all(text.as_bytes())?;
    }
    source.flush()?;
    let store = backend.store();
    let (mut these, mut those) = (Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        let started = Instant::now();
        let lines = ingest_file(&*store, source.path()).await?;
        ensure!(lines == size.drained, "{lines} lines were ingested");
        #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
        these.push(lines as f64 / started.elapsed().as_secs_f64());
        those.push(backend.plain_lines(&texts).await?);
    }
    let name = if backend.name() == "postgres" { "ingest / COPY" } else { "ingest / plain insert" };
    Ok(Figure::speed(name, backend.name(), LINES, &mut these, &mut those, 0.5))
}

/// Takes a JSONL file in; gives its number of lines.
pub(crate) async fn ingest_file(store: &dyn Store, path: &Path) -> Result<u64> {
    let file = NewFile {
        id: FileId::new(),
        owner: load::owner(),
        name: "bench.jsonl".to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    };
    let reader = tokio::fs::File::open(path).await?;
    let done = ingest::ingest(store, reader, file, ingest::Options::default()).await?;
    ensure!(done.errors_total == 0, "{:?}", done.errors.first());
    Ok(done.file.lines)
}

/// Draining with another transaction's snapshot held open against without.
pub(crate) async fn snapshot(backend: &PostgresBackend, size: Size) -> Result<Figure> {
    let (held, window) = size.held;
    let mut speeds = [Vec::new(), Vec::new()];
    for (with, speeds) in [true, false].into_iter().zip(&mut speeds) {
        backend.empty().await?;
        let store = backend.store();
        let file = load::file(&*store, size.lines).await?;
        // More work than can be done in that time.
        for _ in 0..held.as_secs() * LINES_A_SECOND_MAX / size.lines + 2 {
            load::batch(&*store, file).await?;
        }
        let session = backend.session().await?;
        if with {
            let begin =
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM windrow.leases";
            session.batch_execute(begin).await?;
        }
        speeds.push(drain(&store, Until::Time(held), Some(window)).await?);
        session.batch_execute("ROLLBACK").await?;
    }
    let [mut these, mut those] = speeds;
    Ok(Figure::speed(
        "drain, snapshot held / not",
        backend.name(),
        LINES,
        &mut these,
        &mut those,
        0.9,
    ))
}

/// Peak memory of a process that ingests a large file, in MiB against its bar.
pub(crate) fn memory(store: &'static str, database: &str, size: Size) -> Result<Figure> {
    let mut source = tempfile::NamedTempFile::new()?;
    let (mut bytes, mut line) = (0, 0);
    let mut out = std::io::BufWriter::new(source.as_file_mut());
    while bytes < size.watched {
        line += 1;
        let text = load::line_text(line);
        bytes += text.len() as u64;
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    drop(out);
    let output = std::process::Command::new(std::env::current_exe()?)
        .args(["ingest-one", "--database", database])
        .arg(source.path())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let peak: f64 = String::from_utf8(output.stdout)?.trim().parse()?;
    Ok(Figure {
        name: "peak memory of an ingest, MiB / 128",
        store,
        this: format!("{peak:.0} MiB"),
        that: format!("{} MB file", size.watched / 1_000_000),
        ratio: peak / 128.0,
        bar: Bar::AtMost(1.0),
        samples: 1,
        detail: None,
    })
}
