//! `windrow recipe`: what is wrong with a recipe, and what it does.

use crate::support::Workdir;

const GOOD: &str = "upstream = \"shop\"\n[[try]]\nname = \"by sku\"\npath = \"/items/{{ sku }}\"\n[columns]\nprice = \"it.price\"\n";

#[tokio::test]
async fn a_recipe_is_checked_and_shown_without_a_configuration() {
    let workdir = Workdir::new();
    workdir.write("good.toml", GOOD);
    workdir.write("windrow.toml", "this is no configuration");
    let checked = workdir.windrow(&["recipe", "check", "good.toml"]).await;
    assert_eq!((checked.code, checked.out.trim()), (0, "good.toml is a good recipe."));
    let shown = workdir.windrow(&["recipe", "show", "good.toml"]).await;
    assert!(shown.out.contains("First, by sku: GET /items/{{ sku }}"), "{shown:?}");
    let json = workdir.windrow(&["recipe", "check", "good.toml", "--json"]).await.json();
    assert_eq!(json["columns"], serde_json::json!(["price"]));
    let schema = workdir.windrow(&["recipe", "schema"]).await.json();
    assert_eq!(schema["title"], "Windrow recipe");
}

#[tokio::test]
async fn a_bad_recipe_is_refused_with_places() {
    let workdir = Workdir::new();
    workdir.write("bad.toml", &GOOD.replace("path", "pth").replace("it.price", "it.price | uper"));
    let refused = workdir.windrow(&["recipe", "check", "bad.toml"]).await;
    assert_eq!(refused.code, 2, "{refused:?}");
    for wanted in [
        "bad.toml has 3 mistakes",
        "line 4, column 1: there is no key `pth` in [[try]]; did you mean `path`?",
        "did you mean `upper`?",
    ] {
        assert!(refused.err.contains(wanted), "{wanted}\n{refused:?}");
    }
    let missing = workdir.windrow(&["recipe", "show", "none.toml"]).await;
    assert_eq!(missing.code, 2, "{missing:?}");
}
