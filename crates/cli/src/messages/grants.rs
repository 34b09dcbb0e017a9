//! `windrow grants`: the least that each role of PostgreSQL needs, printed or applied.

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use windrow::postgres;

use crate::context::Context;
use crate::database::Database;
use crate::error::CliError;
use crate::exit_code::Exit;

/// Prints the statements that give roles the least they need, or applies them. The roles must be
/// there. Run it again after every migration, as whoever migrated.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The role of applications, which send and append inside their own transactions
    #[arg(long, value_name = "ROLE")]
    app: String,
    /// The role of those who look: reads everything but the keys, and changes nothing
    #[arg(long, value_name = "ROLE")]
    monitor: String,
    /// The role of workers, servers and administrators: may do everything
    #[arg(long, value_name = "ROLE")]
    admin: String,
    /// Applies them, all or none
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
            let what = format!("the rights were not granted ({})", context.config.database);
            let remedy = "see that the three roles exist (CREATE ROLE), and run it as whoever owns \
                          the schema.";
            CliError::new(Exit::Failed, what, remedy)
        })?;
    }
    let value = serde_json::json!({ "sql": statements, "applied": apply });
    context.print_result(&value, || match apply {
        true => {
            format!("Granted: {app} sends and appends, {monitor} reads, {admin} does everything.")
        }
        false => statements.trim_end().to_owned(),
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
