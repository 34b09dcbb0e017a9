//! A text with `{{ }}` in it.
//!
//! Absent on purpose: `{% %}` and `{# #}`. What goes out is a text with values in it; what is computed
//! is an expression.

use std::sync::Arc;

use minijinja::value::Value;

use crate::context::Context;
use crate::expression::{Expression, Part};
use crate::fault::{self, RowFault};
use crate::names::Names;
use crate::source::{Source, Text};

/// One template has at most that many `{{ }}`.
const VALUES_MAX: usize = 200;

/// Literal texts and expressions, in turn.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug)]
pub(crate) enum Piece {
    Text(String),
    Value(Expression),
}

impl Template {
    /// Reads a template; what is wrong with it becomes complaints.
    pub(crate) fn read(
        text: &Text,
        source: &mut Source<'_>,
        names: &mut Names,
        part: Part<'_>,
    ) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = 0;
        let whole = text.value.as_str();
        while let Some((at, mark)) = next_mark(whole, rest) {
            if at > rest {
                pieces.push(Piece::Text(whole[rest..at].to_owned()));
            }
            if mark != "{{" {
                let what =
                    format!("{}: there are only `{{{{ }}}}` in templates, no `{mark}`", part.name);
                source.complain(text.place(at), what);
                return None;
            }
            let start = at + 2;
            let Some(length) = inside(&whole[start..]) else {
                source.complain(text.place(at), format!("{}: this `{{{{` has no end", part.name));
                return None;
            };
            let places = text.places(start);
            names.at(places.clone());
            match Expression::compile(&whole[start..start + length], names, part) {
                Ok(expression) => pieces.push(Piece::Value(expression)),
                Err(faults) => {
                    source.faults(&places, part.name, faults);
                    return None;
                }
            }
            rest = start + length + 2;
        }
        if rest < whole.len() {
            pieces.push(Piece::Text(whole[rest..].to_owned()));
        }
        if pieces.iter().filter(|piece| matches!(piece, Piece::Value(_))).count() > VALUES_MAX {
            let what = format!("{}: a template has at most {VALUES_MAX} `{{{{ }}}}`", part.name);
            source.complain(text.place(0), what);
            return None;
        }
        Some(Self { pieces })
    }

    /// A text without `{{ }}`.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Text(text.into())] }
    }

    /// The text, if there is no `{{ }}` in it.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The expression, if there is nothing else.
    pub(crate) fn lone(&self) -> Option<&Expression> {
        match self.pieces.as_slice() {
            [Piece::Value(expression)] => Some(expression),
            _ => None,
        }
    }

    /// All of it as one text.
    pub(crate) fn print(&self, part: &str, context: &Arc<Context>) -> Result<String, RowFault> {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Value(expression) => {
                    out.push_str(&printed(part, expression, context)?);
                }
            }
            fault::within(part, out.len())?;
        }
        Ok(out)
    }
}

/// The value of an expression that goes out: a missing one fails the row.
pub(crate) fn value(
    part: &str,
    expression: &Expression,
    context: &Arc<Context>,
) -> Result<Value, RowFault> {
    match expression.eval(context) {
        Ok(value) if value.is_undefined() => Err(fault::missing(part, expression, context)),
        Ok(value) => Ok(value),
        Err(error) => Err(fault::of_error(part, expression, context, &error)),
    }
}

/// The value of an expression as a text.
pub(crate) fn printed(
    part: &str,
    expression: &Expression,
    context: &Arc<Context>,
) -> Result<String, RowFault> {
    let value = value(part, expression, context)?;
    crate::print::text(&value).map_err(|what| fault::invalid(part, &what))
}

/// The next `{{`, `{%` or `{#`.
fn next_mark(text: &str, from: usize) -> Option<(usize, &str)> {
    let bytes = text.as_bytes();
    (from..bytes.len().saturating_sub(1))
        .find(|at| bytes[*at] == b'{' && matches!(bytes[at + 1], b'{' | b'%' | b'#'))
        .map(|at| (at, &text[at..at + 2]))
}

/// How long the expression is that ends with `}}`; texts and maps inside it may hold `}`.
fn inside(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut quote) = (0, 0_usize, None);
    while at < bytes.len() {
        match (quote, bytes[at]) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(bytes[at]),
            (None, b'{') => depth += 1,
            (None, b'}') if depth > 0 => depth -= 1,
            (None, b'}') if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            (None, _) => {}
        }
        at += 1;
    }
    None
}
