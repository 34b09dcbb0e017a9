//! `/v1/batches`: creates, retrieves, cancels and lists batches.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderMap;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::BatchId;
use windrow_store::Kind;
use windrow_store::batch::{Batch, NewBatch};
use windrow_store::ingest::ENDPOINT_BYTES_MAX;
use windrow_store::inspect::BatchesQuery;

use super::ids;
use super::list::List;
use super::object::BatchObject;
use super::validate::validate;
use crate::app::App;
use crate::audit_log::{Action, note};
use crate::auth::Caller;
use crate::error::{Code, Error, Result};
use crate::extract::{Json, Path, Query};
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};
use crate::params::{idempotency_key, limit, window, window_schema};
use crate::upload::ExpiresAfter;

const LIMIT_MAX: u32 = 100;
const LIMIT_USUAL: u32 = 20;
/// Batches of a page whose models are read at the same time.
const CHECKS_MAX: usize = 4;
/// What OpenAI allows of metadata.
const METADATA_PAIRS_MAX: usize = 16;
const METADATA_KEY_CHARS_MAX: usize = 64;
const METADATA_VALUE_CHARS_MAX: usize = 512;
/// A text that every database can store.
const WITHOUT_NUL: &str = "^[^\\u0000]*$";

/// A batch to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewBatch)]
pub(crate) struct NewBatchBody {
    /// A file that was uploaded for the purpose `batch`.
    input_file_id: String,
    /// The endpoint that every line of the file requests.
    #[schema(example = "/v1/chat/completions", max_length = 2048, pattern = "^/[!-~]*$")]
    endpoint: String,
    /// How long it may take: minutes, hours or days, from one minute to 30 days.
    #[schema(schema_with = completion_window_schema)]
    completion_window: String,
    /// Up to 16 pairs.
    #[schema(schema_with = metadata_schema)]
    metadata: Option<BTreeMap<String, String>>,
    output_expires_after: Option<ExpiresAfter>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The last id of the previous page.
    #[param(pattern = "^batch_[0-9a-f]{32}$")]
    after: Option<String>,
    /// How many batches.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
}

/// Creates a batch
///
/// The response comes at once, and the batch is validated then: a batch over a file with errors
/// becomes `failed`, and lists them.
#[utoipa::path(
    post, path = "/batches", operation_id = "createBatch", tag = "Batches", security(("key" = [])),
    params(("Idempotency-Key" = Option<String>, Header, max_length = 255,
        pattern = "^[!-~]([ -~]*[!-~])?$",
        description = "A repeat with the same key gets the same batch and creates no second one.")),
    request_body = NewBatchBody,
    responses((status = 200, description = "The batch.", body = BatchObject), NotFound, RequestTimeout,
        PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Json(create): Json<NewBatchBody>,
) -> Result<axum::Json<BatchObject>> {
    let window_secs = window("completion_window", &create.completion_window)?;
    let metadata = create.metadata.unwrap_or_default();
    check_metadata(&metadata)?;
    check_endpoint(&create.endpoint)?;
    let output_secs = match create.output_expires_after {
        Some(after) => after.secs("output_expires_after")?,
        None => app.options.output_retention.as_secs(),
    };
    let id = ids::parse_file(&create.input_file_id).map_err(|error| error.at("input_file_id"))?;
    let scope = caller.own();
    let file = app.store.file(&scope, id).await.map_err(|error| match error.kind {
        Kind::Missing => ids::file_not_found(&create.input_file_id).at("input_file_id"),
        _ => error.into(),
    })?;
    if file.purpose != "batch" {
        let message = "The file was not uploaded for the purpose `batch`.";
        return Err(Error::invalid("input_file_id", message));
    }
    let errors = validate(&app, &caller, &file, &create.endpoint).await?;
    let new_id = BatchId::new();
    let batch = NewBatch {
        id: new_id,
        file: id,
        owner: caller.owner.clone(),
        upstreams: app.routes.upstreams(&create.endpoint),
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
        recipe: None,
        target: None,
    };
    let batch = app.store.create_batch(batch).await.map_err(|error| match error.kind {
        Kind::Conflict => Error::new(
            Code::IdempotencyKeyReused,
            "This Idempotency-Key was used for a different batch; use a new one.",
        ),
        _ => error.into(),
    })?;
    if batch.id != new_id {
        // A repeat creates nothing: it gets the batch as it is by now.
        return Ok(axum::Json(BatchObject::of(&app, batch).await?));
    }
    note(&app, &caller, batch.id, Action::Create).await;
    app.wake();
    tracing::info!(batch.id = %batch.id, file.id = %id, owner = %caller.owner, "batch created");
    Ok(axum::Json(BatchObject::of(&app, batch).await?.validating()))
}

