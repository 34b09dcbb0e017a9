//! Any text is a recipe or is complained of; any cell stays in its place; nothing panics or explodes.

use proptest::prelude::*;
use windrow_recipe::{Answer, Cell, Columns, Judgement, Meta, Recipe, Row};

use crate::support::{column, recipe};

/// Pieces that recipes are made of, so that random texts get far.
const PIECES: &[&str] = &[
    "[[try]]\n",
    "path = ",
    "\"/a/{{ x }}\"\n",
    "[columns]\n",
    "c = ",
    "\"it.a | join(',')\"\n",
    "[let]\n",
    "q = ",
    "'x ~ x'\n",
    "{{",
    "}}",
    "{%",
    "\"",
    "'",
    "\"\"\"",
    "| upper",
    "is number",
    "(",
    ")",
    "[",
    "]",
    "*",
    "~",
    "+",
    "-",
    "not ",
    "answer",
    "it",
    "row.",
    "row",
    "x",
    "y",
    "1",
    "9999999999",
    "'%d'",
    "| format",
    "model = \"m\"\n",
    "prompt = \"{{ x }}\"\n",
    "json = { a = \"number\" }\n",
    "\n",
    "=",
    ",",
    ".",
    ":",
    "ü",
    "\\",
    "\\u00e9",
    "#",
    "missing = [404]\n",
    "pick = \"answer\"\n",
    "[show]\n",
    "keep = [\"x\"]\n",
    "body = { a = \"{{ x }}\" }\n",
];

/// Pieces that expressions are made of.
const WORDS: &[&str] = &[
    "x",
    "y",
    "answer",
    "answer.l",
    "it",
    "'a'",
    "1",
    "2.5",
    "none",
    "[x, 1]",
    "{'a': x}",
    " ~ ",
    " + ",
    " * ",
    " - ",
    " / ",
    " // ",
    " % ",
    " ** ",
    " | join(',')",
    " | upper",
    " | sort",
    " | length",
    " | list",
    " | first",
    " | tojson",
    " | fromjson",
    " | replace('a', x)",
    " | split('a')",
    " | map('upper')",
    " | select",
    " | unique",
    " | min",
    " | sum",
    " | round(2)",
    " | int",
    " | truncate(3)",
    "[1:]",
    "[::-1]",
    "[0]",
    ".a",
    " is number",
    " in ",
    " and ",
    " or ",
    "not ",
    "(",
    ")",
    "-",
    " == ",
    " < ",
    " if ",
    " else ",
    "999999999999999999999999999",
    "1e308",
    " | default(x)",
    " | items",
    " | reverse",
];

