//! The examples of the documentation, word for word.

use windrow_recipe::{Answer, Format, Image, ImageData, Judgement, Meta, Row};

use crate::support::{Sheet, body, judge, recipe, render, shaped};

pub(crate) const PRODUCTS: &str = r#"
upstream = "shop"
type     = "price-check"

[input]
format   = "csv"
id       = "sku"
optional = ["brand"]
skip     = "not product_name"

[let]
q = "[brand, product_name] | select | join(' ')"

[[try]]
name  = "by title"
path  = "/search"
query = { q = "{{ q }}", limit = 5 }
pick  = "answer.results | min(attribute='price')"

[[try]]
name   = "by sku"
path   = "/items/{{ sku | upper }}"
accept = "it.price is number"

[columns]
price    = "it.price"
shop     = "it.seller.name"
found_by = "try"

[show]
keep    = ["sku", "product_name"]
summary = ["product_name", "brand"]
answer  = false
"#;

const ROW: &[(&str, &str)] =
    &[("SKU", "ab/1"), ("Product Name", "Red Shoes"), ("Brand", "Acme & Co")];

#[test]
fn both_strategies_of_the_product_example_find_by_their_own_answer() {
    let recipe = recipe(PRODUCTS);
    let sheet = Sheet::new(ROW);
    recipe.check(&sheet.columns).unwrap();
    let first = recipe.render(&sheet.row(), 0).unwrap();
    assert_eq!(
        (first.method, first.path.as_str()),
        ("GET", "/search?q=Acme%20%26%20Co%20Red%20Shoes&limit=5")
    );
    assert_eq!(first.upstream.as_deref(), Some("shop"));
    let found =
        r#"{"results":[{"price":12.5,"seller":{"name":"B"}},{"price":9,"seller":{"name":"A"}}]}"#;
    let shaped = r#"{"price":9,"shop":"A","found_by":"by title"}"#;
    assert_eq!(
        judge(&recipe, 0, ROW, 200, found),
        Judgement::Found { shaped: shaped.to_owned(), empty: vec![] }
    );
    assert_eq!(judge(&recipe, 0, ROW, 200, r#"{"results":[]}"#), Judgement::Missed);
    assert_eq!(judge(&recipe, 0, ROW, 200, "{}"), Judgement::Missed);

    assert_eq!(recipe.render(&sheet.row(), 1).unwrap().path, "/items/AB%2F1");
    let one = r#"{"price":11,"seller":{"name":"C"}}"#;
    let shaped = r#"{"price":11,"shop":"C","found_by":"by sku"}"#;
    assert_eq!(
        judge(&recipe, 1, ROW, 200, one),
        Judgement::Found { shaped: shaped.to_owned(), empty: vec![] }
    );
    assert_eq!(judge(&recipe, 1, ROW, 404, "{}"), Judgement::Missed);
    let bad = judge(&recipe, 1, ROW, 200, r#"{"price":"soon"}"#);
    assert_eq!(bad, Judgement::Unacceptable("not accepted: it.price is number".to_owned()));
}

#[test]
fn the_product_example_says_what_it_is() {
    let recipe = recipe(PRODUCTS);
    assert_eq!(
        (recipe.upstream(), recipe.job_type(), recipe.model()),
        (Some("shop"), Some("price-check"), None)
    );
    assert_eq!(
        (recipe.strategies(), recipe.strategy_name(1), recipe.strategy_name(3)),
        (2, "by sku", "by sku")
    );
    assert_eq!(recipe.columns(), ["price", "shop", "found_by"]);
    let input = recipe.input();
    assert_eq!(
        (input.format, input.id.as_deref(), input.optional.as_slice()),
        (Some(Format::Csv), Some("sku"), &["brand".to_owned()][..])
    );
    assert!(!recipe.show().answer);
    assert_eq!(recipe.text(), PRODUCTS);
    assert_eq!(recipe.hash(), crate::support::recipe(PRODUCTS).hash());
    assert!(recipe.same_columns(&recipe.clone()));
    let words = recipe.describe();
    for part in [
        "shop",
        "price-check",
        "First, by title: GET /search",
        "After a miss, by sku",
        "found_by = try",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

#[test]
fn an_optional_column_may_be_missing_and_a_row_may_be_skipped() {
    let recipe = recipe(PRODUCTS);
    let without: &[(&str, &str)] = &[("sku", "1"), ("product_name", "Shoes")];
    recipe.check(&Sheet::new(without).columns).unwrap();
    assert_eq!(render(&recipe, without).unwrap().path, "/search?q=Shoes&limit=5");
    assert_eq!(recipe.skip(&Sheet::new(ROW).row()).unwrap(), None);
    let nameless = Sheet::new(&[("sku", "1"), ("product_name", ""), ("brand", "b")]);
    assert_eq!(recipe.skip(&nameless.row()).unwrap().as_deref(), Some("not product_name"));
    assert_eq!(recipe.normalised(&nameless.row()).as_deref(), Some(r#"{"q":"b"}"#));
}

const MODEL: &str = r#"
upstream = "llm"
[[try]]
model  = "m"
prompt = "Sentiment of this review?\n\n{{ review }}"
json   = { sentiment = ["positive", "neutral", "negative"], confidence = "number" }
"#;

fn completion(content: &str) -> String {
    serde_json::json!({"choices": [{"message": {"content": content}}]}).to_string()
}

#[test]
fn a_model_is_asked_with_a_strict_schema_and_checked() {
    let recipe = recipe(MODEL);
    let row: &[(&str, &str)] = &[("Review", "It \"works\"\n")];
    assert_eq!(
        (recipe.model(), recipe.columns()),
        (Some("m"), &["sentiment".to_owned(), "confidence".to_owned()][..])
    );
    let request = render(&recipe, row).unwrap();
    assert_eq!((request.method, request.path.as_str()), ("POST", "/v1/chat/completions"));
    let sent: serde_json::Value = serde_json::from_slice(&request.body.unwrap()).unwrap();
    assert_eq!(sent["messages"][0]["content"], "Sentiment of this review?\n\nIt \"works\"\n");
    let schema = &sent["response_format"]["json_schema"];
    assert_eq!(schema["strict"], true);
    assert_eq!(schema["schema"]["required"], serde_json::json!(["sentiment", "confidence"]));
    assert_eq!(schema["schema"]["properties"]["sentiment"]["enum"][1], "neutral");

    let good = completion(r#"{"confidence":0.9,"sentiment":"positive"}"#);
    assert_eq!(shaped(&recipe, row, &good), r#"{"sentiment":"positive","confidence":0.9}"#);
    let fenced = completion("```json\n{\"confidence\":1.0,\"sentiment\":\"neutral\"}\n```");
    assert_eq!(shaped(&recipe, row, &fenced), r#"{"sentiment":"neutral","confidence":1}"#);
    for (content, why) in [
        (
            r#"{"confidence":0.9,"sentiment":"meh"}"#,
            "`sentiment` is `meh`, not one of positive, neutral, negative",
        ),
        (r#"{"confidence":"high","sentiment":"neutral"}"#, "`confidence` is `high`, not a number"),
        (r#"{"sentiment":"neutral"}"#, "`confidence` is missing"),
        ("positive", "the model gave no JSON: positive"),
        ("", "the model gave no text"),
    ] {
        assert_eq!(
            judge(&recipe, 0, row, 200, &completion(content)),
            Judgement::Unacceptable(why.to_owned())
        );
    }
}

#[test]
fn pictures_are_sent_as_data_and_described_in_columns() {
    let recipe = recipe(
        "[input]\nformat = \"images\"\nside_max = 1024\n[[try]]\nmodel = \"m\"\nprompt = \"One caption.\"\n\
         images = [\"{{ image }}\"]\n[columns]\ncaption = \"it\"\nfile = \"image.name\"\nwide = \"image.width > image.height\"\n\
         cost = \"meta.cost\"\ntokens = \"meta.tokens_in + meta.tokens_out\"",
    );
    let image = Image {
        name: "a\"b.jpg".to_owned(),
        width: 4000,
        height: 3000,
        bytes: 5_000_000,
        mime: "image/jpeg".to_owned(),
        taken_at: None,
        thumbnail: None,
        data: Some(ImageData { mime: "image/webp".to_owned(), bytes: vec![1, 2, 3].into() }),
    };
    let sheet = Sheet::new(&[]);
    let row = Row { image: Some(&image), ..sheet.row() };
    let sent = recipe.render(&row, 0).unwrap().body.unwrap();
    let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(
        sent["messages"][0]["content"][1]["image_url"]["url"],
        "data:image/webp;base64,AQID"
    );
    let meta = Meta { tokens_in: Some(7), tokens_out: Some(2), cost: Some(0.25) };
    let answer = completion("A cat.");
    let found = recipe.judge(&row, 0, &Answer { status: 200, body: answer.as_bytes(), meta });
    let shaped = r#"{"caption":"A cat.","file":"a\"b.jpg","wide":true,"cost":0.25,"tokens":9}"#;
    assert_eq!(found, Judgement::Found { shaped: shaped.to_owned(), empty: vec![] });
    assert_eq!(recipe.input().side_max, Some(1024));
    // Without its data, as for a preview, a picture stands by its name.
    let named = Image { data: None, ..image.clone() };
    let sent = recipe.render(&Row { image: Some(&named), ..row }, 0).unwrap().body.unwrap();
    assert!(String::from_utf8(sent).unwrap().contains(r#"{"url":"a\"b.jpg"}"#));
    let none = recipe.render(&sheet.row(), 0).unwrap_err();
    assert_eq!(none.code, "row_incomplete");
}

#[test]
fn a_column_may_name_the_picture_or_its_address() {
    let recipe = recipe(
        "[[try]]\nmodel = \"m\"\nprompt = \"Caption\"\nimages = [\"{{ photo }}\"]\nbody = { temperature = 0 }",
    );
    assert_eq!(recipe.image_column(), Some("photo"));
    let sent = body(&recipe, &[("photo", "https://a.example/1.jpg")]);
    assert!(sent.contains(r#""image_url":{"url":"https://a.example/1.jpg"}"#), "{sent}");
    assert!(sent.ends_with(r#","temperature":0}"#), "{sent}");
    assert_eq!(render(&recipe, &[("photo", "no-such.jpg")]).unwrap_err().code, "row_invalid");
}
