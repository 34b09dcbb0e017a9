//! Why a row cannot be asked for.

use std::fmt;
use std::sync::Arc;

use minijinja::{Error, ErrorKind};

use crate::budget::{TEXT_BYTES_MAX, TOO_LARGE};
use crate::context::Context;
use crate::expression::Expression;

/// A row that has no request. Permanent: the same row and recipe give the same fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// `row_incomplete`, `row_too_large` or `row_invalid`.
    pub code: &'static str,
    /// What is wrong, with the part of the recipe.
    pub message: String,
    /// The column that is to blame, where there is one.
    pub column: Option<String>,
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RowFault {}

/// A value that the request needs is not there.
pub const ROW_INCOMPLETE: &str = "row_incomplete";
/// The request, or a text in it, would be larger than its bound.
pub const ROW_TOO_LARGE: &str = "row_too_large";
/// A value cannot stand where the recipe puts it.
pub const ROW_INVALID: &str = "row_invalid";

pub(crate) fn missing(part: &str, expression: &Expression, context: &Arc<Context>) -> RowFault {
    let column = context.missing(&expression.columns).map(str::to_owned);
    let what = match &column {
        Some(column) => format!("this row has no `{column}`"),
        None => format!("`{}` has no value for this row", expression.source),
    };
    RowFault { code: ROW_INCOMPLETE, message: format!("{part}: {what}"), column }
}

/// A value that is there and empty, where nothing may be empty.
pub(crate) fn empty(part: &str, columns: &[usize], context: &Context) -> RowFault {
    let column = columns.first().map(|slot| context.column_name(*slot).to_owned());
    let what = match &column {
        Some(column) => format!("`{column}` is empty in this row"),
        None => "a value is empty in this row".to_owned(),
    };
    RowFault { code: ROW_INCOMPLETE, message: format!("{part}: {what}"), column }
}

pub(crate) fn of_error(
    part: &str,
    expression: &Expression,
    context: &Arc<Context>,
    error: &Error,
) -> RowFault {
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::UndefinedError => missing(part, expression, context),
        ErrorKind::OutOfFuel => too_large(part, "the expression takes too many steps"),
        _ if detail.starts_with(TOO_LARGE) => {
            too_large(part, detail.strip_prefix(TOO_LARGE).unwrap_or(detail))
        }
        _ if detail.is_empty() => invalid(part, &format!("`{}` fails", expression.source)),
        _ => invalid(part, detail),
    }
}

pub(crate) fn invalid(part: &str, what: &str) -> RowFault {
    match what.strip_prefix(TOO_LARGE) {
        Some(what) => too_large(part, what),
        None => RowFault { code: ROW_INVALID, message: format!("{part}: {what}"), column: None },
    }
}

pub(crate) fn too_large(part: &str, what: &str) -> RowFault {
    RowFault { code: ROW_TOO_LARGE, message: format!("{part}: {what}"), column: None }
}

/// Keeps a text that is being printed within its bound.
pub(crate) fn within(part: &str, bytes: usize) -> Result<(), RowFault> {
    if bytes > TEXT_BYTES_MAX {
        return Err(too_large(part, "a text of more than 1 MiB"));
    }
    Ok(())
}