/// Retrieves a batch
#[utoipa::path(
    get, path = "/batches/{id}", operation_id = "retrieveBatch", tag = "Batches",
    security(("key" = [])), params(("id" = String, Path, pattern = "^batch_[0-9a-f]{32}$")),
    responses((status = 200, description = "The batch.", body = BatchObject), NotFound))]
pub(crate) async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<BatchObject>> {
    let batch = app.status(&caller.scope(), ids::parse_batch(&id)?).await;
    Ok(axum::Json(BatchObject::of(&app, found(batch, &id)?).await?))
}

/// Cancels a batch
///
/// What was finished until then stays readable. A closed batch stays as it is.
#[utoipa::path(
    post, path = "/batches/{id}/cancel", operation_id = "cancelBatch", tag = "Batches",
    security(("key" = [])), params(("id" = String, Path, pattern = "^batch_[0-9a-f]{32}$")),
    responses((status = 200, description = "The batch.", body = BatchObject), NotFound))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<axum::Json<BatchObject>> {
    let batch = ids::parse_batch(&id)?;
    let cancelled = app.store.cancel_batch(&caller.scope(), batch).await;
    if cancelled.is_ok() {
        note(&app, &caller, batch, Action::Cancel).await;
        // A batch without leases has ended already, and waits to be closed.
        app.wake();
    }
    Ok(axum::Json(BatchObject::of(&app, found(cancelled, &id)?).await?))
}

/// Lists batches
///
/// The newest first.
#[utoipa::path(
    get, path = "/batches", operation_id = "listBatches", tag = "Batches",
    security(("key" = [])), params(ListQuery),
    responses((status = 200, description = "A page of batches.", body = List<BatchObject>), NotFound))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<List<BatchObject>>> {
    let after = query.after.as_deref();
    let page = BatchesQuery {
        after_id: after
            .map(ids::parse_batch)
            .transpose()
            .map_err(|_| ids::invalid_cursor("batch"))?,
        limit: limit("limit", query.limit, LIMIT_USUAL, LIMIT_MAX)?,
        ..BatchesQuery::default()
    };
    let found = app.store.batches(&caller.own(), page).await;
    let found = found.map_err(|error| super::behind(error, after, ids::batch_not_found))?;
    let shown = found.rows.into_iter().map(|batch| BatchObject::of(&app, batch));
    let data: Vec<_> = stream::iter(shown).buffered(CHECKS_MAX).try_collect().await?;
    Ok(axum::Json(List::new(data, found.next.is_some(), |batch: &BatchObject| batch.id.clone())))
}

fn found(batch: windrow_store::Result<Batch>, id: &str) -> Result<Batch> {
    batch.map_err(|error| match error.kind {
        Kind::Missing => ids::batch_not_found(id),
        _ => error.into(),
    })
}

#[expect(
    deprecated,
    reason = "`example` is what the description had before OpenAPI 3.1's `examples`"
)]
fn completion_window_schema() -> Schema {
    let what = "How long it may take: minutes, hours or days, from one minute to 30 days.";
    window_schema().example(Some("24h".into())).description(Some(what)).into()
}

fn metadata_schema() -> Schema {
    let value = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(METADATA_VALUE_CHARS_MAX))
        .pattern(Some(WITHOUT_NUL));
    let key = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(METADATA_KEY_CHARS_MAX))
        .pattern(Some(WITHOUT_NUL));
    let pairs = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .max_properties(Some(METADATA_PAIRS_MAX))
        .property_names(Some(Schema::from(key)))
        .additional_properties(Some(Schema::from(value)))
        .description(Some("Up to 16 pairs."));
    Schema::from(pairs)
}

fn check_endpoint(endpoint: &str) -> Result<()> {
    let plain = endpoint.starts_with('/') && endpoint.bytes().all(|byte| byte.is_ascii_graphic());
    if plain && endpoint.len() <= ENDPOINT_BYTES_MAX {
        Ok(())
    } else {
        let message = "`endpoint` must be an ASCII path that starts with `/`, such as \
                    /v1/chat/completions.";
        Err(Error::invalid("endpoint", message))
    }
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<()> {
    let fits = |(key, value): (&String, &String)| {
        (1..=METADATA_KEY_CHARS_MAX).contains(&key.chars().count())
            && value.chars().count() <= METADATA_VALUE_CHARS_MAX
            && !key.contains('\0')
            && !value.contains('\0')
    };
    if metadata.len() <= METADATA_PAIRS_MAX && metadata.iter().all(fits) {
        Ok(())
    } else {
        Err(Error::invalid(
            "metadata",
            format!(
                "`metadata` may have at most {METADATA_PAIRS_MAX} pairs, with keys of 1 to \
                    {METADATA_KEY_CHARS_MAX} and values of up to {METADATA_VALUE_CHARS_MAX} characters."
            ),
        ))
    }
}
