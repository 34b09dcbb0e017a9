//! What is wrong with a recipe is said with its place and the word that was meant.

use crate::support::complaints;

/// Recipes with one mistake, and a part of what is said about it.
const MISTAKES: &[(&str, &str)] = &[
    ("", "line 1, column 1: a recipe has at least one [[try]]"),
    ("[[try]]\npath = /a", "line 2, column 8: no TOML"),
    (
        "[[try]]\npth = \"/a\"",
        "line 2, column 1: there is no key `pth` in [[try]]; did you mean `path`?",
    ),
    (
        "upsteam = \"a\"\n[[try]]\npath = \"/a\"",
        "line 1, column 1: there is no key `upsteam` in a recipe; did you mean `upstream`?",
    ),
    (
        "[input]\nforamt = \"csv\"\n[[try]]\npath = \"/a\"",
        "line 2, column 1: there is no key `foramt` in [input]; did you mean `format`?",
    ),
    (
        "[input]\nformat = \"csvv\"\n[[try]]\npath = \"/a\"",
        "line 2, column 11: `format` is one of csv, xlsx, jsonl, images; did you mean `csv`?",
    ),
    (
        "[input]\nheader = \"3\"\n[[try]]\npath = \"/a\"",
        "line 2, column 10: `header` is a whole number of 0 to 1000",
    ),
    (
        "[[try]]\npath = \"/a/{{ x | uper }}\"",
        "line 2, column 19: path: there is no filter `uper`; did you mean `upper`?",
    ),
    ("[[try]]\npath = \"/a/{{ x | upper }\"", "line 2, column 12: path: this `{{` has no end"),
    (
        "[[try]]\npath = \"/a/{% if x %}\"",
        "line 2, column 12: path: there are only `{{ }}` in templates, no `{%`",
    ),
    (
        "[[try]]\npath = \"/a/{{ answer.x }}\"",
        "line 2, column 14: path: the answer is known after the request only",
    ),
    (
        "[[try]]\npath = \"/a\"\npick = \"it.x\"",
        "line 3, column 9: pick: `it` is known after `pick` only",
    ),
    (
        "[[try]]\npath = \"/a\"\npick = \"{{ answer }}\"",
        "line 3, column 9: pick: this is computed, and needs no `{{ }}`",
    ),
    (
        "[[try]]\npath = \"/a\"\naccept = \"it.price is numbr\"",
        "line 3, column 23: accept: there is no test `is numbr`; did you mean `number`?",
    ),
    (
        "[[try]]\npath = \"/a\"\naccept = \"it.name.lower()\"",
        "line 3, column 18: accept: there are no methods: `.lower(…)`; did you mean `… | lower`?",
    ),
    ("[[try]]\npath = \"/a\"\naccept = \"it.a +\"", "line 3, column 1"),
    ("[[try]]\npath = \"a\"", "line 2, column 9: path: begins with `/`"),
    ("[[try]]\npath = \"//host/a\"", "line 2, column 9: path: begins with one `/`"),
    ("[[try]]\npath = \"/a/../b\"", "line 2, column 9: path: has no `.` and `..`"),
    ("[[try]]\npath = \"/a/%2e%2E/b\"", "line 2, column 9: path: has no `.` and `..`"),
    (
        "[[try]]\npath = \"/a\"\nheaders = { Authorization = \"x\" }",
        "line 3, column 13: `Authorization` belongs to the upstream, not to a recipe",
    ),
    ("[[try]]\npath = \"/a\"\nmethod = \"GET\"\nbody = {}", "line 1, column 1: a GET has no body"),
    (
        "[[try]]\nprompt = \"a\"",
        "line 1, column 1: the short form of a [[try]] has `model` and `prompt`",
    ),
    (
        "[[try]]\nmodel = \"m\"\nprompt = \"p\"\njson = { a = \"nubmer\" }",
        "line 4, column 14: a field is text, number, integer, boolean, list, or a list of words; did you mean `number`?",
    ),
    (
        "[[try]]\nname = \"a\"\npath = \"/a\"\n[[try]]\nname = \"a\"\npath = \"/a\"",
        "line 4, column 1: there are two [[try]] with the name `a`",
    ),
    (
        "[let]\na = \"b\"\nb = \"1\"\n[[try]]\npath = \"/a\"",
        "line 2, column 6: a: `b` is defined further down: names go from top to bottom",
    ),
    (
        "[let]\nanswer = \"b\"\n[[try]]\npath = \"/a\"",
        "line 2, column 1: `answer` has its own meaning already",
    ),
    (
        "[let]\n\"My Name\" = \"b\"\n[[try]]\npath = \"/a\"",
        "line 2, column 1: `My Name` is no name; did you mean `my_name`?",
    ),
    (
        "[[try]]\npath = \"/a\"\n[columns]\nc = \"image.widt\"",
        "line 4, column 6: c: `image` has name, width, height, bytes, mime, taken_at, thumbnail, and no `widt`; did you mean `width`?",
    ),
    ("[[try]]\npath = \"/a\"\nbody = '{\"a\": }'", "line 3, column 15: body: this is no JSON"),
    (
        "[[try]]\npath = \"/a\"\n[columns]\nc = \"it | selectattr('a', 'gtt', 1)\"",
        "line 4, column 11: c: there is no test `gtt`; did you mean `gt`?",
    ),
    (
        "[[try]]\npath = \"/a\"\n[columns]\nc = \"it | join(sep=',')\"",
        "there is no argument `sep` here",
    ),
    ("[[try]]\npath = \"/a\"\nmissing = \"yes +\"", "line 3, column 1"),
    (
        "[[try]]\npath = \"/a\"\nmissing = [40]",
        "line 3, column 11: `missing` is a list of statuses, or an expression",
    ),
];

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    for (text, wanted) in MISTAKES {
        let found = complaints(text);
        assert!(found.iter().any(|complaint| complaint.contains(wanted)), "{text}\n{found:#?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_text() {
    let found = complaints(
        "[[try]]\npth = \"/a\"\nacept = \"x\"\npath = \"/{{ a | b }}\"\n[columns]\nc = \"x | y\"\n[shwo]\n",
    );
    let lines: Vec<_> = found.iter().map(|complaint| &complaint[..6]).collect();
    assert_eq!(lines, ["line 2", "line 3", "line 4", "line 6", "line 7"], "{found:#?}");
}

#[test]
fn places_are_right_in_texts_of_several_lines_and_with_escapes() {
    let found =
        complaints("[[try]]\nmodel = \"m\"\nprompt = \"\"\"\nHello\n\\u00fc {{ x | nope }}\"\"\"");
    assert!(
        found[0].starts_with("line 5, column 15: prompt: there is no filter `nope`"),
        "{found:?}"
    );
}

#[test]
fn recipes_are_bounded() {
    let chain = |between: &str, count: usize| vec!["x"; count].join(between);
    let table = [
        ("#".repeat(300_000), "a recipe has at most"),
        (
            format!("[[try]]\npath = \"/a\"\n[columns]\nc = \"{}\"", chain("~", 5_000)),
            "an expression has at most",
        ),
        (
            format!("[[try]]\npath = \"/a\"\n[columns]\nc = \"{}x\"", "not ".repeat(3_000)),
            "an expression has at most",
        ),
        (
            format!("[[try]]\npath = \"/a\"\n[columns]\nc = \"{}\"", "(".repeat(3_000)),
            "an expression has at most",
        ),
        (
            format!("[[try]]\npath = \"/a\"\n[columns]\nc = \"{}\"", chain(" if x else ", 500)),
            "an expression has at most",
        ),
        (
            format!("[[try]]\nmodel = \"m\"\nprompt = \"{}\"", "{{ x }}".repeat(300)),
            "a template has at most",
        ),
        ("[[try]]\npath = \"/a\"\n".repeat(30), "a recipe has 1 to 20 [[try]]"),
        (format!("[[try]]\npath = \"/a\"\nbody = '{}'", "[".repeat(5_000)), "this is no JSON"),
        (format!("[[try]]\npath = \"/a\"\nbody = {}", "[".repeat(5_000)), "no TOML"),
    ];
    for (text, wanted) in table {
        let found = complaints(&text);
        assert!(found.iter().any(|complaint| complaint.contains(wanted)), "{wanted}: {found:?}");
    }
    let many: String = (0..100).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(complaints(&many).len(), 50);
}
