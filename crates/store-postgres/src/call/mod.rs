//! Calls: submitted once under an id, answered once, listed and counted.
//!
//! Holds throughout: a repeat is counted by the function that would have made the call, under its lock;
//! lists are planned anew, because their filters may be missing.

mod arrays;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::call::{CANCELLED, EXPIRED, LAST_ERROR, cancelled_error};
use windrow_domain::{CallState, InstanceId};
use windrow_store::Scope;
use windrow_store::call::{
    Call, CallKey, CallStats, Calls, CallsQuery, METHODS_MAX, MethodRetries, NewCall,
    ObjectRetries, RetriesQuery, StatsQuery, Submitted,
};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::inspect::{Binding, Cursor, Page};

use crate::db::{Param, Sql, Statement, sql};
use crate::inspect::page;
use crate::message::{Refs, json, place};
use crate::sweep::SECS_MAX;
use crate::{PostgresBackend, rows};

pub(crate) use arrays::{Answers, RunningCalls, Submits};

#[async_trait]
impl Calls for PostgresBackend {
    async fn submit_call(&self, call: NewCall) -> Result<Submitted> {
        let stream = call.stream()?;
        let hash = call.hash(&stream);
        let key = key_params(&call.key);
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&key.0 as _, Type::TEXT),
            (&key.1 as _, Type::TEXT),
            (&call.object_type as _, Type::TEXT),
            (&call.object_id as _, Type::TEXT),
            (&call.method as _, Type::TEXT),
            (&hash.as_slice() as _, Type::BYTEA),
            (&call.args.as_ref() as _, Type::BYTEA),
            (&call.policy.as_str() as _, Type::TEXT),
            (&call.caller_object as _, Type::TEXT),
            (&call.caller_client as _, Type::TEXT),
            (&call.expires_at as _, Type::TIMESTAMPTZ),
            (&call.waiter.map(|waiter| waiter.0) as _, Type::UUID),
            (&stream.as_str() as _, Type::TEXT),
            (&json(&call.headers()) as _, Type::TEXT),
        ];
        let found = [(&key.0 as _, Type::TEXT), (&key.1 as _, Type::TEXT)];
        let calls = [
            Statement { sql: Sql::rows("call/submit_call"), params: &params },
            Statement { sql: sql!("call/call"), params: &found },
        ];
        let answers = self.db.call(&calls).await?;
        let missing = || Error::of(Kind::Corrupt);
        let call = read_call(answers[1].first().ok_or_else(missing)?)?;
        let row = answers[0].first().ok_or_else(|| Error::of(Kind::Corrupt))?;
        let position: Option<i64> = row.get("o_position");
        let at = position.map(|at| place(row.get("o_partition"), row.get("o_stream"), at));
        Ok(Submitted { call, at })
    }

    async fn submit_calls(&self, calls: Vec<NewCall>) -> Result<Vec<Submitted>> {
        let submits = Submits::of(&calls)?;
        let now = self.db.now();
        let owners: Vec<&str> = calls.iter().map(|call| call.key.owner.as_str()).collect();
        let requests: Vec<&str> = calls.iter().map(|call| call.key.request_id.as_str()).collect();
        let keys: [Param<'_>; 2] = [(&owners, Type::TEXT_ARRAY), (&requests, Type::TEXT_ARRAY)];
        let none = Refs::of(std::iter::empty());
        let locked = [&keys[..], &none.params()].concat();
        let asked = submits.params(&now);
        let statements = [
            Statement { sql: sql!("call/lock_owners"), params: &keys[..1] },
            Statement { sql: Sql::value("call/lock_calls"), params: &locked },
            Statement { sql: Sql::rows("call/submit_calls"), params: &asked },
            Statement { sql: sql!("call/calls_by_key"), params: &keys },
        ];
        let answers = self.db.call(&statements).await?;
        let places = submits.places(&answers[2]);
        let found = answers[3].iter().map(read_call).collect::<Result<Vec<_>>>()?;
        if found.len() != calls.len() || places.len() != calls.len() {
            return Err(Error::of(Kind::Corrupt));
        }
        let submitted = found.into_iter().zip(places);
        Ok(submitted.map(|(call, at)| Submitted { call, at }).collect())
    }

    async fn cancel_call(&self, key: &CallKey, reason: Option<String>) -> Result<Call> {
        let (owner, request) = key_params(key);
        let error = cancelled_error(reason.as_deref());
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&owner as _, Type::TEXT),
            (&request as _, Type::TEXT),
            (&error as _, Type::TEXT),
            (&CANCELLED as _, Type::TEXT),
        ];
        let found = [(&owner as _, Type::TEXT), (&request as _, Type::TEXT)];
        let calls = [
            Statement { sql: Sql::value("call/cancel_call"), params: &params },
            Statement { sql: sql!("call/call"), params: &found },
        ];
        let answers = self.db.call(&calls).await?;
        read_call(answers[1].first().ok_or_else(|| Error::of(Kind::Corrupt))?)
    }

    async fn expire_calls(&self, limit: u32) -> Result<Vec<CallKey>> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&i64::from(limit) as _, Type::INT8),
            (&EXPIRED as _, Type::TEXT),
            (&LAST_ERROR as _, Type::TEXT),
        ];
        let found = self.db.rows(Sql::rows("call/expire_calls"), &params).await?;
        let key = |row: &Row| {
            Ok(CallKey { owner: rows::owner(row)?, request_id: rows::name(row, "request_id")? })
        };
        found.iter().map(key).collect()
    }

    async fn call(&self, key: &CallKey) -> Result<Call> {
        let (owner, request) = key_params(key);
        let params = [(&owner as _, Type::TEXT), (&request as _, Type::TEXT)];
        let found = self.db.lone(sql!("call/call"), &params).await?;
        let missing = || Error::of(Kind::Missing);
        read_call(found.first().ok_or_else(missing)?)
    }

    async fn calls(&self, scope: &Scope, query: CallsQuery) -> Result<Page<Call>> {
        let limit = i64::from(query.limit);
        let filters = (&query.object, &query.states, query.instance, query.stuck_ms);
        let binding = Binding::new("calls", scope, &filters);
        let after: Option<(Timestamp, String, String)> =
            Cursor::open(&binding, query.after.as_deref())?;
        let states: Vec<i16> = query.states.iter().map(|state| state.code()).collect();
        let only = states.first().copied().filter(|_| states.len() == 1);
        let states = (states.len() > 1).then_some(states);
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&scope.owner() as _, Type::TEXT),
            (&query.object.as_ref().map(|object| &object.0) as _, Type::TEXT),
            (&query.object.as_ref().map(|object| &object.1) as _, Type::TEXT),
            (&states as _, Type::INT2_ARRAY),
            (&query.instance.map(|instance| instance.0) as _, Type::UUID),
            (&query.stuck_ms.map(millis) as _, Type::INT8),
            (&after.as_ref().map(|key| key.0) as _, Type::TIMESTAMPTZ),
            (&after.as_ref().map(|key| &key.1) as _, Type::TEXT),
            (&after.as_ref().map(|key| &key.2) as _, Type::TEXT),
            (&(limit + 1) as _, Type::INT8),
            (&only as _, Type::INT2),
        ];
        let calls = [PLAN_ANEW, Statement { sql: sql!("call/calls"), params: &params }];
        let found = self.db.call(&calls).await?;
        let calls = found[1].iter().map(read_call).collect::<Result<Vec<_>>>()?;
        let key = |call: &Call| {
            let (owner, request) = key_params(&call.key);
            (call.created_at, owner.to_owned(), request.to_owned())
        };
        Ok(page(calls, limit, &binding, key))
    }

    async fn call_stats(&self, scope: &Scope, query: StatsQuery) -> Result<CallStats> {
        let (now, owner) = (self.db.now(), scope.owner());
        let (window, old) = (millis(query.window_ms), millis(query.old_ms));
        let most = i64::try_from(METHODS_MAX).expect("a small number");
        let stats = [
            (&now as _, Type::TIMESTAMPTZ),
            (&owner as _, Type::TEXT),
            (&window as _, Type::INT8),
            (&old as _, Type::INT8),
        ];
        let retries = [
            (&now as _, Type::TIMESTAMPTZ),
            (&owner as _, Type::TEXT),
            (&window as _, Type::INT8),
            (&most as _, Type::INT8),
        ];
        let calls = [
            PLAN_ANEW,
            Statement { sql: sql!("call/call_stats"), params: &stats },
            Statement { sql: sql!("call/call_retries"), params: &retries },
        ];
        let answers = self.db.snapshot(&calls).await?;
        Ok(CallStats {
            retries: answers[2].iter().map(method_retries).collect(),
            ..read_stats(&answers[1][0])
        })
    }

    async fn call_retries(&self, scope: &Scope, query: RetriesQuery) -> Result<Vec<ObjectRetries>> {
        let most = i64::try_from(METHODS_MAX).expect("a small number");
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&scope.owner() as _, Type::TEXT),
            (&millis(query.window_ms) as _, Type::INT8),
            (&i32::try_from(query.above).unwrap_or(i32::MAX) as _, Type::INT4),
            (&most as _, Type::INT8),
        ];
        let calls = [PLAN_ANEW, Statement { sql: sql!("call/object_retries"), params: &params }];
        let answers = self.db.snapshot(&calls).await?;
        Ok(answers[1].iter().map(object_retries).collect())
    }
}

