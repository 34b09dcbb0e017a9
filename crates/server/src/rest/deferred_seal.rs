//! Ingest of a file whose sealing is deferred until its job is created.
//!
//! Holds throughout: its lines are stored and checked as they arrive, since an open file is invisible;
//! the seal is kept for the step that creates the job. So such a file is never visible without its job,
//! and a crash leaves an open file, which the sweep drops.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use windrow_domain::{FileId, LaneNo, Target};
use windrow_engine::ingest::asked;
use windrow_store::ingest::{
    Chunk, ERRORS_MAX, File, FileDescription, FileVerdict, Ingest, LineError, NewFile, NewLine,
};
use windrow_store::{Error, Kind, Result, Scope};

use crate::app::{App, Unserved};
use crate::endpoint_check::LineFindings;

/// An ingest that stores lines and keeps the seal back.
pub(super) struct DeferredSeal(Arc<Inner>);

struct Inner {
    app: App,
    /// The endpoint of the job, where the request names it; otherwise that of its lines, which
    /// must agree.
    endpoint: Option<String>,
    received: Mutex<ReceivedFile>,
}

/// What was stored of the file so far.
#[derive(Default)]
struct ReceivedFile {
    file: Option<NewFile>,
    description: FileDescription,
    chunks: u32,
    lines: u64,
    bytes: u64,
    lanes: HashMap<LaneNo, ReceivedLane>,
    findings: LineFindings,
    verdict: Option<FileVerdict>,
}

struct ReceivedLane {
    target: Target,
    /// Whether the target is served; known from its first line on.
    served: Option<Option<Unserved>>,
    /// Whether each of its lines may request a path of its own.
    mixes_paths: bool,
}

/// The verdict that the file is to be sealed with, and the errors that its job fails with.
pub(super) struct PendingSeal {
    pub(super) verdict: FileVerdict,
    pub(super) errors: Vec<LineError>,
    /// Whether its lines may request different paths.
    pub(super) mixes_paths: bool,
}

impl DeferredSeal {
    pub(super) fn new(app: &App, endpoint: Option<String>) -> Self {
        Self(Arc::new(Inner { app: app.clone(), endpoint, received: Mutex::default() }))
    }

    /// The deferred seal; none when the ingest did not get that far.
    pub(super) fn into_pending_seal(self) -> Option<PendingSeal> {
        let received = std::mem::take(&mut *self.0.received());
        let verdict = received.verdict?;
        // An invalid file has its own errors.
        let is_valid = !matches!(verdict, FileVerdict::Invalid(_));
        let errors = if is_valid { received.findings.errors } else { Vec::new() };
        let mixes_paths = received.lanes.values().all(|lane| lane.mixes_paths);
        Some(PendingSeal { verdict, errors, mixes_paths })
    }
}

impl Inner {
    fn received(&self) -> MutexGuard<'_, ReceivedFile> {
        self.received.lock()
    }

    /// Checks a chunk that was stored.
    fn note(&self, chunk: &Chunk) {
        let mut received = self.received();
        // A repeated chunk adds nothing.
        if chunk.no != received.chunks {
            return;
        }
        received.chunks += 1;
        received.bytes += chunk.bytes();
        for new in &chunk.lanes {
            let mixes_paths = self.app.routes.mixes_paths(&new.target);
            let lane = ReceivedLane { target: new.target.clone(), served: None, mixes_paths };
            received.lanes.insert(new.lane, lane);
        }
        for line in &chunk.lines {
            if let Some(lane) = line.lane {
                received.lines += 1;
                self.judge(&mut received, lane, line);
            }
        }
    }

    fn judge(&self, received: &mut ReceivedFile, lane: LaneNo, line: &NewLine) {
        let ReceivedFile { lanes, findings, .. } = received;
        let Some(lane) = lanes.get_mut(&lane) else { return };
        // Where the job takes the endpoint of its lines, a line of a served target is valid, unless
        // each may have a path or a method of its own.
        let differs = lane.mixes_paths || self.app.routes.allows_methods();
        let fits = lane.served == Some(None) && self.endpoint.is_none() && !differs;
        if fits || findings.errors.len() >= ERRORS_MAX {
            return;
        }
        let Some(asked) = asked(&line.raw, &self.app.ingest) else { return };
        let endpoint = self.endpoint.as_deref().unwrap_or(&asked.path);
        let check = || self.app.routes.check(&lane.target, endpoint).err();
        let unserved = match lane.mixes_paths {
            true => check(),
            false => *lane.served.get_or_insert_with(check),
        };
        findings.line = line.line;
        findings.judge(&asked, endpoint, unserved);
        if unserved.is_none() && !self.app.routes.allows_method(&lane.target, &asked.method) {
            findings.refuse_method(&asked);
        }
        findings.errors.truncate(ERRORS_MAX);
    }
}

#[async_trait]
impl Ingest for DeferredSeal {
    async fn open_file(&self, file: NewFile) -> Result<()> {
        self.0.app.store.open_file(file.clone()).await?;
        self.0.received().file = Some(file);
        Ok(())
    }

    async fn add_lines(&self, file: FileId, chunk: Chunk) -> Result<()> {
        self.0.app.store.add_lines(file, chunk.clone()).await?;
        let inner = self.0.clone();
        // Parsing lines may take long, and other requests wait for this thread.
        let noting = tokio::task::spawn_blocking(move || inner.note(&chunk));
        noting.await.map_err(|cause| Error::new(Kind::Corrupt, "add lines", file).because(cause))
    }

    async fn expire_file(&self, file: FileId, expires_at: Timestamp) -> Result<()> {
        self.0.app.store.expire_file(file, expires_at).await
    }

    async fn describe_file(&self, file: FileId, description: FileDescription) -> Result<()> {
        self.0.app.store.describe_file(file, description.clone()).await?;
        self.0.received().description.add(description);
        Ok(())
    }

    /// The file as it will be once its job exists. Until then it stays open.
    async fn seal_file(&self, id: FileId, verdict: FileVerdict) -> Result<File> {
        verdict.check().map_err(|error| error.named("seal file", id))?;
        let mut received = self.0.received();
        let missing = || Error::new(Kind::Missing, "seal file", id);
        let file = received.file.clone().ok_or_else(missing)?;
        let (state, _, endpoint) = verdict.clone().columns();
        received.verdict = Some(verdict);
        Ok(File {
            id,
            owner: file.owner,
            name: file.name,
            purpose: file.purpose,
            state,
            lines: received.lines,
            endpoint,
            bytes: received.bytes,
            chunks: received.chunks,
            created_at: self.0.app.clock.now(),
            sealed_at: None,
            expires_at: file.expires_at,
            output: None,
            head: received.description.head.clone(),
            original: received.description.original.clone(),
        })
    }

    async fn drop_file(&self, scope: &Scope, file: FileId) -> Result<()> {
        self.0.app.store.drop_file(scope, file).await
    }
}
