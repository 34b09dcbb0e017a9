//! `POST /api/jobs/{id}/reprocess`: puts finished items back to run again, in bounded steps.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windrow_domain::LineSet;
use windrow_domain::attempt::Status;
use windrow_store::batch::{LeftAlone, Reprocess, Select};

use super::items::line;
use super::params::{self, ItemOutcome, job_id, or_job_not_found};
use crate::app::App;
use crate::audit_log::{Action, note};
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::{JsonOr, Path};
use crate::openapi::error_responses::{
    NotFound, PayloadTooLarge, RequestTimeout, UnsupportedMediaType,
};

/// Most items that one request names.
const ITEMS_MAX: usize = 10_000;
/// An item that was tried so often, over all generations, is left alone unless it is forced.
const ITEM_ATTEMPTS_MAX: u32 = 20;
/// Most steps of one request; the next one moves the rest.
const STEPS_MAX: usize = 1_000;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReprocessRequest {
    #[serde(default)]
    scope: RequestScope,
    item_ids: Option<Vec<String>>,
    statuses: Option<Vec<String>>,
    #[serde(default)]
    force: bool,
    reset_attempts: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestScope {
    #[default]
    Job,
    Items,
}

/// Which items: by status, or by id.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Which)]
#[expect(
    dead_code,
    reason = "only described: `ReprocessRequest` is read, and says what does not go together"
)]
pub(crate) enum ReprocessBody {
    ByStatus(ByStatus),
    ByItems(ByItems),
}

/// Items of the job with these statuses; failed and not found ones by default.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only described")]
#[schema(as = OfJob)]
pub(crate) struct ByStatus {
    #[schema(inline, nullable = false)]
    scope: Option<JobScope>,
    #[schema(min_items = 1)]
    statuses: Option<Vec<ItemOutcome>>,
    /// Takes what a guard would leave alone, and nothing waits.
    #[schema(nullable = false)]
    force: Option<bool>,
    /// Whether items begin with no attempts behind them; they do by default.
    #[schema(nullable = false)]
    reset_attempts: Option<bool>,
}

/// These items, whatever their status.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only described")]
#[schema(as = These)]
pub(crate) struct ByItems {
    #[schema(inline)]
    scope: ItemsScope,
    /// Line numbers.
    #[schema(min_items = 1, max_items = 10000)]
    item_ids: Vec<ItemId>,
    /// Takes what a guard would leave alone, and nothing waits.
    #[schema(nullable = false)]
    force: Option<bool>,
    /// Whether items begin with no attempts behind them; they do by default.
    #[schema(nullable = false)]
    reset_attempts: Option<bool>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum JobScope {
    Job,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ItemsScope {
    Items,
}

/// The number of an item's line.
#[derive(Deserialize, ToSchema)]
#[schema(pattern = "^[1-9][0-9]{0,17}$")]
#[expect(dead_code, reason = "only described")]
struct ItemId(String);

/// What was reprocessed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Reprocessing)]
pub(crate) struct ReprocessResult {
    moved: u64,
    generation: u32,
    /// Whether another request would move more items.
    more: bool,
    left_alone: LeftAloneCounts,
}

/// Items that stay as they are.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LeftAlone)]
pub(crate) struct LeftAloneCounts {
    /// Permanent failures: trying again cannot help.
    permanent: u64,
    /// Items that were tried too often.
    too_often: u64,
    /// Named items that are being run.
    running: u64,
}

impl From<LeftAlone> for LeftAloneCounts {
    fn from(left: LeftAlone) -> Self {
        let LeftAlone { permanent, too_often, running } = left;
        Self { permanent, too_often, running }
    }
}

/// Puts finished items back to run again
///
/// Items that failed or were not found, by default. Unless it is forced, permanent failures and items that were
/// tried 20 times are left alone, and an item that was put back within the hour waits: two minutes the second
/// time, then twice as long each time.
#[utoipa::path(
    post, path = "/jobs/{id}/reprocess", operation_id = "reprocessJob", tag = "Jobs", security(("key" = [])),
    params(("id" = String, Path, format = "uuid")), request_body = Option<ReprocessBody>,
    responses((status = 200, description = "What was reprocessed.", body = ReprocessResult), NotFound, RequestTimeout,
        PayloadTooLarge, UnsupportedMediaType))]
pub(crate) async fn reprocess(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    JsonOr(asked): JsonOr<ReprocessRequest>,
) -> Result<axum::Json<ReprocessResult>> {
    let (force, reset_attempts) = (asked.force, asked.reset_attempts.unwrap_or(true));
    let (id, select, scope) = (job_id(&id)?, asked.select()?, caller.scope());
    let first = Reprocess { reset_attempts, ..Reprocess::first(id, select) };
    let mut step = if force { first } else { first.guarded(ITEM_ATTEMPTS_MAX) };
    let (mut moved, mut left_alone, mut last) = (0, LeftAlone::default(), (0, true));
    for _ in 0..STEPS_MAX {
        app.forget_status(id);
        let done = or_job_not_found(app.store.reprocess(&scope, step.clone()).await, id)?;
        moved += done.moved;
        left_alone += done.left_alone;
        last = (done.generation, done.more);
        match step.next(&done) {
            Some(next) => step = next,
            None => break,
        }
    }
    app.forget_status(id);
    note(&app, &caller, id, Action::Reprocess).await;
    app.wake();
    tracing::info!(batch.id = %id, lines = moved, "items reprocessed");
    let ((generation, more), left_alone) = (last, left_alone.into());
    Ok(axum::Json(ReprocessResult { moved, generation, more, left_alone }))
}

impl ReprocessRequest {
    fn select(self) -> Result<Select> {
        match (self.scope, self.item_ids, self.statuses) {
            (RequestScope::Job, None, statuses) => statuses_of(statuses).map(Select::Statuses),
            (RequestScope::Items, Some(items), None) => lines(&items).map(Select::Lines),
            (RequestScope::Job, Some(_), _) => {
                let message = "`itemIds` requires the scope `items`.";
                Err(Error::invalid("itemIds", message))
            }
            (RequestScope::Items, None, _) => {
                Err(Error::invalid("itemIds", "The scope `items` requires `itemIds`."))
            }
            (RequestScope::Items, Some(_), Some(_)) => {
                let message = "`statuses` requires the scope `job`; named items are reprocessed whatever \
                    their status.";
                Err(Error::invalid("statuses", message))
            }
        }
    }
}

/// The statuses to reprocess; failed and not found ones by default.
fn statuses_of(words: Option<Vec<String>>) -> Result<Vec<Status>> {
    let Some(words) = words else { return Ok(vec![Status::Failed, Status::NotFound]) };
    if words.is_empty() {
        return Err(Error::invalid(
            "statuses",
            "`statuses` is empty; omit it to reprocess all failed items.",
        ));
    }
    words.iter().map(|word| params::item_status(word).and_then(params::outcome)).collect()
}

fn lines(items: &[String]) -> Result<LineSet> {
    if !(1..=ITEMS_MAX).contains(&items.len()) {
        let message = format!("`itemIds` must have 1 to {ITEMS_MAX} entries.");
        return Err(Error::invalid("itemIds", message));
    }
    let mut lines = LineSet::new();
    for item in items {
        let line = line(item).ok_or_else(|| {
            let message = "`itemIds` must be line numbers, as text.";
            Error::invalid("itemIds", message)
        })?;
        lines.insert(line);
    }
    Ok(lines)
}
