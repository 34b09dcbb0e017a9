//! An expression that was read and compiled, and how it is computed.

use std::sync::Arc;

use minijinja::value::Value;
use minijinja::{Error, Expression as Compiled};

use crate::context::Context;
use crate::filters::Mode;
use crate::grammar::{self, Fault, Read};
use crate::names::{Level, Names};

/// Computes a value from the names of a row and its answer.
#[derive(Debug)]
pub(crate) struct Expression {
    /// As it is written in the recipe.
    pub(crate) source: String,
    pub(crate) level: Level,
    /// The slots of the columns that it names.
    pub(crate) columns: Vec<usize>,
    /// The slot, if it is nothing but one column.
    pub(crate) lone_column: Option<usize>,
    compiled: Compiled<'static, 'static>,
}

/// Where an expression stands, which decides what it may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    /// How messages call it: `pick`.
    pub(crate) name: &'a str,
    /// What is known there.
    pub(crate) level_max: Level,
    /// Whether a missing value is an error; by its level when it is not said.
    pub(crate) mode: Option<Mode>,
}

impl<'a> Part<'a> {
    /// A part of what goes out.
    pub(crate) fn out(name: &'a str) -> Self {
        Self { name, level_max: Level::Try, mode: Some(Mode::Strict) }
    }

    /// A part of what comes in.
    pub(crate) fn back(name: &'a str, level_max: Level) -> Self {
        Self { name, level_max, mode: Some(Mode::Lenient) }
    }
}

impl Expression {
    pub(crate) fn compile(
        text: &str,
        names: &mut Names,
        part: Part<'_>,
    ) -> Result<Self, Vec<Fault>> {
        let fault = |what: String| vec![Fault { at: 0, what, instead: None }];
        let Read { rewritten, level, columns, lone_column } = grammar::read(text, names)?;
        if level > part.level_max {
            return Err(fault(match level {
                Level::It => "`it` is known after `pick` only".to_owned(),
                _ if part.level_max == Level::Row => "only the row is known here".to_owned(),
                _ => "the answer is known after the request only".to_owned(),
            }));
        }
        let by_level = if level >= Level::Answer { Mode::Lenient } else { Mode::Strict };
        let environment = part.mode.unwrap_or(by_level).environment();
        let compiled = environment
            .compile_expression_owned(rewritten)
            .map_err(|error| fault(format!("cannot be read: {error}")))?;
        Ok(Self { source: text.trim().to_owned(), level, columns, lone_column, compiled })
    }

    pub(crate) fn eval(&self, context: &Arc<Context>) -> Result<Value, Error> {
        self.compiled.eval(Value::from_dyn_object(Arc::clone(context)))
    }

    /// Whether it gives something true; what fails is not.
    pub(crate) fn is_true(&self, context: &Arc<Context>) -> bool {
        self.eval(context).is_ok_and(|value| value.is_true())
    }
}
