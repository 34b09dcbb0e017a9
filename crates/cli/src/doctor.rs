//! `windrow doctor`: checks the rows of every batch against each other, says what a batch waits for that a
//! silent process holds, then the state of messages.

use std::collections::BTreeSet;

use serde_json::json;
use windrow::engine::storage_of;
use windrow::store::batch::Batch;
use windrow::store::inspect::{BatchesQuery, PAGE_MAX};
use windrow::store::member::Member;
use windrow::store::{Kind, Scope, Store};

use crate::context::Context;
use crate::exit_code::Exit;
use crate::messages::health::Health;
use crate::{holders, text};

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
    let (mut found, mut waiting) = (Vec::new(), Vec::new());
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
            if batch.counts.leased > 0 {
                waiting.extend(waits(context, &*store, batch).await?);
            }
            let (id, state) = (batch.id, batch.state);
            match judged {
                Ok(()) if args.verbose && !context.json => {
                    let total = text::plural(batch.counts.total, "line");
                    text::print_line(&format!("ok     {id}  {state}  {total}"))?;
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
    let health = Health::read(&context.config, &*store).await?;
    let storages = storages(&store.members().await?);
    if !context.json {
        if storages.len() > 1 {
            let storages: Vec<&str> = storages.iter().map(String::as_str).collect();
            text::print_line(&format!(
                "look   storage: live processes keep outputs in {}: unless that is one place, give all of them \
                 the same `storage`",
                storages.join(" and ")
            ))?;
        }
        health.output().iter().try_for_each(|line| text::print_line(line))?;
    }
    let value = json!({ "batches": batches, "lines": lines, "wrong": found, "waiting": waiting,
        "messages": health, "storages": storages });
    context.print_result(&value, || {
        let looked = format!("{}, {}", text::plural(batches, "batch"), text::plural(lines, "line"));
        match wrong {
            0 => format!("{looked}: every line is in exactly one place."),
            wrong => format!(
                "{looked}: inconsistent: {}. What to do: keep a copy of the database \
                 and report it with the lines above; the other batches are not affected.",
                text::plural(wrong, "batch")
            ),
        }
    })?;
    Ok(if wrong == 0 { health.exit_code() } else { Exit::Contradiction })
}

/// Where the live processes keep outputs. Whoever closes a batch writes to its own.
fn storages(members: &[Member]) -> BTreeSet<String> {
    let live = members.iter().filter(|member| member.tombstoned_at.is_none());
    live.filter_map(|member| storage_of(&member.metadata)).collect()
}

/// What a batch waits for, if a process that does not answer holds lines of it.
async fn waits(
    context: &Context,
    store: &dyn Store,
    batch: &Batch,
) -> anyhow::Result<Option<serde_json::Value>> {
    let held = match store.holders(&Scope::All, batch.id).await {
        Ok(held) => held,
        // Deleted since the page was read.
        Err(error) if error.kind == Kind::Missing => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(sentence) = holders::silent_sentence(&held, &context.config.bounds.engine) else {
        return Ok(None);
    };
    if !context.json {
        text::print_line(&format!("waits  {}  {}  {sentence}", batch.id, batch.state))?;
    }
    Ok(Some(json!({ "batch": batch.id, "waits": sentence })))
}
