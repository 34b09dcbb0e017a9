//! Filters over texts.

use minijinja::Error;
use minijinja::value::Value;

use super::call::{self, Call};
use crate::{answer, budget, json};

/// Runs over the value's text; nothing stays nothing.
fn each(call: &Call<'_>, make: impl FnOnce(&str) -> String) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    let made = make(&call.text()?);
    budget::make(made.len())?;
    Ok(Value::from(made))
}

pub(super) fn lower(call: &Call<'_>) -> Result<Value, Error> {
    each(call, str::to_lowercase)
}

pub(super) fn upper(call: &Call<'_>) -> Result<Value, Error> {
    each(call, str::to_uppercase)
}

pub(super) fn capitalize(call: &Call<'_>) -> Result<Value, Error> {
    each(call, capital)
}

pub(super) fn title(call: &Call<'_>) -> Result<Value, Error> {
    each(call, |text| text.split_inclusive(char::is_whitespace).map(capital).collect())
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.flat_map(char::to_lowercase)).collect()
}

pub(super) fn trim(call: &Call<'_>) -> Result<Value, Error> {
    let letters = call.word(0, "chars")?;
    each(call, |text| match &letters {
        Some(letters) => text.trim_matches(|letter| letters.contains(letter)).to_owned(),
        None => text.trim().to_owned(),
    })
}

pub(super) fn replace(call: &Call<'_>) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    let (from, to) = (call.word(0, "old")?, call.word(1, "new")?);
    let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
    let text = call.text()?;
    if from.is_empty() {
        return Err(call::wrong("replace needs a text to look for"));
    }
    // Counted before it is made: a short text may be replaced by a long one many times.
    let found = text.matches(&from).count();
    budget::make(text.len().saturating_add(found.saturating_mul(to.len())))?;
    Ok(Value::from(text.replace(&from, &to)))
}

pub(super) fn split(call: &Call<'_>) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    let text = call.text()?;
    let pieces: Vec<&str> = match call.word(0, "sep")? {
        Some(separator) if separator.is_empty() => {
            return Err(call::wrong("split needs a text to cut at"));
        }
        Some(separator) => text.split(&separator).take(budget::LIST_VALUES_MAX + 1).collect(),
        None => text.split_whitespace().take(budget::LIST_VALUES_MAX + 1).collect(),
    };
    budget::list(pieces.len())?;
    Ok(Value::from(pieces.into_iter().map(Value::from).collect::<Vec<_>>()))
}

pub(super) fn truncate(call: &Call<'_>) -> Result<Value, Error> {
    let letters = call.args.first().and_then(Value::as_usize);
    let letters = letters.ok_or_else(|| call::wrong("truncate needs a number of letters"))?;
    let end = call.word(1, "end")?.unwrap_or_else(|| "…".to_owned());
    each(call, |text| match text.char_indices().nth(letters) {
        None => text.to_owned(),
        Some(_) => {
            let kept = letters.saturating_sub(end.chars().count());
            text.chars().take(kept).chain(end.chars()).take(letters).collect()
        }
    })
}

pub(super) fn string(call: &Call<'_>) -> Result<Value, Error> {
    each(call, str::to_owned)
}

pub(super) fn tojson(call: &Call<'_>) -> Result<Value, Error> {
    if call.value.is_undefined() {
        return Ok(call.value.clone());
    }
    let text = json::text(call.value, budget::TEXT_BYTES_MAX)
        .map_err(|_| call::wrong(&format!("{}a text of more than 1 MiB", budget::TOO_LARGE)))?;
    budget::make(text.len())?;
    Ok(Value::from(text))
}

pub(super) fn fromjson(call: &Call<'_>) -> Result<Value, Error> {
    if call.is_nothing() {
        return Ok(call.value.clone());
    }
    let text = call.text()?;
    answer::parse(text.as_bytes()).map_err(|error| call::wrong(&format!("no JSON: {error}")))
}
