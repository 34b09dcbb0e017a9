//! Parameters that the three APIs read the same way: the owner of a list, times, limits, numbers,
//! windows and the idempotency key.
//!
//! Holds throughout: what a caller sends is refused with the name of the parameter it came in; an
//! empty text is as good as none where a parameter is optional.

use axum::http::HeaderMap;
use jiff::Timestamp;
use utoipa::openapi::{ObjectBuilder, Type};
use windrow_domain::{Owner, Role};
use windrow_store::Scope;

use crate::auth::Caller;
use crate::error::{Code, Error, Result};

/// Greatest version or position: what every database can count to.
pub(crate) const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();
/// Rows of a page unless the caller says otherwise.
pub(crate) const PAGE_USUAL: u32 = 100;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;
/// Shortest and longest window, in seconds: one minute and thirty days.
const WINDOW_SECS: std::ops::RangeInclusive<u64> = 60..=30 * 24 * 3600;

/// A text; an empty one is none.
pub(crate) fn none_if_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The words of a list that is separated by commas, without blanks and empty ones.
pub(crate) fn words(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// Whose rows a list has: the caller's own, or those of the owner that an admin names.
pub(crate) fn scope(caller: &Caller, param: &str, owner: Option<&str>) -> Result<Scope> {
    let named = match owner.map(str::trim).filter(|name| !name.is_empty()) {
        None | Some("me") => return Ok(caller.own()),
        Some(name) if name == caller.owner.as_str() => return Ok(caller.own()),
        Some(name) => name,
    };
    if caller.role != Role::Admin {
        let message = "Only an admin may list what belongs to other owners.";
        return Err(Error::new(Code::AdminOnly, message).at(param));
    }
    if named == "all" {
        return Ok(Scope::All);
    }
    self::owner(param, named).map(Scope::Owner)
}

/// The name of an owner.
pub(crate) fn owner(param: &str, name: &str) -> Result<Owner> {
    Owner::new(name).map_err(|bad| Error::invalid(param, bad.to_string()))
}

/// A time as RFC 3339 has it.
pub(crate) fn time(param: &str, text: Option<&str>) -> Result<Option<Timestamp>> {
    text.map(str::parse).transpose().map_err(|_| {
        let message = format!(
            "`{param}` must be an RFC 3339 time with a time zone, such as 2026-01-31T12:00:00Z."
        );
        Error::invalid(param, message)
    })
}

/// How many rows a page may have: from one to `most`, `usual` unless the caller says.
pub(crate) fn limit(param: &str, asked: Option<u32>, usual: u32, most: u32) -> Result<u32> {
    match asked.unwrap_or(usual) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        _ => Err(Error::invalid(param, format!("`{param}` must be between 1 and {most}."))),
    }
}

/// A number of at most `most`, `usual` unless the caller says.
pub(crate) fn number(param: &str, asked: Option<u64>, usual: u64, most: u64) -> Result<u64> {
    match asked.unwrap_or(usual) {
        number if number <= most => Ok(number),
        _ => Err(Error::invalid(param, format!("`{param}` must be at most {most}."))),
    }
}

/// A window such as `24h`, in seconds: a number of seconds, minutes, hours or days.
pub(crate) fn window(param: &str, text: &str) -> Result<u64> {
    let wrong = || {
        let message = format!(
            "`{param}` must be a number of minutes, hours or days, such as `24h`, from one minute to \
             30 days."
        );
        Error::invalid(param, message)
    };
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 24 * 3600,
        _ => return Err(wrong()),
    };
    let digits = &text[..text.len() - 1];
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let number: u64 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
    number.checked_mul(unit).filter(|secs| WINDOW_SECS.contains(secs)).ok_or_else(wrong)
}

/// What a window looks like, for the API's description: of each unit the numbers within the bounds.
pub(crate) fn window_schema() -> ObjectBuilder {
    let days = "([1-9]|[12][0-9]|30)d";
    let hours = "([1-9][0-9]?|[1-6][0-9]{2}|7[01][0-9]|720)h";
    let minutes = "([1-9][0-9]{0,3}|[1-3][0-9]{4}|4[0-2][0-9]{3}|43[01][0-9]{2}|43200)m";
    let seconds = "([6-9][0-9]|[1-9][0-9]{2,5}|1[0-9]{6}|2[0-4][0-9]{5}|25[0-8][0-9]{4}\
                   |259[01][0-9]{3}|2592000)s";
    let pattern = format!("^({days}|{hours}|{minutes}|{seconds})$");
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern))
}

/// The `Idempotency-Key` of a request, if it has one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let plain = |text: &&str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let fits = |text: &&str| (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&text.len());
    let text = value.to_str().ok().filter(plain).filter(fits);
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        let message = format!(
            "`Idempotency-Key` must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable ASCII characters."
        );
        Error::invalid("Idempotency-Key", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_minutes_hours_or_days() {
        for (text, secs) in [("24h", 86_400), ("5m", 300), ("7d", 604_800), ("60s", 60)] {
            assert_eq!(window("w", text).unwrap(), secs);
        }
        for bad in [
            "",
            "h",
            "24",
            "0h",
            "31d",
            "-1h",
            "1.5h",
            "+1h",
            "01h",
            "24hours",
            "1ü",
            "99999999999999999999d",
        ] {
            assert!(window("w", bad).is_err(), "{bad}");
        }
    }
}
