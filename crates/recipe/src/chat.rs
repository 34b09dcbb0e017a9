//! The short form of a try: a chat completion, in the form that most model servers speak, perhaps
//! with a strict schema for its answer.

use minijinja::value::{Value, ValueKind};
use toml::de::DeValue;

use crate::answer;
use crate::body::Body;
use crate::filters::at_path;
use crate::print::short;
use crate::source::{Field, Source};
use crate::template::Template;

/// Where model servers take chat completions.
pub(crate) const PATH: &str = "/v1/chat/completions";
/// A schema has at most that many levels of objects.
const DEPTH_MAX: usize = 5;

/// What a field of the answer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Integer,
    Boolean,
    /// A list of texts.
    List,
    /// One of these texts.
    OneOf(Vec<String>),
    Object(Schema),
}

/// The fields of the answer, in their order; all of them are required, and no others allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Schema(pub(crate) Vec<(String, Kind)>);

const KINDS: [(&str, Kind); 8] = [
    ("text", Kind::Text),
    ("number", Kind::Number),
    ("integer", Kind::Integer),
    ("boolean", Kind::Boolean),
    ("list", Kind::List),
    ("string", Kind::Text),
    ("bool", Kind::Boolean),
    ("int", Kind::Integer),
];

impl Kind {
    /// The kind that a word names.
    pub(crate) fn named(word: &str) -> Option<Self> {
        KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| kind.clone())
    }

    fn json(&self) -> serde_json::Value {
        use serde_json::json;
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Number => json!({"type": "number"}),
            Self::Integer => json!({"type": "integer"}),
            Self::Boolean => json!({"type": "boolean"}),
            Self::List => json!({"type": "array", "items": {"type": "string"}}),
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::Object(schema) => schema.json(),
        }
    }

    /// Whether a value is of this kind; what is wrong, if not.
    fn check(&self, name: &str, value: &Value) -> Result<(), String> {
        let is_text = value.kind() == ValueKind::String;
        let wanted = match self {
            Self::Object(schema) => return schema.check(value),
            Self::OneOf(words) => {
                if is_text && words.iter().any(|word| Some(word.as_str()) == value.as_str()) {
                    return Ok(());
                }
                format!("one of {}", words.join(", "))
            }
            Self::Text if is_text => return Ok(()),
            Self::Number if value.is_number() => return Ok(()),
            Self::Integer if is_whole(value) => return Ok(()),
            Self::Boolean if value.kind() == ValueKind::Bool => return Ok(()),
            Self::List if is_texts(value) => return Ok(()),
            Self::Text => "a text".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Integer => "a whole number".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::List => "a list of texts".to_owned(),
        };
        if value.is_undefined() {
            return Err(format!("`{name}` is missing"));
        }
        Err(format!("`{name}` is `{}`, not {wanted}", short(value)))
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_number() && f64::try_from(value.clone()).is_ok_and(|number| number.fract() == 0.0)
}

fn is_texts(value: &Value) -> bool {
    value.kind() == ValueKind::Seq
        && value.try_iter().is_ok_and(|mut all| all.all(|one| one.kind() == ValueKind::String))
}

impl Schema {
    /// Reads `{ sentiment = ["positive", "negative"], confidence = "number" }`.
    pub(crate) fn read<'t>(source: &mut Source<'t>, field: Field<'t>) -> Option<Self> {
        Self::read_at(source, field, 0)
    }

    fn read_at<'t>(source: &mut Source<'t>, field: Field<'t>, depth: usize) -> Option<Self> {
        let at = field.range.start;
        let table = source.table_of("`json`", "json", field)?;
        let mut kinds = Vec::new();
        for (name, _, field) in table.into_fields() {
            kinds.push((name, kind(source, field, depth)?));
        }
        if kinds.is_empty() {
            source.complain(at, "`json` names at least one field");
            return None;
        }
        Some(Self(kinds))
    }

    fn json(&self) -> serde_json::Value {
        let properties: serde_json::Map<_, _> =
            self.0.iter().map(|(name, kind)| (name.clone(), kind.json())).collect();
        let required: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        serde_json::json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Whether a value is what was asked for; what is wrong, if not.
    fn check(&self, value: &Value) -> Result<(), String> {
        if value.kind() != ValueKind::Map {
            return Err(format!("the model gave `{}`, not an object", short(value)));
        }
        for (name, kind) in &self.0 {
            kind.check(name, &value.get_attr(name).unwrap_or_default())?;
        }
        Ok(())
    }
}

