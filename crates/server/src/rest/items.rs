//! `/api/jobs/{id}/items`: the items of a job.
//!
//! Finished items are ordered by line, the others by when they last moved: each group has one order that
//! pages can follow. `sort` says which group comes first when both are listed. With `updatedAt`, a client
//! that pages through a running job misses none: an item that moves on appears again, further ahead.

use axum::extract::State;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::{IntoParams, ToSchema};
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, InstanceId};
use windrow_store::inspect::{
    FinishedLine, FinishedQuery, PendingLine, PendingQuery, Place, Summary,
};
use windrow_store::record::Finished;
use windrow_store::{Scope, Store};

use super::params::{self, ItemStatus, job_id, or_job_not_found};
use super::queries::PageQuery;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::openapi::error_responses::NotFound;
use crate::pages::{CamelPage, invalid_cursor, page};
use crate::params::none_if_empty;

/// Most bytes of results in one page; a page with more ends early, and goes on with the next.
const PAGE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only items with these statuses, separated by commas.
    #[param(value_type = Option<Vec<ItemStatus>>, inline, style = Form, explode = false)]
    statuses: Option<String>,
    /// Which kind comes first: finished ones by line, as usual, or the others by when they moved
    /// last.
    #[param(inline, nullable = false)]
    sort: Option<Sort>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum Sort {
    #[default]
    Line,
    UpdatedAt,
}

/// The state of an item, in every list of items.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ItemStanding)]
pub(super) struct ItemState {
    /// The line number of the item.
    #[schema(pattern = "^[1-9][0-9]*$")]
    item_id: String,
    #[schema(value_type = String, format = "uuid")]
    job_id: BatchId,
    status: ItemStatus,
    attempts: u32,
    /// The instance that runs it.
    #[schema(value_type = Option<String>, format = "uuid", required)]
    locked_by: Option<InstanceId>,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    locked_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The earliest time of the next attempt.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    not_before: Option<Timestamp>,
    #[schema(required)]
    custom_id: Option<String>,
}

/// An item with its result.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    #[serde(flatten)]
    state: ItemState,
    /// Only for items without a result.
    #[schema(required)]
    input_summary: Option<InputSummary>,
    #[schema(required)]
    http_status: Option<u16>,
    #[schema(required)]
    error_code: Option<String>,
    #[schema(required)]
    error: Option<String>,
    /// The response: any JSON.
    #[schema(value_type = Value, required)]
    result: Option<Box<RawValue>>,
}

/// The first few fields of an item's input, by their own names: of a request its `custom_id`, `url` and
/// `model`, of any other object its first three scalars.
#[derive(Debug, ToSchema)]
#[schema(value_type = std::collections::BTreeMap<String, String>)]
pub(super) struct InputSummary(Vec<(String, String)>);

impl Serialize for InputSummary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Lists the items of a job
#[utoipa::path(
    get, path = "/jobs/{id}/items", operation_id = "listItems", tag = "Items", security(("key" = [])),
    params(("id" = String, Path, format = "uuid"), ListQuery, PageQuery),
    responses((status = 200, description = "A page of items.", body = CamelPage<Item>), NotFound))]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
) -> Result<axum::Json<CamelPage<Item>>> {
    let (id, scope) = (job_id(&id)?, caller.scope());
    let statuses = params::item_statuses(query.statuses.as_deref())?;
    let (after, limit) = page.read()?;
    // An empty list would not say that the job does not exist.
    or_job_not_found(app.store.batch(&scope, id).await, id)?;
    let query = ItemsQuery {
        store: &*app.store,
        scope: &scope,
        id,
        places: statuses.iter().flat_map(|status| status.places()).copied().collect(),
        outcomes: statuses.iter().filter_map(|status| status.outcome()).collect(),
        groups: ItemGroup::selected(&statuses, query.sort.unwrap_or_default()),
    };
    query.page(after.as_deref(), limit).await.map(axum::Json)
}

/// The line number that an item id names. Databases store it as a signed number.
pub(super) fn line(item: &str) -> Option<u64> {
    let is_plain = item.bytes().all(|byte| byte.is_ascii_digit());
    let line = item.parse().ok().filter(|line| is_plain && *line > 0)?;
    i64::try_from(line).is_ok().then_some(line)
}

/// The two groups of items, each with its own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemGroup {
    Finished,
    Pending,
}

impl ItemGroup {
    fn prefix(self) -> &'static str {
        match self {
            ItemGroup::Finished => "f.",
            ItemGroup::Pending => "p.",
        }
    }

    /// The groups that have items with these statuses, in order. No status means all.
    fn selected(statuses: &[ItemStatus], sort: Sort) -> Vec<ItemGroup> {
        let mut groups = match sort {
            Sort::Line => vec![ItemGroup::Finished, ItemGroup::Pending],
            Sort::UpdatedAt => vec![ItemGroup::Pending, ItemGroup::Finished],
        };
        let is_of = |group: ItemGroup, status: &ItemStatus| match group {
            ItemGroup::Finished => status.outcome().is_some(),
            ItemGroup::Pending => status.outcome().is_none(),
        };
        groups.retain(|group| {
            statuses.is_empty() || statuses.iter().any(|status| is_of(*group, status))
        });
        groups
    }
}

/// A query for the items of a job.
struct ItemsQuery<'a> {
    store: &'a dyn Store,
    scope: &'a Scope,
    id: BatchId,
    places: Vec<Place>,
    outcomes: Vec<Status>,
    groups: Vec<ItemGroup>,
}

