//! `windrow instances` and `windrow partitions`: lists processes, and which of them owns which partition.

use std::collections::BTreeMap;

use windrow::domain::InstanceId;
use windrow::store::member::Member;
use windrow::store::partition::{Partition, Setup};

use super::user_error;
use crate::batches::when;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::table::Table;
use crate::text;

/// List the processes that work on this database: workers and servers.
#[derive(Debug, clap::Args)]
pub(crate) struct InstancesArgs {
    /// Include processes that left or died
    #[arg(long)]
    left: bool,
}

/// List the partitions that streams are spread over; each is owned by one process at a time.
#[derive(Debug, clap::Args)]
pub(crate) struct PartitionsArgs {
    /// Only partitions without a live owner
    #[arg(long)]
    free: bool,
}

pub(crate) async fn instances(context: &Context, args: InstancesArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let members = store.members().await.map_err(user_error)?;
    let partitions = store.partitions().await.map_err(user_error)?;
    let owned = owned(&partitions);
    let rows: Vec<&Member> =
        members.iter().filter(|one| args.left || one.tombstoned_at.is_none()).collect();
    context.print_result(&serde_json::json!({ "rows": rows }), || {
        if rows.is_empty() {
            return "No instances.".to_owned();
        }
        let titles =
            ["instance", "service", "host", "pid", "partitions", "joined", "heartbeat", "left"];
        let mut table = Table::new(&titles);
        table.right(&[3, 4]);
        for member in &rows {
            table.row([
                member.instance.to_string(),
                member.service.clone(),
                text::one_line(&member.host),
                member.pid.to_string(),
                text::count(owned.get(&member.instance).copied().unwrap_or(0)),
                when(member.joined_at),
                when(member.heartbeat_at),
                member.tombstoned_at.map_or("-".to_owned(), when),
            ]);
        }
        table.to_string()
    })?;
    Ok(Exit::Success)
}

/// The number of partitions of each instance.
fn owned(partitions: &[Partition]) -> BTreeMap<InstanceId, u64> {
    let mut owned = BTreeMap::new();
    for owner in partitions.iter().filter_map(|partition| partition.instance) {
        *owned.entry(owner).or_default() += 1;
    }
    owned
}

pub(crate) async fn partitions(context: &Context, args: PartitionsArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let setup = store.setup().await.map_err(user_error)?;
    let all = store.partitions().await.map_err(user_error)?;
    let rows: Vec<&Partition> =
        all.iter().filter(|partition| !args.free || !partition.is_owner_live).collect();
    let value = serde_json::json!({ "setup": setup, "rows": rows });
    context.print_result(&value, || match &setup {
        None => "Messages were never run on this database.".to_owned(),
        Some(setup) => shown(setup, &all, &rows),
    })?;
    Ok(Exit::Success)
}

fn shown(setup: &Setup, all: &[Partition], rows: &[&Partition]) -> String {
    let count = |what: &dyn Fn(&Partition) -> bool| {
        text::count(all.iter().filter(|partition| what(partition)).count() as u64)
    };
    let types = match setup.object_types.as_slice() {
        [] => "none".to_owned(),
        types => types.join(", "),
    };
    let head = format!(
        "service {}, {} partitions: {} owned, {} without a live owner, {} suspect; object types: {types}",
        setup.service,
        text::count(all.len() as u64),
        count(&|partition| partition.is_owner_live),
        count(&|partition| !partition.is_owner_live),
        count(&|partition| partition.is_suspect),
    );
    if rows.is_empty() {
        return head;
    }
    let mut table = Table::new(&["partition", "epoch", "owner", "live", "suspect", "taken"]);
    table.right(&[0, 1]);
    for partition in rows {
        table.row([
            partition.no.to_string(),
            text::count(partition.epoch),
            partition.instance.map_or("-".to_owned(), |owner| owner.to_string()),
            if partition.is_owner_live { "yes" } else { "no" }.to_owned(),
            if partition.is_suspect { "yes" } else { "no" }.to_owned(),
            partition.taken_at.map_or("-".to_owned(), when),
        ]);
    }
    format!("{head}\n\n{table}")
}
