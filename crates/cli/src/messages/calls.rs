//! `windrow calls`: lists calls of objects, shows or cancels one, and prints statistics.

use serde::Serialize;
use windrow::domain::{CallState, InstanceId, RequestId};
use windrow::engine::messages::{CallWait, Client, call_wait};
use windrow::store::Kind;
use windrow::store::call::{
    Call, CallKey, CallStats, CallsQuery, RETRIES_ABOVE, RetriesQuery, StatsQuery,
};

use super::call::request_id;
use super::payload::{readable, with_payload};
use super::{short, user_error};
use crate::batches::when;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::list::{Columns, ListOr, OwnerArgs, PageArgs, print_page};
use crate::table::Table;
use crate::{hint, ranges, text};

pub(crate) type Args = ListOr<Command, ListArgs>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List calls, newest first, without archived ones
    List(ListArgs),
    /// Show one call with its arguments and reply, also an archived one
    Get(GetArgs),
    /// Show statistics, archived calls included: states, ages, latencies, failures, repeats, and with
    /// --all the size on disk
    Stats(StatsArgs),
    /// Show which objects' calls were repeated again and again, archived ones included
    Retries(RetriesArgs),
    /// End a call that waits or runs: it fails, and what its handler returns later is refused
    Cancel(CancelArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only calls of this object
    #[arg(long, value_name = "TYPE/ID", value_parser = object)]
    object: Option<(String, String)>,
    /// Only calls in these states, separated by commas: pending, processing, completed, failed, expired
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<CallState>,
    /// Only calls that were last run by this instance
    #[arg(long, value_name = "ID")]
    instance: Option<InstanceId>,
    /// Only calls that have been processing for this many seconds
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "60")]
    stuck: Option<u32>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    owner: OwnerArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// The id of the call
    #[arg(value_parser = request_id)]
    request_id: RequestId,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatsArgs {
    /// Length of the window of time, up to now
    #[arg(long, value_name = "SECS", default_value_t = 3600, value_parser = ranges::whole(1, u32::MAX))]
    window: u32,
    /// Age from which a call without a reply counts as old or stuck
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = ranges::whole(1, u32::MAX))]
    old: u32,
    #[command(flatten)]
    owner: OwnerArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetriesArgs {
    /// Length of the window of time, up to now
    #[arg(long, value_name = "SECS", default_value_t = 3600, value_parser = ranges::whole(1, u32::MAX))]
    window: u32,
    /// Only calls that were repeated more often than this
    #[arg(long, value_name = "N", default_value_t = RETRIES_ABOVE)]
    above: u32,
    #[command(flatten)]
    owner: OwnerArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The id of the call
    #[arg(value_parser = request_id)]
    request_id: RequestId,
    /// Why; added to the error of the call
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

fn object(text: &str) -> Result<(String, String), String> {
    let (object_type, id) = text.split_once('/').ok_or("must be TYPE/ID")?;
    Ok((object_type.to_owned(), id.to_owned()))
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command.unwrap_or(Command::List(args.list)) {
        Command::List(args) => list(context, args).await,
        Command::Get(args) => get(context, args).await,
        Command::Stats(args) => stats(context, args).await,
        Command::Retries(args) => retries(context, args).await,
        Command::Cancel(args) => cancel(context, args).await,
    }
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.owner.scope(context);
    let query = CallsQuery {
        object: args.object,
        states: args.state,
        instance: args.instance,
        stuck_ms: args.stuck.map(|secs| u64::from(secs) * 1000),
        after: args.page.after,
        limit: args.page.limit,
    };
    let page = store.calls(&scope, query).await.map_err(user_error)?;
    let columns = Columns {
        titles: &["call", "object", "method", "state", "repeats", "created", "answered", "error"],
        right: &[4],
        row,
        empty: "No calls.",
    };
    print_page(context, &page, |call| call, &columns)
}

fn row(call: &Call) -> Vec<String> {
    vec![
        call.key.request_id.to_string(),
        format!("{}/{}", call.object_type, call.object_id),
        call.method.clone(),
        call.state.to_string(),
        text::count(call.retry_count.into()),
        when(call.created_at),
        call.processed_at.map_or("-".to_owned(), when),
        short(call.error.as_deref().unwrap_or_default()),
    ]
}

/// A call as `--json` prints it.
#[derive(Serialize)]
struct CallRow<'a> {
    #[serde(flatten)]
    call: &'a Call,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<&'a CallWait>,
}

async fn get(context: &Context, args: GetArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let key = CallKey { owner: context.config.owner.clone(), request_id: args.request_id };
    let call = store.call(&key).await.map_err(user_error)?;
    let wait = call_wait(&*store, &call).await.map_err(user_error)?;
    let reply = call.reply.as_deref().unwrap_or_default();
    let row = CallRow { call: &call, waiting: wait.as_ref() };
    let value = with_payload(&row, &[("args", &call.args), ("reply", reply)]);
    context.print_result(&value, || shown(&call, wait.as_ref()))?;
    Ok(Exit::Success)
}

