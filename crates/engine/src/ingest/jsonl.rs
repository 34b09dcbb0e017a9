//! One line of JSONL, judged: `{"custom_id": …, "method": …, "url": …, "body": {…}}`.
//!
//! Holds throughout: one pass, nothing copied unless a string has escapes, and no recursion: what is
//! not looked at is passed over whatever its depth, then the depth is judged by itself.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use windrow_domain::ids::NO_MODEL;
use windrow_store::ingest::LineError;

use super::Options;
use crate::json;

/// The one method of the batch API that others speak.
const POST: &str = "POST";
/// Methods a line may use.
const METHODS: [&str; 5] = [POST, "PUT", "PATCH", "GET", "DELETE"];
/// Those of them that may come without a body.
const METHODS_WITHOUT_BODY: [&str; 2] = ["GET", "DELETE"];
/// Longest url of a line.
const URL_BYTES_MAX: usize = 2048;

/// Names of a line that nothing is done with, as far as they are kept.
const UNKNOWN_MAX: usize = 4;

/// What the ingest needs of a line that is a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParsedLine<'a> {
    pub(crate) custom_id: Cow<'a, str>,
    pub(crate) method: Cow<'a, str>,
    url: Cow<'a, str>,
    /// What the body names as its model.
    model: Option<Cow<'a, str>>,
    /// Names beside those of a request, the first few: nothing is done with what stands under them.
    pub(crate) unknown: Vec<Cow<'a, str>>,
}

impl ParsedLine<'_> {
    /// What the line asks its upstream for: the model that the body names, or else the one target of
    /// all lines without a model, whatever their urls.
    pub(crate) fn target(&self) -> &str {
        self.model.as_deref().unwrap_or(NO_MODEL)
    }

    /// What it asks for: the url without its query.
    pub(crate) fn path(&self) -> &str {
        path_of(&self.url)
    }
}

fn path_of(url: &str) -> &str {
    &url[..memchr::memchr(b'?', url.as_bytes()).unwrap_or(url.len())]
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) param: Option<&'static str>,
}

impl Fault {
    pub(crate) fn at(self, line: u64) -> LineError {
        let param = self.param.map(str::to_owned);
        LineError { code: self.code.to_owned(), line: Some(line), message: self.message, param }
    }

    fn field(param: &'static str, message: impl Into<String>) -> Self {
        Self { code: "invalid_field", message: message.into(), param: Some(param) }
    }

    fn json(message: String) -> Self {
        Self { code: "invalid_json_line", message, param: None }
    }
}

/// Whether a line has nothing on it.
pub(crate) fn is_blank(raw: &[u8]) -> bool {
    raw.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Reads one line.
pub(crate) fn read<'a>(raw: &'a [u8], options: &Options) -> Result<ParsedLine<'a>, Fault> {
    let text = std::str::from_utf8(raw).map_err(|error| {
        // JSON is UTF-8, and clients know no other word for it.
        let byte = error.valid_up_to() + 1;
        Fault::json(format!("The line is not valid JSON: it is not UTF-8, byte {byte} is wrong."))
    })?;
    let fields: Fields<'a> = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    if json::is_deeper_than(raw, options.json_depth_max) {
        let depth = options.json_depth_max;
        return Err(Fault::json(format!("The line is nested deeper than {depth} levels.")));
    }
    fields.judge(options)
}

fn not_json(error: &serde_json::Error) -> Fault {
    // All fields take any value, so wrong data is a line that is no object at all. What the parser
    // says about it would quote the line, which may be long and private.
    if error.is_data() {
        return Fault::json("The line is not a JSON object.".to_owned());
    }
    // The parser counts lines within the line; only the column means something to people.
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    Fault::json(format!("The line is not valid JSON: {what} at column {}.", error.column()))
}

/// Whether a name holds nothing that no list could show and no database would store.
fn is_printable(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~')) || !name.chars().any(char::is_control)
}