fn kind<'t>(source: &mut Source<'t>, field: Field<'t>, depth: usize) -> Option<Kind> {
    let at = field.range.start;
    match &field.value {
        DeValue::String(word) => {
            let found = Kind::named(word);
            if found.is_none() {
                let words = KINDS.iter().map(|(name, _)| *name);
                let what = "a field is text, number, integer, boolean, list, or a list of words";
                source.complain_of_word(at, what, word, words);
            }
            found
        }
        DeValue::Array(_) => {
            let DeValue::Array(words) = field.value else { return None };
            let words: Vec<_> = words
                .into_iter()
                .filter_map(|word| source.text_of("json", Field::new(word)))
                .map(|text| text.value)
                .collect();
            if words.is_empty() {
                source.complain(at, "a field that is one of some words names them");
                return None;
            }
            Some(Kind::OneOf(words))
        }
        DeValue::Table(_) if depth < DEPTH_MAX => {
            Schema::read_at(source, field, depth + 1).map(Kind::Object)
        }
        DeValue::Table(_) => {
            source.complain(at, format!("`json` has at most {DEPTH_MAX} levels"));
            None
        }
        _ => {
            source.complain(
                at,
                "a field is text, number, integer, boolean, list, or a list of words",
            );
            None
        }
    }
}

/// The parts of a chat completion.
pub(crate) struct Parts {
    pub(crate) model: Template,
    pub(crate) system: Option<Template>,
    pub(crate) prompt: Template,
    pub(crate) images: Vec<Template>,
    pub(crate) schema: Option<Schema>,
    /// More keys of the body: `temperature = 0`.
    pub(crate) more: Vec<(String, Body)>,
}

/// Keys of the body that the short form writes itself.
pub(crate) const OWN_KEYS: [&str; 4] = ["model", "messages", "response_format", "stream"];

/// The body of a chat completion.
pub(crate) fn body(parts: Parts) -> Body {
    let message = |role: &str, content: Body| {
        Body::object([("role", Body::text(role)), ("content", content)])
    };
    let prompt = Body::printed(parts.prompt);
    let content = if parts.images.is_empty() {
        prompt
    } else {
        let text = Body::object([("type", Body::text("text")), ("text", prompt)]);
        let images = parts.images.into_iter().map(|image| {
            let address = Body::object([("url", Body::Picture(image))]);
            Body::object([("type", Body::text("image_url")), ("image_url", address)])
        });
        Body::Array(std::iter::once(text).chain(images).collect())
    };
    let system = parts.system.map(|system| message("system", Body::printed(system)));
    let messages = system.into_iter().chain([message("user", content)]).collect();
    let mut pairs = vec![
        ("model".to_owned(), Body::printed(parts.model)),
        ("messages".to_owned(), Body::Array(messages)),
    ];
    pairs.extend(parts.schema.map(|schema| {
        let format = serde_json::json!({
            "type": "json_schema",
            "json_schema": {"name": "row", "strict": true, "schema": schema.json()},
        });
        ("response_format".to_owned(), Body::Fixed(format.to_string()))
    }));
    pairs.extend(parts.more);
    Body::Object(pairs)
}

/// What a chat completion gave: its text, or the object that the schema asked for.
pub(crate) fn content(answer: &Value, schema: Option<&Schema>) -> Result<Value, String> {
    let message = at_path(answer, "choices.0.message");
    let content = message.get_attr("content").unwrap_or_default();
    let Some(text) = content.as_str().filter(|text| !text.trim().is_empty()) else {
        let refusal = message.get_attr("refusal").unwrap_or_default();
        return Err(match refusal.as_str() {
            Some(_) => format!("the model refused: {}", short(&refusal)),
            None => "the model gave no text".to_owned(),
        });
    };
    let Some(schema) = schema else { return Ok(content) };
    let value = answer::parse(unfenced(text).as_bytes())
        .map_err(|_| format!("the model gave no JSON: {}", short(&content)))?;
    schema.check(&value)?;
    Ok(value)
}

/// Some servers put JSON into a fence of Markdown.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).unwrap_or(text).trim()
}
