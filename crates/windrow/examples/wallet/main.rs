//! A wallet service: deposits, withdrawals and transfers, each exactly once.
//!
//! `cargo run --release --example wallet` shows it in one process. With `-- --stress` three instances
//! run as processes of their own and are killed at random, while clients give up half way and ask
//! again under the same ids; then it is checked that no money was lost or made, and that every repeated
//! question got the same answer. `--database postgres://…` instead of a file works for both.

#![expect(clippy::disallowed_methods, reason = "an example waits and starts tasks as programs do")]

mod place;
mod stress;
mod wallet;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use windrow::engine::messages::CallOutcome;

use place::{Place, ask, start};
use wallet::Ask;

#[derive(Parser)]
#[command(about = "A wallet service whose calls happen exactly once")]
pub(crate) struct Args {
    /// PostgreSQL, shared by all instances; without it a file of SQLite.
    #[arg(long)]
    database: Option<String>,
    /// The file of SQLite; without it one that is removed at the end.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Kill instances and give up on calls, then check that nothing was lost or done twice.
    #[arg(long)]
    stress: bool,
    /// How long instances are killed.
    #[arg(long, default_value_t = 20)]
    secs: u64,
    /// How many run at the same time.
    #[arg(long, default_value_t = 3)]
    instances: usize,
    /// Seed of everything that is random.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Run as one of the instances, until standard input ends.
    #[arg(long, hide = true)]
    instance: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let folder = tempfile::tempdir()?;
    let place = match (&args.database, &args.file) {
        (Some(url), _) => Place::Url(url.clone()),
        (None, Some(file)) => Place::File(file.clone()),
        (None, None) => Place::File(folder.path().join("wallet.db")),
    };
    if args.instance {
        stress::serve(&place).await?;
    } else if args.stress {
        return stress::run(&place, &args).await;
    } else {
        show(&place).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A few calls, and one of them again.
async fn show(place: &Place) -> Result<()> {
    let runner = start(place.open().await?).await?;
    let client = runner.client();
    let run = uuid::Uuid::now_v7();
    let calls = [
        ("1", "ann", Ask::Deposit { cents: 1_000 }),
        ("2", "ann", Ask::Transfer { to: "ben".to_owned(), cents: 250 }),
        ("2", "ann", Ask::Transfer { to: "ben".to_owned(), cents: 250 }),
        ("3", "ann", Ask::Withdraw { cents: 9_999 }),
        ("4", "ann", Ask::Balance),
        ("5", "ben", Ask::Balance),
    ];
    for (id, wallet, question) in calls {
        let outcome = ask(&client, &format!("{run}-{id}"), wallet, &question).await?;
        let answer = match &outcome {
            CallOutcome::Reply(reply) => String::from_utf8_lossy(reply).into_owned(),
            CallOutcome::Failed(error) => format!("refused: {error}"),
            CallOutcome::Expired | CallOutcome::Pending => format!("{outcome:?}"),
        };
        println!("{id}  {wallet}  {:<44}  {answer}", format!("{question:?}"));
    }
    let again = ask(&client, &format!("{run}-1"), "ann", &Ask::Deposit { cents: 7 }).await;
    let Err(refused) = again else { bail!("another question under a used id must be refused") };
    println!("1  ann  another question under the same id            {refused:#}");
    runner.stop().await;
    Ok(())
}