/// What was found under a name.
#[derive(Debug, Default)]
enum Slot<'a> {
    #[default]
    Missing,
    Text(Cow<'a, str>),
    Object,
    /// Anything else, with the word for it.
    Other(&'static str),
    /// The name is there more than once: readers would not agree on which one counts.
    Twice,
}

impl<'a> Slot<'a> {
    fn put(&mut self, found: Slot<'a>) {
        *self = match self {
            Slot::Missing => found,
            Slot::Text(_) | Slot::Object | Slot::Other(_) | Slot::Twice => Slot::Twice,
        };
    }

    fn word(&self) -> &'static str {
        match self {
            Slot::Missing => "missing",
            Slot::Text(_) => "a string",
            Slot::Object => "an object",
            Slot::Other(word) => word,
            Slot::Twice => "there twice",
        }
    }

    fn text(self, param: &'static str) -> Result<Cow<'a, str>, Fault> {
        match self {
            Slot::Text(text) => Ok(text),
            Slot::Missing => Err(missing(param)),
            Slot::Twice => Err(Fault::field(param, format!("`{param}` is there twice."))),
            Slot::Object | Slot::Other(_) => Err(Fault::field(
                param,
                format!("`{param}` must be a string; it is {}.", self.word()),
            )),
        }
    }
}

fn missing(param: &'static str) -> Fault {
    let message = format!("The line has no `{param}`.");
    Fault { code: "missing_field", message, param: Some(param) }
}

#[derive(Debug, Default)]
struct Fields<'a> {
    custom_id: Slot<'a>,
    method: Slot<'a>,
    url: Slot<'a>,
    body: Slot<'a>,
    /// What the body names as its model.
    model: Slot<'a>,
    unknown: Vec<Cow<'a, str>>,
}

impl<'a> Fields<'a> {
    fn judge(self, options: &Options) -> Result<ParsedLine<'a>, Fault> {
        let custom_id = self.custom_id.text("custom_id")?;
        judge_custom_id(&custom_id, options.custom_id_bytes_max)?;
        let method = self.method.text("method")?;
        judge_method(&method, options.only_post)?;
        let url = self.url.text("url")?;
        judge_url(&url)?;
        match self.body {
            Slot::Object => {}
            Slot::Missing if METHODS_WITHOUT_BODY.contains(&&*method) => {}
            Slot::Missing => return Err(missing("body")),
            Slot::Twice => return Err(Fault::field("body", "`body` is there twice.")),
            body @ (Slot::Text(_) | Slot::Other(_)) => {
                let message = format!("`body` must be an object; it is {}.", body.word());
                return Err(Fault::field("body", message));
            }
        }
        let model = match self.model {
            Slot::Text(model) => {
                judge_name(&model, "body.model")?;
                Some(model)
            }
            Slot::Twice => return Err(Fault::field("body.model", "`body.model` is there twice.")),
            Slot::Missing | Slot::Object | Slot::Other(_) => None,
        };
        Ok(ParsedLine { custom_id, method, url, model, unknown: self.unknown })
    }
}

fn judge_method(method: &str, only_post: bool) -> Result<(), Fault> {
    if only_post && method != POST {
        let message = format!(
            "`method` must be {POST}; in a job, `methods` of an upstream's table allows others."
        );
        return Err(Fault::field("method", message));
    }
    if !METHODS.contains(&method) {
        let known = METHODS.join(", ");
        return Err(Fault::field("method", format!("`method` must be one of {known}.")));
    }
    Ok(())
}

fn judge_custom_id(id: &str, bytes_max: usize) -> Result<(), Fault> {
    if id.is_empty() || id.len() > bytes_max {
        let message = format!("`custom_id` must have 1 to {bytes_max} bytes; it has {}.", id.len());
        return Err(Fault::field("custom_id", message));
    }
    if !is_printable(id) {
        return Err(Fault::field("custom_id", "`custom_id` must have no control characters."));
    }
    Ok(())
}

fn judge_name(name: &str, param: &'static str) -> Result<(), Fault> {
    let bytes_max = windrow_domain::ids::NAME_BYTES_MAX;
    if (1..=bytes_max).contains(&name.len()) && is_printable(name) {
        return Ok(());
    }
    let rule = format!("must have 1 to {bytes_max} bytes and no control characters");
    Err(Fault::field(param, format!("`{param}` {rule}, because it names where the line goes.")))
}

