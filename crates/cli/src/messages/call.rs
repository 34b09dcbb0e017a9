//! `windrow call`: calls a method of an object and waits for the reply.

use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use windrow::domain::{CrashPolicy, RequestId};
use windrow::engine::messages::{CallOutcome, Client, ClientError};
use windrow::store::call::{CallKey, NewCall};

use super::call_file;
use super::payload::{PayloadArg, readable, with_payload};
use super::user_error;
use crate::clock;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::{hint, ranges, text};

/// The caller that is recorded with these calls.
pub(super) const CALLER: &str = "windrow call";

/// Call a method of an object and wait for the reply. With --id the call is idempotent: repeating it
/// gives the first reply.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The type of the object
    #[arg(required_unless_present = "file")]
    object_type: Option<String>,
    /// The id of the object
    #[arg(required_unless_present = "file")]
    object_id: Option<String>,
    /// The method to call
    #[arg(required_unless_present = "file")]
    method: Option<String>,
    /// The arguments: a text, @FILE, or - for standard input
    args: Option<PayloadArg>,
    /// The id of the call; the same id gives the same reply [default: a new one]
    #[arg(long, value_parser = request_id)]
    id: Option<RequestId>,
    /// How long to wait for the reply
    #[arg(long, value_name = "SECS", default_value_t = 30, value_parser = ranges::whole(0_u64, 86_400))]
    wait: u64,
    /// What to do if the process that runs the call dies: retry or fail
    #[arg(long, value_name = "POLICY", default_value = "retry")]
    crash: CrashPolicy,
    /// Life of the call: one that still waits after that fails, and a reply is kept no longer [default:
    /// forever]
    #[arg(long, value_name = "SECS", value_parser = ranges::whole(1, u32::MAX))]
    expires: Option<u32>,
    /// Submit the calls of a file instead, one JSON object on each line with object_type, object_id, method,
    /// args and perhaps id, and wait for none; - for standard input. Repeating it submits no call with an
    /// id twice
    #[arg(long, value_name = "FILE", conflicts_with_all = ["object_type", "object_id", "method", "args", "id", "wait"])]
    file: Option<PathBuf>,
}

pub(super) fn request_id(text: &str) -> Result<RequestId, String> {
    RequestId::new(text).map_err(|bad| bad.to_string())
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let life = args.expires.map(|secs| SignedDuration::from_secs(secs.into()));
    let defaults =
        Defaults { policy: args.crash, expires_at: life.map(|life| clock::now() + life) };
    if let Some(file) = &args.file {
        return call_file::run(context, file, &defaults).await;
    }
    let store = context.open_existing().await?;
    let client = Client::new(store);
    let fresh = || RequestId::new(uuid::Uuid::now_v7().to_string()).expect("an id is a name");
    let request_id = args.id.unwrap_or_else(fresh);
    let key = CallKey { owner: context.config.owner.clone(), request_id };
    let [object_type, object_id, method] =
        [args.object_type, args.object_id, args.method].map(Option::unwrap_or_default);
    let call = NewCall::new(key.clone(), object_type, object_id, method)
        .args(PayloadArg::read(args.args).await?)
        .caller_client(CALLER);
    let call = defaults.apply(call);
    let outcome = client.call(call, Duration::from_secs(args.wait)).await.map_err(refused)?;
    answer(context, &key, &outcome)
}

/// What calls have that say nothing else.
pub(super) struct Defaults {
    policy: CrashPolicy,
    expires_at: Option<Timestamp>,
}

impl Defaults {
    pub(super) fn apply(&self, call: NewCall) -> NewCall {
        NewCall { policy: self.policy, expires_at: self.expires_at, ..call }
    }
}

pub(super) fn refused(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Store(error) => user_error(error),
        ClientError::UnknownObjectType { object_type, known } => {
            let what = format!("unknown object type {object_type:?}");
            let remedy = match known.as_slice() {
                [] => "add a handler as [objects.TYPE] to the configuration of the processes that \
                       run messages."
                    .to_owned(),
                known => format!("the known types are {}.", known.join(", ")),
            };
            CliError::new(Exit::Failed, what, remedy).into()
        }
    }
}

/// Prints the outcome of the call.
fn answer(context: &Context, key: &CallKey, outcome: &CallOutcome) -> anyhow::Result<Exit> {
    let id = key.request_id.as_str();
    match outcome {
        CallOutcome::Reply(reply) => {
            let value = json!({ "request_id": id, "state": "completed" });
            context.print_result(&with_payload(&value, &[("reply", reply)]), || readable(reply))?;
            Ok(Exit::Success)
        }
        CallOutcome::Failed(error) => {
            let what = format!("call {id} failed: {}", text::one_line(error));
            let remedy =
                "fix the cause and call again with another --id; this one keeps its result.";
            Err(CliError::new(Exit::Failed, what, remedy).into())
        }
        CallOutcome::Expired => {
            let what = format!("call {id} was answered, but the reply has expired");
            Err(CliError::new(Exit::Failed, what, "call again with another --id.").into())
        }
        CallOutcome::Pending => {
            let value = json!({ "request_id": id, "state": "pending" });
            context.print_result(&value, || {
                format!(
                    "call {id} has no reply yet; to check later: {}",
                    hint::command(&["calls", "get", id])
                )
            })?;
            Ok(Exit::Stopped)
        }
    }
}
