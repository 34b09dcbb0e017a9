//! One line of an output: `{"id", "custom_id", "response": {"status_code", "request_id", "body"},
//! "error"}`, in this order.
//!
//! Holds throughout: a line is valid JSON without a line break in it, whatever the target answered;
//! a body that is JSON stands there byte by byte as it came, save for breaks between its tokens.

use std::io::Write as _;

use serde::Deserialize;
use serde::de::IgnoredAny;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, Ending};
use windrow_store::inspect::FinishedLine;
use windrow_store::record::Finished;

use super::usage::{self, Usage};
use crate::json::is_deeper_than;

/// Deepest nesting of a body that is put in as JSON. Common readers stop at 127, and the line adds
/// two levels of its own; a deeper body is put in as text, so that the line can be read.
const BODY_DEPTH_MAX: usize = 100;
/// What a completed line without an HTTP status says: an executor that is not HTTP had success.
const STATUS_OK: u16 = 200;

/// What all lines of a batch have in common.
#[derive(Debug)]
pub(super) struct Names {
    /// Of `id`, to which the line's number is added.
    id: String,
    batch: BatchId,
}

impl Names {
    pub(super) fn of(batch: BatchId) -> Self {
        Self { id: format!("batch_req_{}", batch.0.simple()), batch }
    }

    fn open(&self, out: &mut Vec<u8>, line: u64, custom_id: Option<&str>) {
        text(out, format_args!("{{\"id\":\"{}{line:08}\",\"custom_id\":", self.id));
        match custom_id {
            Some(custom_id) => string(out, custom_id),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"response\":");
    }
}

/// Writes a line with a result, and adds up what it cost. One of an earlier generation says so.
pub(super) fn put_result(
    out: &mut Vec<u8>,
    names: &Names,
    row: &FinishedLine,
    custom_id: Option<&str>,
    usage: &mut Usage,
) {
    let result = &row.result;
    names.open(out, result.line, custom_id);
    let is_completed = result.status == Status::Completed;
    let status_code = result.http_status.or(is_completed.then_some(STATUS_OK));
    match status_code {
        Some(code) => {
            let (batch, line) = (names.batch, result.line);
            let head = format_args!("{{\"status_code\":{code},\"request_id\":\"{batch}:{line}\"");
            text(out, head);
            out.extend_from_slice(b",\"body\":");
            put_body(out, result.response.as_deref(), Some(usage));
            out.push(b'}');
        }
        None => out.extend_from_slice(b"null"),
    }
    if row.earlier {
        text(out, format_args!(",\"earlier_generation\":{}", row.generation));
    }
    // An HTTP failure speaks for itself. An answer that looks well and was still refused does not.
    let is_clear = is_completed || status_code.is_some_and(|code| !(200..300).contains(&code));
    put_error(out, (!is_clear).then(|| reason(result)));
}

/// Writes a line that has no result since its batch was stopped.
pub(super) fn put_never_run(
    out: &mut Vec<u8>,
    names: &Names,
    line: u64,
    custom_id: Option<&str>,
    ending: Ending,
) {
    names.open(out, line, custom_id);
    out.extend_from_slice(b"null");
    put_error(
        out,
        Some(match ending {
            Ending::Expired => ("batch_expired", "The batch expired before this line was run."),
            Ending::Cancelled | Ending::Completed => {
                ("batch_cancelled", "The batch was cancelled before this line was run.")
            }
        }),
    );
}

fn reason(result: &Finished) -> (&str, &str) {
    let usual = match result.status {
        Status::Completed | Status::Failed => "failed",
        Status::NotFound => "not_found",
        Status::Skipped => "skipped",
    };
    let code = result.error_code.as_deref().unwrap_or(usual);
    (code, result.error.as_deref().unwrap_or("The line has no answer."))
}

fn put_error(out: &mut Vec<u8>, error: Option<(&str, &str)>) {
    match error {
        Some((code, message)) => {
            out.extend_from_slice(b",\"error\":{\"code\":");
            string(out, code);
            out.extend_from_slice(b",\"message\":");
            string(out, message);
            out.extend_from_slice(b"}}\n");
        }
        None => out.extend_from_slice(b",\"error\":null}\n"),
    }
}

/// Writes a body as JSON if it is JSON, and as a string otherwise.
pub(crate) fn put_body(out: &mut Vec<u8>, body: Option<&[u8]>, usage: Option<&mut Usage>) {
    let Some(body) = body else { return out.extend_from_slice(b"null") };
    let Ok(json) = std::str::from_utf8(body) else {
        return string(out, &String::from_utf8_lossy(body));
    };
    let json = json.trim_matches([' ', '\t', '\r', '\n']);
    if !is_json(json, usage) || is_deeper_than(json.as_bytes(), BODY_DEPTH_MAX) {
        return string(out, &String::from_utf8_lossy(body));
    }
    let mut from = 0;
    for at in memchr::memchr2_iter(b'\n', b'\r', json.as_bytes()) {
        // Within a string a break is escaped, so this one is only space.
        out.extend_from_slice(&json.as_bytes()[from..at]);
        out.push(b' ');
        from = at + 1;
    }
    out.extend_from_slice(&json.as_bytes()[from..]);
}