fn shown(call: &Call, wait: Option<&CallWait>) -> String {
    let mut output = String::new();
    let mut line = |word: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            output.push_str(&format!("{word:<10}{value}\n"));
        }
    };
    line("call", Some(call.key.request_id.to_string()));
    line("object", Some(format!("{}/{}", call.object_type, call.object_id)));
    line("method", Some(call.method.clone()));
    let archived = if call.is_archived { " (archived)" } else { "" };
    line("state", Some(format!("{}{archived}", call.state)));
    line("waits", wait.map(waits));
    line("args", Some(readable(&call.args)));
    line("reply", call.reply.as_deref().map(readable));
    line("error", call.error.as_deref().map(text::one_line));
    line("repeats", Some(text::count(call.retry_count.into())));
    line("crash", Some(call.policy.as_str().to_owned()));
    line("instance", call.instance.map(|instance| instance.to_string()));
    let callers = [&call.caller_object, &call.caller_client];
    let callers: Vec<&str> = callers.into_iter().flatten().map(String::as_str).collect();
    line("caller", Some(callers.join(", ")));
    line("created", Some(when(call.created_at)));
    line("answered", call.processed_at.map(when));
    line("expires", call.expires_at.map(when));
    output.trim_end().to_owned()
}

/// Since when a call waits, and for what.
fn waits(wait: &CallWait) -> String {
    let behind = wait.behind.as_ref().map(|call| format!(", behind call {call}"));
    let reason = match &wait.reason {
        Some(reason) => text::one_line(reason),
        None => "not attempted yet".to_owned(),
    };
    let next = wait.not_before.map(|at| format!("; next attempt not before {}", when(at)));
    let (behind, next) = (behind.unwrap_or_default(), next.unwrap_or_default());
    format!("since {}{behind}: {reason}{next}", when(wait.since))
}

async fn stats(context: &Context, args: StatsArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let query =
        StatsQuery { window_ms: u64::from(args.window) * 1000, old_ms: u64::from(args.old) * 1000 };
    let stats = store.call_stats(&args.owner.scope(context), query).await.map_err(user_error)?;
    context.print_result(&stats, || figures(&stats, &args))?;
    Ok(Exit::Success)
}

async fn retries(context: &Context, args: RetriesArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let query = RetriesQuery { window_ms: u64::from(args.window) * 1000, above: args.above };
    let found = store.call_retries(&args.owner.scope(context), query).await.map_err(user_error)?;
    context.print_result(&found, || {
        if found.is_empty() {
            return format!("No call was repeated more than {} times.", args.above);
        }
        let mut table =
            Table::new(&["object", "method", "calls", "repeats per call", "most repeats"]);
        table.right(&[2, 3, 4]);
        for one in &found {
            table.row([
                format!("{}/{}", one.object_type, one.object_id),
                one.method.clone(),
                text::count(one.calls),
                format!("{:.2}", one.retries_mean),
                text::count(one.retries_max.into()),
            ]);
        }
        table.to_string().trim_end().to_owned()
    })?;
    Ok(Exit::Success)
}

async fn cancel(context: &Context, args: CancelArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let id = args.request_id.clone();
    let key = CallKey { owner: context.config.owner.clone(), request_id: args.request_id };
    let cancelled = Client::new(store).cancel(&key, args.reason).await;
    let call = cancelled.map_err(|error| match error.kind {
        Kind::Conflict => {
            let what = format!("call {id} has its answer and keeps it");
            let remedy = format!("to see it: {}", hint::command(&["calls", "get", id.as_str()]));
            CliError::new(Exit::Failed, what, remedy).into()
        }
        _ => user_error(error),
    })?;
    context.print_result(&with_payload(&call, &[("args", &call.args)]), || {
        format!("call {id} of {}/{} is cancelled", call.object_type, call.object_id)
    })?;
    Ok(Exit::Success)
}

fn figures(stats: &CallStats, args: &StatsArgs) -> String {
    let mut output = String::new();
    let mut line = |word: &str, value: String| output.push_str(&format!("{word:<24}{value}\n"));
    for (state, calls) in &stats.by_state {
        line(state.as_str(), text::count(*calls));
    }
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
    let age = stats.pending_age_ms.map(std::time::Duration::from_millis);
    line("oldest pending", age.map_or("-".to_owned(), text::time));
    line(&format!("pending over {} s", args.old), text::count(stats.pending_old));
    line(&format!("processing over {} s", args.old), text::count(stats.stuck));
    line("latency p50", ms(stats.p50_ms));
    line("latency p95", ms(stats.p95_ms));
    line("latency p99", ms(stats.p99_ms));
    let failed = stats.failure_rate.map(|rate| format!("{:.2}%", rate * 100.0));
    line("failed", failed.unwrap_or_else(|| "-".to_owned()));
    line("rows", text::count(stats.rows));
    line("archived rows", text::count(stats.archived_rows));
    if let Some(bytes) = stats.bytes {
        line("size", text::size(bytes));
    }
    if !stats.retries.is_empty() {
        let mut table = Table::new(&["object type", "method", "calls", "repeats per call"]);
        table.right(&[2, 3]);
        for method in &stats.retries {
            table.row([
                method.object_type.clone(),
                method.method.clone(),
                text::count(method.calls),
                format!("{:.2}", method.retries_mean),
            ]);
        }
        output.push_str(&format!("\n{table}"));
    }
    format!("The last {} s:\n{}", text::count(args.window.into()), output.trim_end())
}
