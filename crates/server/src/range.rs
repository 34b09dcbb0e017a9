//! `Range`: one range of bytes. Several at once, or another unit, get the whole, as the standard allows.

use std::ops::Range;

use axum::http::{HeaderMap, header};

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Whole,
    Part(Range<u64>),
    /// Nothing of what there is.
    Beyond,
}

pub(crate) fn read_range(headers: &HeaderMap, bytes: u64) -> Asked {
    let text = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    match text.and_then(|text| text.strip_prefix("bytes=")) {
        Some(text) => parse(text.trim(), bytes),
        None => Asked::Whole,
    }
}

fn parse(text: &str, bytes: u64) -> Asked {
    let Some((first, last)) = text.split_once('-').filter(|_| !text.contains(',')) else {
        return Asked::Whole;
    };
    let range = match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Ok(first), Err(_)) if last.trim().is_empty() => first..bytes,
        (Err(_), Ok(last)) if first.trim().is_empty() => bytes.saturating_sub(last)..bytes,
        _ => return Asked::Whole,
    };
    match range.start < range.end {
        true => Asked::Part(range),
        false => Asked::Beyond,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_has_them() {
        for (text, asked) in [
            ("0-0", Asked::Part(0..1)),
            ("2-", Asked::Part(2..10)),
            ("-3", Asked::Part(7..10)),
            ("-30", Asked::Part(0..10)),
            ("5-99", Asked::Part(5..10)),
            ("10-", Asked::Beyond),
            ("10-12", Asked::Beyond),
            ("-0", Asked::Beyond),
            ("5-4", Asked::Whole),
            ("0-1,3-4", Asked::Whole),
            ("x-y", Asked::Whole),
            ("", Asked::Whole),
            ("0-18446744073709551615", Asked::Part(0..10)),
            ("99999999999999999999999-", Asked::Whole),
        ] {
            assert_eq!(parse(text, 10), asked, "{text}");
        }
        assert_eq!(parse("0-", 0), Asked::Beyond);
    }
}
