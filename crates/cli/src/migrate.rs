//! `windrow migrate`: migrates the database schema, and nothing else.

use crate::context::Context;
use crate::exit_code::Exit;

/// Create the database schema, or bring it up to date. `run`, `ingest`, `serve`, `work` and `keys create`
/// do so by themselves; commands that read never do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(context: &Context, _: Args) -> anyhow::Result<Exit> {
    let store = context.open().await?;
    let database = context.config.database.to_string();
    let value = serde_json::json!({
        "database": database, "backend": store.capabilities().name, "schema": "up to date",
    });
    context.print_result(&value, || format!("The schema is up to date: {database}."))?;
    Ok(Exit::Success)
}