fn run(recipe: &Recipe, cell: &str) {
    let columns = Columns::fold(&["x", "y"]);
    let cells = [Cell::Text(cell.to_owned()), Cell::Number(1.5)];
    let row = Row { columns: &columns, cells: &cells, number: 1, image: None };
    let _ = recipe.check(&columns);
    let _ = recipe.skip(&row);
    let _ = recipe.normalised(&row);
    let _ = recipe.describe();
    for strategy in 0..recipe.strategies() {
        let _ = recipe.render(&row, strategy);
        for body in [&b"{\"l\":[1,\"a\",null],\"a\":{\"b\":2}}"[..], b"[]", b"x", b""] {
            let answer = Answer { status: 200, body, meta: Meta::default() };
            if let Judgement::Found { shaped, .. } = recipe.judge(&row, strategy, &answer) {
                let _: serde_json::Value = serde_json::from_str(&shaped).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_recipe_or_complained_of(text in any::<String>()) {
        if let Ok(recipe) = Recipe::parse(&text) {
            run(&recipe, "a");
        }
    }

    #[test]
    fn any_pieces_are_a_recipe_or_complained_of(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        match Recipe::parse(&pieces.concat()) {
            Ok(recipe) => run(&recipe, "a"),
            Err(complaints) => prop_assert!(complaints.iter().next().is_some()),
        }
    }

    #[test]
    fn any_expression_is_computed_or_complained_of(
        words in prop::collection::vec(prop::sample::select(WORDS), 1..14),
        cell in any::<String>(),
    ) {
        let text = words.concat();
        let toml = format!("[let]\nq = '''{text}'''\n[[try]]\npath = \"/{{{{ q }}}}\"\nbody = {{ a = \"{{{{ q }}}}\" }}\n[columns]\nc = '''{text}'''");
        if let Ok(recipe) = Recipe::parse(&toml) {
            run(&recipe, &cell);
        }
        let toml = format!("[[try]]\npath = \"/a\"\n[columns]\nc = '''{text}'''");
        if let Ok(recipe) = Recipe::parse(&toml) {
            run(&recipe, &cell);
        }
    }

    #[test]
    fn any_cell_stays_in_its_place(cell in any::<String>(), other in "[./\\\\%2eEfF?#&=\r\n]{0,12}") {
        let recipe = recipe("[[try]]\npath = \"/a/{{ x }}/b-{{ y }}/c?q={{ x }}&r=1\"\nquery = { s = \"{{ y }}\" }\nheaders = { X-A = \"{{ x }}\" }\nbody = { t = \"{{ x }}\", u = \"<{{ y }}>\" }");
        let columns = Columns::fold(&["x", "y"]);
        for (x, y) in [(&cell, &other), (&other, &cell)] {
            let cells = [Cell::Text(x.clone()), Cell::Text(y.clone())];
            let row = Row { columns: &columns, cells: &cells, number: 1, image: None };
            let Ok(request) = recipe.render(&row, 0) else { continue };
            let (path, query) = request.path.split_once('?').unwrap();
            prop_assert!(request.path.bytes().all(|byte| byte.is_ascii_graphic()));
            let segments: Vec<&str> = path.split('/').collect();
            prop_assert_eq!(segments.len(), 5);
            prop_assert_eq!((segments[1], &segments[3][..2], segments[4]), ("a", "b-", "c"));
            prop_assert!(segments.iter().all(|segment| !matches!(segment.to_lowercase().as_str(), "." | ".." | "%2e" | "%2e%2e")));
            prop_assert!(!segments[2].is_empty());
            let keys: Vec<&str> = query.split('&').map(|pair| pair.split('=').next().unwrap()).collect();
            prop_assert_eq!(keys, ["q", "r", "s"]);
            prop_assert!(!query.contains('#'));
            prop_assert!(request.headers[0].1.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            let body: serde_json::Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
            prop_assert_eq!(body, serde_json::json!({"t": x, "u": format!("<{y}>")}));
        }
    }

    #[test]
    fn any_headers_have_names_of_their_own_that_expressions_can_use(headers in prop::collection::vec(any::<String>(), 1..8)) {
        let columns = Columns::fold(&headers);
        let names: std::collections::HashSet<&str> = columns.names().collect();
        prop_assert_eq!(names.len(), headers.len());
        let cells: Vec<Cell> = (0..headers.len()).map(|n| Cell::Text(format!("v{n}"))).collect();
        for (at, name) in columns.names().enumerate() {
            let recipe = column(&format!("row.{name}"));
            prop_assert!(recipe.check(&columns).is_ok(), "{}", name);
            let row = Row { columns: &columns, cells: &cells, number: 1, image: None };
            let answer = Answer { status: 200, body: b"{}", meta: Meta::default() };
            let shaped = format!(r#"{{"c":"v{at}"}}"#);
            prop_assert_eq!(recipe.judge(&row, 0, &answer), Judgement::Found { shaped, empty: vec![] });
        }
    }

    #[test]
    fn any_answer_is_judged(body in prop::collection::vec(any::<u8>(), 0..200), status in 100u16..600) {
        let recipe = recipe("[[try]]\nmodel = \"m\"\nprompt = \"p\"\njson = { a = \"list\", b = { c = \"integer\" } }\n[[try]]\npath = \"/a\"\nbusy = \"answer.e\"\npick = \"answer.r | first\"");
        let columns = Columns::default();
        let row = Row { columns: &columns, cells: &[], number: 1, image: None };
        for strategy in 0..2 {
            recipe.judge(&row, strategy, &Answer { status, body: &body, meta: Meta::default() });
        }
    }
}
