//! Pages of messages, calls and events, whose rows may be large.
//!
//! Holds throughout: a page is read in small steps and ends early when its payloads reach a size, so
//! that neither the server nor the database holds a thousand large rows at once.

use serde::Deserialize;
use utoipa::IntoParams;
use windrow_store::Scope;
use windrow_store::inspect::{PAGE_MAX, Page};

use super::params::into_api_error;
use crate::auth::Caller;
use crate::error::Result;
use crate::pages::{SnakePage, page};
use crate::params::{PAGE_USUAL, limit, none_if_empty, scope};

/// A page ends early when its payloads have so many bytes.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Rows of the first step, and of each later one: each may be large.
const ROWS_FIRST: u32 = 16;
const ROWS_MAX: u32 = 64;

/// Whose rows, and which page of them.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Whose: `me`, or for admins an owner, or `all`.
    #[param(max_length = 256, default = "me", pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    owner: Option<String>,
    /// The `next_cursor` of the previous page of the same list.
    #[param(max_length = 1024, pattern = "^[A-Za-z0-9._-]*$")]
    after: Option<String>,
    /// How many at most; fewer when they are large.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

impl PageQuery {
    /// Whose rows the list has, and the page to fill.
    pub(super) fn read<T>(self, caller: &Caller) -> Result<(Scope, PageBuilder<T>)> {
        let scope = scope(caller, "owner", self.owner.as_deref())?;
        let limit = limit("limit", self.limit, PAGE_USUAL, PAGE_MAX)?;
        Ok((scope, PageBuilder::new(limit, self.after)))
    }
}

/// How much of a page is still to be read, when rows may be large.
pub(super) struct PageBudget {
    limit: u32,
    rows: u32,
    bytes: usize,
}

impl PageBudget {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, rows: 0, bytes: 0 }
    }

    /// How many rows to read next; none when the page is full.
    pub(super) fn next(&self) -> Option<u32> {
        let left = self.limit.saturating_sub(self.rows);
        if left == 0 || self.bytes >= PAGE_BYTES_MAX {
            return None;
        }
        let most = if self.rows == 0 { ROWS_FIRST } else { ROWS_MAX };
        Some(left.min(most))
    }

    /// Counts rows that were read.
    pub(super) fn spend(&mut self, sizes: impl IntoIterator<Item = usize>) {
        for size in sizes {
            self.rows += 1;
            self.bytes += size;
        }
    }
}

/// A page that is read in small steps, and ends early when its rows are large.
pub(super) struct PageBuilder<T> {
    page: Page<T>,
    budget: PageBudget,
    has_cursor: bool,
    /// Rows that the last step asked for; none when there are no more.
    asked: Option<u32>,
}

impl<T> PageBuilder<T> {
    pub(super) fn new(limit: u32, after: Option<String>) -> Self {
        let (budget, next) = (PageBudget::new(limit), none_if_empty(after));
        let (has_cursor, rows) = (next.is_some(), Vec::new());
        Self { page: Page { rows, next }, budget, has_cursor, asked: Some(0) }
    }

    /// The cursor and the size of the next step; none when the page is done.
    pub(super) fn next(&mut self) -> Option<(Option<String>, u32)> {
        self.asked?;
        let rows = self.budget.next()?;
        self.asked = Some(rows);
        Some((self.page.next.clone(), rows))
    }

    /// Adds the rows of a step.
    pub(super) fn add(
        &mut self,
        step: windrow_store::Result<Page<T>>,
        bytes: impl Fn(&T) -> usize,
    ) -> Result<()> {
        let step = page(step, self.has_cursor, into_api_error)?;
        self.budget.spend(step.rows.iter().map(bytes));
        let is_whole = |asked: &u32| step.rows.len() >= *asked as usize;
        self.asked = self.asked.filter(is_whole).filter(|_| step.next.is_some());
        self.page.rows.extend(step.rows);
        self.page.next = step.next;
        Ok(())
    }

    pub(super) fn finish<R: From<T>>(self) -> axum::Json<SnakePage<R>> {
        axum::Json(self.page.into())
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
