//! Filters over lists, and `default`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::call::{self, Call, at_path, wrong};
use super::tests;
use crate::budget;

pub(super) fn default(call: &Call<'_>) -> Result<Value, Error> {
    let other = call.args.first().unwrap_or(&Value::UNDEFINED);
    let empty_text = call.value.as_str() == Some("");
    Ok(if call.is_nothing() || empty_text { other.clone() } else { call.value.clone() })
}

pub(super) fn first(call: &Call<'_>) -> Result<Value, Error> {
    one(call, |text| text.chars().next(), |values| values.into_iter().next())
}

pub(super) fn last(call: &Call<'_>) -> Result<Value, Error> {
    one(call, |text| text.chars().next_back(), |values| values.into_iter().next_back())
}

fn one(
    call: &Call<'_>,
    letter: impl FnOnce(&str) -> Option<char>,
    value: impl FnOnce(Vec<Value>) -> Option<Value>,
) -> Result<Value, Error> {
    if let Some(text) = call.value.as_str() {
        return Ok(letter(text).map_or(Value::UNDEFINED, Value::from));
    }
    Ok(value(call.values()?).unwrap_or(Value::UNDEFINED))
}

pub(super) fn length(call: &Call<'_>) -> Result<Value, Error> {
    match call.value.kind() {
        ValueKind::Undefined => Ok(Value::UNDEFINED),
        ValueKind::None => Ok(Value::from(0)),
        _ => {
            let length = call.value.len();
            length.map(Value::from).ok_or_else(|| wrong("length needs a text, list or map"))
        }
    }
}

pub(super) fn list(call: &Call<'_>) -> Result<Value, Error> {
    changed(call, Ok)
}

pub(super) fn reverse(call: &Call<'_>) -> Result<Value, Error> {
    if let Some(text) = call.value.as_str() {
        budget::make(text.len())?;
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    changed(call, |mut values| {
        values.reverse();
        Ok(values)
    })
}

/// The list made into another one; what is missing stays so.
fn changed(
    call: &Call<'_>,
    change: impl FnOnce(Vec<Value>) -> Result<Vec<Value>, Error>,
) -> Result<Value, Error> {
    if call.value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    let values = call.values()?;
    budget::list(values.len())?;
    change(values).map(Value::from)
}

pub(super) fn items(call: &Call<'_>) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    if call.value.kind() != ValueKind::Map {
        return Err(wrong("items needs a map"));
    }
    changed(call, |keys| {
        let pair = |key: Value| {
            let value = call.value.get_item(&key).unwrap_or(Value::UNDEFINED);
            Value::from(vec![key, value])
        };
        Ok(keys.into_iter().map(pair).collect())
    })
}

pub(super) fn join(call: &Call<'_>) -> Result<Value, Error> {
    if call.value.is_undefined() {
        return Ok(Value::UNDEFINED);
    }
    let between = call.word(0, "d")?.unwrap_or_default();
    let attribute = call.word(usize::MAX, "attribute")?;
    let mut joined = String::new();
    for (index, value) in call.values()?.into_iter().enumerate() {
        if index > 0 {
            joined.push_str(&between);
        }
        let value = attribute.as_ref().map_or_else(|| value.clone(), |path| at_path(&value, path));
        joined.push_str(&call::text(&value)?);
        if joined.len() > budget::TEXT_BYTES_MAX {
            break;
        }
    }
    budget::make(joined.len())?;
    Ok(Value::from(joined))
}

pub(super) fn map(call: &Call<'_>) -> Result<Value, Error> {
    let otherwise = call.named("default").unwrap_or(Value::UNDEFINED);
    if let Some(path) = call.named("attribute") {
        let path = call::text(&path)?;
        return changed(call, |values| {
            let found = values.iter().map(|value| match at_path(value, &path) {
                found if found.is_undefined() => otherwise.clone(),
                found => found,
            });
            Ok(found.collect())
        });
    }
    let name = call.word(0, "filter")?;
    let name = name.ok_or_else(|| wrong("map needs attribute='…' or the name of a filter"))?;
    let filter = super::find_filter(&name)?;
    if filter.args.0 > 0 || filter.name == "map" {
        return Err(wrong(&format!("map cannot use `{name}`: it needs arguments")));
    }
    changed(call, |values| values.iter().map(|value| (filter.run)(&Call::of(value))).collect())
}

