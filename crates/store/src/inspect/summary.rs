//! A few words of a line's input, read from its first bytes and never from the whole body.

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// How many bytes of a line a page reads to summarise it.
pub const SUMMARY_PREFIX_BYTES: usize = 2048;
const WORD_CHARS_MAX: usize = 80;

/// What a pending page shows of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The request's own id.
    pub custom_id: Option<String>,
    /// What it asks for.
    pub url: Option<String>,
    /// The model it names.
    pub model: Option<String>,
    /// A title or name in the body.
    pub title: Option<String>,
    /// A brand in the body.
    pub brand: Option<String>,
    /// A stock number in the body.
    pub sku: Option<String>,
}

impl Summary {
    /// Reads what it can from the first bytes of a line, which may be cut anywhere.
    pub fn read(prefix: &[u8]) -> Self {
        let mut summary = Self::default();
        let prefix = &prefix[..prefix.len().min(SUMMARY_PREFIX_BYTES)];
        // A number at the very end may go on beyond the cut: half a number is a wrong number.
        let number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let end = prefix.iter().rposition(|byte| !number(byte)).map_or(0, |last| last + 1);
        let mut json = serde_json::Deserializer::from_slice(&prefix[..end]);
        // A cut line ends in an error; what was read before it stands.
        let _ = Fields { into: &mut summary, in_body: false }.deserialize(&mut json);
        summary
    }

    fn slot(&mut self, key: &str, in_body: bool) -> Option<&mut Option<String>> {
        match (key, in_body) {
            ("custom_id", false) => Some(&mut self.custom_id),
            ("url", false) => Some(&mut self.url),
            ("model", _) => Some(&mut self.model),
            ("title" | "name", _) => Some(&mut self.title),
            ("brand", _) => Some(&mut self.brand),
            ("sku", _) => Some(&mut self.sku),
            _ => None,
        }
    }
}

struct Fields<'a> {
    into: &'a mut Summary,
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
            } else if let Some(slot) = self.into.slot(&key, self.in_body) {
                map.next_value_seed(Word(slot))?;
            } else {
                map.next_value::<IgnoredAny>()?;
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

/// A scalar, shortened; anything else is passed over.
struct Word<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Word<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        use serde::Deserialize as _;
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            serde_json::Value::Number(number) => number.to_string(),
            _ => return Ok(()),
        };
        *self.0 = Some(text.chars().take(WORD_CHARS_MAX).collect());
        Ok(())
    }
}
