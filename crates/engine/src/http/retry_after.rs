//! How long a target asks us to wait: `Retry-After` in both its forms, and `retry-after-ms`.
//!
//! Holds throughout: what cannot be understood asks for nothing; a time that has passed asks for no
//! wait. The retry policy bounds it.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// The more exact form some APIs send beside the standard one.
const RETRY_AFTER_MS: &str = "retry-after-ms";
const DATES: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// The wait that an answer asks for.
pub(crate) fn read(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text(RETRY_AFTER_MS).and_then(amount) {
        return Some(duration(ms / 1000.0));
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Some(secs) = amount(text) {
        return Some(duration(secs));
    }
    let until = DATES.parse_timestamp(text).ok()?;
    Some(Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// A number, also a negative one or a fraction: some servers send both.
fn amount(text: &str) -> Option<f64> {
    // `f64` would also take `inf` and `nan`.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    text.parse().ok().filter(|_| plain)
}

fn duration(secs: f64) -> Duration {
    Duration::try_from_secs_f64(secs.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn read_one(name: &'static str, value: &'static str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        // 2026-11-16 01:24:45 UTC, a Monday.
        read(&headers, Timestamp::from_second(1_794_792_285).unwrap())
    }

    #[test]
    fn a_wait_is_read_in_all_its_forms() {
        let ms = |ms| Some(Duration::from_millis(ms));
        for (text, wait) in [
            ("7", ms(7000)),
            (" 7 ", ms(7000)),
            ("0", ms(0)),
            ("1.5", ms(1500)),
            ("-3", ms(0)),
            ("99999999999999999999999", Some(Duration::MAX)),
            ("Mon, 16 Nov 2026 01:25:00 GMT", ms(15_000)),
            ("Sun, 16 Nov 2026 01:25:00 GMT", ms(15_000)),
            ("Mon, 16 Nov 2026 01:24:00 GMT", ms(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", ms(0)),
            ("soon", None),
            ("inf", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(read_one("retry-after", text), wait, "{text:?}");
        }
        assert_eq!(read_one("retry-after-ms", "250"), ms(250));
        assert_eq!(read_one("retry-after-ms", "-1"), ms(0));
        assert_eq!(read_one("x-other", "250"), None);
    }

    #[test]
    fn milliseconds_win_over_seconds() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("9"));
        headers.insert(RETRY_AFTER_MS, HeaderValue::from_static("8200"));
        assert_eq!(read(&headers, Timestamp::UNIX_EPOCH), Some(Duration::from_millis(8200)));
    }
}
