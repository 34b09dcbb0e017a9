//! The body of a request, built from values: a cell with a quote in it cannot break JSON.

use std::sync::Arc;

use minijinja::value::{Value, ValueKind};
use toml::de::DeValue;

use crate::answer;
use crate::context::{Context, Picture};
use crate::expression::{Expression, Part};
use crate::fault::{self, RowFault};
use crate::json::{Pictures, TooLarge, Writer};
use crate::names::Names;
use crate::source::{Field, Source, Text};
use crate::template::{self, Piece, Template};

/// A body as it is sent, pictures included.
pub(crate) const BODY_BYTES_MAX: usize = 32 << 20;
/// JSON in a text, as the parser of TOML has its own bound for tables.
const DEPTH_MAX: usize = 64;

/// A value that is made for each row.
#[derive(Debug)]
pub(crate) enum Body {
    /// JSON that no row changes.
    Fixed(String),
    /// A text with values in it.
    Text(Template),
    /// Nothing but one value, which keeps its type; `none` leaves it out.
    One(Expression),
    Object(Vec<(String, Body)>),
    Array(Vec<Body>),
    /// The address of a picture: the row's own as data, or a text.
    Picture(Template),
}

/// Reads bodies; what is wrong becomes complaints.
pub(crate) struct BodyReader<'a, 't> {
    pub(crate) source: &'a mut Source<'t>,
    pub(crate) names: &'a mut Names,
}

impl<'t> BodyReader<'_, 't> {
    /// A table, or a text: JSON, or nothing but one `{{ }}`.
    pub(crate) fn body(&mut self, field: Field<'t>) -> Option<Body> {
        if !field.value.is_str() {
            if field.value.is_table() {
                return self.toml(field);
            }
            self.source.complain(field.range.start, "`body` is a table, or JSON in a text");
            return None;
        }
        let text = self.source.text_of("body", field)?;
        if text.value.trim().starts_with("{{") {
            let trimmed = text.instead(text.value.trim().to_owned());
            let template = self.template(&trimmed)?;
            if template.lone().is_none() {
                self.source.complain(text.place(0), "`body` is JSON, or one `{{ }}` alone");
                return None;
            }
            return Some(from_template(template));
        }
        match answer::parse(text.value.as_bytes()) {
            Ok(value) => self.json(&text, &value, 0),
            Err(error) => {
                let at = offset(&text.value, error.line(), error.column());
                self.source.complain(text.place(at), format!("body: this is no JSON: {error}"));
                None
            }
        }
    }

    pub(crate) fn template(&mut self, text: &Text) -> Option<Template> {
        Template::read(text, self.source, self.names, Part::out("body"))
    }

    pub(crate) fn toml(&mut self, field: Field<'t>) -> Option<Body> {
        let at = field.range.start;
        match field.value {
            DeValue::String(_) => {
                let text = self.source.text_of("body", field)?;
                self.template(&text).map(from_template)
            }
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Some(Body::Fixed(number.to_string())),
                    Err(_) => {
                        self.source.complain(at, "this number has more than 64 bits");
                        None
                    }
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => {
                    Some(Body::Fixed(crate::table::number_text(number)))
                }
                _ => {
                    self.source.complain(at, "JSON has no such number");
                    None
                }
            },
            DeValue::Boolean(truth) => Some(Body::Fixed(truth.to_string())),
            DeValue::Datetime(time) => {
                Some(Body::Fixed(serde_json::to_string(&time.to_string()).unwrap_or_default()))
            }
            DeValue::Array(values) => {
                let made: Vec<_> =
                    values.into_iter().map(|value| self.toml(Field::new(value))).collect();
                made.into_iter().collect::<Option<_>>().map(Body::Array)
            }
            DeValue::Table(_) => {
                let table = self.source.table_of("`body`", "body", field)?;
                let made: Vec<_> = table
                    .into_fields()
                    .into_iter()
                    .map(|(key, _, field)| Some((key, self.toml(field)?)))
                    .collect();
                made.into_iter().collect::<Option<_>>().map(Body::Object)
            }
        }
    }

    /// JSON that stands in a text: its strings are templates.
    fn json(&mut self, text: &Text, value: &Value, depth: usize) -> Option<Body> {
        if depth > DEPTH_MAX {
            self.source.complain(text.place(0), "body: this JSON is too deep");
            return None;
        }
        let entries = || value.try_iter().into_iter().flatten();
        match value.kind() {
            ValueKind::String => {
                let string = value.as_str().unwrap_or_default();
                self.template(&text.instead(string.to_owned())).map(from_template)
            }
            ValueKind::Seq => {
                let made: Option<Vec<_>> =
                    entries().map(|value| self.json(text, &value, depth + 1)).collect();
                made.map(Body::Array)
            }
            ValueKind::Map => {
                let made: Option<Vec<_>> = entries()
                    .map(|key| {
                        let inner = value.get_item(&key).unwrap_or_default();
                        Some((key.to_string(), self.json(text, &inner, depth + 1)?))
                    })
                    .collect();
                made.map(Body::Object)
            }
            _ => crate::json::text(value, BODY_BYTES_MAX).ok().map(Body::Fixed),
        }
    }
}

