//! Lists: `{"object": "list", "data", "first_id", "last_id", "has_more"}`.

use serde::Serialize;
use utoipa::ToSchema;

/// A page of objects.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct List<T> {
    #[schema(inline)]
    object: ListTag,
    data: Vec<T>,
    #[schema(required)]
    first_id: Option<String>,
    /// Where the next page goes on, as its `after`.
    #[schema(required)]
    last_id: Option<String>,
    has_more: bool,
}

/// The word that says what an object is.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ListTag {
    List,
}

impl<T> List<T> {
    pub(crate) fn new(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> String) -> Self {
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Self { object: ListTag::List, data, first_id, last_id, has_more }
    }
}
