//! A few words of a line, from however much of it there is.

use proptest::prelude::*;
use windrow_store::inspect::{SUMMARY_PREFIX_BYTES, Summary};

const LINE: &str = r#"{"custom_id":"row-7","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","name":"Blue mug","brand":"Acme","sku":4711,"messages":[{"role":"user","content":"Größe?"}]}}"#;

fn fields(line: &str) -> Vec<(String, String)> {
    Summary::read(line.as_bytes()).fields
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn of_a_request_it_shows_its_id_its_url_and_its_model() {
    let expected =
        pairs(&[("custom_id", "row-7"), ("url", "/v1/chat/completions"), ("model", "gpt-4o")]);
    assert_eq!(fields(LINE), expected);
    assert_eq!(fields(&format!("  {LINE}\r\n")), expected);
    assert_eq!(Summary::read(LINE.as_bytes()).custom_id.as_deref(), Some("row-7"));
    let get = r#"{"method":"GET","url":"/items/1"}"#;
    assert_eq!(fields(get), pairs(&[("url", "/items/1")]));
}

#[test]
fn of_another_object_it_shows_the_first_scalars_by_their_own_names() {
    let row = r#"{"Item no.":4711,"tags":["a"],"Größe":"40 x 60","note":null,"sold":true,"brand":"Acme"}"#;
    assert_eq!(fields(row), pairs(&[("Item no.", "4711"), ("Größe", "40 x 60"), ("sold", "true")]));
    // A row may have a field with a name that requests have, too.
    let row = r#"{"url":"https://shop/1","title":"Mug"}"#;
    assert_eq!(fields(row), pairs(&[("url", "https://shop/1"), ("title", "Mug")]));
}

/// A cut line gives the words before the cut and no half words.
#[test]
fn a_line_cut_anywhere_gives_what_came_before() {
    let whole: serde_json::Value = serde_json::from_str(LINE).unwrap();
    let known = |summary: &Summary, name| summary.get(name).is_some();
    let mut found = 0;
    for cut in 0..LINE.len() {
        let part = Summary::read(&LINE.as_bytes()[..cut]);
        for (name, value) in &part.fields {
            let place = if name == "model" { &whole["body"][name] } else { &whole[name] };
            assert_eq!(place, value, "cut at {cut}");
        }
        let now = ["custom_id", "url", "model"].iter().filter(|name| known(&part, name)).count();
        assert!(now >= found, "a longer prefix never shows less");
        found = now;
    }
    assert_eq!(found, 3);
}

#[test]
fn words_are_short_and_other_shapes_are_passed_over() {
    let long =
        format!(r#"{{"custom_id":"{}","url":null,"body":[1,{{"model":"no"}}]}}"#, "é".repeat(500));
    let summary = Summary::read(long.as_bytes());
    assert_eq!(summary.custom_id.unwrap().chars().count(), 80);
    assert_eq!(summary.fields.len(), 1);
    let odd = r#"{"custom_id":{"a":1},"url":["x"],"sku":true,"body":{"model":{},"title":"t"}}"#;
    assert_eq!(fields(odd), pairs(&[("sku", "true")]));
    for scalar in ["null", "true", "-1", "1.5", "9", "\"x\"", "[]", "", "{", "\u{feff}{}"] {
        assert_eq!(Summary::read(scalar.as_bytes()), Summary::default(), "{scalar}");
    }
}

#[test]
fn only_the_prefix_is_read_and_depth_does_not_crash() {
    let padding = " ".repeat(SUMMARY_PREFIX_BYTES);
    assert_eq!(Summary::read(format!("{padding}{LINE}").as_bytes()), Summary::default());
    let deep =
        format!(r#"{{"url":"/u","method":"POST","body":{{"model":"m","x":{}"#, "[".repeat(5000));
    let summary = Summary::read(deep.as_bytes());
    assert_eq!((summary.get("url"), summary.get("model")), (Some("/u"), Some("m")));
    Summary::read(format!(r#"{{"model":{}"#, "[".repeat(5000)).as_bytes());
}

proptest! {
    #[test]
    fn bytes_never_panic(bytes: Vec<u8>, cut: prop::sample::Index, flip: u8) {
        Summary::read(&bytes);
        let mut line = LINE.as_bytes().to_vec();
        let at = cut.index(line.len());
        line[at] = flip;
        Summary::read(&line);
    }
}
