//! The flags of a command and the recipe that they mean.

use windrow_recipe::{Flags, Recipe};

use crate::support::{render, shaped};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_prompt_with_fields_is_the_short_form() {
    let flags = Flags {
        prompt: text("Positive or negative? {{ review }}"),
        model: text("m"),
        system: text("Be \"brief\".\n"),
        fields: text("sentiment=positive|neutral|negative, confidence=number, note"),
        ..Flags::default()
    };
    let written = flags.recipe_text().unwrap();
    let wanted = r#"[[try]]
model = "m"
system = "Be \"brief\".\n"
prompt = "Positive or negative? {{ review }}"
json = { "sentiment" = ["positive", "neutral", "negative"], "confidence" = "number", "note" = "text" }
"#;
    assert_eq!(written, wanted);
    assert_eq!(Recipe::parse(&written).unwrap().columns(), ["sentiment", "confidence", "note"]);
}

#[test]
fn a_get_and_a_post_have_columns_by_pointer_or_expression() {
    let get = Flags {
        get: text("/search?q={{ title }}"),
        columns: vec!["price=/results/0/price".to_owned(), "n=it.results | length".to_owned()],
        ..Flags::default()
    };
    let recipe = Recipe::parse(&get.recipe_text().unwrap()).unwrap();
    assert_eq!(render(&recipe, &[("title", "a&b")]).unwrap().path, "/search?q=a%26b");
    assert_eq!(shaped(&recipe, &[], r#"{"results":[{"price":5}]}"#), r#"{"price":5,"n":1}"#);
    let post = Flags { post: text("/x"), ..Flags::default() };
    let recipe = Recipe::parse(&post.recipe_text().unwrap()).unwrap();
    assert_eq!(render(&recipe, &[("A b", "1")]).unwrap().body.unwrap(), br#"{"a_b":"1"}"#);
}

#[test]
fn pictures_go_with_their_prompt() {
    let flags = Flags {
        prompt: text("One caption."),
        model: text("m"),
        images: true,
        upstream: text("v"),
        ..Flags::default()
    };
    let written = flags.recipe_text().unwrap();
    assert!(
        written.contains("format = \"images\"") && written.contains("images = [\"{{ image }}\"]"),
        "{written}"
    );
    assert_eq!(Recipe::parse(&written).unwrap().upstream(), Some("v"));
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    let table = [
        (Flags::default(), "give one of --prompt, --get, --post"),
        (
            Flags { get: text("/a"), post: text("/a"), ..Flags::default() },
            "give one of --prompt, --get, --post",
        ),
        (Flags { prompt: text("a"), ..Flags::default() }, "--prompt needs --model"),
        (
            Flags { get: text("/a"), model: text("m"), ..Flags::default() },
            "--model belongs to --prompt",
        ),
        (
            Flags { get: text("/a"), body: text("{}"), ..Flags::default() },
            "--body belongs to --post",
        ),
        (
            Flags { get: text("/a"), columns: vec!["x".to_owned()], ..Flags::default() },
            "--column is NAME=/pointer",
        ),
        (
            Flags {
                prompt: text("a"),
                model: text("m"),
                fields: text("a=nope"),
                ..Flags::default()
            },
            "--fields: `a` is",
        ),
        (Flags { get: text("a"), ..Flags::default() }, "path: begins with `/`"),
    ];
    for (flags, wanted) in table {
        let found = flags.recipe_text().unwrap_err().to_string();
        assert!(found.contains(wanted), "{found}");
    }
    assert!(Flags::default().is_empty());
}
