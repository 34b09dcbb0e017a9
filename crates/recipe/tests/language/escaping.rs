//! A cell never leaves its place: its segment, its value of a query, its line of a header, its text.

use crate::support::{body, get, recipe, render};

#[test]
fn a_cell_stays_in_its_segment() {
    let recipe = get("/items/{{ x }}/price");
    for (cell, path) in [
        ("a", "/items/a/price"),
        ("a/b", "/items/a%2Fb/price"),
        ("a?b=c#d", "/items/a%3Fb%3Dc%23d/price"),
        ("a b\r\n", "/items/a%20b%0D%0A/price"),
        ("ü€", "/items/%C3%BC%E2%82%AC/price"),
        ("%41", "/items/%2541/price"),
        ("a..b", "/items/a..b/price"),
        ("...", "/items/.../price"),
    ] {
        assert_eq!(render(&recipe, &[("x", cell)]).unwrap().path, path, "{cell}");
    }
    for cell in
        ["..", ".", "../admin", "a/../b", "..\\x", "%2e%2e", "%2E%2e%2fx", "%252e%252e", "x/."]
    {
        assert_eq!(render(&recipe, &[("x", cell)]).unwrap_err().code, "row_invalid", "{cell}");
    }
    let empty = render(&recipe, &[("x", "")]).unwrap_err();
    assert_eq!((empty.code, empty.column.as_deref()), ("row_incomplete", Some("x")));
    let two = get("/{{ x }}{{ y }}");
    assert_eq!(render(&two, &[("x", "."), ("y", ".")]).unwrap_err().code, "row_invalid");
    assert_eq!(render(&two, &[("x", "a"), ("y", "")]).unwrap().path, "/a");
    let part = get("/.{{ x }}");
    assert_eq!(render(&part, &[("x", "")]).unwrap_err().code, "row_invalid");
}

#[test]
fn a_cell_stays_in_its_value_of_a_query() {
    let recipe = get("/s?a={{ x }}&b=1");
    assert_eq!(render(&recipe, &[("x", "1&b=2#../")]).unwrap().path, "/s?a=1%26b%3D2%23..%2F&b=1");
    let table = crate::support::recipe(
        "[[try]]\npath = \"/s?z=1\"\nquery = { \"a b\" = \"{{ x }}+{{ x }}\" }",
    );
    assert_eq!(render(&table, &[("x", "&")]).unwrap().path, "/s?z=1&a%20b=%26%2B%26");
}

#[test]
fn a_cell_stays_on_its_line_of_a_header() {
    let recipe = recipe("[[try]]\npath = \"/a\"\nheaders = { X-Name = \"v {{ x }}\" }");
    assert_eq!(render(&recipe, &[("x", "ok; a=\"b\"")]).unwrap().headers[0].1, "v ok; a=\"b\"");
    for cell in ["a\r\nHost: x", "a\nb", "ü", "a\0b", "a\tb", "\u{7f}"] {
        assert_eq!(render(&recipe, &[("x", cell)]).unwrap_err().code, "row_invalid", "{cell:?}");
    }
}

#[test]
fn a_cell_stays_in_its_text_of_a_body() {
    let recipe = recipe("[[try]]\npath = \"/a\"\nbody = { a = \"{{ x }}\", b = \"<{{ x }}>\" }");
    for cell in ["\"", "\\", "\",\"c\":1,\"", "\u{2028}\u{0}", "{{ x }}", "</script>"] {
        let sent: serde_json::Value = serde_json::from_str(&body(&recipe, &[("x", cell)])).unwrap();
        assert_eq!(sent, serde_json::json!({"a": cell, "b": format!("<{cell}>")}));
    }
}

#[test]
fn a_cell_is_no_template() {
    let prompt = recipe("[[try]]\nmodel = \"m\"\nprompt = \"{{ x }}\"");
    let sent = body(&prompt, &[("x", "{{ 7 * 7 }}{% raw %}")]);
    assert!(sent.contains("{{ 7 * 7 }}{% raw %}"), "{sent}");
}

#[test]
fn a_request_has_bounds() {
    let long = "x".repeat(20_000);
    assert_eq!(render(&get("/{{ x }}"), &[("x", &long)]).unwrap_err().code, "row_too_large");
    let header = recipe("[[try]]\npath = \"/a\"\nheaders = { X-N = \"{{ x }}\" }");
    assert_eq!(render(&header, &[("x", &long)]).unwrap_err().code, "row_too_large");
    let huge = "x".repeat(1_100_000);
    let prompt = recipe("[[try]]\nmodel = \"m\"\nprompt = \"{{ x }}\"");
    assert_eq!(render(&prompt, &[("x", &huge)]).unwrap_err().code, "row_too_large");
}
