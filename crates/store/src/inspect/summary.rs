//! A few words of a line's input, read from its first bytes and never from the whole body.
//!
//! Holds throughout: fields keep the names that the line gives them; nothing here knows what a line is about.

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// How many bytes of a line a page reads to summarise it.
pub const SUMMARY_PREFIX_BYTES: usize = 2048;
/// Most fields that a summary has.
pub const SUMMARY_FIELDS_MAX: usize = 3;
const WORD_CHARS_MAX: usize = 80;

/// What a pending page shows of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The request's own id.
    pub custom_id: Option<String>,
    /// Fields by their own names. Of a request, which has a method and a URL: `custom_id`, `url` and the
    /// body's `model`; of any other object, its first scalars, up to [`SUMMARY_FIELDS_MAX`].
    pub fields: Vec<(String, String)>,
}

impl Summary {
    /// Reads what it can from the first bytes of a line, which may be cut anywhere.
    pub fn read(prefix: &[u8]) -> Self {
        let mut found = Found::default();
        let prefix = &prefix[..prefix.len().min(SUMMARY_PREFIX_BYTES)];
        // A number at the very end may go on beyond the cut: half a number is a wrong number.
        let number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let end = prefix.iter().rposition(|byte| !number(byte)).map_or(0, |last| last + 1);
        let mut json = serde_json::Deserializer::from_slice(&prefix[..end]);
        // A cut line ends in an error; what was read before it stands.
        let _ = Fields { into: &mut found, in_body: false }.deserialize(&mut json);
        found.summary()
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What was found in a line so far.
#[derive(Default)]
struct Found {
    custom_id: Option<String>,
    url: Option<String>,
    /// The body's model.
    model: Option<String>,
    has_method: bool,
    /// The first scalars.
    first: Vec<(String, String)>,
}

impl Found {
    fn add(&mut self, key: String, value: String, in_body: bool) {
        match (key.as_str(), in_body) {
            ("model", true) => self.model = Some(value.clone()),
            ("custom_id", false) => self.custom_id = Some(value.clone()),
            ("url", false) => self.url = Some(value.clone()),
            ("method", false) => self.has_method = true,
            _ => {}
        }
        if !in_body && self.first.len() < SUMMARY_FIELDS_MAX {
            self.first.push((key, value));
        }
    }

    fn summary(self) -> Summary {
        let Self { custom_id, url, model, has_method, first } = self;
        let is_request = has_method && url.is_some();
        let named = [("custom_id", custom_id.clone()), ("url", url), ("model", model)];
        let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Summary { custom_id, fields: if is_request { named.collect() } else { first } }
    }
}

struct Fields<'a> {
    into: &'a mut Found,
    in_body: bool,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "body" && !self.in_body {
                map.next_value_seed(Fields { into: &mut *self.into, in_body: true })?;
            } else if self.in_body && key != "model" {
                map.next_value::<IgnoredAny>()?;
            } else if let Some(value) = map.next_value_seed(Scalar)? {
                self.into.add(key, value, self.in_body);
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// A scalar as text, shortened; anything else is passed over.
struct Scalar;

impl<'de> DeserializeSeed<'de> for Scalar {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        use serde::Deserialize as _;
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            serde_json::Value::Number(number) => number.to_string(),
            serde_json::Value::Bool(word) => word.to_string(),
            _ => return Ok(None),
        };
        Ok(Some(text.chars().take(WORD_CHARS_MAX).collect()))
    }
}
