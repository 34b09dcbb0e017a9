//! The words that cases are written in: a sheet of lines, a batch over it, a worker that claims.
//!
//! Holds throughout: nothing here sleeps, reads a clock or rolls dice of its own; time is the
//! world's, and randomness is a [`Dice`] with a seed that the case names.

use std::error::Error as _;
use std::fmt::Debug;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::attempt::{Class, Status};
use windrow_domain::{
    BatchId, Counts, FileId, InstanceId, LaneNo, LeaseId, LeaseProof, LineSet, Owner, Route,
    Target, UpstreamId,
};
use windrow_store::batch::{Batch, NewBatch};
use windrow_store::claim::{Request, Tranche};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::finalise::Rows;
use windrow_store::ingest::{Chunk, File, FileVerdict, LineError, NewFile, NewLane, NewLine};
use windrow_store::inspect::{FinishedLine, FinishedQuery, PendingLine, PendingQuery};
use windrow_store::record::{Again, Finished, Fold, Outcomes, Reply, Turn};
use windrow_store::{Scope, Store};

use crate::World;

/// How long a lease lasts unless a case says otherwise.
pub(crate) const LEASE_MS: u64 = 60_000;
/// The target of lines whose target does not matter.
pub(crate) const MODEL: &str = "model-a";

pub(crate) fn owner(name: &str) -> Owner {
    Owner::new(name).expect("the suite's owners have good names")
}

pub(crate) fn target(name: &str) -> Target {
    Target::new(name).expect("the suite's targets have good names")
}

pub(crate) fn upstream(name: &str) -> UpstreamId {
    UpstreamId::new(name).expect("the suite's upstreams have good names")
}

/// A claim of so many lines from these targets of that upstream, and where it binds of the unknown one.
pub(crate) fn request_of(
    upstream_name: &str,
    targets: &[&str],
    lines_max: u32,
    binds: bool,
) -> Request {
    let route = |name: &&str| Route::new(upstream(upstream_name), target(name));
    let routes = targets.iter().map(route).collect();
    Request { routes, binds, ..request(targets, lines_max) }
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::Owner(owner(name))
}

/// The world's time.
pub(crate) fn now(world: &impl World) -> Timestamp {
    world.time().now().expect("the suite runs on a given clock")
}

/// The world's time, so many milliseconds on.
pub(crate) fn later(world: &impl World, ms: u64) -> Timestamp {
    now(world).checked_add(Duration::from_millis(ms)).expect("the suite stays in this age")
}

/// Lets time pass.
pub(crate) fn pass(world: &impl World, ms: u64) {
    world.time().advance(Duration::from_millis(ms));
}

/// The kind of an error that had to come.
#[track_caller]
pub(crate) fn kind<T: Debug>(result: Result<T>) -> Kind {
    result.expect_err("the store had to refuse this").kind
}

/// Everything an error says, causes included.
pub(crate) fn whole_text(error: &Error) -> String {
    let mut text = format!("{} / {}", error, error.subject);
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

/// Seeded randomness (splitmix64): the same seed gives the same story.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True so many times in a hundred.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of them.
    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let at = usize::try_from(self.below(from.len() as u64)).ok()?;
        from.get(at).cloned()
    }

    /// The same things in another order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).expect("an index");
            things.swap(last, other);
        }
    }
}

/// A file to be written: pieces in file order, each for a target or for none.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub(crate) id: FileId,
    pub(crate) owner: Owner,
    pub(crate) purpose: String,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) chunk_pieces: usize,
    pub(crate) pieces: Vec<Piece>,
}

/// A line, or a part of one that is no request.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    target: Option<Target>,
    line: u64,
    raw: Bytes,
}

impl Sheet {
    pub(crate) fn of(owner_name: &str) -> Self {
        Self {
            id: FileId::new(),
            owner: owner(owner_name),
            purpose: "batch".to_owned(),
            expires_at: None,
            chunk_pieces: 1000,
            pieces: Vec::new(),
        }
    }

