//! How many rows one core renders and shapes: 10 cells, 3 names, 1 try, 1 KB of JSON answer, 4 columns.
//! `cargo bench -p windrow-recipe [-- ROWS]`

use std::time::Instant;

use windrow_recipe::{Answer, Cell, Columns, Judgement, Meta, Recipe, Row};

const RECIPE: &str = r#"
[let]
title = "product_name | trim"
q = "[brand, title] | select | join(' ')"
budget = "price | float"

[[try]]
path  = "/search"
query = { q = "{{ q }}", max = "{{ budget }}", limit = 5 }
pick  = "answer.results | min(attribute='price')"

[columns]
price  = "it.price"
shop   = "it.seller.name"
saved  = "budget - it.price"
source = "try"
"#;

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn main() {
    let rows: u64 = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(200_000);
    let recipe = Recipe::parse(RECIPE).expect("a good recipe");
    let headers: Vec<String> = (0..6).map(|n| format!("Column {n}")).collect();
    let named = ["SKU", "Product Name", "Brand", "Price"].map(str::to_owned);
    let columns = Columns::fold(&[&named[..], &headers[..]].concat());
    let result = |n: u32| {
        let about = "x".repeat(120);
        format!(
            r#"{{"id":{n},"price":{n}.5,"seller":{{"name":"Shop {n}","rating":4.{n}}},"about":"{about}"}}"#
        )
    };
    let results: Vec<String> = (1..=5).map(result).collect();
    let answer = format!(r#"{{"total":5,"results":[{}]}}"#, results.join(","));
    let started = Instant::now();
    let mut bytes = 0;
    for number in 0..rows {
        let cell = |text: &str| Cell::Text(format!("{text} {number}"));
        let mut cells: Vec<Cell> = headers.iter().map(|header| cell(header)).collect();
        let first =
            [cell("sku"), cell(" Red running shoes"), cell("Acme"), Cell::Text("12.50".to_owned())];
        cells.splice(0..0, first);
        let row = Row { columns: &columns, cells: &cells, number, image: None };
        let request = recipe.render(&row, 0).expect("a good row");
        let answer = Answer { status: 200, body: answer.as_bytes(), meta: Meta::default() };
        let Judgement::Found { shaped, empty } = recipe.judge(&row, 0, &answer) else {
            panic!("the answer has results");
        };
        assert!(empty.is_empty());
        bytes += request.path.len() + shaped.len();
    }
    let secs = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
    let rate = rows as f64 / secs;
    println!(
        "{rows} rows of 10 cells, answers of {} bytes: {rate:.0} rows/s ({bytes} bytes)",
        answer.len()
    );
}
