//! What the demo prints.

use serde::Serialize;
use serde_json::{Value, json};
use windrow::domain::attempt::Status;
use windrow::prelude::*;
use windrow::store::ingest::File;
use windrow::store::inspect::{FinishedLine, FinishedQuery};

use super::Times;
use super::worker::Tally;
use crate::text::{count, rate, short, size, time};

/// Width of a line that is shown, in characters.
const SHOWN_CHARS_MAX: usize = 200;

/// Times, rates and counts.
pub(crate) fn summary(file: &File, batch: &Batch, times: &Times, tally: Tally) -> String {
    let lines = file.lines;
    let per_second = |took| format!("{} lines/s", rate(lines, took));
    let stages = [
        ("ingest", times.ingest, format!("{}, {}", size(file.bytes), per_second(times.ingest))),
        ("create", times.create, format!("batch {}", batch.id)),
        (
            "drain",
            times.drain,
            format!("{}, {} turns", per_second(times.drain), count(tally.turns)),
        ),
        ("close", times.close, batch.state.to_string()),
    ];
    let mut text = String::new();
    for (stage, took, detail) in stages {
        text.push_str(&format!("  {stage:<8}{:>10}   {detail}\n", time(took)));
    }
    text.push('\n');
    let counts = batch.counts;
    let places = [
        ("completed", counts.completed),
        ("failed", counts.failed),
        ("not found", counts.not_found),
        ("skipped", counts.skipped),
        ("unfinished", counts.unfinished()),
    ];
    for (place, number) in places {
        text.push_str(&format!("  {place:<12}{:>12}\n", count(number)));
    }
    text.push_str(&format!("  {:<12}{:>12}", "total", count(counts.total)));
    text.push_str(&format!("   and {} retries on the way\n", count(tally.retries)));
    text
}

/// The first results of each kind, as an output file has them.
pub(crate) async fn samples(store: &dyn Store, batch: BatchId) -> anyhow::Result<String> {
    let mut text = "Results, as the output files have them:\n".to_owned();
    for (status, limit) in [(Status::Completed, 2), (Status::Failed, 1), (Status::NotFound, 1)] {
        let query = FinishedQuery {
            batch: Some(batch),
            statuses: vec![status],
            bodies: true,
            limit,
            ..FinishedQuery::default()
        };
        for line in store.finished(&Scope::All, query).await?.rows {
            let shown = short(&output_line(&line)?, SHOWN_CHARS_MAX);
            text.push_str(&format!("  {shown}\n"));
        }
    }
    Ok(text)
}

/// A result in the shape that OpenAI's clients read, its fields in their usual order.
#[derive(Serialize)]
struct OutputLine<'a> {
    id: String,
    custom_id: Option<&'a str>,
    response: Response,
    error: Option<()>,
}

#[derive(Serialize)]
struct Response {
    status_code: Option<u16>,
    request_id: String,
    body: Value,
}

fn output_line(line: &FinishedLine) -> Result<String, serde_json::Error> {
    let result = &line.result;
    let request_id = format!("{}:{}:1", line.batch, result.line);
    let body = match &result.response {
        Some(bytes) => serde_json::from_slice(bytes)?,
        None => json!({ "error": { "code": result.error_code, "message": result.error } }),
    };
    serde_json::to_string(&OutputLine {
        id: format!("batch_req_{}", result.line),
        custom_id: result.custom_id.as_deref(),
        response: Response { status_code: result.http_status, request_id, body },
        error: None,
    })
}
