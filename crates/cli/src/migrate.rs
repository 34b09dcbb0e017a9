//! `windrow migrate`: brings a database's schema up to date, and nothing else.

use crate::context::Context;
use crate::exit_code::Exit;

/// Every command migrates when it opens a database that is behind; this one is for doing it
/// beforehand, with a role that may change tables.
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
