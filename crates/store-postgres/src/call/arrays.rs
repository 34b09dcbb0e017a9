//! Calls of a commit as parallel arrays: those that are asked, those that run for long, and those that
//! have their answer.

use std::borrow::Cow;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::Stream;
use windrow_store::call::{Answer, CallResult, NewCall};
use windrow_store::error::Result;
use windrow_store::message::{MessageRef, ProcessingReport, error_text};

use crate::db::Param;
use crate::message::{Refs, json, place};

/// Calls to be asked, sorted by the bytes of owner and stream.
pub(crate) struct Submits<'a> {
    /// For each in the arrays, its place in the commit.
    order: Vec<usize>,
    owners: Vec<&'a str>,
    requests: Vec<&'a str>,
    types: Vec<&'a str>,
    ids: Vec<&'a str>,
    methods: Vec<&'a str>,
    hashes: Vec<[u8; 32]>,
    args: Vec<&'a [u8]>,
    policies: Vec<&'static str>,
    caller_objects: Vec<Option<&'a str>>,
    caller_clients: Vec<Option<&'a str>>,
    expires: Vec<Option<Timestamp>>,
    waiters: Vec<Option<Uuid>>,
    streams: Vec<String>,
    headers: Vec<Option<String>>,
}

impl<'a> Submits<'a> {
    pub(crate) fn of(calls: &'a [NewCall]) -> Result<Self> {
        let mut sorted: Vec<(usize, &NewCall, Stream)> = Vec::with_capacity(calls.len());
        for (at, call) in calls.iter().enumerate() {
            sorted.push((at, call, call.stream()?));
        }
        sorted.sort_by(|a, b| (&a.1.key.owner, &a.2).cmp(&(&b.1.key.owner, &b.2)));
        let each = || sorted.iter().map(|one| one.1);
        Ok(Self {
            order: sorted.iter().map(|one| one.0).collect(),
            owners: each().map(|call| call.key.owner.as_str()).collect(),
            requests: each().map(|call| call.key.request_id.as_str()).collect(),
            types: each().map(|call| call.object_type.as_str()).collect(),
            ids: each().map(|call| call.object_id.as_str()).collect(),
            methods: each().map(|call| call.method.as_str()).collect(),
            hashes: sorted.iter().map(|(_, call, stream)| call.hash(stream)).collect(),
            args: each().map(|call| call.args.as_ref()).collect(),
            policies: each().map(|call| call.policy.as_str()).collect(),
            caller_objects: each().map(|call| call.caller_object.as_deref()).collect(),
            caller_clients: each().map(|call| call.caller_client.as_deref()).collect(),
            expires: each().map(|call| call.expires_at).collect(),
            waiters: each().map(|call| call.waiter.map(|waiter| waiter.0)).collect(),
            headers: each().map(|call| json(&call.headers())).collect(),
            streams: sorted.iter().map(|one| one.2.as_str().to_owned()).collect(),
        })
    }

    /// In the order of `sql/call/submit_calls.sql`.
    pub(crate) fn params<'b>(&'b self, now: &'b Option<Timestamp>) -> [Param<'b>; 15] {
        [
            (now, Type::TIMESTAMPTZ),
            (&self.owners, Type::TEXT_ARRAY),
            (&self.requests, Type::TEXT_ARRAY),
            (&self.types, Type::TEXT_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.methods, Type::TEXT_ARRAY),
            (&self.hashes, Type::BYTEA_ARRAY),
            (&self.args, Type::BYTEA_ARRAY),
            (&self.policies, Type::TEXT_ARRAY),
            (&self.caller_objects, Type::TEXT_ARRAY),
            (&self.caller_clients, Type::TEXT_ARRAY),
            (&self.expires, Type::TIMESTAMPTZ_ARRAY),
            (&self.waiters, Type::UUID_ARRAY),
            (&self.streams, Type::TEXT_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
        ]
    }

    /// Messages of the calls that were not there before, in the order of the commit.
    pub(crate) fn submitted(&self, answer: &[Row]) -> Vec<MessageRef> {
        self.places(answer).into_iter().flatten().collect()
    }

    /// For each call, in the order in which they were given: where its message is, unless it is a repeat.
    pub(crate) fn places(&self, answer: &[Row]) -> Vec<Option<MessageRef>> {
        let Some(row) = answer.first() else { return Vec::new() };
        let partitions: Vec<i32> = row.get("o_partition");
        let streams: Vec<i64> = row.get("o_stream");
        let positions: Vec<Option<i64>> = row.get("o_position");
        let mut places = vec![None; positions.len()];
        for (at, position) in positions.into_iter().enumerate() {
            places[self.order[at]] =
                position.map(|position| place(partitions[at], streams[at], position));
        }
        places
    }
}

/// Calls that run for long.
pub(crate) struct RunningCalls {
    refs: Refs,
    attempts: Vec<i32>,
    not_before: Vec<Option<Timestamp>>,
}

impl RunningCalls {
    pub(crate) fn of(running: &[ProcessingReport]) -> Self {
        Self {
            refs: Refs::of(running.iter().map(|one| one.at)),
            attempts: running.iter().map(|one| one.attempts.cast_signed()).collect(),
            not_before: running.iter().map(|one| one.not_before).collect(),
        }
    }

    /// In the order of `sql/call/commit_running.sql`.
    pub(crate) fn params<'b>(
        &'b self,
        now: &'b Option<Timestamp>,
        instance: &'b Uuid,
    ) -> Vec<Param<'b>> {
        let head: [Param<'b>; 2] = [(now, Type::TIMESTAMPTZ), (instance, Type::UUID)];
        let tail: [Param<'b>; 2] =
            [(&self.attempts, Type::INT4_ARRAY), (&self.not_before, Type::TIMESTAMPTZ_ARRAY)];
        [&head[..], &self.refs.params(), &tail].concat()
    }
}

/// Calls that have their answer.
pub(crate) struct Answers<'a> {
    owners: Vec<&'a str>,
    requests: Vec<&'a str>,
    refs: Refs,
    replies: Vec<Option<&'a [u8]>>,
    errors: Vec<Option<Cow<'a, str>>>,
}

impl<'a> Answers<'a> {
    pub(crate) fn of(calls: &'a [CallResult]) -> Self {
        let reply = |call: &'a CallResult| match &call.answer {
            Answer::Reply(reply) => Some(reply.as_ref()),
            Answer::Error(_) => None,
        };
        let error = |call: &'a CallResult| match &call.answer {
            Answer::Reply(_) => None,
            Answer::Error(error) => Some(error_text(error)),
        };
        Self {
            owners: calls.iter().map(|call| call.key.owner.as_str()).collect(),
            requests: calls.iter().map(|call| call.key.request_id.as_str()).collect(),
            refs: Refs::of(calls.iter().map(|call| call.at)),
            replies: calls.iter().map(reply).collect(),
            errors: calls.iter().map(error).collect(),
        }
    }

    /// In the order of `sql/call/commit_calls.sql`.
    pub(crate) fn params<'b>(
        &'b self,
        now: &'b Option<Timestamp>,
        instance: &'b Uuid,
    ) -> Vec<Param<'b>> {
        let head: [Param<'b>; 4] = [
            (now, Type::TIMESTAMPTZ),
            (instance, Type::UUID),
            (&self.owners, Type::TEXT_ARRAY),
            (&self.requests, Type::TEXT_ARRAY),
        ];
        let tail: [Param<'b>; 2] =
            [(&self.replies, Type::BYTEA_ARRAY), (&self.errors, Type::TEXT_ARRAY)];
        [&head[..], &self.refs.params(), &tail].concat()
    }
}
