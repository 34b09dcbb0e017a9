//! Validation of a batch against its file: every line asks for the batch's endpoint, of a target that
//! serves it.
//!
//! Holds throughout: whether a file fits is known without reading it: its sealing kept what all lines
//! ask for, and its lanes are its targets. It is read only to name the lines that do not fit, so many
//! files at a time, each for a short time: what was not met by then is told without its lines. So the
//! answer to a creation comes soon, and there is nothing that a crash could leave half done. See
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

/// How long a file is looked through for the lines that do not fit.
const LOOK_MS_MAX: u64 = 2_000;
/// Longest wait until it may be.
const WAIT: Duration = Duration::from_secs(2);

/// What is wrong with the file for this endpoint; nothing when it may be run, or when the file has
/// errors of its own, which the batch will show.
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

/// The lines that do not fit, as far as they are found in time.
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
        // A chunk is large, and others wait for this thread.
        let looking =
            tokio::task::spawn_blocking(move || look(findings, &chunk, &mismatch, &options));
        findings = looking.await.map_err(Error::internal)?;
        if findings.errors.len() >= ERRORS_MAX {
            break;
        }
    }
    findings.errors.truncate(ERRORS_MAX);
    Ok(findings.errors)
}

/// Looks at the lines of a chunk. A valid file has no line in two chunks.
fn look(
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
