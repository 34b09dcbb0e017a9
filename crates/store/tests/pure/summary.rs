//! A few words of a line, from however much of it there is.

use proptest::prelude::*;
use windrow_store::inspect::{SUMMARY_PREFIX_BYTES, Summary};

const LINE: &str = r#"{"custom_id":"row-7","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","name":"Blue mug","brand":"Acme","sku":4711,"messages":[{"role":"user","content":"Größe?"}]}}"#;

fn words(summary: &Summary) -> [Option<&str>; 6] {
    let Summary { custom_id, url, model, title, brand, sku } = summary;
    [custom_id, url, model, title, brand, sku].map(|word| word.as_deref())
}

#[test]
fn it_picks_the_words_people_look_for() {
    let expected = ["row-7", "/v1/chat/completions", "gpt-4o", "Blue mug", "Acme", "4711"];
    assert_eq!(words(&Summary::read(LINE.as_bytes())), expected.map(Some));
    assert_eq!(words(&Summary::read(format!("  {LINE}\r\n").as_bytes())), expected.map(Some));
}

/// A cut line gives the words before the cut and no half words.
#[test]
fn a_line_cut_anywhere_gives_what_came_before() {
    let whole = Summary::read(LINE.as_bytes());
    let mut found = 0;
    for cut in 0..LINE.len() {
        let part = Summary::read(&LINE.as_bytes()[..cut]);
        let now = words(&part).iter().flatten().count();
        for (part, whole) in words(&part).into_iter().zip(words(&whole)) {
            assert!(part.is_none() || part == whole, "cut at {cut}: {part:?}");
        }
        assert!(now >= found, "a longer prefix never shows less");
        found = now;
    }
    assert_eq!(found, 6);
}

#[test]
fn words_are_short_and_other_shapes_are_passed_over() {
    let long =
        format!(r#"{{"custom_id":"{}","url":null,"body":[1,{{"model":"no"}}]}}"#, "é".repeat(500));
    let summary = Summary::read(long.as_bytes());
    assert_eq!(summary.custom_id.unwrap().chars().count(), 80);
    assert_eq!((summary.url, summary.model), (None, None));
    let odd = r#"{"custom_id":{"a":1},"url":["x"],"sku":true,"body":{"model":{},"title":"t"}}"#;
    assert_eq!(words(&Summary::read(odd.as_bytes())), [None, None, None, Some("t"), None, None]);
    for scalar in ["null", "true", "-1", "1.5", "9", "\"x\"", "[]", "", "{", "\u{feff}{}"] {
        assert_eq!(Summary::read(scalar.as_bytes()), Summary::default(), "{scalar}");
    }
}

#[test]
fn only_the_prefix_is_read_and_depth_does_not_crash() {
    let padding = " ".repeat(SUMMARY_PREFIX_BYTES);
    assert_eq!(Summary::read(format!("{padding}{LINE}").as_bytes()), Summary::default());
    let deep = format!(r#"{{"custom_id":"a","body":{{"model":"m","x":{}"#, "[".repeat(5000));
    let summary = Summary::read(deep.as_bytes());
    assert_eq!((summary.custom_id.as_deref(), summary.model.as_deref()), (Some("a"), Some("m")));
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
