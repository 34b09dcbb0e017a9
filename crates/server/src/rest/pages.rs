//! What lists share: how a page is asked for, whose rows of which time it has, how it is answered.
//!
//! Holds throughout: an empty text is as good as none; a cursor that belongs to another list is told
//! as what it is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windrow_store::Scope;
use windrow_store::inspect::{PAGE_MAX, Page};

use super::params;
use crate::auth::Caller;
use crate::error::{Error, Result};

const PAGE_USUAL: u32 = 100;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// How many.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    page_size: Option<u32>,
    /// The `nextCursor` of the page before, which asked for the same.
    #[param(max_length = 1024, pattern = "^[A-Za-z0-9._-]*$")]
    after: Option<String>,
}

impl PageQuery {
    /// Behind which cursor, and how many rows.
    pub(super) fn read(self) -> Result<(Option<String>, u32)> {
        match self.page_size.unwrap_or(PAGE_USUAL) {
            size if (1..=PAGE_MAX).contains(&size) => Ok((params::none_if_empty(self.after), size)),
            _ => {
                let message = format!("`pageSize` must be between 1 and {PAGE_MAX}.");
                Err(Error::invalid("pageSize", message))
            }
        }
    }
}

/// Of which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct JobsQuery {
    /// Whose: `me`, or for admins an owner, or `all`.
    #[param(max_length = 256, default = "me", pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    user_id: Option<String>,
    /// Only those with this word.
    #[param(max_length = 64, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    job_type: Option<String>,
    /// Not before this time.
    #[param(schema_with = params::time_schema)]
    from: Option<String>,
    /// Before this time.
    #[param(schema_with = params::time_schema)]
    to: Option<String>,
}

/// The same, as the store is asked.
pub(super) struct Jobs {
    pub(super) scope: Scope,
    pub(super) job_type: Option<String>,
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
}

impl JobsQuery {
    pub(super) fn read(self, caller: &Caller) -> Result<Jobs> {
        Ok(Jobs {
            scope: params::scope(caller, self.user_id.as_deref())?,
            job_type: params::job_type(self.job_type)?,
            from: params::time("from", self.from.as_deref())?,
            to: params::time("to", self.to.as_deref())?,
        })
    }
}

/// Rows, and how to ask for the next ones.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Page)]
pub(crate) struct Listed<T> {
    data: Vec<T>,
    /// Null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
}

impl<T> Listed<T> {
    pub(super) fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { data, next_cursor }
    }

    pub(super) fn of<R>(page: Page<R>) -> Self
    where
        T: From<R>,
    {
        Self::new(page.rows.into_iter().map(T::from).collect(), page.next)
    }
}

/// A page of a list; a cursor that the store does not take is told as what it is.
pub(super) fn page<T>(
    none_if_empty: windrow_store::Result<Page<T>>,
    has_cursor: bool,
) -> Result<Page<T>> {
    none_if_empty.map_err(|error| match error.kind {
        windrow_store::Kind::Invalid if has_cursor => invalid_cursor(),
        _ => error.into(),
    })
}

pub(super) fn invalid_cursor() -> Error {
    let message = "`after` is no cursor of this list; begin again without it.";
    Error::invalid("after", message)
}
