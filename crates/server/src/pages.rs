//! Pages of lists: rows and an opaque cursor, as the jobs API and the messages API answer them.
//!
//! Holds throughout: a cursor that belongs to another list is refused as such, by name.
//! Absent on purpose: OpenAI's lists, which go by the id of the last row (`openai/list.rs`).

use serde::Serialize;
use utoipa::ToSchema;
use windrow_store::Kind;
use windrow_store::inspect::Page;

use crate::error::{Error, Result};

/// Makes a page object: the two APIs differ in the spelling of its fields.
macro_rules! page_object {
    ($(#[$meta:meta])* $name:ident, $cursor:literal) => {
        /// Rows, and how to ask for the next ones.
        #[derive(Debug, Serialize, ToSchema)]
        $(#[$meta])*
        pub(crate) struct $name<T> {
            data: Vec<T>,
            #[doc = $cursor]
            #[schema(required)]
            next_cursor: Option<String>,
        }

        impl<T> $name<T> {
            pub(crate) fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
                Self { data, next_cursor }
            }
        }

        impl<T: From<R>, R> From<Page<R>> for $name<T> {
            fn from(page: Page<R>) -> Self {
                Self::new(page.rows.into_iter().map(T::from).collect(), page.next)
            }
        }
    };
}

page_object!(
    #[serde(rename_all = "camelCase")]
    #[schema(as = Page)]
    CamelPage,
    "Null on the last page."
);
page_object!(
    #[schema(as = Rows)]
    SnakePage,
    "Give it as `after` to go on. Null at the end."
);

/// The page that the store gave, or the error of the API: of a request with a cursor that the store
/// does not take, that the cursor is wrong.
pub(crate) fn page<T>(
    page: windrow_store::Result<Page<T>>,
    has_cursor: bool,
    into_error: impl FnOnce(windrow_store::Error) -> Error,
) -> Result<Page<T>> {
    page.map_err(|error| match error.kind {
        Kind::Invalid if has_cursor => invalid_cursor(),
        _ => into_error(error),
    })
}

/// The error of an `after` that no page of this list gave.
pub(crate) fn invalid_cursor() -> Error {
    Error::invalid("after", "`after` is not a cursor of this list; start again without it.")
}
