//! Paths, queries and headers: what a value becomes where it stands.
//!
//! Holds throughout: a value never leaves its place. In a path it stays in its segment, in a query in
//! its value, in a header on its line; one that cannot be written so fails the row.

use std::sync::Arc;

use crate::context::Context;
use crate::expression::Part;
use crate::fault::{self, RowFault};
use crate::names::Names;
use crate::source::{Source, Text};
use crate::template::{self, Piece, Template};

/// A path with its query, as it is sent.
const PATH_BYTES_MAX: usize = 16 << 10;
/// The value of one header.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// Headers that belong to the upstream's table or to the connection, whatever a recipe says.
const HEADERS_REFUSED: [&str; 16] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
];

/// The path of a request, perhaps with a query behind a `?`.
#[derive(Debug)]
pub(crate) struct Path {
    /// Literal texts are encoded already.
    template: Template,
    /// The segments before a `?`: the literal, or nothing where a value stands in it.
    pub(crate) segments: Vec<Option<String>>,
    has_query: bool,
}

impl Path {
    pub(crate) fn read(text: &Text, source: &mut Source<'_>, names: &mut Names) -> Option<Self> {
        let complaint = |source: &mut Source<'_>, what: &str| {
            source.complain(text.place(0), format!("path: {what}"));
            None
        };
        let mut template = Template::read(text, source, names, Part::out("path"))?;
        if !matches!(template.pieces.first(), Some(Piece::Text(text)) if text.starts_with('/')) {
            return complaint(source, "begins with `/`: the host belongs to the upstream");
        }
        // A letter that no literal may hold stands for values.
        let mut skeleton = String::new();
        for piece in &mut template.pieces {
            match piece {
                Piece::Value(_) => skeleton.push('\0'),
                Piece::Text(text) if text.contains(|c: char| c.is_control() || c == '#') => {
                    return complaint(source, "has no `#` and no line breaks");
                }
                Piece::Text(text) => {
                    *text = encode_literal(text);
                    skeleton.push_str(text);
                }
            }
        }
        let (path, query) =
            skeleton.split_once('?').map_or((&*skeleton, None), |(p, q)| (p, Some(q)));
        if path.starts_with("//") {
            return complaint(source, "begins with one `/`: `//` would name a host");
        }
        if path.split('/').any(is_dots) {
            return complaint(source, "has no `.` and `..`");
        }
        let segments = path.split('/').skip(1);
        let segments =
            segments.map(|segment| (!segment.contains('\0')).then(|| segment.to_owned())).collect();
        let has_query = query.is_some();
        Some(Self { template, segments, has_query })
    }

    /// A path without values.
    pub(crate) fn literal(path: &str) -> Self {
        let segments = path.split('/').skip(1).map(|segment| Some(segment.to_owned())).collect();
        Self { template: Template::literal(path), segments, has_query: false }
    }

    /// The path as it is written, with `{}` for values.
    pub(crate) fn outline(&self) -> String {
        let pieces = self.template.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(value) => format!("{{{{ {} }}}}", value.source),
        });
        pieces.collect()
    }

    /// The path of a row, with the pairs of its query behind it.
    pub(crate) fn render(
        &self,
        query: &[(String, Template)],
        context: &Arc<Context>,
    ) -> Result<String, RowFault> {
        let mut out = String::new();
        let mut in_query = false;
        for piece in &self.template.pieces {
            match piece {
                Piece::Text(text) => {
                    in_query |= text.contains('?');
                    out.push_str(text);
                }
                Piece::Value(expression) => {
                    let value = template::printed("path", expression, context)?;
                    if !in_query {
                        stays_in_segment(&value)?;
                        if value.is_empty() && self.alone_in_segment(&out) {
                            return Err(fault::empty("path", &expression.columns, context));
                        }
                    }
                    encode(&value, &mut out);
                }
            }
            bounded(&out)?;
        }
        self.check_segments(&out)?;
        let mut begun = self.has_query;
        for (key, value) in query {
            let lone =
                value.lone().map(|lone| template::value("query", lone, context)).transpose()?;
            if lone.is_some_and(|value| value.is_none()) {
                continue;
            }
            out.push(if begun { '&' } else { '?' });
            begun = true;
            encode(key, &mut out);
            out.push('=');
            encode(&value.print("query", context)?, &mut out);
            bounded(&out)?;
        }
        Ok(out)
    }

    /// Whether the segment that is being written is nothing but one value.
    fn alone_in_segment(&self, before: &str) -> bool {
        before.ends_with('/')
    }

    /// What was rendered has the segments of the recipe, and none of them is a step up.
    fn check_segments(&self, path: &str) -> Result<(), RowFault> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let segments = path.split('/').skip(1);
        if segments.clone().count() != self.segments.len() || segments.clone().any(is_dots) {
            return Err(fault::invalid("path", "a value would leave its place in the path"));
        }
        let emptied = self
            .segments
            .iter()
            .zip(segments)
            .any(|(known, segment)| known.is_none() && segment.is_empty());
        if emptied {
            return Err(RowFault {
                code: fault::ROW_INCOMPLETE,
                message: "path: a part of it would be empty".to_owned(),
                column: None,
            });
        }
        Ok(())
    }
}

fn bounded(out: &str) -> Result<(), RowFault> {
    if out.len() > PATH_BYTES_MAX {
        return Err(fault::too_large("path", "a path of more than 16 KiB"));
    }
    Ok(())
}

/// A server, or a proxy before it, may decode `%2F` before it reads a path: a value that climbs then
/// is refused, also when it is encoded already.
fn stays_in_segment(value: &str) -> Result<(), RowFault> {
    /// Values encoded more often than this are what they say.
    const ROUNDS: usize = 3;
    let mut value = value.to_owned();
    for _ in 0..ROUNDS {
        if value.split(['/', '\\']).any(|part| part == "." || part == "..") {
            return Err(fault::invalid("path", "a value would leave its place in the path"));
        }
        value = decode(&value);
    }
    Ok(())
}

/// `.` and `..`, however they are written.
fn is_dots(segment: &str) -> bool {
    matches!(decode(segment).as_str(), "." | "..")
}

/// Everything but letters, digits and `-._~` becomes `%XX`.
pub(crate) fn encode(value: &str, out: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            percent(byte, out);
        }
    }
}

fn percent(byte: u8, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push('%');
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// What the recipe itself writes into a path keeps its meaning; only what no path may hold is encoded.
fn encode_literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            percent(byte, &mut out);
        }
    }
    out
}

/// The text with each `%XX` as its byte.
pub(crate) fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether a recipe may name this header; why not, if not.
pub(crate) fn check_header_name(name: &str) -> Result<(), String> {
    let lower = name.to_ascii_lowercase();
    let is_token = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_token {
        return Err(format!("`{name}` is no name of a header"));
    }
    if HEADERS_REFUSED.contains(&lower.as_str()) {
        return Err(format!("`{name}` belongs to the upstream, not to a recipe"));
    }
    Ok(())
}

/// The value of a header: one line of ASCII.
pub(crate) fn header_value(
    name: &str,
    template: &Template,
    context: &Arc<Context>,
) -> Result<String, RowFault> {
    let part = format!("header {name}");
    let value = template.print(&part, context)?;
    let value = value.trim_matches([' ', '\t']);
    if !value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return Err(fault::invalid(&part, "a header is one line of plain letters (ASCII)"));
    }
    if value.len() > HEADER_BYTES_MAX {
        return Err(fault::too_large(&part, "a header of more than 8 KiB"));
    }
    Ok(value.to_owned())
}
