//! `windrow call --file`: submits the calls of a file and waits for none.
//!
//! Holds throughout: the calls of a thousand lines are submitted together or not at all; a line that cannot be
//! read stops it with its number, and what was submitted before stays; repeating the command submits no call
//! with an id twice.

use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, BufReader};
use windrow::domain::RequestId;
use windrow::domain::message::PAYLOAD_BYTES_MAX;
use windrow::engine::messages::Client;
use windrow::store::call::{CallKey, NewCall, Submitted};
use windrow::store::message::SEND_BYTES_MAX;

use super::call::{CALLER, Defaults, refused};
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::text;

/// Most calls of one transaction.
const GROUP_MAX: usize = 1_000;

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    id: Option<String>,
    object_type: String,
    object_id: String,
    method: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Default)]
struct Total {
    submitted: u64,
    repeats: u64,
}

pub(super) async fn run(
    context: &Context,
    file: &Path,
    defaults: &Defaults,
) -> anyhow::Result<Exit> {
    let mut lines = open(file).await?;
    let client = Client::new(context.open_existing().await?);
    let (mut total, mut group, mut bytes) = (Total::default(), Vec::new(), 0);
    let (mut no, mut text) = (0_u64, String::new());
    loop {
        text.clear();
        let read = lines.read_line(&mut text).await;
        let read = read.with_context(|| format!("could not read {}", file.display()))?;
        no += u64::from(read > 0);
        if read > 0 && text.trim().is_empty() {
            continue;
        }
        if read > 0 {
            let call = parse(context, &text).map_err(|because| bad_line(file, no, &because))?;
            bytes += call.args.len();
            group.push(defaults.apply(call));
        }
        let is_full = group.len() >= GROUP_MAX || bytes + PAYLOAD_BYTES_MAX > SEND_BYTES_MAX;
        if (is_full || read == 0) && !group.is_empty() {
            let submitted = client.submit_many(std::mem::take(&mut group)).await;
            total.add(&submitted.map_err(refused)?);
            bytes = 0;
        }
        if read == 0 {
            break;
        }
    }
    let value = json!({ "submitted": total.submitted, "repeats": total.repeats });
    context.print_result(&value, || {
        let calls = if total.submitted == 1 { "call" } else { "calls" };
        let repeats = match total.repeats {
            0 => String::new(),
            repeats => format!(", {} were submitted before", text::count(repeats)),
        };
        format!(
            "{} {calls} submitted{repeats}; to watch: windrow calls",
            text::count(total.submitted)
        )
    })?;
    Ok(Exit::Success)
}

impl Total {
    fn add(&mut self, submitted: &[Submitted]) {
        let new = submitted.iter().filter(|one| one.at.is_some()).count() as u64;
        self.submitted += new;
        self.repeats += submitted.len() as u64 - new;
    }
}

async fn open(file: &Path) -> anyhow::Result<Box<dyn AsyncBufRead + Unpin>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(tokio::io::stdin())));
    }
    let opened = tokio::fs::File::open(file).await;
    let opened = opened.with_context(|| format!("could not open {}", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}

fn parse(context: &Context, text: &str) -> Result<NewCall, String> {
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let id = line.id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let request_id = RequestId::new(id).map_err(|bad| bad.to_string())?;
    let key = CallKey { owner: context.config.owner.clone(), request_id };
    let args = line.args.map(|args| args.get().to_owned()).unwrap_or_default();
    let call = NewCall::new(key, line.object_type, line.object_id, line.method).args(args);
    call.check().map_err(|error| error.to_string())?;
    Ok(call.caller_client(CALLER))
}

fn bad_line(file: &Path, no: u64, because: &str) -> anyhow::Error {
    let what = format!("line {no} of {} is not a call: {because}", file.display());
    let remedy = "correct it and run the command again; calls with an id are not submitted twice.";
    CliError::new(Exit::Invalid, what, remedy).into()
}
