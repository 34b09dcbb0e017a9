//! The words of this API, read defensively: whose, which, how many, how long; and pages.

use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use windrow_domain::{Owner, Role, Stream};
use windrow_store::inspect::{PAGE_MAX, Page};
use windrow_store::{Kind, Scope};

use crate::auth::Caller;
use crate::error::{Error, Result};

/// Greatest version or position: what every database can count to.
pub(super) const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();
const PAGE_USUAL: u32 = 100;
/// A page ends early when its payloads have so many bytes.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Rows that are asked for at first, and at most at once: each may be large.
const ROWS_FIRST: u32 = 16;
const ROWS_MAX: u32 = 64;

/// Rows, and how to ask for the next ones.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rows)]
pub(crate) struct Listed<T> {
    data: Vec<T>,
    /// Give it as `after` to go on. Null at the end.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Whose a list is: one's own, or whose an admin names.
pub(super) fn scope(caller: &Caller, owner: Option<&str>) -> Result<Scope> {
    let named = match owner.map(str::trim).filter(|name| !name.is_empty()) {
        None | Some("me") => return Ok(caller.own()),
        Some(name) if name == caller.owner.as_str() => return Ok(caller.own()),
        Some(name) => name,
    };
    if caller.role != Role::Admin {
        let message = "Only an admin may list what belongs to others.";
        return Err(Error::new(StatusCode::FORBIDDEN, "admin_only", message).at("owner"));
    }
    if named == "all" {
        return Ok(Scope::All);
    }
    let owner = Owner::new(named).map_err(|bad| Error::invalid("owner", bad.to_string()))?;
    Ok(Scope::Owner(owner))
}

pub(super) fn stream(name: impl Into<String>) -> Result<Stream> {
    Stream::new(name).map_err(|bad| Error::invalid("stream", format!("The {bad}.")))
}

/// A filter by stream; an empty text is none.
pub(super) fn optional_stream(name: Option<String>) -> Result<Option<Stream>> {
    name.filter(|name| !name.is_empty()).map(stream).transpose()
}

/// A text; an empty one is none.
pub(super) fn none_if_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// How many rows were asked for, within bounds.
pub(super) fn limit(asked: Option<u32>) -> Result<u32> {
    match asked.unwrap_or(PAGE_USUAL) {
        limit if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        _ => Err(Error::invalid("limit", format!("`limit` must be between 1 and {PAGE_MAX}."))),
    }
}

/// A number within bounds, or the usual one.
pub(super) fn number(param: &str, asked: Option<u64>, usual: u64, most: u64) -> Result<u64> {
    match asked.unwrap_or(usual) {
        number if number <= most => Ok(number),
        _ => Err(Error::invalid(param, format!("`{param}` must be at most {most}."))),
    }
}

/// A time as RFC 3339 has it.
pub(super) fn time(param: &str, text: Option<&str>) -> Result<Option<Timestamp>> {
    text.map(str::parse).transpose().map_err(|_| {
        let message = format!("`{param}` must be a time with its zone, as 2026-01-31T12:00:00Z.");
        Error::invalid(param, message)
    })
}

/// What the store of messages says, for callers.
pub(super) fn into_api_error(error: windrow_store::Error) -> Error {
    match error.kind {
        Kind::Refused => messages_not_set_up(),
        Kind::Invalid => {
            let field = error.subject.clone();
            Error::from(error).at(field)
        }
        _ => error.into(),
    }
}

/// Nobody has said how messages of this database are run.
pub(super) fn messages_not_set_up() -> Error {
    let message = "Messages are not set up on this database. `windrow serve` sets them up when it \
                   starts with a runner.";
    Error::new(StatusCode::SERVICE_UNAVAILABLE, "messages_not_set_up", message).retry_after(5)
}

/// A page of a list; a cursor that the store does not take is told as what it is.
fn page<T>(given: windrow_store::Result<Page<T>>, has_cursor: bool) -> Result<Page<T>> {
    given.map_err(|error| match error.kind {
        Kind::Invalid if has_cursor => {
            let message = "`after` is no cursor of this list; begin again without it.";
            Error::invalid("after", message)
        }
        _ => into_api_error(error),
    })
}

/// How much of a page is still to be asked for, when rows may be large.
pub(super) struct PageBudget {
    limit: u32,
    rows: u32,
    bytes: usize,
}

impl PageBudget {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, rows: 0, bytes: 0 }
    }

    /// How many to ask for next; none when the page is full.
    pub(super) fn next(&self) -> Option<u32> {
        let left = self.limit.saturating_sub(self.rows);
        if left == 0 || self.bytes >= PAGE_BYTES_MAX {
            return None;
        }
        let most = if self.rows == 0 { ROWS_FIRST } else { ROWS_MAX };
        Some(left.min(most))
    }

    /// Takes note of rows that came.
    pub(super) fn spend(&mut self, sizes: impl IntoIterator<Item = usize>) {
        for size in sizes {
            self.rows += 1;
            self.bytes += size;
        }
    }
}

/// A page that is asked for in small steps, and ends early when its rows are large.
pub(super) struct PageBuilder<T> {
    page: Page<T>,
    budget: PageBudget,
    has_cursor: bool,
    /// Rows that were asked for last; none when there are no more.
    asked: Option<u32>,
}

impl<T> PageBuilder<T> {
    pub(super) fn new(limit: Option<u32>, after: Option<String>) -> Result<Self> {
        let (budget, next) = (PageBudget::new(self::limit(limit)?), none_if_empty(after));
        let (has_cursor, rows) = (next.is_some(), Vec::new());
        Ok(Self { page: Page { rows, next }, budget, has_cursor, asked: Some(0) })
    }

    /// Where the next step begins, and how many rows it has; none when the page is done.
    pub(super) fn next(&mut self) -> Option<(Option<String>, u32)> {
        self.asked?;
        let rows = self.budget.next()?;
        self.asked = Some(rows);
        Some((self.page.next.clone(), rows))
    }

    /// Takes what a step gave.
    pub(super) fn add(
        &mut self,
        step: windrow_store::Result<Page<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Result<()> {
        let step = page(step, self.has_cursor)?;
        self.budget.spend(step.rows.iter().map(bytes));
        let is_whole = |asked: &u32| step.rows.len() >= *asked as usize;
        self.asked = self.asked.filter(is_whole).filter(|_| step.next.is_some());
        self.page.rows.extend(step.rows);
        self.page.next = step.next;
        Ok(())
    }

    pub(super) fn listed<R: From<T>>(self) -> axum::Json<Listed<R>> {
        let data = self.page.rows.into_iter().map(R::from).collect();
        axum::Json(Listed { data, next_cursor: self.page.next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_asked_for_in_steps_and_ends_early_when_rows_are_large() {
        let mut budget = PageBudget::new(100);
        let mut steps = Vec::new();
        while let Some(rows) = budget.next() {
            steps.push(rows);
            budget.spend((0..rows).map(|_| 100));
        }
        assert_eq!(steps, [16, 64, 20]);
        let mut budget = PageBudget::new(1000);
        budget.spend((0..16).map(|_| 1 << 20));
        assert_eq!(budget.next(), None);
    }
}
