//! The `Range` header: one range of bytes. Several at once, or another unit, get the whole file, as the
//! standard allows.

use std::ops::Range;

use axum::http::{HeaderMap, header};

/// The bytes that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedRange {
    Whole,
    Part(Range<u64>),
    /// A range outside the file.
    Unsatisfiable,
}

pub(crate) fn read_range(headers: &HeaderMap, bytes: u64) -> RequestedRange {
    let text = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    match text.and_then(|text| text.strip_prefix("bytes=")) {
        Some(text) => parse(text.trim(), bytes),
        None => RequestedRange::Whole,
    }
}

fn parse(text: &str, bytes: u64) -> RequestedRange {
    let Some((first, last)) = text.split_once('-').filter(|_| !text.contains(',')) else {
        return RequestedRange::Whole;
    };
    let range = match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Ok(first), Err(_)) if last.trim().is_empty() => first..bytes,
        (Err(_), Ok(last)) if first.trim().is_empty() => bytes.saturating_sub(last)..bytes,
        _ => return RequestedRange::Whole,
    };
    if range.start < range.end {
        RequestedRange::Part(range)
    } else {
        RequestedRange::Unsatisfiable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_has_them() {
        for (text, asked) in [
            ("0-0", RequestedRange::Part(0..1)),
            ("2-", RequestedRange::Part(2..10)),
            ("-3", RequestedRange::Part(7..10)),
            ("-30", RequestedRange::Part(0..10)),
            ("5-99", RequestedRange::Part(5..10)),
            ("10-", RequestedRange::Unsatisfiable),
            ("10-12", RequestedRange::Unsatisfiable),
            ("-0", RequestedRange::Unsatisfiable),
            ("5-4", RequestedRange::Whole),
            ("0-1,3-4", RequestedRange::Whole),
            ("x-y", RequestedRange::Whole),
            ("", RequestedRange::Whole),
            ("0-18446744073709551615", RequestedRange::Part(0..10)),
            ("99999999999999999999999-", RequestedRange::Whole),
        ] {
            assert_eq!(parse(text, 10), asked, "{text}");
        }
        assert_eq!(parse("0-", 0), RequestedRange::Unsatisfiable);
    }
}
