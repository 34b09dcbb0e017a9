//! JSON that is read as bytes: how deep it is nested, and the id that a request gives itself.

use std::borrow::Cow;

use serde::Deserialize;

/// Whether JSON is nested deeper than that; of anything else, some answer. Counting brackets is cheap, so
/// that the exact walk is made only for the few texts that have many.
pub fn is_deeper_than(json: &[u8], depth_max: usize) -> bool {
    if opening_brackets(json) <= depth_max {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (true, b'"') => in_string = false,
            (true, _) => {}
            (false, b'"') => in_string = true,
            (false, b'[' | b'{') => {
                depth += 1;
                if depth > depth_max {
                    return true;
                }
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            (false, _) => {}
        }
    }
    false
}

/// How many `[` and `{` there are. Counted in bytes, so that the compiler counts many at once.
fn opening_brackets(json: &[u8]) -> usize {
    // The two differ in this bit only, and no other byte becomes one of them by setting it.
    const BIT: u8 = b'[' ^ b'{';
    let count = |part: &[u8]| part.iter().map(|byte| u8::from(byte | BIT == b'{')).sum::<u8>();
    json.chunks(usize::from(u8::MAX)).map(|part| usize::from(count(part))).sum()
}

/// The `custom_id` of a request; none when it has none or cannot be read.
pub(crate) fn custom_id(request: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        custom_id: Cow<'a, str>,
    }
    serde_json::from_slice::<Fields<'_>>(request).ok().map(|fields| fields.custom_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brackets_outside_of_strings_nest() {
        for (json, deep) in [
            (r#"[[["x"]]]"#, 3),
            (r#"{"a":"[[[[","b":[1]}"#, 2),
            (r#"["\"[[[",{}]"#, 2),
            ("]]][", 1),
            ("7", 0),
        ] {
            assert!(!is_deeper_than(json.as_bytes(), deep), "{json}");
            assert!(deep == 0 || is_deeper_than(json.as_bytes(), deep - 1), "{json}");
        }
    }

    #[test]
    fn the_id_of_a_request_is_read_also_when_it_is_escaped() {
        assert_eq!(custom_id(br#"{"custom_id":"a\u0062","x":1}"#).as_deref(), Some("ab"));
        assert_eq!(custom_id(br#"{"custom_id":7}"#), None);
        assert_eq!(custom_id(b"no"), None);
    }
}