/// Ahead of statements whose filters may be missing.
const PLAN_ANEW: Statement<'static> = Statement { sql: sql!("call/plan_anew"), params: &[] };

fn key_params(key: &CallKey) -> (&str, &str) {
    (key.owner.as_str(), key.request_id.as_str())
}

fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX).min(SECS_MAX * 1000)
}

fn method_retries(row: &Row) -> MethodRetries {
    MethodRetries {
        object_type: row.get("object_type"),
        method: row.get("method"),
        calls: rows::count(row, "calls"),
        retries_mean: row.get("retries_mean"),
    }
}

fn object_retries(row: &Row) -> ObjectRetries {
    let most: i32 = row.get("retries_max");
    ObjectRetries {
        object_type: row.get("object_type"),
        object_id: row.get("object_id"),
        method: row.get("method"),
        calls: rows::count(row, "calls"),
        retries_mean: row.get("retries_mean"),
        retries_max: most.max(0).cast_unsigned(),
    }
}

fn read_stats(row: &Row) -> CallStats {
    let states = [
        (CallState::Pending, "pending"),
        (CallState::Processing, "processing"),
        (CallState::Completed, "completed"),
        (CallState::Failed, "failed"),
        (CallState::Expired, "expired"),
    ];
    let counted = states.into_iter().map(|(state, column)| (state, rows::count(row, column)));
    let ms: Option<Vec<f64>> = row.get("ms");
    let percentile = |at: usize| ms.as_ref().and_then(|ms| ms.get(at).copied());
    let age: Option<i64> = row.get("pending_age_ms");
    let bytes: Option<i64> = row.get("bytes");
    CallStats {
        by_state: counted.filter(|(_, count)| *count > 0).collect(),
        pending_age_ms: age.map(|age| age.max(0).cast_unsigned()),
        pending_old: rows::count(row, "pending_old"),
        stuck: rows::count(row, "stuck"),
        p50_ms: percentile(0),
        p95_ms: percentile(1),
        p99_ms: percentile(2),
        failure_rate: row.get("failure_rate"),
        retries: Vec::new(),
        rows: rows::count(row, "calls"),
        archived_rows: rows::count(row, "archived"),
        bytes: bytes.map(i64::cast_unsigned),
    }
}

fn read_call(row: &Row) -> Result<Call> {
    let state = CallState::from_code(row.get("state"))
        .ok_or_else(|| rows::corrupt("state", "no such state"))?;
    let reply: Option<&[u8]> = row.get("reply");
    Ok(Call {
        key: CallKey { owner: rows::owner(row)?, request_id: rows::name(row, "request_id")? },
        object_type: row.get("object_type"),
        object_id: row.get("object_id"),
        method: row.get("method"),
        args: Bytes::copy_from_slice(row.get("args")),
        state,
        policy: rows::read(row, "policy")?,
        reply: reply.map(Bytes::copy_from_slice),
        error: row.get("error"),
        retry_count: rows::small(row, "retry_count"),
        instance: row.get::<_, Option<Uuid>>("instance").map(InstanceId),
        caller_object: row.get("caller_object"),
        caller_client: row.get("caller_client"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        processed_at: row.get("processed_at"),
        expires_at: row.get("expires_at"),
        is_archived: row.get("is_archived"),
    })
}