    /// So many requests for a target.
    pub(crate) fn lines(mut self, target_name: &str, count: u64) -> Self {
        for _ in 0..count {
            let line = self.next_line();
            let raw = format!(
                "{{\"custom_id\":\"r-{line}\",\"url\":\"/v1/do\",\"body\":{{\"model\":\"{target_name}\"}}}}\n"
            );
            self = self.raw(Some(target_name), raw);
        }
        self
    }

    /// So many rounds over the targets, one request each.
    pub(crate) fn rounds(mut self, targets: &[&str], count: u64) -> Self {
        for _ in 0..count {
            for name in targets {
                self = self.lines(name, 1);
            }
        }
        self
    }

    /// A new line with these bytes.
    pub(crate) fn raw(mut self, target_name: Option<&str>, raw: impl Into<Bytes>) -> Self {
        let (line, target) = (self.next_line(), target_name.map(target));
        self.pieces.push(Piece { target, line, raw: raw.into() });
        self
    }

    /// More bytes of the last line, which is no request.
    pub(crate) fn more_of_it(mut self, raw: impl Into<Bytes>) -> Self {
        let line = self.next_line() - 1;
        self.pieces.push(Piece { target: None, line, raw: raw.into() });
        self
    }

    pub(crate) fn in_chunks_of(mut self, pieces: usize) -> Self {
        self.chunk_pieces = pieces;
        self
    }

    fn next_line(&self) -> u64 {
        self.pieces.last().map_or(1, |piece| piece.line + 1)
    }

    pub(crate) fn new_file(&self) -> NewFile {
        NewFile {
            id: self.id,
            owner: self.owner.clone(),
            name: "requests.jsonl".to_owned(),
            purpose: self.purpose.clone(),
            expires_at: self.expires_at,
        }
    }

    /// The chunks it is written in.
    pub(crate) fn chunks(&self) -> Vec<Chunk> {
        let mut lanes: Vec<(Target, u64)> = Vec::new();
        let mut loose = 0;
        let mut chunks = Vec::new();
        for (no, pieces) in self.pieces.chunks(self.chunk_pieces).enumerate() {
            let no = u32::try_from(no).expect("few chunks");
            let mut chunk = Chunk { no, ..Chunk::default() };
            for piece in pieces {
                let (lane, next) = match &piece.target {
                    None => (None, &mut loose),
                    Some(target) => {
                        let known = lanes.iter().position(|(name, _)| name == target);
                        let at = known.unwrap_or(lanes.len());
                        let lane = LaneNo::try_from(at).expect("few lanes");
                        if known.is_none() {
                            lanes.push((target.clone(), 0));
                            chunk.lanes.push(NewLane { lane, target: target.clone() });
                        }
                        (Some(lane), &mut lanes[at].1)
                    }
                };
                let (line, raw) = (piece.line, piece.raw.clone());
                chunk.lines.push(NewLine { lane, seq: *next, line, raw });
                *next += 1;
            }
            chunks.push(chunk);
        }
        chunks
    }

    /// Opens the file and writes its chunks.
    pub(crate) async fn write(&self, store: &impl Store) {
        store.open_file(self.new_file()).await.expect("a new file opens");
        for chunk in self.chunks() {
            store.add_lines(self.id, chunk).await.expect("a chunk in order is taken");
        }
    }

    pub(crate) async fn seal(&self, store: &impl Store) -> FileId {
        self.sealed(store).await.id
    }

    pub(crate) async fn sealed(&self, store: &impl Store) -> File {
        self.write(store).await;
        store.seal_file(self.id, FileVerdict::Valid).await.expect("a file with requests seals")
    }

    pub(crate) async fn seal_invalid(&self, store: &impl Store, errors: Vec<LineError>) -> File {
        self.write(store).await;
        let verdict = FileVerdict::Invalid(errors);
        store.seal_file(self.id, verdict).await.expect("an invalid file is kept")
    }

