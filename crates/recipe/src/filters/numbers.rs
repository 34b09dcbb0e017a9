//! Filters over numbers, and how a text becomes one.

use minijinja::Error;
use minijinja::value::Value;

use super::call::{self, Call, at_path, wrong};
use crate::budget;

/// From here on fractions have gaps of more than one.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
/// More digits than a fraction has.
const DIGITS_MAX: i64 = 15;

/// The number that a value is, or that a text says in this recipe's way of writing numbers.
pub(super) fn number(value: &Value) -> Option<f64> {
    if value.is_number() {
        return f64::try_from(value.clone()).ok();
    }
    let text = value.as_str()?.trim();
    let plain = match budget::decimal() {
        // Points and blanks between thousands go, the comma becomes the point.
        ',' => text.replace(['.', ' ', '\u{a0}', '\u{202f}'], "").replace(',', "."),
        _ => text.replace([',', '\u{a0}', '\u{202f}'], ""),
    };
    let is_plain =
        plain.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    is_plain.then(|| plain.parse().ok())?
}

/// A whole number as one, so that it is printed and sent without `.0`.
fn value_of(number: f64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return Value::from(number as i64);
    }
    Value::from(number)
}

/// The number, or what was given for the case that there is none.
fn converted(call: &Call<'_>, make: impl FnOnce(f64) -> Value) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    match (number(call.value), call.args.first()) {
        (Some(number), _) => Ok(make(number)),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => {
            let text = crate::print::short(call.value);
            Err(wrong(&format!("`{text}` is no number")))
        }
    }
}

pub(super) fn float(call: &Call<'_>) -> Result<Value, Error> {
    if call.value.is_integer() {
        return Ok(call.value.clone());
    }
    converted(call, value_of)
}

pub(super) fn int(call: &Call<'_>) -> Result<Value, Error> {
    if call.value.is_integer() {
        return Ok(call.value.clone());
    }
    // Whole numbers beyond 53 bits are exact as texts, and stay so.
    if let Some(whole) = call.value.as_str().and_then(|text| text.trim().parse::<i64>().ok()) {
        return Ok(Value::from(whole));
    }
    converted(call, |number| value_of(number.trunc()))
}

pub(super) fn abs(call: &Call<'_>) -> Result<Value, Error> {
    converted(call, |number| value_of(number.abs()))
}

pub(super) fn round(call: &Call<'_>) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    let digits = call.args.first().and_then(Value::as_i64).unwrap_or(0);
    let found = number(call.value).ok_or_else(|| wrong("round needs a number"))?;
    let digits = i32::try_from(digits.clamp(-DIGITS_MAX, DIGITS_MAX)).unwrap_or(0);
    // By its text: `2.675 * 100` is not `267.5`.
    let rounded = match usize::try_from(digits) {
        Ok(digits) if found.abs() < WHOLE_MAX => decimal_round(found, digits),
        _ => (found * 10f64.powi(digits)).round() / 10f64.powi(digits),
    };
    Ok(value_of(rounded))
}

/// Half away from zero, of the number as it is written.
fn decimal_round(number: f64, digits: usize) -> f64 {
    let text = format!("{}", number.abs());
    let Some((whole, fraction)) = text.split_once('.') else { return number };
    if fraction.len() <= digits {
        return number;
    }
    let up = fraction.as_bytes().get(digits).is_some_and(|digit| *digit >= b'5');
    let kept = format!("{whole}.{}", &fraction[..digits]).parse().unwrap_or(number.abs());
    let step = if up { 10f64.powi(-i32::try_from(digits).unwrap_or(0)) } else { 0.0 };
    let shortest = format!("{:.digits$}", kept + step);
    shortest.parse::<f64>().unwrap_or(number.abs()).copysign(number)
}

pub(super) fn sum(call: &Call<'_>) -> Result<Value, Error> {
    if call.value.is_undefined() {
        return Ok(call.value.clone());
    }
    let attribute = call.word(usize::MAX, "attribute")?;
    let mut whole: Option<i64> = Some(0);
    let mut total = 0.0;
    for value in call.values()? {
        let value = attribute.as_ref().map_or_else(|| value.clone(), |path| at_path(&value, path));
        if value.is_undefined() || value.is_none() {
            continue;
        }
        let found = number(&value).ok_or_else(|| wrong("sum needs numbers"))?;
        whole =
            whole.and_then(|sum| sum.checked_add(value.as_i64().filter(|_| value.is_integer())?));
        total += found;
    }
    Ok(whole.map_or_else(|| value_of(total), Value::from))
}

/// Only a number, for operators that would repeat a text or a list.
pub(super) fn only(value: &Value, operator: &str) -> Result<Value, Error> {
    if value.is_number() || value.is_undefined() {
        return Ok(value.clone());
    }
    let what = match value.as_str() {
        Some(_) => format!("`{}` is a text: write `| float`", crate::print::short(value)),
        None => format!("this is a {}", value.kind()),
    };
    Err(call::wrong(&format!("{operator} needs numbers, and {what}")))
}
