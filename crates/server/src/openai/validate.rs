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
use crate::error::{Error, Result};
use crate::fit::{Found, Misfit};

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
        if let Err(why) = app.routes.check(&lane.target, endpoint) {
            let lines: &mut (_, u64) = unserved.entry(lane.target).or_insert((why, 0));
            lines.1 += lane.lines;
        }
    }
    let urls_differ = file.endpoint.as_deref() != Some(endpoint);
    if unserved.is_empty() && !urls_differ {
        return Ok(Vec::new());
    }
    let misfit = Misfit { endpoint: endpoint.to_owned(), urls_differ, unserved };
    name_lines(app, caller, file, Arc::new(misfit)).await
}

/// The lines that do not fit, as far as they are found in time.
async fn name_lines(
    app: &App,
    caller: &Caller,
    file: &File,
    misfit: Arc<Misfit>,
) -> Result<Vec<LineError>> {
    let _place = app.places.checks.wait(&caller.owner, &app.clock, WAIT).await?;
    let until_ms = app.clock.millis().saturating_add(LOOK_MS_MAX);
    let (scope, mut found) = (caller.own(), Found::default());
    for no in 0..file.chunks {
        if app.clock.millis() >= until_ms {
            let unmet = misfit.unmet(&found);
            found.errors.extend(unmet);
            break;
        }
        let chunk = app.store.read_chunk(&scope, file.id, no).await?;
        let (misfit, options) = (misfit.clone(), app.ingest.clone());
        // A chunk is large, and others wait for this thread.
        let looking = tokio::task::spawn_blocking(move || look(found, &chunk, &misfit, &options));
        found = looking.await.map_err(Error::internal)?;
        if found.errors.len() >= ERRORS_MAX {
            break;
        }
    }
    found.errors.truncate(ERRORS_MAX);
    Ok(found.errors)
}

/// Looks at the lines of a chunk. A valid file has no line in two chunks.
fn look(mut found: Found, chunk: &Bytes, misfit: &Misfit, options: &ingest::Options) -> Found {
    for raw in chunk.split_inclusive(|byte| *byte == b'\n') {
        found.line += 1;
        if let Some(asked) = asked(raw, options) {
            found.judge(&asked, &misfit.endpoint, misfit.why(&asked.target));
        }
        if found.errors.len() >= ERRORS_MAX {
            break;
        }
    }
    found
}