    /// A batch over it, with all of it written first.
    pub(crate) async fn run(&self, store: &impl Store) -> BatchId {
        let file = self.seal(store).await;
        let new = run_over(file, self.owner.as_str());
        store.create_batch(new).await.expect("a batch over a sealed file is created").id
    }
}

/// An error of a line.
pub(crate) fn line_error(line: u64) -> LineError {
    LineError {
        code: "invalid_json_line".to_owned(),
        line: Some(line),
        message: format!("line {line} is not JSON"),
        param: line.is_multiple_of(2).then(|| "body".to_owned()),
    }
}

/// A plain batch over a file.
pub(crate) fn run_over(file: FileId, owner_name: &str) -> NewBatch {
    NewBatch::over(file, owner(owner_name), "/v1/do")
}

/// A batch of so many lines for [`MODEL`].
pub(crate) async fn batch_of(store: &impl Store, owner_name: &str, lines: u64) -> BatchId {
    Sheet::of(owner_name).lines(MODEL, lines).run(store).await
}

/// A claim of so many lines from these targets.
pub(crate) fn request(targets: &[&str], lines_max: u32) -> Request {
    Request {
        lease: LeaseId::new(),
        routes: targets.iter().map(|name| target(name).into()).collect(),
        binds: false,
        only: None,
        lines_max,
        lease_ms: LEASE_MS,
    }
}

/// Somebody who claims and records.
#[derive(Clone, Debug)]
pub(crate) struct Worker<S> {
    pub(crate) store: S,
    pub(crate) instance: InstanceId,
}

impl<S: Store + Clone> Worker<S> {
    pub(crate) fn on(store: &S) -> Self {
        Self { store: store.clone(), instance: InstanceId::new() }
    }

    /// Claims up to so many lines for [`MODEL`].
    pub(crate) async fn claim(&self, lines_max: u32) -> Option<Tranche> {
        self.ask(request(&[MODEL], lines_max)).await
    }

    pub(crate) async fn ask(&self, request: Request) -> Option<Tranche> {
        self.store.lease_tranche(self.instance, request).await.expect("a claim is answered")
    }

    /// Claims from one batch.
    pub(crate) async fn claim_only(
        &self,
        batch: BatchId,
        targets: &[&str],
        lines_max: u32,
    ) -> Option<Tranche> {
        self.ask(Request { only: Some(batch), ..request(targets, lines_max) }).await
    }

    /// Claims for [`MODEL`] where there must be something.
    pub(crate) async fn take(&self, lines_max: u32) -> Tranche {
        self.claim(lines_max).await.expect("there are lines to claim")
    }

    pub(crate) async fn record(&self, outcomes: Outcomes) -> Reply {
        self.record_all(vec![outcomes]).await
    }

    pub(crate) async fn record_all(&self, outcomes: Vec<Outcomes>) -> Reply {
        self.store.record(self.instance, outcomes).await.expect("a turn is answered")
    }

    /// Finishes a whole tranche.
    pub(crate) async fn finish(&self, tranche: &Tranche, status: Status) -> Reply {
        self.record(finished(tranche, status)).await
    }

    pub(crate) async fn complete(&self, tranche: &Tranche) -> Reply {
        self.finish(tranche, Status::Completed).await
    }

    /// Runs a batch until nothing of it can be claimed; gives the batches reported as finalizing.
    pub(crate) async fn drain(&self, batch: BatchId, targets: &[&str]) -> Vec<BatchId> {
        let mut finalizing = Vec::new();
        while let Some(tranche) = self.claim_only(batch, targets, 500).await {
            finalizing.extend(self.complete(&tranche).await.finalizing);
        }
        finalizing
    }

    /// Takes the finalisation and closes the batch with what its counts say.
    pub(crate) async fn close(&self, batch: BatchId) -> Batch {
        let held = self.store.take_finalisation(batch, self.instance, LEASE_MS).await;
        let held = held.expect("a batch that is finalizing can be taken");
        let closed = self.store.close_batch(&held, rows(&held.counts), "{}", &[]).await;
        closed.expect("the right rows close it")
    }
}

