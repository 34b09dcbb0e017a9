//! `windrow events snapshot`: the state of a stream at a version, read or kept.
//!
//! Holds throughout: an older snapshot never replaces a newer one; events are pruned only where a
//! snapshot stands for them, and only with `messages.retention_event_secs`.

use windrow::domain::Stream;
use windrow::store::Kind;
use windrow::store::event::Snapshot;

use super::payload::{PayloadArg, readable, with_payload};
use super::{stream, user_error};
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::ranges;

/// Show the snapshot of a stream, or keep a new one with --put and --version. A reader takes the
/// snapshot, then the events behind its version (`windrow events read STREAM --from VERSION+1`).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The stream
    #[arg(value_parser = stream)]
    stream: Stream,
    /// Keep this state as the snapshot: a text, @FILE, or - for standard input
    #[arg(long, value_name = "STATE", requires = "version")]
    put: Option<PayloadArg>,
    /// The version of the last event that the state includes
    #[arg(long, value_name = "VERSION", requires = "put", value_parser = ranges::whole(1, u64::MAX))]
    version: Option<u64>,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match (args.put, args.version) {
        (Some(state), Some(version)) => put(context, args.stream, version, state).await,
        _ => show(context, &args.stream).await,
    }
}

async fn show(context: &Context, stream: &Stream) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let found = store.snapshot(&context.config.owner, stream).await.map_err(user_error)?;
    let snapshot = found.ok_or_else(|| {
        let remedy =
            "keep one with --put and --version; the stream can be read from its first event.";
        CliError::new(Exit::Failed, format!("stream {stream} has no snapshot"), remedy)
    })?;
    print(context, &snapshot, || {
        format!("Version {}: {}", snapshot.version, readable(&snapshot.state))
    })
}

async fn put(
    context: &Context,
    stream: Stream,
    version: u64,
    state: PayloadArg,
) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let (owner, state) = (context.config.owner.clone(), PayloadArg::read(Some(state)).await?);
    let snapshot = Snapshot { owner: owner.clone(), stream: stream.clone(), version, state };
    store.put_snapshot(snapshot).await.map_err(|error| match error.kind {
        Kind::Invalid => {
            let what = format!("stream {stream} has no version {version}");
            let remedy =
                "give the version of an event that was appended; `windrow events read` lists them.";
            anyhow::Error::new(error).context(CliError::new(Exit::Failed, what, remedy))
        }
        _ => user_error(error),
    })?;
    let newest = store.snapshot(&owner, &stream).await.map_err(user_error)?;
    let newest =
        newest.ok_or_else(|| anyhow::anyhow!("the snapshot that was kept is not there"))?;
    print(context, &newest, || {
        if newest.version > version {
            format!("Stream {stream} keeps its newer snapshot, at version {}.", newest.version)
        } else {
            format!("Stream {stream} has a snapshot at version {version}.")
        }
    })
}

fn print(
    context: &Context,
    snapshot: &Snapshot,
    to_text: impl FnOnce() -> String,
) -> anyhow::Result<Exit> {
    let value = serde_json::json!({ "stream": snapshot.stream, "version": snapshot.version });
    context.print_result(&with_payload(&value, &[("state", &snapshot.state)]), to_text)?;
    Ok(Exit::Success)
}