impl ItemsQuery<'_> {
    async fn page(&self, after: Option<&str>, limit: u32) -> Result<CamelPage<Item>> {
        let (mut no, mut after) = self.begin(after)?;
        let mut items = Vec::new();
        while let Some(group) = self.groups.get(no) {
            let room = limit - u32::try_from(items.len()).unwrap_or(limit);
            let cursor = |next: String| Some(format!("{}{next}", group.prefix()));
            if room == 0 {
                return Ok(CamelPage::new(items, cursor(String::new())));
            }
            let (rows, next) = self.rows(*group, after.take(), room).await?;
            items.extend(rows);
            match next {
                // The page is full, or has as many bytes as it may have.
                Some(next) => return Ok(CamelPage::new(items, cursor(next))),
                None => no += 1,
            }
        }
        Ok(CamelPage::new(items, None))
    }

    /// The group that a page starts in, and the cursor within it.
    fn begin(&self, after: Option<&str>) -> Result<(usize, Option<String>)> {
        let Some(after) = after else { return Ok((0, None)) };
        let fits = |(no, group): (usize, &ItemGroup)| {
            let rest = after.strip_prefix(group.prefix())?;
            Some((no, none_if_empty(Some(rest.to_owned()))))
        };
        let found = self.groups.iter().enumerate().find_map(fits);
        found.ok_or_else(invalid_cursor)
    }

    async fn rows(
        &self,
        group: ItemGroup,
        after: Option<String>,
        limit: u32,
    ) -> Result<(Vec<Item>, Option<String>)> {
        match group {
            ItemGroup::Finished => {
                let query = FinishedQuery {
                    batch: Some(self.id),
                    statuses: self.outcomes.clone(),
                    bodies: true,
                    bytes_max: Some(PAGE_BYTES_MAX),
                    after,
                    limit,
                    ..FinishedQuery::default()
                };
                let has_cursor = query.after.is_some();
                let page =
                    page(self.store.finished(self.scope, query).await, has_cursor, Error::from)?;
                Ok((page.rows.into_iter().map(Item::from).collect(), page.next))
            }
            ItemGroup::Pending => {
                let query = PendingQuery {
                    batch: Some(self.id),
                    places: self.places.clone(),
                    after,
                    limit,
                    ..PendingQuery::default()
                };
                let has_cursor = query.after.is_some();
                let page =
                    page(self.store.pending(self.scope, query).await, has_cursor, Error::from)?;
                Ok((page.rows.into_iter().map(Item::from).collect(), page.next))
            }
        }
    }
}

impl From<FinishedLine> for Item {
    fn from(line: FinishedLine) -> Self {
        let result = result(&line.result);
        let FinishedLine { batch, finished_at, result: finished, .. } = line;
        let state = ItemState {
            item_id: finished.line.to_string(),
            job_id: batch,
            status: finished.status.into(),
            attempts: finished.attempts,
            locked_by: None,
            locked_at: None,
            updated_at: finished_at,
            not_before: None,
            custom_id: finished.custom_id,
        };
        Self {
            state,
            input_summary: None,
            http_status: finished.http_status,
            error_code: finished.error_code,
            error: finished.error,
            result,
        }
    }
}

/// The shaped result; without a shape, the response itself.
fn result(finished: &Finished) -> Option<Box<RawValue>> {
    if let Some(shaped) = &finished.shaped {
        return RawValue::from_string(shaped.clone()).ok();
    }
    let text = String::from_utf8_lossy(finished.response.as_ref()?).into_owned();
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(json) => Some(json.to_owned()),
        Err(_) => to_raw_value(&text).ok(),
    }
}

impl From<&PendingLine> for ItemState {
    fn from(line: &PendingLine) -> Self {
        Self {
            item_id: line.line.to_string(),
            job_id: line.batch,
            status: line.place.into(),
            attempts: line.attempts,
            locked_by: line.held_by,
            locked_at: line.held_since,
            updated_at: line.updated_at,
            not_before: line.not_before,
            custom_id: line.summary.custom_id.clone(),
        }
    }
}

impl From<PendingLine> for Item {
    fn from(line: PendingLine) -> Self {
        Self {
            state: ItemState::from(&line),
            input_summary: Some(line.summary.into()),
            http_status: None,
            error_code: line.last_error_code,
            error: line.last_error,
            result: None,
        }
    }
}

impl From<Summary> for InputSummary {
    fn from(summary: Summary) -> Self {
        Self(summary.fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_named_by_its_line() {
        assert_eq!(line("1"), Some(1));
        for bad in ["", "0", "-1", "+1", "x", "1.0", "18446744073709551615", " 1"] {
            assert_eq!(line(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_sort_says_which_part_comes_first() {
        use ItemStatus::{Done, Pending};
        assert_eq!(ItemGroup::selected(&[], Sort::Line), [ItemGroup::Finished, ItemGroup::Pending]);
        assert_eq!(
            ItemGroup::selected(&[Done, Pending], Sort::UpdatedAt),
            [ItemGroup::Pending, ItemGroup::Finished]
        );
        assert_eq!(ItemGroup::selected(&[Done], Sort::UpdatedAt), [ItemGroup::Finished]);
        assert_eq!(ItemGroup::selected(&[Pending], Sort::Line), [ItemGroup::Pending]);
    }
}
