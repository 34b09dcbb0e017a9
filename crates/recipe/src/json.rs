//! Values as JSON, under a bound.
//!
//! Holds throughout: keys keep their order, whole numbers have no `.0`, and what JSON cannot say
//! (infinities, missing values) is `null`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::{Value, ValueKind};

use crate::answer::Fields;
use crate::context::Picture;
use crate::table::number_text;

/// More bytes than the bound allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Whether a picture is written as its data or by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pictures {
    Data,
    Name,
}

/// Writes JSON, and nothing once there is too much of it.
pub(crate) struct Writer {
    pub(crate) out: Vec<u8>,
    bytes_max: usize,
    pictures: Pictures,
}

impl Writer {
    pub(crate) fn new(bytes_max: usize, pictures: Pictures) -> Self {
        Self { out: Vec::new(), bytes_max, pictures }
    }

    /// Begins anew, with another bound.
    pub(crate) fn restart(&mut self, bytes_max: usize) {
        self.out.clear();
        self.bytes_max = bytes_max;
    }

    pub(crate) fn raw(&mut self, text: &str) -> Result<(), TooLarge> {
        if self.out.len() + text.len() > self.bytes_max {
            return Err(TooLarge);
        }
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub(crate) fn string(&mut self, text: &str) -> Result<(), TooLarge> {
        if self.out.len() + text.len() + 2 > self.bytes_max {
            return Err(TooLarge);
        }
        serde_json::to_writer(&mut self.out, text).expect("writing to memory does not fail");
        self.within()
    }

    fn within(&self) -> Result<(), TooLarge> {
        if self.out.len() > self.bytes_max { Err(TooLarge) } else { Ok(()) }
    }

    /// A picture as a data URL inside a string that is open.
    pub(crate) fn data_url(&mut self, picture: &Picture) -> Result<(), TooLarge> {
        let data = picture.0.data.as_ref().filter(|_| self.pictures == Pictures::Data);
        let Some(data) = data else {
            let quoted = serde_json::to_string(&picture.0.name).unwrap_or_default();
            return self.raw(quoted.trim_start_matches('"').strip_suffix('"').unwrap_or_default());
        };
        let length = base64::encoded_len(data.bytes.len(), true).ok_or(TooLarge)?;
        if self.out.len().saturating_add(length) > self.bytes_max {
            return Err(TooLarge);
        }
        // The kind comes from whoever encoded the picture; letters that end a string are left out.
        let mime: String = data
            .mime
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "/+.-".contains(*c))
            .collect();
        self.raw("data:")?;
        self.raw(&mime)?;
        self.raw(";base64,")?;
        let start = self.out.len();
        self.out.resize(start + length, 0);
        let written = STANDARD.encode_slice(&data.bytes, &mut self.out[start..]);
        self.out.truncate(start + written.unwrap_or(0));
        self.within()
    }

    pub(crate) fn value(&mut self, value: &Value) -> Result<(), TooLarge> {
        match value.kind() {
            ValueKind::Bool => self.raw(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.raw(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                self.raw("[")?;
                for (index, value) in value.try_iter().into_iter().flatten().enumerate() {
                    self.raw(if index > 0 { "," } else { "" })?;
                    self.value(&value)?;
                }
                self.raw("]")
            }
            ValueKind::Map => self.map(value),
            ValueKind::Plain => match value.downcast_object_ref::<Picture>() {
                Some(picture) => {
                    self.raw("\"")?;
                    self.data_url(picture)?;
                    self.raw("\"")
                }
                None => self.raw("null"),
            },
            _ => self.raw("null"),
        }
    }

    fn map(&mut self, value: &Value) -> Result<(), TooLarge> {
        self.raw("{")?;
        if let Some(fields) = value.downcast_object_ref::<Fields>() {
            for (index, (key, value)) in fields.pairs().enumerate() {
                self.pair(index, key, value)?;
            }
        } else {
            for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
                let found = value.get_item(&key).unwrap_or(Value::UNDEFINED);
                self.pair(index, &key.to_string(), &found)?;
            }
        }
        self.raw("}")
    }

    fn pair(&mut self, index: usize, key: &str, value: &Value) -> Result<(), TooLarge> {
        self.raw(if index > 0 { "," } else { "" })?;
        self.string(key)?;
        self.raw(":")?;
        self.value(value)
    }
}

/// The value as a text of JSON; pictures by their names.
pub(crate) fn text(value: &Value, bytes_max: usize) -> Result<String, TooLarge> {
    let mut writer = Writer::new(bytes_max, Pictures::Name);
    writer.value(value)?;
    Ok(String::from_utf8(writer.out).expect("JSON is made of texts"))
}

/// A number as JSON has it.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_finite() => number_text(number),
        _ => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_json_under_a_bound() {
        let given = r#"{"b":[1,2.5,null,true],"a":"q\"\n","n":12.0,"u":18446744073709551615}"#;
        let value = crate::answer::parse(given.as_bytes()).unwrap();
        let wanted = given.replace("12.0", "12");
        assert_eq!(text(&value, 1_000).unwrap(), wanted);
        assert_eq!(text(&value, wanted.len()).unwrap(), wanted);
        assert_eq!(text(&value, wanted.len() - 1), Err(TooLarge));
        assert_eq!(text(&Value::from(f64::NAN), 10).unwrap(), "null");
    }
}
