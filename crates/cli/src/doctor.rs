//! `windrow doctor`: checks the rows of every batch against each other, then the state of messages.

use serde_json::json;
use windrow::store::inspect::{BatchesQuery, PAGE_MAX};
use windrow::store::{Kind, Scope};

use crate::context::Context;
use crate::exit_code::Exit;
use crate::messages::health::Health;
use crate::text;

/// Check every batch (each line in exactly one place, counts equal to the rows) and messages: partitions
/// without an owner, dead letters, stuck calls.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print every batch, not only inconsistent ones
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let mut found = Vec::new();
    let (mut batches, mut lines, mut wrong, mut after) = (0_u64, 0_u64, 0_u64, None);
    loop {
        let query = BatchesQuery { after, limit: PAGE_MAX, ..BatchesQuery::default() };
        let page = store.batches(&Scope::All, query).await?;
        for batch in &page.rows {
            let judged = match store.verify(batch.id).await {
                Ok(rows) => rows.check(),
                // Deleted since the page was read.
                Err(error) if error.kind == Kind::Missing => continue,
                Err(error) if error.kind == Kind::Corrupt => Err(error.to_string()),
                Err(error) => return Err(error.into()),
            };
            batches += 1;
            lines += batch.counts.total;
            let (id, state) = (batch.id, batch.state);
            match judged {
                Ok(()) if args.verbose && !context.json => {
                    let total = text::count(batch.counts.total);
                    text::print_line(&format!("ok     {id}  {state}  {total} lines"))?;
                }
                Ok(()) => {}
                Err(sentence) => {
                    wrong += 1;
                    if !context.json {
                        text::print_line(&format!("WRONG  {id}  {state}  {sentence}"))?;
                    }
                    found.push(json!({ "batch": id, "state": state, "wrong": sentence }));
                }
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let health = Health::look(&context.config, &*store).await?;
    if !context.json {
        health.output().iter().try_for_each(|line| text::print_line(line))?;
    }
    let value = json!({ "batches": batches, "lines": lines, "wrong": found, "messages": health });
    context.print_result(&value, || {
        let looked = format!("{} batches, {} lines", text::count(batches), text::count(lines));
        match wrong {
            0 => format!("{looked}: every line is in exactly one place."),
            wrong => format!(
                "{looked}: {} batches are inconsistent. What to do: keep a copy of the database \
                 and report it with the lines above; the other batches are not affected.",
                text::count(wrong)
            ),
        }
    })?;
    Ok(if wrong == 0 { health.exit_code() } else { Exit::Contradiction })
}
