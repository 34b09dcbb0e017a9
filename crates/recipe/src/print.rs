//! How templates print values.

use minijinja::value::{Value, ValueKind};
use windrow_domain::text::cut;

use crate::budget::TEXT_BYTES_MAX;
use crate::context::Picture;
use crate::json;
use crate::table::number_text;

/// As much of a value as a message shows.
const SHORT_BYTES_MAX: usize = 60;

/// A value as a text: nothing is empty, lists and maps are JSON, a picture is its name.
pub(crate) fn text(value: &Value) -> Result<String, String> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(String::new()),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        ValueKind::Bool => Ok(value.is_true().to_string()),
        ValueKind::Number if value.is_integer() => Ok(value.to_string()),
        ValueKind::Number => {
            Ok(f64::try_from(value.clone()).map_or_else(|_| String::new(), number_text))
        }
        ValueKind::Plain => match value.downcast_object_ref::<Picture>() {
            Some(picture) => Ok(picture.0.name.clone()),
            None => Err("this cannot be printed: name one of its values".to_owned()),
        },
        _ => json::text(value, TEXT_BYTES_MAX)
            .map_err(|_| format!("{}a text of more than 1 MiB", crate::budget::TOO_LARGE)),
    }
}

/// The beginning of a value, for messages.
pub(crate) fn short(value: &Value) -> String {
    let text = text(value).unwrap_or_default();
    if text.len() <= SHORT_BYTES_MAX { text } else { cut(text, SHORT_BYTES_MAX) + "…" }
}
