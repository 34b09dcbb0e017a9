//! What `is` asks.

use std::cmp::Ordering;

use minijinja::value::{Value, ValueKind};

pub(super) fn boolean(value: &Value, _: Option<&Value>) -> bool {
    value.kind() == ValueKind::Bool
}

pub(super) fn defined(value: &Value, _: Option<&Value>) -> bool {
    !value.is_undefined()
}

pub(super) fn undefined(value: &Value, _: Option<&Value>) -> bool {
    value.is_undefined()
}

pub(super) fn none(value: &Value, _: Option<&Value>) -> bool {
    value.is_none()
}

pub(super) fn empty(value: &Value, _: Option<&Value>) -> bool {
    value.is_undefined() || value.is_none() || value.len() == Some(0)
}

pub(super) fn number(value: &Value, _: Option<&Value>) -> bool {
    value.is_number()
}

pub(super) fn integer(value: &Value, _: Option<&Value>) -> bool {
    value.is_number() && f64::try_from(value.clone()).is_ok_and(|number| number.fract() == 0.0)
}

pub(super) fn string(value: &Value, _: Option<&Value>) -> bool {
    value.kind() == ValueKind::String
}

pub(super) fn sequence(value: &Value, _: Option<&Value>) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

pub(super) fn mapping(value: &Value, _: Option<&Value>) -> bool {
    value.kind() == ValueKind::Map
}

pub(super) fn is_true(value: &Value, _: Option<&Value>) -> bool {
    boolean(value, None) && value.is_true()
}

pub(super) fn is_false(value: &Value, _: Option<&Value>) -> bool {
    boolean(value, None) && !value.is_true()
}

pub(super) fn eq(value: &Value, other: Option<&Value>) -> bool {
    Some(value) == other
}

pub(super) fn ne(value: &Value, other: Option<&Value>) -> bool {
    Some(value) != other
}

pub(super) fn lt(value: &Value, other: Option<&Value>) -> bool {
    order(value, other) == Some(Ordering::Less)
}

pub(super) fn le(value: &Value, other: Option<&Value>) -> bool {
    matches!(order(value, other), Some(Ordering::Less | Ordering::Equal))
}

pub(super) fn gt(value: &Value, other: Option<&Value>) -> bool {
    order(value, other) == Some(Ordering::Greater)
}

pub(super) fn ge(value: &Value, other: Option<&Value>) -> bool {
    matches!(order(value, other), Some(Ordering::Greater | Ordering::Equal))
}

/// Numbers and texts have an order among themselves; a number and a text have none.
fn order(value: &Value, other: Option<&Value>) -> Option<Ordering> {
    let other = other?;
    let kinds = (value.kind(), other.kind());
    match kinds {
        (ValueKind::Number, ValueKind::Number) | (ValueKind::String, ValueKind::String) => {
            Some(value.cmp(other))
        }
        _ => None,
    }
}

pub(super) fn is_in(value: &Value, other: Option<&Value>) -> bool {
    other.is_some_and(|other| containing(other, Some(value)))
}

pub(super) fn containing(value: &Value, other: Option<&Value>) -> bool {
    let Some(other) = other else { return false };
    match (value.as_str(), other.as_str()) {
        (Some(text), Some(part)) => text.contains(part),
        (Some(_), None) => false,
        _ => value.try_iter().is_ok_and(|mut values| values.any(|found| found == *other)),
    }
}

pub(super) fn starting_with(value: &Value, other: Option<&Value>) -> bool {
    texts(value, other).is_some_and(|(text, part)| text.starts_with(part))
}

pub(super) fn ending_with(value: &Value, other: Option<&Value>) -> bool {
    texts(value, other).is_some_and(|(text, part)| text.ends_with(part))
}

fn texts<'a>(value: &'a Value, other: Option<&'a Value>) -> Option<(&'a str, &'a str)> {
    value.as_str().zip(other?.as_str())
}
