//! What the names of expressions stand for, for one row.
//!
//! Holds throughout: a cell is copied once for a row, a name of `[let]` is computed once and only when
//! it is asked for. Names were replaced by slots when the recipe was read (`grammar`): `c0` is the
//! first column that the recipe uses, `l0` the first name of `[let]`.

use std::sync::{Arc, OnceLock};

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};

use crate::answer::Fields;
use crate::expression::Expression;
use crate::names::Used;
use crate::table::{Cell, Image, Row};

/// What an upstream's answer cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Meta {
    /// Tokens of the request.
    pub tokens_in: Option<u64>,
    /// Tokens of the answer.
    pub tokens_out: Option<u64>,
    /// In the currency of the upstream's prices.
    pub cost: Option<f64>,
}

/// A row's picture as a value: its attributes may be read, and requests may hold it.
#[derive(Debug)]
pub(crate) struct Picture(pub(crate) Image);

impl Object for Picture {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let image = &self.0;
        Some(match key.as_str()? {
            "name" => Value::from(&image.name),
            "width" => Value::from(image.width),
            "height" => Value::from(image.height),
            "bytes" => Value::from(image.bytes),
            "mime" => Value::from(&image.mime),
            "taken_at" => Value::from(image.taken_at.clone()),
            "thumbnail" => Value::from(image.thumbnail.clone()),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

/// The names of a recipe that rows give values to.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    pub(crate) columns: Vec<Used>,
    /// By slot: a column that may be missing, and then is empty.
    pub(crate) optional: Vec<bool>,
    pub(crate) lets: Vec<(String, Expression)>,
    pub(crate) whole_row: bool,
}

/// The names of one row.
#[derive(Debug)]
pub(crate) struct Context {
    vocabulary: Arc<Vocabulary>,
    columns: Vec<Value>,
    lets: Vec<OnceLock<Value>>,
    row: Value,
    image: Value,
    strategy: Value,
    answer: Value,
    http: Value,
    meta: Value,
    it: OnceLock<Value>,
}

/// The answer as expressions see it.
pub(crate) struct Answered {
    pub(crate) answer: Value,
    pub(crate) status: u16,
    pub(crate) meta: Meta,
}

impl Context {
    pub(crate) fn new(
        vocabulary: &Arc<Vocabulary>,
        row: &Row<'_>,
        strategy: &str,
        answered: Option<Answered>,
    ) -> Arc<Self> {
        let columns = vocabulary.columns.iter().zip(&vocabulary.optional);
        let columns = columns.map(|(used, optional)| match row.cell(&used.name) {
            Some(cell) => value(cell),
            None if *optional => Value::from(()),
            None => Value::UNDEFINED,
        });
        let (answer, http, meta) = match answered {
            None => (Value::UNDEFINED, Value::UNDEFINED, Value::UNDEFINED),
            Some(Answered { answer, status, meta }) => {
                (answer, map([("status", Value::from(status))]), meta_value(&meta))
            }
        };
        Arc::new(Self {
            columns: columns.collect(),
            lets: vocabulary.lets.iter().map(|_| OnceLock::new()).collect(),
            row: if vocabulary.whole_row { whole(row) } else { Value::UNDEFINED },
            image: row
                .image
                .map_or(Value::UNDEFINED, |image| Value::from_object(Picture(image.clone()))),
            strategy: Value::from(strategy),
            answer,
            http,
            meta,
            it: OnceLock::new(),
            vocabulary: Arc::clone(vocabulary),
        })
    }

    /// Says what was picked.
    pub(crate) fn picked(&self, it: Value) {
        let _ = self.it.set(it);
    }

    pub(crate) fn answer(&self) -> &Value {
        &self.answer
    }

    pub(crate) fn image(&self) -> Option<Arc<Picture>> {
        self.image.downcast_object()
    }

    /// The first of these columns that the row does not have.
    pub(crate) fn missing(&self, slots: &[usize]) -> Option<&str> {
        let missing = slots.iter().find(|slot| self.columns[**slot].is_undefined())?;
        Some(self.column_name(*missing))
    }

    /// The name of the column with this slot.
    pub(crate) fn column_name(&self, slot: usize) -> &str {
        &self.vocabulary.columns[slot].name
    }

    /// The name of `[let]` with this slot; one that fails is its error.
    pub(crate) fn named(self: &Arc<Self>, slot: usize) -> Option<Value> {
        let made = self.lets.get(slot)?;
        if let Some(value) = made.get() {
            return Some(value.clone());
        }
        let (_, expression) = self.vocabulary.lets.get(slot)?;
        let value = expression.eval(self).unwrap_or_else(Value::from);
        Some(made.get_or_init(|| value).clone())
    }
}

impl Object for Context {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        Some(match key {
            "answer" => self.answer.clone(),
            "it" => self.it.get().cloned().unwrap_or(Value::UNDEFINED),
            "row" => self.row.clone(),
            "try" => self.strategy.clone(),
            "http" => self.http.clone(),
            "image" => self.image.clone(),
            "meta" => self.meta.clone(),
            _ => {
                let slot = key.get(1..)?.parse::<usize>().ok()?;
                return match key.as_bytes()[0] {
                    b'c' => self.columns.get(slot).cloned(),
                    b'l' => self.named(slot),
                    _ => None,
                };
            }
        })
    }
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Empty => Value::from(()),
        Cell::Text(text) => Value::from(text.as_str()),
        Cell::Integer(number) => Value::from(*number),
        Cell::Number(number) => Value::from(*number),
        Cell::Bool(truth) => Value::from(*truth),
    }
}

fn whole(row: &Row<'_>) -> Value {
    let cells = row.columns.names().zip(row.cells);
    let pairs = cells.map(|(name, cell)| (Box::from(name), value(cell)));
    Value::from_object(Fields::new(pairs.collect()))
}

fn meta_value(meta: &Meta) -> Value {
    map([
        ("tokens_in", Value::from(meta.tokens_in)),
        ("tokens_out", Value::from(meta.tokens_out)),
        ("cost", Value::from(meta.cost)),
    ])
}

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::from_object(Fields::new(pairs.map(|(key, value)| (Box::from(key), value)).into()))
}
