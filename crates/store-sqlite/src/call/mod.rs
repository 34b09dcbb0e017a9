//! Calls: asked for once under an id, answered once.
//!
//! Holds throughout: a call without an answer has exactly one message in its object's stream; every
//! change is guarded by the call having no answer yet.

mod cancel;
mod stats;

use async_trait::async_trait;
use rusqlite::{Row, params};
use uuid::Uuid;
use windrow_domain::{CallState, InstanceId, Queue};
use windrow_store::call::{
    Answer, Call, CallKey, CallResult, CallStats, Calls, CallsQuery, NewCall, ObjectRetries,
    RetriesQuery, StatsQuery, Submitted,
};
use windrow_store::inspect::Page;
use windrow_store::message::{MessageRef, ProcessingReport, error_text};
use windrow_store::{Error, Kind, Result, Scope};

use crate::message::send::{self, Letter};
use crate::tx::{Tx, sql};
use crate::{SqliteBackend, inspect, partition, rows};

#[async_trait]
impl Calls for SqliteBackend {
    async fn submit_call(&self, call: NewCall) -> Result<Submitted> {
        self.write(move |tx| submit(tx, &call)).await
    }

    async fn submit_calls(&self, calls: Vec<NewCall>) -> Result<Vec<Submitted>> {
        self.write(move |tx| calls.iter().map(|call| submit(tx, call)).collect()).await
    }

    async fn cancel_call(&self, key: &CallKey, reason: Option<String>) -> Result<Call> {
        let key = key.clone();
        self.write(move |tx| cancel::cancel(tx, &key, reason.as_deref())).await
    }

    async fn expire_calls(&self, limit: u32) -> Result<Vec<CallKey>> {
        self.write(move |tx| cancel::expire(tx, limit)).await
    }

    async fn call(&self, key: &CallKey) -> Result<Call> {
        let key = key.clone();
        self.read(move |tx| {
            let found = find(tx, &key)?.map(|(call, _)| call);
            found.ok_or_else(|| Error::of(Kind::Missing))
        })
        .await
    }

    async fn calls(&self, scope: &Scope, query: CallsQuery) -> Result<Page<Call>> {
        let scope = scope.clone();
        self.read(move |tx| inspect::calls::page(tx, &scope, &query)).await
    }

    async fn call_stats(&self, scope: &Scope, query: StatsQuery) -> Result<CallStats> {
        let scope = scope.clone();
        self.read(move |tx| stats::read(tx, &scope, query)).await
    }

    async fn call_retries(&self, scope: &Scope, query: RetriesQuery) -> Result<Vec<ObjectRetries>> {
        let scope = scope.clone();
        self.read(move |tx| stats::retries(tx, &scope, query)).await
    }
}

/// The columns of `call/call`.
pub(crate) fn read_call(row: &Row<'_>) -> rusqlite::Result<Call> {
    let state = CallState::from_code(row.get(6)?).ok_or_else(|| rows::bad(6, "no such state"))?;
    let instance: Option<[u8; 16]> = row.get(11)?;
    Ok(Call {
        key: CallKey { owner: rows::name(row, 0)?, request_id: rows::name(row, 1)? },
        object_type: row.get(2)?,
        object_id: row.get(3)?,
        method: row.get(4)?,
        args: row.get::<_, Vec<u8>>(5)?.into(),
        state,
        policy: rows::parsed(row, 7)?,
        reply: row.get::<_, Option<Vec<u8>>>(8)?.map(Into::into),
        error: row.get(9)?,
        retry_count: row.get(10)?,
        instance: instance.map(|bytes| InstanceId(Uuid::from_bytes(bytes))),
        caller_object: row.get(12)?,
        caller_client: row.get(13)?,
        created_at: rows::time(row, 14)?,
        updated_at: rows::time(row, 15)?,
        processed_at: rows::time_opt(row, 16)?,
        expires_at: rows::time_opt(row, 17)?,
        is_archived: row.get(18)?,
    })
}

/// A call and what it asks, also from the archive.
fn find(tx: &Tx<'_>, key: &CallKey) -> Result<Option<(Call, [u8; 32])>> {
    tx.one(sql!("call/call"), [key.owner.as_str(), key.request_id.as_str()], |row| {
        Ok((read_call(row)?, row.get(19)?))
    })
}

