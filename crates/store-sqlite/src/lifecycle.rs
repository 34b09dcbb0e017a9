//! The lifecycle of batches as messages of the outbox.
//!
//! Holds throughout: a batch that closes and the message about it are one commit; a batch that runs
//! again closes under another id, so that receivers do not take it for a repeat.

use serde_json::json;
use windrow_domain::{Queue, Stream};
use windrow_store::Result;
use windrow_store::batch::Batch;

use crate::message::send::{self, Letter};
use crate::partition;
use crate::tx::Tx;

/// Sends what became of a closed batch, where the set-up asks for it.
pub(crate) fn tell(tx: &Tx<'_>, batch: &Batch) -> Result<()> {
    let Some(setup) = partition::find_setup(tx)?.filter(|setup| setup.lifecycle) else {
        return Ok(());
    };
    let state = batch.state.as_str();
    let id = match batch.generation {
        0 => format!("{}.{state}", batch.id),
        again => format!("{}.{state}.{again}", batch.id),
    };
    let counts = &batch.counts;
    let says = json!({
        "id": batch.id,
        "state": state,
        "generation": batch.generation,
        "counts": {
            "total": counts.total,
            "completed": counts.completed,
            "failed": counts.failed,
            "not_found": counts.not_found,
            "skipped": counts.skipped,
        },
    })
    .to_string();
    let stream = Stream::new(format!("batch/{}", batch.id)).map_err(|bad| tx.corrupt(bad))?;
    let letter = Letter {
        queue: Queue::Outbox,
        owner: &batch.owner,
        stream: &stream,
        id: &id,
        kind: &format!("batch.{state}"),
        payload: says.as_bytes(),
        headers: None,
        not_before: None,
        waiting: None,
    };
    send::put(tx, setup.partitions, &letter).map(|_| ())
}
