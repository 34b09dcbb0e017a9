//! Validation of a batch against its file: every line must request the batch's endpoint, of a target
//! that serves it.
//!
//! Holds throughout: whether a file is valid is known without reading it: its sealing stored the endpoint
//! of its lines, and its lanes are its targets. It is read only to list the invalid lines, a few files at
//! a time and each for a short time; what was not found by then is reported without a line. So a creation
//! is answered soon, and a crash leaves nothing half done. See
//! docs/adr/0021-misfits-are-known-without-reading.md.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windrow_engine::ingest::{self, asked};
use windrow_store::ingest::{ERRORS_MAX, File, FileState, LineError};

use crate::app::App;
use crate::auth::Caller;
use crate::endpoint_check::{EndpointMismatch, LineFindings};
use crate::error::{Error, Result};

/// How long a file is searched for invalid lines.
const LOOK_MS_MAX: u64 = 2_000;
/// Longest wait for a permit to do so.
const WAIT: Duration = Duration::from_secs(2);

/// The errors of the file for this endpoint; none when it can be run, or when the file has its own
/// errors, which the batch will show.
pub(crate) async fn validate(
    app: &App,
    caller: &Caller,
    file: &File,
    endpoint: &str,
) -> Result<Vec<LineError>> {
    if file.state != FileState::Sealed {
        return Ok(Vec::new());
    }
    let mut unserved = BTreeMap::new();
    for lane in app.store.file_lanes(&caller.own(), file.id).await? {
        if let Err(unserved_reason) = app.routes.check(&lane.target, endpoint) {
            let lines: &mut (_, u64) = unserved.entry(lane.target).or_insert((unserved_reason, 0));
            lines.1 += lane.lines;
        }
    }
    let urls_differ = file.endpoint.as_deref() != Some(endpoint);
    if unserved.is_empty() && !urls_differ {
        return Ok(Vec::new());
    }
    let mismatch = EndpointMismatch { endpoint: endpoint.to_owned(), urls_differ, unserved };
    name_lines(app, caller, file, Arc::new(mismatch)).await
}

/// The invalid lines, as far as they are found in time.
async fn name_lines(
    app: &App,
    caller: &Caller,
    file: &File,
    mismatch: Arc<EndpointMismatch>,
) -> Result<Vec<LineError>> {
    let _permit = app.admission.checks.acquire_within(&caller.owner, &app.clock, WAIT).await?;
    let until_ms = app.clock.millis().saturating_add(LOOK_MS_MAX);
    let (scope, mut findings) = (caller.own(), LineFindings::default());
    for no in 0..file.chunks {
        if app.clock.millis() >= until_ms {
            let unnamed = mismatch.unnamed(&findings);
            findings.errors.extend(unnamed);
            break;
        }
        let chunk = app.store.read_chunk(&scope, file.id, no).await?;
        let (mismatch, options) = (mismatch.clone(), app.ingest.clone());
        // A chunk is large, and other requests wait for this thread.
        let looking =
            tokio::task::spawn_blocking(move || check_chunk(findings, &chunk, &mismatch, &options));
        findings = looking.await.map_err(Error::internal)?;
        if findings.errors.len() >= ERRORS_MAX {
            break;
        }
    }
    findings.errors.truncate(ERRORS_MAX);
    Ok(findings.errors)
}

/// Checks the lines of a chunk. A valid file has no line in two chunks.
fn check_chunk(
    mut findings: LineFindings,
    chunk: &Bytes,
    mismatch: &EndpointMismatch,
    options: &ingest::Options,
) -> LineFindings {
    for raw in chunk.split_inclusive(|byte| *byte == b'\n') {
        findings.line += 1;
        if let Some(asked) = asked(raw, options) {
            findings.judge(&asked, &mismatch.endpoint, mismatch.unserved_reason(&asked.target));
        }
        if findings.errors.len() >= ERRORS_MAX {
            break;
        }
    }
    findings
}
