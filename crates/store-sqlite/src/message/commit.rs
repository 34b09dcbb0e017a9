//! Committing: the effects of many handlers, all or none.
//!
//! Holds throughout: the fences are looked at first; every message that is ended must still be there.

use rusqlite::params;
use windrow_domain::Queue;
use windrow_store::message::{
    Commit, Committed, Dead, Done, FailedAttempt, HISTORY_MAX, MessageRef, Started, error_text,
};
use windrow_store::{Error, Kind, Result};

use super::{place, read_queue, send};
use crate::tx::{Tx, invalid, sql};
use crate::{call, event, object, partition, rows};

/// The caller's transaction makes it all or none.
pub(crate) fn write(tx: &Tx<'_>, commit: &Commit) -> Result<Committed> {
    partition::check_fences(tx, commit.instance, &commit.fences)?;
    commit.started.iter().try_for_each(|started| start(tx, commit, started))?;
    commit.running.iter().try_for_each(|running| call::run_on(tx, running, commit.instance))?;
    commit.done.iter().try_for_each(|done| finish(tx, done))?;
    commit.failed.iter().try_for_each(|failed| fail(tx, failed))?;
    commit.dead.iter().try_for_each(|dead| bury(tx, dead))?;
    let sent = send::all(tx, &commit.messages)?;
    let appended = event::append_all(tx, &commit.events)?;
    object::put_states(tx, &commit.fences, &commit.states)?;
    commit.calls.iter().try_for_each(|result| call::answer(tx, result, commit.instance))?;
    let mut submitted = Vec::new();
    for new in &commit.submits {
        submitted.extend(call::submit(tx, new)?.at);
    }
    Ok(Committed { sent, submitted, appended })
}

/// A message on its way, as far as a commit must know it.
struct StoredMessage {
    queue: Queue,
    owner: String,
    id: String,
    waiting: Vec<String>,
    history: Vec<(i64, String)>,
}

fn find(tx: &Tx<'_>, at: MessageRef) -> Result<StoredMessage> {
    let found = tx.one(sql!("message/find"), place(at), |row| {
        Ok(StoredMessage {
            queue: read_queue(row, 0)?,
            owner: row.get(1)?,
            id: row.get(2)?,
            waiting: rows::json_or_default(row, 3)?,
            history: rows::json_or_default(row, 4)?,
        })
    })?;
    found.ok_or_else(|| gone(at))
}

fn gone(at: MessageRef) -> windrow_store::Error {
    Error::of(Kind::Conflict).because(format!("message {at:?} is not there any more"))
}

fn start(tx: &Tx<'_>, commit: &Commit, started: &Started) -> Result<()> {
    let (at, fences) = (started.at, &commit.fences);
    let fence = fences.iter().find(|fence| fence.partition == at.partition);
    let epoch = fence.map(|fence| rows::int(fence.epoch));
    let found = find(tx, at)?;
    let (no, stream_no, position) = place(at);
    tx.run(sql!("message/commit_started"), params![no, stream_no, position, epoch])?;
    match found.queue {
        Queue::Calls => call::start(tx, &found.owner, &found.id, commit.instance),
        Queue::Inbox | Queue::Outbox => Ok(()),
    }
}

fn finish(tx: &Tx<'_>, done: &Done) -> Result<()> {
    let Some(consumer) = &done.consumer else {
        return end(tx, done.at);
    };
    let mut waiting = find(tx, done.at)?.waiting;
    let before = waiting.len();
    waiting.retain(|name| name != consumer);
    if waiting.len() == before {
        let because = format!("message {:?} does not wait for {consumer:?}", done.at);
        return Err(Error::of(Kind::Conflict).because(because));
    }
    if waiting.is_empty() {
        return end(tx, done.at);
    }
    let (no, stream_no, position) = place(done.at);
    let left = params![no, stream_no, position, rows::names_text(&waiting)];
    tx.run(sql!("message/commit_consumed"), left).map(|_| ())
}

fn end(tx: &Tx<'_>, at: MessageRef) -> Result<()> {
    match tx.run(sql!("message/commit_done"), place(at))? {
        1 => Ok(()),
        _ => Err(gone(at)),
    }
}

fn fail(tx: &Tx<'_>, failed: &FailedAttempt) -> Result<()> {
    let StoredMessage { queue, owner, id, mut history, .. } = find(tx, failed.at)?;
    let error = error_text(&failed.error);
    history.push((tx.now, error.clone().into_owned()));
    let kept = &history[history.len().saturating_sub(HISTORY_MAX)..];
    let (no, stream_no, position) = place(failed.at);
    let again = params![
        no,
        stream_no,
        position,
        failed.counts,
        error,
        failed.not_before.as_microsecond(),
        serde_json::to_string(kept).expect("times and texts are JSON"),
        rows::names_text(&failed.waiting)
    ];
    tx.run(sql!("message/commit_failed"), again)?;
    match queue {
        Queue::Calls => call::put_back(tx, &owner, &id),
        Queue::Inbox | Queue::Outbox => Ok(()),
    }
}

fn bury(tx: &Tx<'_>, dead: &Dead) -> Result<()> {
    if find(tx, dead.at)?.queue == Queue::Calls {
        return Err(invalid("a call fails, and is no dead letter"));
    }
    let (no, stream_no, position) = place(dead.at);
    let error = error_text(&dead.error);
    let letter =
        params![no, stream_no, position, dead.id.0.into_bytes(), error, tx.now, dead.counts];
    tx.run(sql!("message/commit_dead"), letter)?;
    end(tx, dead.at)
}
