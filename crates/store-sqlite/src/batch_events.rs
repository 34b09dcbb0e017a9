//! The lifecycle of batches, as events of their own streams and messages of the outbox.
//!
//! Holds throughout: what is done to a batch and what is told of it are one commit; the event and the
//! message have one id, and no two of a batch have the same: the end of a run is told once in each
//! generation, and what may happen often has the event's number in its id.

use bytes::Bytes;
use serde_json::json;
use windrow_domain::{Expected, Queue, State, Stream};
use windrow_store::Result;
use windrow_store::batch::Batch;
use windrow_store::event::{Append, NewEvent, Snapshot};
use windrow_store::message::Headers;

use crate::message::send::{self, Letter};
use crate::tx::Tx;
use crate::{event, partition};

/// Longest reason that is told; what is longer is cut.
const REASON_CHARS_MAX: usize = 1000;

/// Tells that this was done to a batch, which was brought into that state by it, where the set-up asks
/// for it.
pub(crate) fn tell(
    tx: &Tx<'_>,
    batch: &Batch,
    act: &str,
    state: State,
    reason: Option<&str>,
) -> Result<()> {
    let Some(setup) = partition::find_setup(tx)?.filter(|setup| setup.lifecycle) else {
        return Ok(());
    };
    let stream = Stream::new(format!("batch/{}", batch.id)).map_err(|bad| tx.corrupt(bad))?;
    let version = event::version(tx, &batch.owner, &stream)? + 1;
    let id = match (act, batch.generation) {
        ("paused" | "resumed", _) => format!("{}.{act}.{version}", batch.id),
        (_, 0) => format!("{}.{act}", batch.id),
        (_, again) => format!("{}.{act}.{again}", batch.id),
    };
    let (kind, payload) = (format!("batch.{act}"), says(batch, state, reason));
    let new = NewEvent { id, kind, payload, headers: Headers::new() };
    let letter = Letter {
        queue: Queue::Outbox,
        owner: &batch.owner,
        stream: &stream,
        id: &new.id,
        kind: &new.kind,
        payload: &new.payload,
        headers: None,
        not_before: None,
        waiting: None,
    };
    send::put(tx, setup.partitions, &letter)?;
    let (owner, state_now) = (batch.owner.clone(), new.payload.clone());
    let (events, expected) = (vec![new], Expected::Any);
    let append = Append { owner: owner.clone(), stream: stream.clone(), expected, events };
    event::append_all(tx, &[append])?;
    if !state.is_closed() {
        return Ok(());
    }
    // It stands for all that happened before, so that these events can be pruned one day.
    event::put_snapshot(tx, &Snapshot { owner, stream, version, state: state_now })
}

/// What is told: the batch as it is now.
fn says(batch: &Batch, state: State, reason: Option<&str>) -> Bytes {
    let counts = &batch.counts;
    let mut says = json!({
        "id": batch.id,
        "state": state.as_str(),
        "generation": batch.generation,
        "counts": {
            "total": counts.total,
            "completed": counts.completed,
            "failed": counts.failed,
            "not_found": counts.not_found,
            "skipped": counts.skipped,
        },
    });
    if let Some(reason) = reason {
        says["reason"] = reason.chars().take(REASON_CHARS_MAX).collect::<String>().into();
    }
    says.to_string().into()
}