/// Asks, or counts a repeat; `Conflict` for another question under the same id.
pub(crate) fn submit(tx: &Tx<'_>, new: &NewCall) -> Result<Submitted> {
    let count = partition::count(tx)?;
    let stream = new.stream()?;
    let hash = new.hash(&stream);
    if let Some((call, asked)) = find(tx, &new.key)? {
        if asked != hash {
            let because = "its id was used for another object, method or other arguments";
            return Err(Error::of(Kind::Conflict).because(because));
        }
        return repeat(tx, new, call);
    }
    let (owner, request_id) = (new.key.owner.as_str(), new.key.request_id.as_str());
    let call = params![
        owner,
        request_id,
        new.object_type,
        new.object_id,
        new.method,
        hash,
        new.args.as_ref(),
        new.policy.as_str(),
        new.waiter.map(|waiter| waiter.0.into_bytes()),
        new.caller_object,
        new.caller_client,
        tx.now,
        new.expires_at.map(|at| at.as_microsecond())
    ];
    tx.run(sql!("call/submit_call"), call)?;
    let letter = Letter {
        queue: Queue::Calls,
        owner: &new.key.owner,
        stream: &stream,
        id: request_id,
        kind: &new.method,
        payload: &new.args,
        headers: rows::headers_text(&new.headers()),
        not_before: None,
        waiting: None,
    };
    let at = send::put(tx, count, &letter)?;
    let (call, _) = find(tx, &new.key)?.ok_or_else(|| tx.corrupt("a new call is not there"))?;
    Ok(Submitted { call, at: Some(at) })
}

/// The call as it is; the question counts as a retry.
fn repeat(tx: &Tx<'_>, new: &NewCall, mut call: Call) -> Result<Submitted> {
    let (owner, request_id) = (new.key.owner.as_str(), new.key.request_id.as_str());
    if call.is_archived {
        tx.run(sql!("call/count_archived_retry"), [owner, request_id])?;
    } else {
        let waiter = new.waiter.map(|waiter| waiter.0.into_bytes());
        tx.run(sql!("call/repeat_call"), params![owner, request_id, waiter])?;
    }
    call.retry_count += 1;
    Ok(Submitted { call, at: None })
}

/// An instance begins with a call. `Conflict` when it has its answer, or is not there.
pub(crate) fn start(tx: &Tx<'_>, owner: &str, id: &str, instance: InstanceId) -> Result<()> {
    let begun = params![owner, id, instance.0.into_bytes(), tx.now];
    unanswered(id, tx.run(sql!("call/start"), begun)?)
}

/// A call runs for long. Nothing happens when it is answered or was put off: then the report is
/// late.
pub(crate) fn run_on(tx: &Tx<'_>, running: &ProcessingReport, instance: InstanceId) -> Result<()> {
    let ProcessingReport {
        at: MessageRef { partition, stream_no, position },
        attempts,
        not_before,
    } = running;
    let shown = params![
        partition,
        rows::int(*stream_no),
        rows::int(*position),
        attempts,
        not_before.map(|at| at.as_microsecond()),
        instance.0.into_bytes(),
        tx.now
    ];
    tx.run(sql!("call/commit_running"), shown).map(drop)
}

/// A call waits for another attempt. `Conflict` when it has its answer, or is not there.
pub(crate) fn put_back(tx: &Tx<'_>, owner: &str, id: &str) -> Result<()> {
    unanswered(id, tx.run(sql!("call/give_back"), params![owner, id, tx.now])?)
}

/// A call has its answer, and its message is done. `Conflict` when either is not there any more.
pub(crate) fn answer(tx: &Tx<'_>, result: &CallResult, by: InstanceId) -> Result<()> {
    let (owner, id) = (result.key.owner.as_str(), result.key.request_id.as_str());
    let (state, reply, error) = match &result.answer {
        Answer::Reply(reply) => (CallState::Completed, Some(reply.as_ref()), None),
        Answer::Error(error) => (CallState::Failed, None, Some(error_text(error))),
    };
    let answered = params![owner, id, state.code(), reply, error, tx.now, by.0.into_bytes()];
    unanswered(id, tx.run(sql!("call/commit_calls"), answered)?)?;
    let MessageRef { partition, stream_no, position } = result.at;
    let ended = params![partition, rows::int(stream_no), rows::int(position), owner, id];
    match tx.run(sql!("call/end_message"), ended)? {
        1 => Ok(()),
        _ => Err(Error::of(Kind::Conflict).because(format!("message of call {id} is not there"))),
    }
}

fn unanswered(id: &str, changed: u64) -> Result<()> {
    match changed {
        1 => Ok(()),
        _ => {
            let because = format!("call {id} has its answer, or is not there");
            Err(Error::of(Kind::Conflict).because(because))
        }
    }
}
