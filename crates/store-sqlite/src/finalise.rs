//! Finalising: one instance takes the right to close a batch, and closes it.
//!
//! Holds throughout: a finalisation's token is never given twice, so an old one never matches.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::params;
use windrow_domain::batch::{Event, Refused, apply};
use windrow_domain::{BatchId, FileId, InstanceId, State};
use windrow_store::batch::Batch;
use windrow_store::finalise::{Finalisation, Finalise, NewOutput, Rows};
use windrow_store::{Error, Kind, Result, Scope};

use crate::tx::{Tx, sql};
use crate::{SqliteBackend, batch, batch_events, lane_counts, rows};

#[async_trait]
impl Finalise for SqliteBackend {
    async fn take_finalisation(
        &self,
        batch: BatchId,
        instance: InstanceId,
        lease_ms: u64,
    ) -> Result<Finalisation> {
        self.write(move |tx| take(tx, batch, instance, lease_ms)).await
    }

    async fn close_batch(
        &self,
        held: &Finalisation,
        rows: Rows,
        summary: &str,
        outputs: &[NewOutput],
    ) -> Result<Batch> {
        let (held, summary, outputs) = (held.clone(), summary.to_owned(), outputs.to_vec());
        self.write(move |tx| close(tx, &held, rows, &summary, &outputs)).await
    }

    async fn find_unclosed(&self, limit: u32) -> Result<Vec<BatchId>> {
        self.write(move |tx| find_unclosed(tx, limit)).await
    }
}

/// The instance that may close a batch, and until when.
#[derive(Default)]
struct Holder {
    token: Option<i64>,
    by: Option<[u8; 16]>,
    until: Option<i64>,
    /// The holder is tombstoned, so its right is free.
    gone: bool,
}

fn holder(tx: &Tx<'_>, batch: BatchId) -> Result<Holder> {
    tx.sure(sql!("finalise/holder"), [batch.0.into_bytes()], |row| {
        Ok(Holder { token: row.get(0)?, by: row.get(1)?, until: row.get(2)?, gone: row.get(3)? })
    })
}

fn take(tx: &Tx<'_>, id: BatchId, instance: InstanceId, lease_ms: u64) -> Result<Finalisation> {
    let batch = batch::find(tx, &Scope::All, id)?;
    let State::Finalizing(ending) = batch.state else {
        let refused = Refused { from: batch.state, event: Event::Closed };
        return Err(Error::refusal(refused));
    };
    let (by, holder) = (instance.0.into_bytes(), holder(tx, id)?);
    let token = match holder.token {
        Some(token) if holder.by == Some(by) => token,
        Some(_) if !holder.gone && holder.until.is_some_and(|until| until > tx.now) => {
            return Err(Error::of(Kind::Contended).because("another instance is closing it"));
        }
        _ => tx.sure(sql!("claim/next_token"), [], |row| row.get(0))?,
    };
    let until = tx.after(lease_ms * 1000);
    tx.run(sql!("finalise/take"), params![id.0.into_bytes(), token, by, until])?;
    Ok(Finalisation {
        batch: id,
        instance,
        token: u64::try_from(token).map_err(|cause| tx.corrupt(cause))?,
        generation: batch.generation,
        ending,
        counts: batch.counts,
        expires_at: Timestamp::from_microsecond(until).map_err(|cause| tx.corrupt(cause))?,
    })
}

fn close(
    tx: &Tx<'_>,
    held: &Finalisation,
    rows: Rows,
    summary: &str,
    outputs: &[NewOutput],
) -> Result<Batch> {
    let batch = batch::find(tx, &Scope::All, held.batch)?;
    let (holder, token) = (holder(tx, held.batch)?, rows::int(held.token));
    let mine = holder.token == Some(token) && holder.by == Some(held.instance.0.into_bytes());
    if !mine || batch.generation != held.generation {
        return Err(Error::of(Kind::LeaseLost));
    }
    if batch.state.is_closed() {
        return Ok(batch);
    }
    if !rows.equal(&batch.counts) {
        let because = format!("{rows:?} were read, the counts are {:?}", batch.counts);
        return Err(Error::of(Kind::Conflict).because(because));
    }
    let to = apply(batch.state, Event::Closed).map_err(Error::refusal)?;
    let closed =
        params![batch.id.0.into_bytes(), token, batch.generation, to.as_str(), tx.now, summary];
    tx.run(sql!("finalise/close"), closed)?;
    batch::drop_outputs(tx, batch.id)?;
    outputs.iter().try_for_each(|output| put_output(tx, &batch, output))?;
    let closed = batch::find(tx, &Scope::All, batch.id)?;
    batch_events::tell(tx, &closed, closed.state.as_str(), closed.state, None)?;
    Ok(closed)
}

/// Makes an output a file of the batch's owner, in the place of an earlier one.
fn put_output(tx: &Tx<'_>, batch: &Batch, output: &NewOutput) -> Result<()> {
    let file = params![
        FileId::of_output(batch.id, output.kind).0.into_bytes(),
        batch.owner.as_str(),
        output.name,
        rows::int(output.lines),
        rows::int(output.bytes),
        tx.now,
        batch.output_secs.map(|secs| tx.after(secs.saturating_mul(1_000_000))),
        output.place,
        batch.id.0.into_bytes()
    ];
    match tx.run(sql!("finalise/put_output"), file)? {
        1 => Ok(()),
        _ => Err(tx.corrupt("the id of its output is another file's")),
    }
}

fn find_unclosed(tx: &Tx<'_>, limit: u32) -> Result<Vec<BatchId>> {
    let read = |row: &rusqlite::Row<'_>| rows::uuid(row, 0).map(BatchId);
    for missed in tx.all(sql!("finalise/find_missed"), [limit], read)? {
        lane_counts::flip(tx, missed)?;
    }
    tx.all(sql!("finalise/find_unclosed"), params![tx.now, limit], read)
}
