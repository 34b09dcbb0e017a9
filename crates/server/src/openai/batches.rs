//! `/v1/batches`: creates, retrieves, cancels, lists.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use windrow_domain::BatchId;
use windrow_store::Kind;
use windrow_store::batch::{Batch, NewBatch};
use windrow_store::inspect::BatchesQuery;

use super::ids;
use super::list::List;
use super::object::BatchObject;
use super::validate::validate;
use crate::act::{Action, note};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::{Json, Path, Query};
use crate::intake::ExpiresAfter;

const LIMIT_MAX: u32 = 100;
const LIMIT_USUAL: u32 = 20;
/// What OpenAI allows of metadata.
const METADATA_PAIRS_MAX: usize = 16;
const METADATA_KEY_CHARS_MAX: usize = 64;
const METADATA_VALUE_CHARS_MAX: usize = 512;
/// Shortest and longest window.
const WINDOW_SECS: std::ops::RangeInclusive<u64> = 60..=30 * 24 * 3600;
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    input_file_id: String,
    endpoint: String,
    completion_window: String,
    metadata: Option<BTreeMap<String, String>>,
    output_expires_after: Option<ExpiresAfter>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListQuery {
    after: Option<String>,
    limit: Option<u32>,
}

pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Json(create): Json<Create>,
) -> Result<axum::Json<BatchObject>> {
    let window_secs = window("completion_window", &create.completion_window)?;
    let metadata = create.metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    if !create.endpoint.starts_with('/') {
        let message = "`endpoint` must be a path that begins with `/`, as /v1/chat/completions.";
        return Err(Error::invalid("endpoint", message));
    }
    let output_secs = match create.output_expires_after {
        Some(after) => after.secs("output_expires_after")?,
        None => app.options.output_secs,
    };
    let id = ids::read_file(&create.input_file_id).map_err(|error| error.at("input_file_id"))?;
    let scope = caller.own();
    let file = app.store.file(&scope, id).await.map_err(|error| match error.kind {
        Kind::Missing => ids::no_file(&create.input_file_id).at("input_file_id"),
        _ => error.into(),
    })?;
    if file.purpose != "batch" {
        let message = "The file was not uploaded for the purpose `batch`.";
        return Err(Error::invalid("input_file_id", message));
    }
    let errors = validate(&app, &scope, &file, &create.endpoint).await?;
    let batch = NewBatch {
        id: BatchId::new(),
        file: id,
        owner: caller.owner.clone(),
        endpoint: create.endpoint,
        window_secs: Some(window_secs),
        priority: 0,
        job_type: None,
        source_address: caller.source_address(),
        metadata,
        idempotency_key: idempotency_key(&headers)?,
        output_secs: Some(output_secs),
        open_max: app.options.open_batches_max,
        errors,
    };
    let batch = app.store.create_batch(batch).await.map_err(|error| match error.kind {
        Kind::Conflict => Error::new(
            StatusCode::BAD_REQUEST,
            "idempotency_key_reused",
            "This Idempotency-Key was used for another batch; use a new one.",
        ),
        _ => error.into(),
    })?;
    note(&app, &caller, batch.id, Action::Create).await;
    app.wake();
    tracing::info!(batch.id = %batch.id, file.id = %id, owner = %caller.owner, "batch created");
    Ok(axum::Json(BatchObject::from(batch).validating()))
}

pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<BatchObject>> {
    let batch = app.store.batch(&caller.scope(), ids::read_batch(&id)?).await;
    Ok(axum::Json(found(batch, &id)?.into()))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<BatchObject>> {
    let batch = ids::read_batch(&id)?;
    let cancelled = app.store.cancel_batch(&caller.scope(), batch).await;
    if cancelled.is_ok() {
        note(&app, &caller, batch, Action::Cancel).await;
        // One with nothing leased is done already, and waits to be closed.
        app.wake();
    }
    Ok(axum::Json(found(cancelled, &id)?.into()))
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<List<BatchObject>>> {
    let page = BatchesQuery {
        after_id: query.after.as_deref().map(ids::read_batch).transpose()?,
        limit: super::limit(query.limit, LIMIT_USUAL, LIMIT_MAX)?,
        ..BatchesQuery::default()
    };
    let found = app.store.batches(&caller.own(), page).await?;
    let data = found.rows.into_iter().map(BatchObject::from).collect();
    Ok(axum::Json(List::new(data, found.next.is_some(), |batch: &BatchObject| batch.id.clone())))
}

fn found(batch: windrow_store::Result<Batch>, id: &str) -> Result<Batch> {
    batch.map_err(|error| match error.kind {
        Kind::Missing => ids::no_batch(id),
        _ => error.into(),
    })
}

/// `24h`, or any other number of minutes, hours or days.
pub(crate) fn window(param: &str, text: &str) -> Result<u64> {
    let wrong = || {
        let message = format!(
            "`{param}` must be a number of minutes, hours or days, as `24h`, from one minute to 30 \
             days."
        );
        Error::invalid(param, message)
    };
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 24 * 3600,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|secs| WINDOW_SECS.contains(secs)).ok_or_else(wrong)
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<()> {
    let fits = |(key, value): (&String, &String)| {
        (1..=METADATA_KEY_CHARS_MAX).contains(&key.chars().count())
            && value.chars().count() <= METADATA_VALUE_CHARS_MAX
            && !key.contains('\0')
            && !value.contains('\0')
    };
    match metadata.len() <= METADATA_PAIRS_MAX && metadata.iter().all(fits) {
        true => Ok(()),
        false => Err(Error::invalid(
            "metadata",
            format!(
                "`metadata` has at most {METADATA_PAIRS_MAX} pairs, with keys of 1 to \
                 {METADATA_KEY_CHARS_MAX} and values of up to {METADATA_VALUE_CHARS_MAX} characters."
            ),
        )),
    }
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text =
        value.to_str().ok().filter(|text| (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&text.len()));
    match text {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Error::invalid(
            "Idempotency-Key",
            format!("It must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX} plain characters."),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_minutes_hours_or_days() {
        for (text, secs) in [("24h", 86_400), ("5m", 300), ("7d", 604_800), ("60s", 60)] {
            assert_eq!(window("w", text).unwrap(), secs);
        }
        for bad in
            ["", "h", "24", "0h", "31d", "-1h", "1.5h", "24hours", "1ü", "99999999999999999999d"]
        {
            assert!(window("w", bad).is_err(), "{bad}");
        }
    }
}
