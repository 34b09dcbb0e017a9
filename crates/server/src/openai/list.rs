//! Lists: `{"object": "list", "data", "first_id", "last_id", "has_more"}`.

use serde::Serialize;

/// A page of objects.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    object: &'static str,
    data: Vec<T>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

impl<T> List<T> {
    pub(crate) fn new(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> String) -> Self {
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Self { object: "list", data, first_id, last_id, has_more }
    }
}
