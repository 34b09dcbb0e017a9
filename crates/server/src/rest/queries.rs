//! Query parameters that the lists of the jobs API share: which page, and of which jobs.
//!
//! Holds throughout: an empty text is as good as none.

use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;
use windrow_store::Scope;
use windrow_store::inspect::PAGE_MAX;

use super::params::{job_type, time_schema};
use crate::auth::Caller;
use crate::error::Result;
use crate::params::{PAGE_USUAL, limit, none_if_empty, scope, time};

/// Which page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// How many rows.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    page_size: Option<u32>,
    /// The `nextCursor` of the previous page of the same list.
    #[param(max_length = 1024, pattern = "^[A-Za-z0-9._-]*$")]
    after: Option<String>,
}

impl PageQuery {
    /// Behind which cursor, and how many rows.
    pub(super) fn read(self) -> Result<(Option<String>, u32)> {
        let limit = limit("pageSize", self.page_size, PAGE_USUAL, PAGE_MAX)?;
        Ok((none_if_empty(self.after), limit))
    }
}

/// Filters of lists of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(crate) struct JobsQuery {
    /// Whose: `me`, or for admins an owner, or `all`.
    #[param(max_length = 256, default = "me", pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    user_id: Option<String>,
    /// Only jobs of this type.
    #[param(max_length = 64, pattern = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$")]
    job_type: Option<String>,
    /// Created at this time or later.
    #[param(schema_with = time_schema)]
    from: Option<String>,
    /// Created before this time.
    #[param(schema_with = time_schema)]
    to: Option<String>,
}

/// The filters, as the store takes them.
pub(super) struct JobsFilter {
    pub(super) scope: Scope,
    pub(super) job_type: Option<String>,
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
}

impl JobsQuery {
    pub(super) fn read(self, caller: &Caller) -> Result<JobsFilter> {
        Ok(JobsFilter {
            scope: scope(caller, "userId", self.user_id.as_deref())?,
            job_type: job_type(self.job_type)?,
            from: time("from", none_if_empty(self.from).as_deref())?,
            to: time("to", none_if_empty(self.to).as_deref())?,
        })
    }
}
