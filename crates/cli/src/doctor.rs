//! `windrow doctor`: reads every batch's rows and checks that they tell one story.

use windrow::prelude::*;
use windrow::store::Kind;
use windrow::store::inspect::{BatchesQuery, PAGE_MAX};

use crate::{Ending, Where, text};

/// Audits every batch of a database: each line in exactly one place, all counts as the rows say.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name every batch, not only those in trouble
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    place: Where,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Ending> {
    let database = args.place.database.unwrap_or_default();
    let store = database.open_existing().await?;
    let (mut batches, mut lines, mut wrong, mut after) = (0_u64, 0_u64, 0_u64, None);
    loop {
        let query = BatchesQuery { after, limit: PAGE_MAX, ..BatchesQuery::default() };
        let page = store.batches(&Scope::All, query).await?;
        for batch in &page.rows {
            let judged = match store.audit(batch.id).await {
                Ok(audit) => audit.check(),
                // Deleted since the page was read.
                Err(error) if error.kind == Kind::Missing => continue,
                Err(error) if error.kind == Kind::Corrupt => Err(error.to_string()),
                Err(error) => return Err(error.into()),
            };
            batches += 1;
            lines += batch.counts.total;
            match judged {
                Ok(()) if args.verbose => {
                    let total = text::count(batch.counts.total);
                    text::say(&format!("ok     {}  {}  {total} lines", batch.id, batch.state))?;
                }
                Ok(()) => {}
                Err(sentence) => {
                    wrong += 1;
                    text::say(&format!("WRONG  {}  {}  {sentence}", batch.id, batch.state))?;
                }
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let looked = format!("{} batches, {} lines", text::count(batches), text::count(lines));
    if wrong == 0 {
        text::say(&format!("{looked}: every line is in exactly one place."))?;
        return Ok(Ending::Good);
    }
    let wrong = text::count(wrong);
    text::say(&format!(
        "{looked}: {wrong} batches contradict themselves. What to do: keep a copy of the database \
         and report it with the lines above; the other batches are not touched by it."
    ))?;
    Ok(Ending::Contradiction)
}