pub(super) fn select(call: &Call<'_>) -> Result<Value, Error> {
    chosen(call, false, true)
}

pub(super) fn reject(call: &Call<'_>) -> Result<Value, Error> {
    chosen(call, false, false)
}

pub(super) fn selectattr(call: &Call<'_>) -> Result<Value, Error> {
    chosen(call, true, true)
}

pub(super) fn rejectattr(call: &Call<'_>) -> Result<Value, Error> {
    chosen(call, true, false)
}

/// The values that pass the test (or do not), by themselves or by their attribute.
fn chosen(call: &Call<'_>, by_attribute: bool, wanted: bool) -> Result<Value, Error> {
    let path = if by_attribute { call.word(0, "attribute")? } else { None };
    let args = call.args.get(usize::from(by_attribute)..).unwrap_or_default();
    let test = match args.first() {
        None => None,
        Some(name) => Some(super::find_test(&call::text(name)?)?),
    };
    if test.is_some_and(|test| test.args + 1 != args.len()) {
        return Err(wrong("this test has another number of arguments"));
    }
    changed(call, |values| {
        let passes = |value: &Value| {
            let value = path.as_ref().map_or_else(|| value.clone(), |path| at_path(value, path));
            test.map_or_else(|| value.is_true(), |test| (test.run)(&value, args.get(1)))
        };
        Ok(values.into_iter().filter(|value| passes(value) == wanted).collect())
    })
}

pub(super) fn sort(call: &Call<'_>) -> Result<Value, Error> {
    let attribute = call.word(usize::MAX, "attribute")?;
    let down = call.named("reverse").is_some_and(|value| value.is_true());
    changed(call, |values| {
        let mut keyed: Vec<_> =
            values.into_iter().map(|value| (key(&value, attribute.as_deref()), value)).collect();
        keyed.sort_by(
            |(one, _), (other, _)| {
                if down { order(other, one) } else { order(one, other) }
            },
        );
        Ok(keyed.into_iter().map(|(_, value)| value).collect())
    })
}

pub(super) fn min(call: &Call<'_>) -> Result<Value, Error> {
    extreme(call, Ordering::Less)
}

pub(super) fn max(call: &Call<'_>) -> Result<Value, Error> {
    extreme(call, Ordering::Greater)
}

/// The value whose key comes first (or last); those without a key do not count.
fn extreme(call: &Call<'_>, wanted: Ordering) -> Result<Value, Error> {
    let attribute = call.word(usize::MAX, "attribute")?;
    let mut best: Option<(Value, Value)> = None;
    for value in call.values()? {
        let key = key(&value, attribute.as_deref());
        if tests::empty(&key, None) {
            continue;
        }
        if best.as_ref().is_none_or(|(other, _)| order(&key, other) == wanted) {
            best = Some((key, value));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, value)| value))
}

fn key(value: &Value, attribute: Option<&str>) -> Value {
    attribute.map_or_else(|| value.clone(), |path| at_path(value, path))
}

/// Texts are compared without regard to case first, as people sort.
fn order(one: &Value, other: &Value) -> Ordering {
    match (one.as_str(), other.as_str()) {
        (Some(one), Some(other)) => {
            let folded = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
            folded(one).cmp(&folded(other)).then_with(|| one.cmp(other))
        }
        _ => one.cmp(other),
    }
}

pub(super) fn unique(call: &Call<'_>) -> Result<Value, Error> {
    let attribute = call.word(usize::MAX, "attribute")?;
    changed(call, |values| {
        let mut seen = BTreeSet::new();
        let is_new = |value: &Value| seen.insert(key(value, attribute.as_deref()));
        Ok(values.into_iter().filter(is_new).collect())
    })
}
