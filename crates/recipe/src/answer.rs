//! The answer of an upstream as a value of expressions.
//!
//! Holds throughout: parsed once, straight into values, and shared from then on; looking something up
//! copies nothing. Bounded by the answer's own size and by the depth that JSON may have.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Up to here keys are looked for one by one.
const LINEAR_MAX: usize = 16;

/// Reads one JSON value; nothing may follow it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<Parsed>(bytes).map(|parsed| parsed.0)
}

struct Parsed(Value);

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::from(()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Parsed(value)) = access.next_element()? {
            values.push(value);
        }
        Ok(Value::from(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut pairs: Vec<(Box<str>, Value)> = Vec::new();
        while let Some((key, Parsed(value))) = access.next_entry()? {
            pairs.push((key, value));
        }
        Ok(Value::from_object(Fields::new(pairs)))
    }
}

/// A map in its own order.
#[derive(Debug)]
pub(crate) struct Fields {
    pairs: Vec<(Box<str>, Value)>,
    /// The pairs by key, where there are too many to look through.
    sorted: Vec<u32>,
}

impl Fields {
    /// Of two pairs with the same key the last one counts.
    pub(crate) fn new(mut pairs: Vec<(Box<str>, Value)>) -> Self {
        let mut sorted = Vec::new();
        if pairs.len() <= LINEAR_MAX {
            for index in (1..pairs.len()).rev() {
                if let Some(earlier) =
                    pairs[..index].iter().position(|(key, _)| *key == pairs[index].0)
                {
                    pairs.remove(earlier);
                    return Self::new(pairs);
                }
            }
        } else {
            sorted = (0u32..).zip(&pairs).map(|(index, _)| index).collect();
            sorted.sort_by(|one, other| pairs[*one as usize].0.cmp(&pairs[*other as usize].0));
            let repeated: Vec<u32> = sorted
                .windows(2)
                .filter(|two| pairs[two[0] as usize].0 == pairs[two[1] as usize].0)
                .map(|two| two[0])
                .collect();
            if !repeated.is_empty() {
                let repeated: std::collections::HashSet<u32> = repeated.into_iter().collect();
                let kept = (0u32..).zip(pairs).filter(|(index, _)| !repeated.contains(index));
                return Self::new(kept.map(|(_, pair)| pair).collect());
            }
        }
        Self { pairs, sorted }
    }

    fn find(&self, key: &str) -> Option<&Value> {
        if self.sorted.is_empty() {
            return self.pairs.iter().find(|(name, _)| **name == *key).map(|(_, value)| value);
        }
        let at = |index: &u32| (*self.pairs[*index as usize].0).cmp(key);
        let found = self.sorted.binary_search_by(at).ok()?;
        Some(&self.pairs[self.sorted[found] as usize].1)
    }

    /// The pairs, in their order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.pairs.iter().map(|(key, value)| (&**key, value))
    }
}

impl Object for Fields {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.find(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.find(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.pairs.iter().map(|(key, _)| Value::from(&**key)).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.pairs.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_its_order_and_the_last_of_two_keys() {
        let many: Vec<String> = (0..50).map(|n| format!(r#""k{n}":{n}"#)).collect();
        let text = format!(
            r#"{{"b":1,"a":[1,2.5,null,true,"x"],"b":2,"m":{{{},"k7":-7}}}}"#,
            many.join(",")
        );
        let value = parse(text.as_bytes()).unwrap();
        assert_eq!(value.get_attr("b").unwrap(), Value::from(2));
        assert_eq!(value.len(), Some(3));
        let inner = value.get_attr("m").unwrap();
        assert_eq!(inner.get_attr("k49").unwrap(), Value::from(49));
        assert_eq!(inner.get_attr("k7").unwrap(), Value::from(-7));
        assert_eq!((inner.len(), inner.get_attr("k50").unwrap().is_undefined()), (Some(50), true));
        assert!(parse(b"{} x").is_err());
        assert!(parse("[".repeat(10_000).as_bytes()).is_err());
    }
}
