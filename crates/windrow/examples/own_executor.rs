//! An executor of one's own: lines need not be HTTP requests.
//!
//! This one adds numbers. It says which targets it serves, tries a line again that fails for a moment, and
//! gives up at once on a line that can never succeed. Run it with `cargo run -p windrow --example own_executor`.

use anyhow::Result;
use windrow::domain::Route;
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};

const SUMS: &str = r#"
{"custom_id": "a", "method": "POST", "url": "/sum", "body": {"model": "adder", "numbers": [1, 2, 3]}}
{"custom_id": "b", "method": "POST", "url": "/sum", "body": {"model": "adder", "numbers": "none"}}
{"custom_id": "c", "method": "POST", "url": "/sum", "body": {"model": "adder", "numbers": [4, 5]}}
"#;

struct Adder;

#[async_trait]
impl Executor for Adder {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        if attempt.line == 4 && attempt.number == 1 {
            return Outcome::failed(Failure::retryable("tired", "It works the second time."));
        }
        match sum(&attempt.raw) {
            Ok(sum) => Outcome::completed(format!(r#"{{"sum":{sum}}}"#)),
            Err(bad) => Outcome::failed(Failure::permanent("bad_numbers", bad.to_string())),
        }
    }

    fn serves(&self, route: &Route) -> bool {
        route.target.as_str() == "adder"
    }
}

fn sum(line: &[u8]) -> serde_json::Result<i64> {
    let line: serde_json::Value = serde_json::from_slice(line)?;
    let numbers: Vec<i64> = serde_json::from_value(line["body"]["numbers"].clone())?;
    Ok(numbers.iter().sum())
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let store = SqliteStore::open(Options::default()).await?; // in memory
    let owner = Owner::new("ann")?;

    let file = NewFile::new(owner.clone(), "sums.jsonl");
    let file = ingest(&store, SUMS.as_bytes(), file, IngestOptions::default()).await?.file;
    let batch = store.create_batch(NewBatch::over(file.id, owner.clone(), "/sum")).await?.id;

    // In the background, until it is stopped; `Builder::run` runs it in the foreground.
    let mut engine =
        Engine::builder(store.clone()).executor(Adder).until(Until::Closed(batch)).start();
    let report = engine.wait().await?;
    assert_eq!(report.closed, 1);

    let counts = store.batch(&Scope::Owner(owner.clone()), batch).await?.counts;
    println!("{} completed, {} failed", counts.completed, counts.failed);
    assert_eq!((counts.completed, counts.failed), (2, 1));

    // The attempts that were retried are kept, with the reason.
    let retried = store.attempts(&Scope::Owner(owner), batch, 4).await?;
    assert_eq!((retried.len(), retried[0].error_code.as_str()), (1, "tired"));
    Ok(())
}