fn is_json(text: &str, usage: Option<&mut Usage>) -> bool {
    if let Some(usage) = usage
        && let Some(reported) = reported_usage(text.as_bytes())
    {
        usage.add(&reported);
        return true;
    }
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// What an answer says it cost, if it does and is JSON.
pub(crate) fn reported_usage(body: &[u8]) -> Option<usage::ReportedUsage> {
    memchr::memmem::find(body, b"\"usage\"")?;
    serde_json::from_slice::<AnswerWithUsage>(body).ok().map(|answer| answer.usage)
}

/// An answer that says what it cost. Reading it checks the rest, too.
#[derive(Deserialize)]
struct AnswerWithUsage {
    usage: usage::ReportedUsage,
}

fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("memory takes every string");
}

fn text(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory takes every text");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn names() -> Names {
        Names::of("00000000-0000-0000-0000-000000000007".parse().unwrap())
    }

    fn written(result: &Finished) -> (String, Value) {
        let mut out = Vec::new();
        let row = FinishedLine {
            batch: names().batch,
            lane: 0,
            finished_at: jiff::Timestamp::UNIX_EPOCH,
            generation: 0,
            earlier: false,
            result: result.clone(),
        };
        put_result(&mut out, &names(), &row, Some("a\"b"), &mut Usage::default());
        let text = String::from_utf8(out).unwrap();
        let line = text.strip_suffix('\n').unwrap();
        assert!(!line.contains(['\n', '\r']));
        (line.to_owned(), serde_json::from_str(line).unwrap())
    }

    fn finished(status: Status, http_status: Option<u16>, body: Option<&[u8]>) -> Finished {
        let response = body.map(bytes::Bytes::copy_from_slice);
        Finished { http_status, response, ..Finished::bare(0, 12, status, 1) }
    }

    #[test]
    fn a_completed_line_has_its_fields_in_order() {
        let (text, _) = written(&finished(Status::Completed, Some(200), Some(b"{\"a\": 1}\n")));
        let id = "0".repeat(31) + "7";
        let expected = format!(
            "{{\"id\":\"batch_req_{id}00000012\",\"custom_id\":\"a\\\"b\",\"response\":{{\
             \"status_code\":200,\"request_id\":\"00000000-0000-0000-0000-000000000007:12\",\
             \"body\":{{\"a\": 1}}}},\"error\":null}}"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn breaks_between_tokens_become_spaces_and_escaped_ones_stay() {
        let (text, value) =
            written(&finished(Status::Completed, None, Some(b"{\r\n\"a\":\"x\\ny\"\n}")));
        assert!(text.contains("{  \"a\":\"x\\ny\" }"));
        assert_eq!(value["response"]["body"]["a"], "x\ny");
        assert_eq!(value["response"]["status_code"], 200);
    }

    #[test]
    fn a_body_that_is_no_json_is_a_string() {
        let bodies: [(&[u8], &str); 5] = [
            (b"", ""),
            (b"not json\n", "not json\n"),
            (b"{\"a\":1} x", "{\"a\":1} x"),
            (b"\xff{", "\u{fffd}{"),
            (b"{\"a\":\"\xff\"}", "{\"a\":\"\u{fffd}\"}"),
        ];
        for (body, expected) in bodies {
            let (_, value) = written(&finished(Status::Completed, Some(200), Some(body)));
            assert_eq!(value["response"]["body"], expected);
        }
    }

    #[test]
    fn a_body_too_deep_for_common_readers_is_a_string() {
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        let (_, value) = written(&finished(Status::Completed, Some(200), Some(deep.as_bytes())));
        assert_eq!(value["response"]["body"], deep);
    }

    #[test]
    fn a_failure_shows_its_answer_or_its_reason() {
        let (_, value) = written(&finished(Status::Failed, Some(400), Some(b"{\"error\":{}}")));
        assert_eq!(
            (&value["response"]["status_code"], &value["error"]),
            (&json!(400), &json!(null))
        );
        let (_, value) = written(&finished(Status::NotFound, Some(404), None));
        assert_eq!((&value["response"]["body"], &value["error"]), (&json!(null), &json!(null)));
        let (code, error) = (Some("timeout".to_owned()), Some("No answer.".to_owned()));
        let silent = Finished { error_code: code, error, ..finished(Status::Failed, None, None) };
        let (_, value) = written(&silent);
        assert_eq!(value["response"], json!(null));
        assert_eq!(value["error"], json!({"code": "timeout", "message": "No answer."}));
        let refused = Finished { http_status: Some(200), ..silent };
        assert_eq!(written(&refused).1["error"]["code"], "timeout");
        let (_, value) = written(&finished(Status::Skipped, None, None));
        assert_eq!(value["error"]["code"], "skipped");
    }

    #[test]
    fn a_line_that_never_ran_says_why() {
        for (ending, code) in
            [(Ending::Cancelled, "batch_cancelled"), (Ending::Expired, "batch_expired")]
        {
            let mut out = Vec::new();
            put_never_run(&mut out, &names(), 123_456_789, None, ending);
            let value: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!((&value["response"], &value["custom_id"]), (&json!(null), &json!(null)));
            assert_eq!(value["error"]["code"], code);
            assert!(value["id"].as_str().unwrap().ends_with("7123456789"));
        }
    }
}