/// The byte at a line and column of a text, as the JSON parser counts them.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (before + column.saturating_sub(1)).min(text.len())
}

fn from_template(mut template: Template) -> Body {
    match template.as_literal() {
        Some(text) => Body::Fixed(serde_json::to_string(text).unwrap_or_default()),
        None if template.lone().is_some() => match template.pieces.remove(0) {
            Piece::Value(expression) => Body::One(expression),
            Piece::Text(_) => Body::Text(template),
        },
        None => Body::Text(template),
    }
}

impl Body {
    /// A text that no row changes.
    pub(crate) fn text(text: &str) -> Self {
        Self::Fixed(serde_json::to_string(text).unwrap_or_default())
    }

    /// What a template prints, always as a text.
    pub(crate) fn printed(template: Template) -> Self {
        match template.as_literal() {
            Some(text) => Self::text(text),
            None => Self::Text(template),
        }
    }

    /// An object of these pairs.
    pub(crate) fn object<const N: usize>(pairs: [(&str, Self); N]) -> Self {
        Self::Object(pairs.map(|(key, value)| (key.to_owned(), value)).into())
    }

    pub(crate) fn render(&self, context: &Arc<Context>) -> Result<Vec<u8>, RowFault> {
        let mut writer = Writer::new(BODY_BYTES_MAX, Pictures::Data);
        if !self.write(context, &mut writer)? {
            return Err(fault::invalid("body", "it would be empty"));
        }
        Ok(writer.out)
    }

    /// Writes it, or says that it is to be left out.
    fn write(&self, context: &Arc<Context>, writer: &mut Writer) -> Result<bool, RowFault> {
        let large = |TooLarge| fault::too_large("body", "a body of more than 32 MiB");
        match self {
            Self::Fixed(json) => writer.raw(json).map_err(large)?,
            Self::Text(template) => write_text(template, context, writer)?,
            Self::One(expression) => {
                let value = template::value("body", expression, context)?;
                if value.is_none() {
                    return Ok(false);
                }
                writer.value(&value).map_err(large)?;
            }
            Self::Picture(template) => write_picture(template, context, writer)?,
            Self::Object(pairs) => {
                writer.raw("{").map_err(large)?;
                let mut first = true;
                for (key, body) in pairs {
                    let start = writer.out.len();
                    writer.raw(if first { "" } else { "," }).map_err(large)?;
                    writer.string(key).map_err(large)?;
                    writer.raw(":").map_err(large)?;
                    if body.write(context, writer)? {
                        first = false;
                    } else {
                        writer.out.truncate(start);
                    }
                }
                writer.raw("}").map_err(large)?;
            }
            Self::Array(values) => {
                writer.raw("[").map_err(large)?;
                let mut first = true;
                for body in values {
                    let start = writer.out.len();
                    writer.raw(if first { "" } else { "," }).map_err(large)?;
                    if body.write(context, writer)? {
                        first = false;
                    } else {
                        writer.out.truncate(start);
                    }
                }
                writer.raw("]").map_err(large)?;
            }
        }
        Ok(true)
    }
}

fn write_text(
    template: &Template,
    context: &Arc<Context>,
    writer: &mut Writer,
) -> Result<(), RowFault> {
    let text = template.print("body", context)?;
    writer.string(&text).map_err(|_| fault::too_large("body", "a body of more than 32 MiB"))
}

/// The row's own picture as data; a text as the address that it is, or as the picture's own name.
fn write_picture(
    template: &Template,
    context: &Arc<Context>,
    writer: &mut Writer,
) -> Result<(), RowFault> {
    let large = |TooLarge| fault::too_large("images", "a body of more than 32 MiB");
    if let Some(lone) = template.lone() {
        let value = template::value("images", lone, context)?;
        if value.downcast_object_ref::<Picture>().is_some() {
            return writer.value(&value).map_err(large);
        }
    }
    let text = template.print("images", context)?;
    let own = context.image().filter(|picture| picture.0.name == text);
    if let Some(picture) = own {
        writer.raw("\"").map_err(large)?;
        writer.data_url(&picture).map_err(large)?;
        return writer.raw("\"").map_err(large);
    }
    let is_address = ["http://", "https://", "data:image/", "/"];
    if !is_address.iter().any(|start| text.starts_with(start)) {
        let what = "this is neither the name of the row's picture nor an address";
        return Err(fault::invalid("images", what));
    }
    writer.string(&text).map_err(large)
}
