//! Operators that could make much of little: expressions are written with these in their place.

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::call::{self, Call, wrong};
use super::numbers;
use crate::budget;

/// `a ~ b`: both as one text.
pub(super) fn concat(call: &Call<'_>) -> Result<Value, Error> {
    let right = call.args.first().unwrap_or(&Value::UNDEFINED);
    // Nothing prints as nothing only where it may: in strict places it is missed when it is printed.
    if call.value.is_undefined() || right.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    let (left, right) = (call.text()?, call::text(right)?);
    budget::make(left.len() + right.len())?;
    Ok(Value::from(left + &right))
}

/// Either side of `*`: a text or list is refused instead of repeated.
pub(super) fn number(call: &Call<'_>) -> Result<Value, Error> {
    numbers::only(call.value, "`*`")
}

/// `a + b`: two numbers together, or two texts one behind the other.
pub(super) fn plus(call: &Call<'_>) -> Result<Value, Error> {
    let right = call.args.first().unwrap_or(&Value::UNDEFINED);
    if call.value.kind() == ValueKind::String && right.kind() == ValueKind::String {
        return concat(call);
    }
    if call.value.is_undefined() || right.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    numbers::only(call.value, "`+`")?;
    numbers::only(right, "`+`")?;
    if call.value.is_integer() && right.is_integer() {
        let (left, right) = (call.value.as_i64(), right.as_i64());
        let sum = left.zip(right).and_then(|(left, right)| left.checked_add(right));
        return sum.map(Value::from).ok_or_else(|| wrong("the sum has more than 64 bits"));
    }
    let sum = numbers::number(call.value).zip(numbers::number(right));
    sum.map(|(left, right)| Value::from(left + right)).ok_or_else(|| wrong("`+` needs numbers"))
}

/// `a[start:stop:step]`: a part of a text or list.
pub(super) fn slice(call: &Call<'_>) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    let bound = |index: usize| match call.args.get(index) {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| wrong("a slice needs whole numbers")),
    };
    let (start, stop, step) = (bound(0)?, bound(1)?, bound(2)?.unwrap_or(1));
    let values = call.values()?;
    let length = i64::try_from(values.len()).unwrap_or(i64::MAX);
    if step == 0 {
        return Err(wrong("the step of a slice is not 0"));
    }
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(low, high);
    let mut at = start.map_or(if step > 0 { low } else { high }, clamp);
    let end = stop.map_or(if step > 0 { high } else { low }, clamp);
    let mut chosen = Vec::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        chosen.extend(usize::try_from(at).ok().and_then(|at| values.get(at)).cloned());
        at = at.saturating_add(step);
    }
    if call.value.kind() != ValueKind::String {
        budget::list(chosen.len())?;
        return Ok(Value::from(chosen));
    }
    let text: String = chosen.iter().filter_map(Value::as_str).collect();
    budget::make(text.len())?;
    Ok(Value::from(text))
}