/// A path on the host that the operator configured: a line never chooses the host itself.
fn judge_url(url: &str) -> Result<(), Fault> {
    let dots = |part: &str| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == "." || part == ".."
    };
    let path = path_of(url);
    let suspicious = memchr::memchr2(b'.', b'%', path.as_bytes()).is_some();
    let because = if url.len() > URL_BYTES_MAX {
        "is too long"
    } else if !url.starts_with('/') {
        "must be a path that starts with `/`, without scheme and host"
    } else if url.starts_with("//") {
        "must not name a host"
    } else if !url.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#')) {
        "must be plain ASCII without blanks, backslashes and `#`"
    } else if suspicious && path.split('/').any(dots) {
        "must not hold `.` or `..` as a part of its path"
    } else {
        return Ok(());
    };
    let message = format!("`url` {because}.");
    Err(Fault { code: "invalid_url", message, param: Some("url") })
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(FieldName(name)) = map.next_key::<FieldName<'de>>()? {
            let slot = match &*name {
                "custom_id" => &mut fields.custom_id,
                "method" => &mut fields.method,
                "url" => &mut fields.url,
                "body" => {
                    let model = Some(&mut fields.model);
                    fields.body.put(map.next_value_seed(SlotVisitor { model })?);
                    continue;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    if fields.unknown.len() < UNKNOWN_MAX {
                        fields.unknown.push(name);
                    }
                    continue;
                }
            };
            slot.put(map.next_value_seed(SlotVisitor { model: None })?);
        }
        Ok(fields)
    }
}

/// The name of a field of a line, borrowed unless it has escapes.
struct FieldName<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for FieldName<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(FieldNameVisitor)
    }
}

struct FieldNameVisitor;

impl<'de> Visitor<'de> for FieldNameVisitor {
    type Value = FieldName<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<FieldName<'de>, E> {
        Ok(FieldName(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<FieldName<'de>, E> {
        Ok(FieldName(Cow::Owned(name.to_owned())))
    }
}

/// A name in a body, without keeping its text.
enum Name {
    Model,
    Other,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        Ok(match name {
            "model" => Name::Model,
            _ => Name::Other,
        })
    }
}

/// Takes any value. Of an object only its `model` is kept, when it is asked for.
struct SlotVisitor<'m, 'de> {
    model: Option<&'m mut Slot<'de>>,
}

