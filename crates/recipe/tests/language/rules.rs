//! The nine rules, one by one.

use windrow_recipe::{Allow, Cell, Columns, Judgement, Recipe, Row};

use crate::support::{Sheet, body, column, complaints, get, judge, recipe, render, shaped};

#[test]
fn rule_2_what_goes_out_is_strict_and_what_comes_in_is_lenient() {
    let recipe = recipe(
        "[[try]]\npath = \"/a/{{ x }}\"\n[columns]\nu = \"answer.usage.tokens * 0.4\"\nv = \"answer.v\"\nw = \"'t' | float\"\nx = \"x\"",
    );
    let columns = Columns::fold(&["w", "x"]);
    let short = Row { columns: &columns, cells: &[Cell::Empty], number: 7, image: None };
    let fault = recipe.render(&short, 0).unwrap_err();
    assert_eq!((fault.code, fault.column.as_deref()), ("row_incomplete", Some("x")));
    assert_eq!(fault.message, "path: this row has no `x`");
    let found = judge(&recipe, 0, &[("x", "1")], 200, "{}");
    let shaped = r#"{"u":null,"v":null,"w":null,"x":"1"}"#.to_owned();
    assert_eq!(found, Judgement::Found { shaped, empty: vec![0, 1, 2] });
}

#[test]
fn rule_3_every_name_is_compared_with_the_header() {
    let recipe = recipe(
        "[let]\nq = \"titl | trim\"\n[[try]]\npath = \"/a\"\nquery = { q = \"{{ q }}\", s = \"{{ row.staus }}\" }\n[show]\nkeep = [\"brad\"]",
    );
    let columns = Columns::fold(&["Title", "Status", "Brand"]);
    let found: Vec<String> =
        recipe.check(&columns).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "line 2, column 6: the file has no column `titl`; did you mean `title`?",
            "line 5, column 34: the file has no column `staus`; did you mean `status`?",
            "line 7, column 10: the file has no column `brad`; did you mean `brand`?",
        ]
    );
}

