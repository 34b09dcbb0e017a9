//! A target that answers with what it was asked, and now and then is as moody as a real one.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use windrow::domain::attempt::{Class, Failure};

/// What came of one try.
pub(crate) enum Answer {
    /// An answer, with its HTTP status.
    Good { http_status: u16, body: Vec<u8> },
    /// None, with the HTTP status if there was one.
    Bad { http_status: u16, failure: Failure },
    /// The line was not to be tried at all.
    Skip,
}

/// What the echo reads of a line.
#[derive(Deserialize)]
pub(crate) struct Asked<'a> {
    pub(crate) custom_id: String,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// Answers a line. Of every hundred lines, four are answered only the second time, one is refused,
/// one is not found and one is skipped.
pub(crate) fn answer(asked: &Asked<'_>, line: u64, attempt: u32) -> Answer {
    match line % 100 {
        42 => bad(400, Class::Permanent, "http_400", "The echo refuses to repeat this."),
        66 => bad(404, Class::NotFound, "http_404", "The echo never heard of this."),
        99 => Answer::Skip,
        of if of % 25 == 7 && attempt == 1 => {
            bad(503, Class::Server, "http_503", "The echo is out of breath.")
        }
        _ => {
            let input = asked.body.map_or("null", RawValue::get);
            let body = format!(r#"{{"object":"echo","asked":{input}}}"#).into_bytes();
            Answer::Good { http_status: 200, body }
        }
    }
}

fn bad(http_status: u16, class: Class, code: &str, message: &str) -> Answer {
    let retry_after = (http_status == 503).then_some(Duration::from_millis(10));
    let (code, message) = (code.to_owned(), message.to_owned());
    Answer::Bad { http_status, failure: Failure { class, code, message, retry_after } }
}
