//! A variant's change to a body: JSON Merge Patch (RFC 7396).
//!
//! Holds throughout: what the patch does not name keeps its exact bytes and its place, so numbers
//! are not rounded and a cache of prompts sees the same text.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The body with the patch merged into it. Without a body the patch is merged into nothing.
pub(super) fn patch(body: Option<&RawValue>, patch: &Value) -> String {
    let mut out = String::with_capacity(body.map_or(0, |body| body.get().len()) + 64);
    merge(body, patch, &mut out);
    out
}

fn merge(body: Option<&RawValue>, patch: &Value, out: &mut String) {
    let Value::Object(changes) = patch else {
        out.push_str(&patch.to_string());
        return;
    };
    // Anything but an object is replaced by one, as the standard says.
    let members = body.and_then(|body| serde_json::from_str(body.get()).ok()).unwrap_or_default();
    merge_members(members, changes, out);
}

fn merge_members(Members(members): Members<'_>, changes: &Map<String, Value>, out: &mut String) {
    out.push('{');
    let mut first = true;
    let mut name_of = |name: &str, out: &mut String| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        out.push_str(&Value::from(name).to_string());
        out.push(':');
    };
    for (at, (name, value)) in members.iter().enumerate() {
        match changes.get(&**name) {
            None => {
                name_of(name, out);
                out.push_str(value.get());
            }
            Some(Value::Null) => {}
            // Of a name that is there twice readers take the last.
            Some(_) if members[at + 1..].iter().any(|(later, _)| later == name) => {}
            Some(change) => {
                name_of(name, out);
                merge(Some(value), change, out);
            }
        }
    }
    for (name, change) in changes {
        if !change.is_null() && members.iter().all(|(known, _)| known != name) {
            name_of(name, out);
            merge(None, change, out);
        }
    }
    out.push('}');
}

/// The members of an object, in their order.
#[derive(Default)]
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(body: &str, with: &Value) -> String {
        let body: &RawValue = serde_json::from_str(body).unwrap();
        patch(Some(body), with)
    }

    #[test]
    fn the_examples_of_the_standard_hold() {
        for (body, with, result) in [
            (r#"{"a":"b"}"#, json!({"a":"c"}), r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, json!({"b":"c"}), r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, json!({"a":null}), "{}"),
            (r#"{"a":"b","b":"c"}"#, json!({"a":null}), r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, json!({"a":"c"}), r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, json!({"a":["b"]}), r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, json!({"a":{"b":"d","c":null}}), r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, json!({"a":[1]}), r#"{"a":[1]}"#),
            (r#"["a","b"]"#, json!(["c", "d"]), r#"["c","d"]"#),
            (r#"{"a":"b"}"#, json!(["c"]), r#"["c"]"#),
            (r#"{"a":"foo"}"#, json!(null), "null"),
            (r#"{"e":null}"#, json!({"a":1}), r#"{"e":null,"a":1}"#),
            (r"[1,2]", json!({"a":"b","c":null}), r#"{"a":"b"}"#),
            ("{}", json!({"a":{"bb":{"ccc":null}}}), r#"{"a":{"bb":{}}}"#),
        ] {
            assert_eq!(patched(body, &with), result, "{body} {with}");
        }
        assert_eq!(patch(None, &json!({"a":1})), r#"{"a":1}"#);
    }

    #[test]
    fn what_is_not_named_keeps_its_bytes() {
        let body = r#"{"n": 1.00000000000000000001, "model":"m", "x":{ "y" : [1e2] ,"z":0}}"#;
        let with = json!({"model":"other","x":{"z":1}});
        let result = r#"{"n":1.00000000000000000001,"model":"other","x":{"y":[1e2],"z":1}}"#;
        assert_eq!(patched(body, &with), result);
        assert_eq!(
            patched(r#"{"a":1,"a":{"b":2}}"#, &json!({"a":{"c":3}})),
            r#"{"a":{"b":2,"c":3}}"#
        );
    }
}
