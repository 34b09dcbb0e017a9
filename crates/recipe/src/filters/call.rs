//! What a filter is called with.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::budget;

/// The value before the `|` and what stands in the brackets.
pub(super) struct Call<'a> {
    pub(super) value: &'a Value,
    pub(super) args: &'a [Value],
    named: Option<Kwargs>,
}

/// Stands for the value of a call without one, which the grammar does not have.
const MISSING: &Value = &Value::UNDEFINED;

impl<'a> Call<'a> {
    pub(super) fn new(args: &'a [Value]) -> Self {
        let (value, args) = args.split_first().unwrap_or((MISSING, &[]));
        match args.split_last() {
            Some((last, rest)) if last.is_kwargs() => {
                let named = Kwargs::try_from(last.clone()).ok();
                Self { value, args: rest, named }
            }
            _ => Self { value, args, named: None },
        }
    }

    /// The value of another filter, without arguments.
    pub(super) fn of(value: &'a Value) -> Self {
        Self { value, args: &[], named: None }
    }

    /// Whether there is nothing to work on: then a filter gives it back.
    pub(super) fn is_nothing(&self) -> bool {
        self.value.is_undefined() || self.value.is_none()
    }

    /// The value as a text; numbers are printed.
    pub(super) fn text(&self) -> Result<String, Error> {
        text(self.value)
    }

    /// An argument that has a name.
    pub(super) fn named(&self, name: &str) -> Option<Value> {
        let named = self.named.as_ref()?;
        named.has(name).then(|| named.get::<Value>(name).ok())?
    }

    /// An argument that is a text, with or without a name.
    pub(super) fn word(&self, index: usize, name: &str) -> Result<Option<String>, Error> {
        let found = self.args.get(index).cloned().or_else(|| self.named(name));
        found.map(|value| text(&value)).transpose()
    }

    /// The values of a list, the letters of a text or the keys of a map; nothing has none of them.
    pub(super) fn values(&self) -> Result<Vec<Value>, Error> {
        values(self.value)
    }
}

/// A value as a text, as templates print it.
pub(super) fn text(value: &Value) -> Result<String, Error> {
    let text = crate::print::text(value).map_err(|what| wrong(&what))?;
    budget::make(text.len())?;
    Ok(text)
}

/// The values of a list, the letters of a text or the keys of a map.
pub(super) fn values(value: &Value) -> Result<Vec<Value>, Error> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => Ok(Vec::new()),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            budget::list(text.chars().count())?;
            Ok(text.chars().map(Value::from).collect())
        }
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            budget::visit(value.len().unwrap_or_default())?;
            value.try_iter().map(Iterator::collect)
        }
        kind => Err(wrong(&format!("a list is needed here, and this is a {kind}"))),
    }
}

/// What stands at `a.b.0` of a value; nothing where there is no such place.
pub(crate) fn at_path(value: &Value, path: &str) -> Value {
    let mut found = value.clone();
    for part in path.split('.') {
        let next = match part.parse::<usize>() {
            Ok(index) if found.kind() == ValueKind::Seq => found.get_item_by_index(index),
            _ => found.get_attr(part),
        };
        found = next.unwrap_or(Value::UNDEFINED);
    }
    found
}

pub(super) fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.to_owned())
}