impl<'de> DeserializeSeed<'de> for SlotVisitor<'_, 'de> {
    type Value = Slot<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Slot<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SlotVisitor<'_, 'de> {
    type Value = Slot<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Slot<'de>, A::Error> {
        while let Some(name) = map.next_key::<Name>()? {
            match (name, &mut self.model) {
                (Name::Model, Some(model)) => {
                    model.put(map.next_value_seed(SlotVisitor { model: None })?);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Slot::Object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Slot<'de>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Slot::Other("an array"))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Slot<'de>, E> {
        Ok(Slot::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Slot<'de>, E> {
        Ok(Slot::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Slot<'de>, E> {
        Ok(Slot::Other("null"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Slot<'de>, E> {
        Ok(Slot::Other("a boolean"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Slot<'de>, E> {
        Ok(Slot::Other("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Slot<'de>, E> {
        Ok(Slot::Other("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Slot<'de>, E> {
        Ok(Slot::Other("a number"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str =
        r#"{"custom_id":"a","method":"POST","url":"/v1/x","body":{"model":"m","n":[1]}}"#;

    fn judge(line: &str) -> Result<(String, String), (&'static str, Option<&'static str>)> {
        read(line.as_bytes(), &Options::default())
            .map(|request| (request.custom_id.to_string(), request.target().to_owned()))
            .map_err(|fault| (fault.code, fault.param))
    }

    fn ok(
        id: &str,
        target: &str,
    ) -> Result<(String, String), (&'static str, Option<&'static str>)> {
        Ok((id.to_owned(), target.to_owned()))
    }

    #[test]
    fn the_target_is_the_model_or_one_for_all_lines_without_it() {
        assert_eq!(judge(GOOD), ok("a", "m"));
        assert_eq!(judge(&format!(" {GOOD} \r\n")), ok("a", "m"));
        for model in ["null", "7", "{}", "[\"x\"]", "true"] {
            assert_eq!(judge(&GOOD.replace(r#""m""#, model)), ok("a", NO_MODEL), "{model}");
        }
        assert_eq!(judge(&GOOD.replace(r#""model":"m","#, "")), ok("a", NO_MODEL));
        let nested = r#"{"model":"no","body":{"x":{"model":"no"}},"url":"/v1/x?a=b","method":"POST","custom_id":"a"}"#;
        assert_eq!(judge(nested), ok("a", NO_MODEL));
        let escaped = GOOD.replace(r#""a""#, r#""\u0041\"\\é""#).replace(r#""m""#, r#""\u006d""#);
        assert_eq!(judge(&escaped), ok("A\"\\é", "m"));
        assert_eq!(judge(r#"{"custom_id":"a","method":"GET","url":"/v1/x/1"}"#), ok("a", NO_MODEL));
    }

    #[test]
    fn where_only_post_may_be_asked_other_methods_are_refused() {
        let options = Options { only_post: true, ..Options::default() };
        assert!(read(GOOD.as_bytes(), &options).is_ok());
        for other in ["GET", "DELETE", "PUT", "post", ""] {
            let line = GOOD.replace("POST", other);
            let fault = read(line.as_bytes(), &options).unwrap_err();
            assert_eq!((fault.code, fault.param), ("invalid_field", Some("method")), "{other}");
        }
    }

    #[test]
    fn every_bad_line_is_named() {
        let long_id = format!("\"{}\"", "i".repeat(513));
        let long_name = format!("\"{}\"", "m".repeat(257));
        let table: &[(&str, &str, &str, Option<&str>)] = &[
            // replace this, by this, and get that code and field
            (GOOD, "{", "invalid_json_line", None),
            (GOOD, "[]", "invalid_json_line", None),
            (GOOD, "null", "invalid_json_line", None),
            (GOOD, "hello", "invalid_json_line", None),
            ("[1]", "[1", "invalid_json_line", None),
            ("[1]", "[01]", "invalid_json_line", None),
            ("}}", "}} {}", "invalid_json_line", None),
            ("}}", "},}", "invalid_json_line", None),
            (r#""m""#, "\"\u{1}\"", "invalid_json_line", None),
            (r#""custom_id":"a","#, "", "missing_field", Some("custom_id")),
            (r#""a""#, "7", "invalid_field", Some("custom_id")),
            (r#""a""#, "null", "invalid_field", Some("custom_id")),
            (r#""a""#, r#""""#, "invalid_field", Some("custom_id")),
            (r#""a""#, r#""a\u0000b""#, "invalid_field", Some("custom_id")),
            (r#""a""#, &long_id, "invalid_field", Some("custom_id")),
            (r#""a""#, r#""a","custom_id":"b""#, "invalid_field", Some("custom_id")),
            (r#""method":"POST","#, "", "missing_field", Some("method")),
            ("POST", "post", "invalid_field", Some("method")),
            ("POST", "TRACE", "invalid_field", Some("method")),
            (r#""url":"/v1/x","#, "", "missing_field", Some("url")),
            (r#""/v1/x""#, "{}", "invalid_field", Some("url")),
            ("/v1/x", "", "invalid_url", Some("url")),
            ("/v1/x", "v1/x", "invalid_url", Some("url")),
            ("/v1/x", "https://evil/v1", "invalid_url", Some("url")),
            ("/v1/x", "//evil/v1", "invalid_url", Some("url")),
            ("/v1/x", r"/\\evil/v1", "invalid_url", Some("url")),
            ("/v1/x", r"/v1\n/x", "invalid_url", Some("url")),
            ("/v1/x", "/v1 /x", "invalid_url", Some("url")),
            ("/v1/x", "/v1/é", "invalid_url", Some("url")),
            ("/v1/x", "/v1/x#y", "invalid_url", Some("url")),
            ("/v1/x", "/v1/../admin", "invalid_url", Some("url")),
            ("/v1/x", "/v1/%2E%2e/admin", "invalid_url", Some("url")),
            ("/v1/x", "/v1/./x?y", "invalid_url", Some("url")),
            (r#","body":{"model":"m","n":[1]}"#, "", "missing_field", Some("body")),
            (r#"{"model":"m","n":[1]}"#, "[]", "invalid_field", Some("body")),
            (r#"{"model":"m","n":[1]}"#, "null", "invalid_field", Some("body")),
            (r#""m""#, r#""m","model":"n""#, "invalid_field", Some("body.model")),
            (r#""m""#, r#""""#, "invalid_field", Some("body.model")),
            (r#""m""#, &long_name, "invalid_field", Some("body.model")),
        ];
        for (from, to, code, param) in table {
            let line = GOOD.replacen(from, to, 1);
            assert_ne!(line, GOOD);
            assert_eq!(judge(&line), Err((*code, *param)), "{line}");
        }
        let bad = read(b"{\"custom_id\":\"\xff\"}", &Options::default()).unwrap_err();
        assert_eq!(
            (bad.code, bad.message.contains("byte 15")),
            ("invalid_json_line", true),
            "{bad:?}"
        );
    }

    #[test]
    fn messages_say_where_and_do_not_quote_the_line() {
        let error = read(br#"{"custom_id": oops"#, &Options::default()).unwrap_err();
        assert_eq!(error.message, "The line is not valid JSON: expected value at column 15.");
        for line in ["[1,2]", "\"secret\"", "12", "null"] {
            let error = read(line.as_bytes(), &Options::default()).unwrap_err();
            assert_eq!(error.message, "The line is not a JSON object.");
        }
    }

    /// Depth neither crashes the reader nor passes unseen; brackets inside strings do not count.
    #[test]
    fn depth_has_a_bound() {
        let nested = |depth: usize| {
            let value = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            GOOD.replace("[1]", &value)
        };
        let depth_max = Options::default().json_depth_max;
        assert_eq!(judge(&nested(depth_max - 2)), ok("a", "m"));
        assert_eq!(judge(&nested(depth_max - 1)), Err(("invalid_json_line", None)));
        assert_eq!(judge(&nested(1_000_000)), Err(("invalid_json_line", None)));
        let flat = GOOD.replace("[1]", &format!("\"\\\\\\\"{}\"", "[{".repeat(500)));
        assert_eq!(judge(&flat), ok("a", "m"));
        let wide = GOOD.replace("[1]", &format!("[{}[]]", "[],".repeat(500)));
        assert_eq!(judge(&wide), ok("a", "m"));
    }

    #[test]
    fn blank_lines_are_blank() {
        assert!(is_blank(b"") && is_blank(b"\r\n") && is_blank(b" \t\n") && !is_blank(b" x\n"));
    }

    proptest! {
        #[test]
        fn bytes_never_panic(bytes: Vec<u8>, at: prop::sample::Index, flip: u8) {
            let _ = read(&bytes, &Options::default());
            let mut line = GOOD.as_bytes().to_vec();
            let at = at.index(line.len());
            line[at] = flip;
            let _ = read(&line, &Options::default());
        }

        /// What is accepted here is JSON for everybody else too, and says the same.
        #[test]
        fn an_accepted_line_means_the_same_to_a_full_parser(
            id in "\\PC{1,20}", model in prop::option::of("\\PC{1,20}"), text in ".{0,30}",
        ) {
            let mut body = serde_json::json!({ "text": text, "model": model });
            if model.is_none() {
                body.as_object_mut().unwrap().remove("model");
            }
            let line = serde_json::json!({ "custom_id": id, "method": "POST", "url": "/v1/x", "body": body });
            let target = model.unwrap_or_else(|| NO_MODEL.to_owned());
            prop_assert_eq!(judge(&line.to_string()), ok(&id, &target));
        }
    }
}
