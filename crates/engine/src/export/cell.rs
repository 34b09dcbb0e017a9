//! One row: what a finished line holds in each column.

use std::borrow::Cow;

use serde_json::{Number, Value};
use windrow_domain::Target;
use windrow_store::inspect::FinishedLine;

use super::Column;
use crate::output::put_body;

/// What spreadsheets take for the beginning of a formula, some of them also in its wide form, or
/// drop before they look for one.
const FUSES: [&str; 11] = ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"];
/// What stands before such a text, so that it is none.
const QUOTE: &str = "'";
/// Beyond this, not every whole number is one that spreadsheets can hold.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// What a cell of a workbook holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Empty,
    Number(f64),
    Text(Cow<'a, str>),
}

fn is_fuse(text: &[u8]) -> bool {
    FUSES.iter().any(|fuse| text.starts_with(fuse.as_bytes()))
}

fn is_number(body: &[u8]) -> bool {
    // Most bodies are objects; only what may be a number is read as one.
    body.first().is_some_and(|first| matches!(first, b'-' | b'0'..=b'9'))
        && serde_json::from_slice::<Number>(body).is_ok()
}

fn read_number(body: &[u8]) -> Option<f64> {
    is_number(body).then(|| serde_json::from_slice(body).ok()).flatten().as_ref().and_then(exact)
}

/// The number, when nothing of it is lost in a spreadsheet.
fn exact(number: &Number) -> Option<f64> {
    number
        .as_f64()
        .filter(|value| value.is_finite() && (number.is_f64() || value.abs() < WHOLE_MAX))
}

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
    pub(super) fn text(&self, column: &Column, defuse: bool) -> Cow<'_, [u8]> {
        let text = match (column, &self.line.result.response) {
            (Column::Response, Some(body)) if is_number(body) => return Cow::Borrowed(body),
            (Column::Response, Some(body)) => Cow::Borrowed(&**body),
            (Column::Response, None) => Cow::Borrowed(&b""[..]),
            _ => match self.value(column) {
                Value::Null => Cow::Borrowed(&b""[..]),
                Value::String(text) => Cow::Owned(text.into_bytes()),
                other => return Cow::Owned(other.to_string().into_bytes()),
            },
        };
        if defuse && is_fuse(&text) { Cow::Owned([QUOTE.as_bytes(), &text].concat()) } else { text }
    }

    /// The cell of a workbook: the same, with numbers as numbers.
    pub(super) fn cell(&self, column: &Column, defuse: bool) -> Cell<'_> {
        let number = match (column, &self.line.result.response) {
            (Column::Response, Some(body)) => read_number(body),
            (Column::Response, None) => None,
            _ => match self.value(column) {
                Value::Number(number) => exact(&number),
                _ => None,
            },
        };
        if let Some(number) = number {
            return Cell::Number(number);
        }
        match self.text(column, defuse) {
            text if text.is_empty() => Cell::Empty,
            Cow::Borrowed(text) => Cell::Text(String::from_utf8_lossy(text)),
            Cow::Owned(text) => Cell::Text(String::from_utf8_lossy(&text).into_owned().into()),
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
            Column::Earlier => self.line.earlier.into(),
            Column::Part(pointer) => {
                let part = self.answer.as_ref().and_then(|answer| answer.pointer(pointer));
                part.cloned().unwrap_or_default()
            }
            // Written as it came, see above.
            Column::Response => Value::Null,
        }
    }
}