/// The rows that outputs with these counts hold.
pub(crate) fn rows(counts: &Counts) -> Rows {
    Rows {
        completed: counts.completed,
        failed: counts.failed,
        not_found: counts.not_found,
        skipped: counts.skipped,
    }
}

/// All lines of a tranche, finished.
pub(crate) fn finished(tranche: &Tranche, status: Status) -> Outcomes {
    finished_some(tranche, status, |_| true)
}

/// Those lines of a tranche that the test picks (by `seq`), finished.
pub(crate) fn finished_some(
    tranche: &Tranche,
    status: Status,
    picks: impl Fn(u64) -> bool,
) -> Outcomes {
    let attempts = tranche.lease.attempts + 1;
    let lines = tranche.lines.iter().filter(|line| picks(line.seq));
    Outcomes {
        finished: lines.map(|line| Finished::bare(line.seq, line.line, status, attempts)).collect(),
        ..Outcomes::of(tranche.lease.held.clone())
    }
}

/// Those lines of a tranche that the test picks, to be tried again.
pub(crate) fn again_some(
    tranche: &Tranche,
    not_before: Timestamp,
    picks: impl Fn(u64) -> bool,
) -> Outcomes {
    let lines = tranche.lines.iter().filter(|line| picks(line.seq));
    let again = lines.map(|line| Again {
        seq: line.seq,
        line: line.line,
        not_before,
        class: Class::Server,
        error_code: "http_503".to_owned(),
        error: "the target is resting".to_owned(),
    });
    Outcomes { again: again.collect(), ..Outcomes::of(tranche.lease.held.clone()) }
}

/// All lines of a tranche, to be tried again.
pub(crate) fn again(tranche: &Tranche, not_before: Timestamp) -> Outcomes {
    again_some(tranche, not_before, |_| true)
}

/// These lines of a tranche, given back.
pub(crate) fn released(tranche: &Tranche, lines: LineSet) -> Outcomes {
    Outcomes { released: lines, ..Outcomes::of(tranche.lease.held.clone()) }
}

/// The lines of a tranche by `seq`.
pub(crate) fn seqs(tranche: &Tranche) -> LineSet {
    tranche.lines.iter().map(|line| line.seq).collect()
}

/// What a reply left of its one lease.
#[track_caller]
pub(crate) fn kept(reply: &Reply) -> (Option<LeaseProof>, LineSet) {
    match reply.folds.as_slice() {
        [Fold::Kept { held, ignored, .. }] => (held.clone(), ignored.clone()),
        other => panic!("one kept lease was expected, not {other:?}"),
    }
}

/// Whether the one lease of a reply was lost.
#[track_caller]
pub(crate) fn is_lost(reply: &Reply) -> bool {
    match reply.folds.as_slice() {
        [Fold::Lost { .. }] => true,
        [Fold::Kept { .. }] => false,
        other => panic!("one lease was expected, not {other:?}"),
    }
}

/// A turn of one lease with the next claim.
pub(crate) fn turn(instance: InstanceId, outcomes: Outcomes, claim: Request) -> Turn {
    Turn { instance, outcomes: vec![outcomes], claim: Some(claim) }
}

pub(crate) async fn batch(store: &impl Store, id: BatchId) -> Batch {
    store.batch(&Scope::All, id).await.expect("the batch is there")
}

pub(crate) async fn counts(store: &impl Store, id: BatchId) -> Counts {
    batch(store, id).await.counts
}

