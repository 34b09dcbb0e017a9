//! Every filter, test and operator by example, and the documentation that lists them.

use windrow_recipe::{FILTERS, RESERVED, TESTS, json_schema};

use crate::support::{column, shaped};

const ANSWER: &str = r#"{"l":[3,1,2],"m":{"b":2,"a":1},"s":"red SHOES","o":[{"p":9.5,"n":"B","s":{"t":1}},{"p":2,"n":"a"},{"n":"C"}],"t":["b","A","b",""],"z":null,"f":12.0}"#;

const EXAMPLES: &[(&str, &str)] = &[
    ("-3.5 | abs", "3.5"),
    ("answer.s | capitalize", r#""Red shoes""#),
    ("answer.nope | default('x')", r#""x""#),
    ("'' | default('x')", r#""x""#),
    ("answer.z | default(0)", "0"),
    ("0 | default(1)", "0"),
    ("answer.l | first", "3"),
    ("'abc' | first", r#""a""#),
    ("' 9.50 ' | float", "9.5"),
    ("'1,234.5' | float", "1234.5"),
    ("'12' | float", "12"),
    ("'x' | float(0)", "0"),
    ("'inf' | float(0)", "0"),
    ("'{\"a\": [1]}' | fromjson", r#"{"a":[1]}"#),
    ("'7.9' | int", "7"),
    ("'9223372036854775807' | int", "9223372036854775807"),
    ("answer.m | items", r#"[["b",2],["a",1]]"#),
    ("answer.l | join('-')", r#""3-1-2""#),
    ("answer.o | join(', ', attribute='n')", r#""B, a, C""#),
    ("answer.l | last", "2"),
    ("answer.s | length", "9"),
    ("answer.z | length", "0"),
    ("answer.m | list", r#"["b","a"]"#),
    ("answer.s | lower", r#""red shoes""#),
    ("answer.o | map(attribute='s.t', default=0)", "[1,0,0]"),
    ("answer.t | map('upper')", r#"["B","A","B",""]"#),
    ("answer.l | max", "3"),
    ("(answer.o | max(attribute='p')).n", r#""B""#),
    ("(answer.o | min(attribute='p')).n", r#""a""#),
    ("[] | min", "null"),
    ("answer.l | reject('gt', 1)", "[1]"),
    ("answer.o | rejectattr('p') | map(attribute='n')", r#"["C"]"#),
    ("answer.s | replace('red', 'blue')", r#""blue SHOES""#),
    ("answer.l | reverse", "[2,1,3]"),
    ("'abc' | reverse", r#""cba""#),
    ("2.675 | round(2)", "2.68"),
    ("-2.5 | round", "-3"),
    ("1234 | round(-2)", "1200"),
    ("answer.t | select", r#"["b","A","b"]"#),
    ("answer.l | select('in', [1, 3])", "[3,1]"),
    ("answer.o | selectattr('p', 'lt', 5) | length", "1"),
    ("answer.t | sort", r#"["","A","b","b"]"#),
    ("answer.o | sort(attribute='n', reverse=true) | map(attribute='n')", r#"["C","B","a"]"#),
    ("'a, b' | split(', ')", r#"["a","b"]"#),
    ("' a  b ' | split", r#"["a","b"]"#),
    ("12.0 | string", r#""12""#),
    ("answer.l | sum", "6"),
    ("answer.o | sum(attribute='p')", "11.5"),
    ("answer.s | title", r#""Red Shoes""#),
    ("answer.m | tojson", r#""{\"b\":2,\"a\":1}""#),
    ("'  a ' | trim", r#""a""#),
    ("'--a-' | trim('-')", r#""a""#),
    ("answer.s | truncate(5)", r#""red …""#),
    ("answer.s | truncate(20)", r#""red SHOES""#),
    ("answer.t | unique", r#"["b","A",""]"#),
    ("'é' | upper", r#""É""#),
    ("true is boolean", "true"),
    ("answer.l is containing(3)", "true"),
    ("answer.nope is defined", "false"),
    ("answer.z is empty", "true"),
    ("'abc' is endingwith('bc')", "true"),
    ("1 is eq(1)", "true"),
    ("false is false", "true"),
    ("2 is ge(2)", "true"),
    ("2 is gt('1')", "false"),
    ("1 is in([1])", "true"),
    ("2.0 is integer", "true"),
    ("1 is le(2)", "true"),
    ("1 is lt(2)", "true"),
    ("answer.m is mapping", "true"),
    ("1 is ne(2)", "true"),
    ("answer.z is none", "true"),
    ("'1' is number", "false"),
    ("answer.l is sequence", "true"),
    ("'abc' is startingwith('ab')", "true"),
    ("'1' is string", "true"),
    ("1 is true", "false"),
    ("answer.nope is undefined", "true"),
    ("answer.nope is not defined and not false", "true"),
    ("1 + 2 * 3 - 4 / 2", "5"),
    ("7 // 2 + 7 % 2 + 2 ** 3", "12"),
    ("'a' + 'b' ~ 1", r#""ab1""#),
    ("answer.l[0] < answer.l[2] or 1 < 2 <= 2", "true"),
    ("'a' in 'abc' and 4 not in answer.l", "true"),
    ("'x' if answer.nope else 'y'", r#""y""#),
    ("answer.l[1:]", "[1,2]"),
    ("answer.l[::-1]", "[2,1,3]"),
    ("answer.s[-5:]", r#""SHOES""#),
    ("answer.s[:3]", r#""red""#),
    ("answer.m['a']", "1"),
    ("answer.o.0.n", r#""B""#),
    ("{'k': [1, (2, 3)], 'j': none}", r#"{"j":null,"k":[1,[2,3]]}"#),
    ("answer.f", "12"),
    ("1e300 * 1e300", "null"),
    ("9007199254740993 + 0", "9007199254740993"),
    ("-answer.l[0]", "-3"),
    ("\"a\\n\" ~ 'ü'", r#""a\nü""#),
    ("answer.a.b.c.d", "null"),
    ("http.status", "200"),
];

#[test]
fn every_filter_test_and_operator_does_what_it_says() {
    for (expression, wanted) in EXAMPLES {
        let found = shaped(&column(expression), &[], ANSWER);
        assert_eq!(found, format!(r#"{{"c":{wanted}}}"#), "{expression}");
    }
}

#[test]
fn every_filter_and_test_has_an_example() {
    for filter in FILTERS {
        let used = EXAMPLES
            .iter()
            .any(|(expression, _)| expression.contains(&format!("| {}", filter.name)));
        assert!(used, "{}", filter.name);
    }
    for test in TESTS {
        let used = EXAMPLES
            .iter()
            .any(|(expression, _)| expression.contains(&format!("is {}", test.name)));
        assert!(used, "{}", test.name);
    }
}

#[test]
fn the_documentation_lists_every_name_filter_test_and_key() {
    let docs = include_str!("../../../../docs/recipes.md");
    let row = |name: &str, what: &str| format!("| `{name}` | {what} |");
    for filter in FILTERS {
        assert!(docs.contains(&row(filter.name, filter.what)), "{}", row(filter.name, filter.what));
    }
    for test in TESTS {
        let name = format!("is {}", test.name);
        assert!(docs.contains(&row(&name, test.what)), "{}", row(&name, test.what));
    }
    for name in RESERVED {
        assert!(docs.contains(&format!("| `{name}` |")), "{name}");
    }
    let schema = json_schema();
    let keys = |pointer: &str| {
        let keys = schema.pointer(pointer).unwrap().as_object().unwrap().keys();
        keys.cloned().collect::<Vec<_>>()
    };
    for pointer in [
        "/properties",
        "/properties/input/properties",
        "/properties/try/items/properties",
        "/properties/show/properties",
        "/properties/retry/properties",
    ] {
        for key in keys(pointer) {
            assert!(
                docs.contains(&format!("`{key}`")) || docs.contains(&format!("`[{key}]`")),
                "{key}"
            );
        }
    }
}
