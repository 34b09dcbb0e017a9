//! Whether a file can be run for an endpoint: every line asks for it, and somebody serves every target.
//!
//! Holds throughout: a file that can costs two small reads, whatever its size; only one that cannot is
//! read, to say which lines are wrong.

use std::collections::HashMap;

use windrow_domain::{LaneNo, Target};
use windrow_engine::ingest::{Asked, asked};
use windrow_store::Scope;
use windrow_store::ingest::{ERRORS_MAX, File, FileState, LineError};

use crate::app::{App, Unserved};
use crate::error::Result;

/// What is wrong with the file for this endpoint; nothing when it may be run, or when the file has
/// errors of its own, which the batch will show.
pub(crate) async fn validate(
    app: &App,
    scope: &Scope,
    file: &File,
    endpoint: &str,
) -> Result<Vec<LineError>> {
    if file.state != FileState::Sealed {
        return Ok(Vec::new());
    }
    let mut unserved = HashMap::<LaneNo, (Target, Unserved)>::new();
    for lane in app.store.file_lanes(scope, file.id).await? {
        if let Err(why) = app.routes.check(&lane.target, endpoint) {
            unserved.insert(lane.lane, (lane.target, why));
        }
    }
    if unserved.is_empty() && file.endpoint.as_deref() == Some(endpoint) {
        return Ok(Vec::new());
    }
    let unserved: HashMap<Target, Unserved> = unserved.into_values().collect();
    let (mut errors, mut line) = (Vec::new(), 0);
    for no in 0..file.chunks {
        // A valid file has no line in two chunks.
        let chunk = app.store.read_chunk(scope, file.id, no).await?;
        for raw in chunk.split_inclusive(|byte| *byte == b'\n') {
            line += 1;
            if let Some(asked) = asked(raw, &app.ingest) {
                judge(&mut errors, line, &asked, endpoint, &unserved);
            }
            if errors.len() >= ERRORS_MAX {
                errors.truncate(ERRORS_MAX);
                return Ok(errors);
            }
        }
    }
    Ok(errors)
}

fn judge(
    errors: &mut Vec<LineError>,
    line: u64,
    asked: &Asked,
    endpoint: &str,
    unserved: &HashMap<Target, Unserved>,
) {
    let mut add = |code: &str, param: &str, message: String| {
        let (code, param) = (code.to_owned(), Some(param.to_owned()));
        errors.push(LineError { code, line: Some(line), message, param });
    };
    if asked.path != endpoint {
        let message = format!("The line asks for {}, and the batch is for {endpoint}.", asked.path);
        add("url_mismatch", "url", message);
    }
    match Target::new(asked.target.clone()).ok().and_then(|target| unserved.get(&target)) {
        Some(Unserved::Target) => {
            let message = format!("There is no model {}.", asked.target);
            add("model_not_found", "body.model", message);
        }
        Some(Unserved::Endpoint) => {
            let message = format!("The model {} does not serve {endpoint}.", asked.target);
            add("unsupported_endpoint", "url", message);
        }
        None => {}
    }
}
