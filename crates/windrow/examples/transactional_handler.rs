//! A handler with SQL of its own: what it writes and what it returns happen together, or not at all.
//!
//! Stock is kept in a table of the program's, beside Windrow's tables. A call that fails leaves nothing
//! behind. Run it with `cargo run -p windrow --example transactional_handler`.

use anyhow::Result;
use windrow::engine::messages::Transactional;
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};
use windrow::store::transactional::{Sql, Value};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS shelf (item text PRIMARY KEY, pieces bigint)";
const ADD: &str = "INSERT INTO shelf VALUES ($1, $2) \
    ON CONFLICT (item) DO UPDATE SET pieces = shelf.pieces + excluded.pieces RETURNING pieces";

struct Shelf;

#[async_trait]
impl Transactional for Shelf {
    const TYPE: &'static str = "shelf";

    async fn call(
        &self,
        context: Context,
        sql: &mut dyn Sql,
        method: &str,
        args: Bytes,
    ) -> Result<Effects, HandlerError> {
        let pieces: i64 = serde_json::from_slice(&args)?;
        let pieces = match method {
            "put" => pieces,
            "take" => -pieces,
            _ => return Err(HandlerError::permanent(format!("there is no method {method}"))),
        };
        sql.execute(TABLE, &[]).await?;
        let rows = sql.query(ADD, &[context.key().into(), pieces.into()]).await?;
        let [Value::Int(left)] = rows[0][..] else {
            return Err(HandlerError::permanent("the table gave no number"));
        };
        if left < 0 {
            // The row above was written; this error takes it back.
            return Err(HandlerError::permanent("there are not so many"));
        }
        let message = context.message("shelf.changed", left.to_string());
        Ok(Effects::reply(left.to_string()).send(message))
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let store = SqliteStore::open(Options::default()).await?; // in memory
    let runner = Runner::builder(store, "shop").object_tx(Shelf).start().await?;
    let client = runner.client().owned_by(Owner::new("ann")?);
    let apples = client.object("shelf", "apples");

    assert_eq!(apples.call("put", &5).await?, CallOutcome::Reply("5".into()));
    let refused = apples.call("take", &9).await?;
    println!("{refused:?}");
    assert!(matches!(refused, CallOutcome::Failed(_)));
    assert_eq!(apples.call("take", &2).await?, CallOutcome::Reply("3".into()), "5 - 2");
    runner.stop().await;
    Ok(())
}
