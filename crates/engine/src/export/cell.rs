//! One row: what a finished line holds in each column.

use std::borrow::Cow;

use serde_json::Value;
use windrow_domain::Target;
use windrow_store::inspect::FinishedLine;

use super::Column;
use crate::output::put_body;

/// A finished line, with its answer parsed when parts of it are wanted.
pub(super) struct Row<'a> {
    line: &'a FinishedLine,
    target: Option<&'a Target>,
    answer: Option<Value>,
}

impl<'a> Row<'a> {
    pub(super) fn of(
        line: &'a FinishedLine,
        target: Option<&'a Target>,
        columns: &[Column],
    ) -> Self {
        let is_wanted = columns.iter().any(|column| matches!(column, Column::Part(_)));
        let body = line.result.response.as_ref().filter(|_| is_wanted);
        Self { line, target, answer: body.and_then(|body| serde_json::from_slice(body).ok()) }
    }

    /// The cell of a CSV: text as it is, other JSON as JSON, nothing for null.
    pub(super) fn text(&self, column: &Column) -> Cow<'_, [u8]> {
        match (column, &self.line.result.response) {
            (Column::Response, Some(body)) => Cow::Borrowed(body),
            (Column::Response, None) => Cow::Borrowed(b""),
            _ => match self.value(column) {
                Value::Null => Cow::Borrowed(b""),
                Value::String(text) => Cow::Owned(text.into_bytes()),
                other => Cow::Owned(other.to_string().into_bytes()),
            },
        }
    }

    /// The row as a JSON object on a line of its own.
    pub(super) fn put_json(&self, out: &mut Vec<u8>, columns: &[Column]) {
        const WHOLE: &str = "memory takes every value";
        for (no, column) in columns.iter().enumerate() {
            out.push(if no == 0 { b'{' } else { b',' });
            serde_json::to_writer(&mut *out, &column.to_string()).expect(WHOLE);
            out.push(b':');
            match column {
                Column::Response => put_body(out, self.line.result.response.as_deref(), None),
                column => serde_json::to_writer(&mut *out, &self.value(column)).expect(WHOLE),
            }
        }
        out.extend_from_slice(if columns.is_empty() { b"{}\n" } else { b"}\n" });
    }

    fn value(&self, column: &Column) -> Value {
        let result = &self.line.result;
        match column {
            Column::Line => result.line.into(),
            Column::CustomId => result.custom_id.as_deref().into(),
            Column::Target => self.target.map(Target::as_str).into(),
            Column::Status => result.status.as_str().into(),
            Column::Attempts => result.attempts.into(),
            Column::HttpStatus => result.http_status.into(),
            Column::ErrorCode => result.error_code.as_deref().into(),
            Column::Error => result.error.as_deref().into(),
            Column::FinishedAt => self.line.finished_at.to_string().into(),
            Column::Part(pointer) => {
                let part = self.answer.as_ref().and_then(|answer| answer.pointer(pointer));
                part.cloned().unwrap_or_default()
            }
            // Written as it came, see above.
            Column::Response => Value::Null,
        }
    }
}