#[test]
fn rule_3_a_header_that_is_reserved_is_reached_through_the_row() {
    let recipe = recipe(
        "[[try]]\npath = \"/a\"\nquery = { a = \"{{ row.answer }}\", b = \"{{ row['in'] }}\" }\n[columns]\nmine = \"row.answer\"\ntheirs = \"answer\"",
    );
    let row: &[(&str, &str)] = &[("Answer", "mine"), ("In", "i")];
    recipe.check(&Sheet::new(row).columns).unwrap();
    assert_eq!(render(&recipe, row).unwrap().path, "/a?a=mine&b=i");
    assert_eq!(shaped(&recipe, row, "5"), r#"{"mine":"mine","theirs":5}"#);
}

#[test]
fn rule_3_a_name_may_be_that_of_a_column_and_then_stands_before_it() {
    let recipe = recipe(
        "[let]\ntitle = \"title | trim\"\nboth = \"title ~ row.title\"\n[[try]]\npath = \"/{{ both }}\"",
    );
    assert_eq!(render(&recipe, &[("title", " a ")]).unwrap().path, "/a%20a%20");
    let normalised = recipe.normalised(&Sheet::new(&[("title", " a ")]).row());
    assert_eq!(normalised.as_deref(), Some(r#"{"title":"a","both":"a a "}"#));
}

#[test]
fn rule_4_a_404_is_a_miss_for_get_only_unless_the_recipe_says_so() {
    let table = [
        ("", "GET", 404, Judgement::Missed),
        ("", "POST", 404, Judgement::Unjudged),
        ("missing = [404]", "POST", 404, Judgement::Missed),
        ("missing = []", "GET", 404, Judgement::Unjudged),
        ("missing = 410", "GET", 410, Judgement::Missed),
        (
            "missing = \"http.status == 422 and answer.code == 'none'\"",
            "GET",
            422,
            Judgement::Missed,
        ),
        ("missing = \"answer.code == 'none'\"", "GET", 200, Judgement::Missed),
        ("busy = \"answer.code == 'none'\"", "GET", 200, Judgement::Busy),
        ("busy = \"http.status == 403\"", "GET", 403, Judgement::Busy),
        ("busy = \"http.status == 403\"", "GET", 500, Judgement::Unjudged),
        ("", "GET", 429, Judgement::Unjudged),
    ];
    for (keys, method, status, wanted) in table {
        let recipe = recipe(&format!("[[try]]\nmethod = \"{method}\"\npath = \"/a\"\n{keys}"));
        assert_eq!(
            judge(&recipe, 0, &[], status, r#"{"code":"none"}"#),
            wanted,
            "{keys} {method} {status}"
        );
    }
}

#[test]
fn rule_4_without_a_pick_any_good_answer_is_found() {
    assert_eq!(shaped(&get("/a"), &[], r#"{"a":[]}"#), r#"{"answer":{"a":[]}}"#);
    assert_eq!(shaped(&get("/a"), &[], "plain text"), r#"{"answer":"plain text"}"#);
    for (picked, nothing) in [
        ("none", true),
        ("''", true),
        ("[]", true),
        ("{}", true),
        ("answer.x", true),
        ("0", false),
        ("false", false),
    ] {
        let recipe = recipe(&format!("[[try]]\npath = \"/a\"\npick = \"{picked}\""));
        assert_eq!(judge(&recipe, 0, &[], 200, "{}") == Judgement::Missed, nothing, "{picked}");
    }
}

#[test]
fn rule_5_a_body_is_built_from_values() {
    let recipe = recipe(
        "[[try]]\npath = \"/a\"\n[try.body]\nz = \"{{ t }}\"\nnumber = \"{{ n | int }}\"\ntext = \"{{ n }}.\"\n\
         gone = \"{{ empty }}\"\nlist = [1, 2.5, true, \"{{ t }}\", \"{{ empty }}\"]\n[try.body.inner]\nk = \"{{ [n, t] }}\"",
    );
    let row: &[(&str, &str)] = &[("t", "a\"b\\\n"), ("n", "7"), ("empty", "")];
    let wanted = r#"{"z":"a\"b\\\n","number":7,"text":"7.","list":[1,2.5,true,"a\"b\\\n"],"inner":{"k":["7","a\"b\\\n"]}}"#;
    assert_eq!(body(&recipe, row), wanted);
    let request = render(&recipe, row).unwrap();
    assert_eq!((request.method, request.headers.len()), ("POST", 0));
}

#[test]
fn rule_5_a_body_may_be_json_in_a_text_or_the_whole_row() {
    let text = recipe(
        "[[try]]\npath = \"/a\"\nbody = '{\"b\": [\"{{ t }}\", null, 1.0], \"a\": \"x{{ t }}\"}'",
    );
    assert_eq!(body(&text, &[("t", "\"]}")]), r#"{"b":["\"]}",null,1],"a":"x\"]}"}"#);
    let row = recipe("[[try]]\npath = \"/a\"\nbody = \"{{ row }}\"");
    assert_eq!(body(&row, &[("T T", "x"), ("n", "")]), r#"{"t_t":"x","n":null}"#);
}

#[test]
fn rule_5_paths_queries_and_prompts_print_and_sheets_have_no_point_zero() {
    let recipe = recipe(
        "[[try]]\npath = \"/z/{{ n }}\"\nquery = { n = \"{{ n }}\", b = \"{{ b }}\", l = [\"1\", \"{{ n }}\"], gone = \"{{ e }}\" }\nbody = { n = \"{{ n }}\", p = \"{{ n }} {{ b }}\" }",
    );
    let columns = Columns::fold(&["n", "b", "e"]);
    let cells = [Cell::Number(1234.0), Cell::Bool(true), Cell::Empty];
    let request = recipe
        .render(&Row { columns: &columns, cells: &cells, number: 1, image: None }, 0)
        .unwrap();
    assert_eq!(request.path, "/z/1234?n=1234&b=true&l=1&l=1234");
    assert_eq!(request.body.unwrap(), br#"{"n":1234,"p":"1234 true"}"#);
}

#[test]
fn rule_6_what_explodes_is_refused_or_fails_its_row() {
    let refused = [
        "'%9999999999d' | format(1)",
        "x | indent(9999999999)",
        "range(1000000000)",
        "x.__class__()",
        "x | pprint",
        "[x] | map('format')",
        "x | replace('a')",
    ];
    for expression in refused {
        let text = format!("[[try]]\npath = \"/a\"\n[columns]\nc = \"\"\"{expression}\"\"\"");
        assert!(!complaints(&text).is_empty(), "{expression}");
    }
    let long = "x".repeat(600_000);
    let row: &[(&str, &str)] = &[("x", &long)];
    for expression in [
        "'x' * 100000000",
        "x * 2",
        "[x] * 2",
        "2 * [1]",
        "x ~ x",
        "x + x",
        "[x, x] | join",
        "x | replace('x', 'yy')",
        "x | list",
        "x | split('x')",
        "[x, x] | tojson",
        "[x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1], x[:-1]] | length",
    ] {
        assert_eq!(shaped(&column(expression), row, "{}"), r#"{"c":null}"#, "{expression}");
        let out = recipe(&format!(
            "[[try]]\npath = \"/a\"\nbody = {{ x = '''{{{{ {expression} }}}}''' }}"
        ));
        let fault = render(&out, row).unwrap_err();
        let is_number = expression.contains('*');
        assert_eq!(
            fault.code,
            if is_number { "row_invalid" } else { "row_too_large" },
            "{expression}: {fault}"
        );
    }
}

#[test]
fn rule_6_doubling_from_name_to_name_ends_soon() {
    let mut text = String::from("[let]\na0 = \"x ~ x\"\n");
    for n in 1..50 {
        text.push_str(&format!("a{n} = \"a{} ~ a{}\"\n", n - 1, n - 1));
    }
    text.push_str("[[try]]\npath = \"/a\"\nbody = { a = \"{{ a49 }}\" }");
    assert_eq!(render(&recipe(&text), &[("x", "ab")]).unwrap_err().code, "row_too_large");
}

#[test]
fn rule_7_a_recipe_of_a_member_uses_what_is_allowed_and_nothing_else() {
    let rule = |method: &str, path: &str| Allow {
        upstream: None,
        method: method.to_owned(),
        path: path.to_owned(),
    };
    let rules = [rule("GET", "/search"), rule("GET", "/items/*"), rule("POST", "/v1/*/x")];
    for (method, path, wanted) in [
        ("GET", "/search", true),
        ("GET", "/search?q={{ x }}", true),
        ("GET", "/items/{{ x }}", true),
        ("GET", "/items/a-{{ x }}", true),
        ("GET", "/items/a/b", false),
        ("GET", "/{{ x }}", false),
        ("GET", "/v1/files", false),
        ("GET", "/%73earch", true),
        ("DELETE", "/search", false),
        ("POST", "/v1/{{ x }}/x", true),
        ("POST", "/v1/{{ x }}/y", false),
    ] {
        let recipe = recipe(&format!("[[try]]\nmethod = \"{method}\"\npath = \"{path}\""));
        assert_eq!(recipe.allowed_by(&rules).is_ok(), wanted, "{method} {path}");
        assert!(recipe.allowed_by(&[]).is_err());
    }
    for (path, wanted) in [
        ("/items/a%2Fb", true),
        ("/items/", false),
        ("/items/a/b", false),
        ("/items/..", false),
        ("/items/%2e%2E", false),
        ("/items/..%2fx", false),
        ("items/a", false),
    ] {
        assert_eq!(rules[1].permits("GET", path), wanted, "{path}");
    }
    let other = recipe(
        "upstream = \"a\"\n[[try]]\npath = \"/search\"\n[[try]]\nupstream = \"b\"\npath = \"/search\"",
    );
    let of = |name: &str| Allow { upstream: Some(name.to_owned()), ..rules[0].clone() };
    assert!(other.allowed_by(&[of("a"), of("b")]).is_ok());
    let complaint = other.allowed_by(&[of("a"), rules[0].clone()]).unwrap_err().to_string();
    assert_eq!(complaint, "line 4, column 1: `GET /search` is not allowed for recipes on b");
}

#[test]
fn rule_8_another_text_is_another_recipe_and_columns_can_be_compared() {
    let (one, other) = (column("it"), column("answer"));
    assert_ne!(one.hash(), other.hash());
    assert!(one.same_columns(&other));
    assert!(!one.same_columns(&get("/a")));
}

#[test]
fn names_of_the_answer_are_not_part_of_the_row() {
    let recipe = recipe(
        "[let]\na = \"x | upper\"\nb = \"answer.n + 1\"\nc = \"it.n + b\"\nd = \"try ~ a\"\n[[try]]\npath = \"/{{ d }}\"\npick = \"{'n': b}\"\n[columns]\nc = \"c\"",
    );
    let row: &[(&str, &str)] = &[("x", "v")];
    assert_eq!(recipe.normalised(&Sheet::new(row).row()).as_deref(), Some(r#"{"a":"V"}"#));
    assert_eq!(render(&recipe, row).unwrap().path, "/try%201V");
    assert_eq!(shaped(&recipe, row, r#"{"n":3}"#), r#"{"c":8}"#);
    assert_eq!(get("/a").normalised(&Sheet::new(row).row()), None);
}

#[test]
fn numbers_are_read_as_the_file_writes_them() {
    let recipe = recipe(
        "[input]\ndecimal = \",\"\n[[try]]\npath = \"/a\"\nquery = { p = \"{{ price | float }}\" }",
    );
    assert_eq!(render(&recipe, &[("price", "1.234,50")]).unwrap().path, "/a?p=1234.5");
    let plain = crate::support::recipe(&recipe.text().replace("\",\"", "\".\""));
    assert_eq!(render(&plain, &[("price", "1,234.50")]).unwrap().path, "/a?p=1234.5");
}

#[test]
fn settings_are_read() {
    let recipe = Recipe::parse("[input]\nformat = \"xlsx\"\nsheet = \"S 1\"\nheader = 3\nencoding = \"utf-8\"\ndelimiter = \"tab\"\nimage = \"p\"\n[[try]]\npath = \"/a\"\nheaders = { Accept-Language = \"{{ l }}\", X-N = 5 }\n[retry]\nattempts = 3\nwait_secs = 10").unwrap();
    let input = recipe.input();
    assert_eq!(
        (input.sheet.as_deref(), input.header, input.delimiter),
        (Some("S 1"), Some(3), Some('\t'))
    );
    assert_eq!((recipe.retry().attempts, recipe.retry().wait_secs), (Some(3), Some(10)));
    assert_eq!(
        (recipe.header_names(), recipe.image_column()),
        (vec!["accept-language".to_owned(), "x-n".to_owned()], Some("p"))
    );
    let headers = render(&recipe, &[("l", "de")]).unwrap().headers;
    assert_eq!(
        headers,
        [("Accept-Language".to_owned(), "de".to_owned()), ("X-N".to_owned(), "5".to_owned())]
    );
}