/// The heart: every line is in exactly one place, the four add up, and status says the same as
/// the rows. For moments when nobody else writes.
#[track_caller]
pub(crate) fn check(store: &impl Store, id: BatchId) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let rows = store.verify(id).await.expect("the batch can be audited");
        if let Err(sentence) = rows.check() {
            panic!("at {caller}: {sentence}");
        }
        let batch = batch(store, id).await;
        let lanes = store.lanes(&Scope::All, id).await.expect("the batch has lanes");
        let from_rows: Counts = rows.lanes.iter().map(|lane| lane.counts).sum();
        assert_eq!(batch.counts, from_rows, "at {caller}: status and rows differ");
        assert_eq!(batch.state, rows.state, "at {caller}: state differs");
        let shown: Vec<_> = lanes.iter().map(|lane| (lane.lane, lane.phase, lane.counts)).collect();
        let rows: Vec<_> =
            rows.lanes.iter().map(|lane| (lane.lane, lane.phase, lane.counts)).collect();
        assert_eq!(shown, rows, "at {caller}: lanes differ");
    }
}

/// The same while others write: only what one snapshot shows.
#[track_caller]
pub(crate) fn check_snapshot(store: &impl Store, id: BatchId) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let rows = patiently(|| store.verify(id)).await.expect("the batch can be audited");
        if let Err(sentence) = rows.check() {
            panic!("at {caller}: {sentence}");
        }
    }
}

/// Calls again while the store says that trying again at once may help, a bounded number of times.
pub(crate) async fn patiently<T, F>(mut call: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    const CALLS_MAX: u32 = 50;
    let mut calls = 1;
    loop {
        match call().await {
            Err(error) if error.kind == Kind::Busy && calls < CALLS_MAX => calls += 1,
            other => return other,
        }
    }
}

/// Every page of pending lines.
pub(crate) async fn all_pending(
    store: &impl Store,
    scope: &Scope,
    query: PendingQuery,
) -> Vec<PendingLine> {
    let (mut rows, mut query) = (Vec::new(), query);
    loop {
        let page = store.pending(scope, query.clone()).await.expect("a page comes");
        assert!(page.rows.len() <= query.limit as usize, "a page is no longer than asked");
        let short = page.rows.len() < query.limit as usize;
        assert!(!(short && page.next.is_some()), "a short page is the last one");
        rows.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return rows,
        }
    }
}

/// Every page of finished lines.
pub(crate) async fn all_finished(
    store: &impl Store,
    scope: &Scope,
    query: FinishedQuery,
) -> Vec<FinishedLine> {
    let (mut rows, mut query) = (Vec::new(), query);
    loop {
        let page = store.finished(scope, query.clone()).await.expect("a page comes");
        assert!(page.rows.len() <= query.limit as usize, "a page is no longer than asked");
        let short = page.rows.len() < query.limit as usize;
        assert!(!(short && page.next.is_some()), "a short page is the last one");
        rows.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return rows,
        }
    }
}

/// The results of a batch, by line.
pub(crate) async fn results(store: &impl Store, batch: BatchId) -> Vec<FinishedLine> {
    let query =
        FinishedQuery { batch: Some(batch), bodies: true, limit: 100, ..FinishedQuery::default() };
    all_finished(store, &Scope::All, query).await
}

/// The result lines of a batch are these, each once.
pub(crate) async fn has_one_result_per_line(store: &impl Store, batch: BatchId, lines: u64) {
    let found: Vec<u64> = results(store, batch).await.iter().map(|row| row.result.line).collect();
    let wanted: Vec<u64> = (1..=lines).collect();
    assert_eq!(found, wanted, "every line has exactly one result");
}

/// Reaps until nothing is left to reap; says how many rows went in how many steps.
pub(crate) async fn reap_all(store: &impl Store, rows_max: u32) -> (u64, u32) {
    const STEPS_MAX: u32 = 10_000;
    let (mut rows, mut steps) = (0, 0);
    loop {
        let reaped = store.reap(rows_max).await.expect("reaping goes on");
        rows += reaped.rows;
        steps += 1;
        assert!(steps < STEPS_MAX, "reaping ends");
        if !reaped.more {
            return (rows, steps);
        }
    }
}
