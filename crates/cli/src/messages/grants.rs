//! `windrow grants`: prints or applies the minimal privileges of PostgreSQL roles.

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use windrow::postgres;

use crate::context::Context;
use crate::database::Database;
use crate::error::CliError;
use crate::exit_code::Exit;

/// Print the statements that give three existing roles the minimal privileges, or apply them. Run it
/// again after every migration, as the role that migrated.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Role of applications, which send and append inside their own transactions
    #[arg(long, value_name = "ROLE")]
    app: String,
    /// Role for monitoring: reads everything but the keys, and changes nothing
    #[arg(long, value_name = "ROLE")]
    monitor: String,
    /// Role of workers, servers and administrators: may do everything
    #[arg(long, value_name = "ROLE")]
    admin: String,
    /// Apply the statements, all or none
    #[arg(long)]
    apply: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let Args { app, monitor, admin, apply } = args;
    let Database::Postgres(url) = &context.config.database else {
        let what = format!("{} has no roles", context.config.database);
        let remedy = "name a PostgreSQL database with --database.";
        return Err(CliError::usage(what, remedy).into());
    };
    let statements = postgres::grants(&app, &monitor, &admin);
    if apply {
        // What is granted must be there.
        context.open().await?;
        run_on(url, &statements).await.with_context(|| {
            let what = format!("the privileges were not granted ({})", context.config.database);
            let remedy = "create the three roles if they do not exist (CREATE ROLE), and run it as \
                          the owner of the schema.";
            CliError::new(Exit::Failed, what, remedy)
        })?;
    }
    let value = serde_json::json!({ "sql": statements, "applied": apply });
    context.print_result(&value, || {
        if apply {
            format!("Granted: {app} sends and appends, {monitor} reads, {admin} does everything.")
        } else {
            statements.trim_end().to_owned()
        }
    })?;
    Ok(Exit::Success)
}

/// All of them or none: one simple query is one transaction.
async fn run_on(url: &str, statements: &str) -> anyhow::Result<()> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    client.batch_execute(statements).await.map_err(|error| match error.as_db_error() {
        // The driver's own text only says "db error".
        Some(output) => anyhow::anyhow!("{}", output.message()),
        None => error.into(),
    })
}
