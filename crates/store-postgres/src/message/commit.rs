//! Committing the effects of many handlers: one transaction, one write, and one statement for each
//! kind of effect that there is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_store::error::Result;
use windrow_store::message::{
    Commit, Committed, Exchange, Exchanged, HISTORY_MAX, MessageRef, error_text,
};

use super::insert::{MessageArrays, consumers};
use super::read::{Reads, work};
use super::stream_cache::StreamCache;
use crate::call::{Answers, RunningCalls, Submits};
use crate::db::{Param, Sql, Statement, TransactionClient, sql};
use crate::error::{is_mistaken, with_versions};
use crate::event::Appends;
use crate::object::States;
use crate::partition::Fences;
use crate::{PostgresBackend, member};

/// PlaceSets of messages as parallel arrays.
#[derive(Default)]
pub(crate) struct Refs {
    partitions: Vec<i32>,
    streams: Vec<i64>,
    positions: Vec<i64>,
}

impl Refs {
    pub(crate) fn of(refs: impl Iterator<Item = MessageRef>) -> Self {
        let mut arrays = Self::default();
        for at in refs {
            arrays.partitions.push(i32::from(at.partition));
            arrays.streams.push(at.stream_no.cast_signed());
            arrays.positions.push(at.position.cast_signed());
        }
        arrays
    }

    pub(crate) fn params(&self) -> [Param<'_>; 3] {
        [
            (&self.partitions, Type::INT4_ARRAY),
            (&self.streams, Type::INT8_ARRAY),
            (&self.positions, Type::INT8_ARRAY),
        ]
    }
}

/// A commit as the functions take it.
struct Effects<'a> {
    now: Option<Timestamp>,
    instance: Uuid,
    fences: Fences,
    puts: MessageArrays<'a>,
    submits: Submits<'a>,
    started: Refs,
    started_epochs: Vec<i64>,
    running: RunningCalls,
    consumed: Refs,
    consumers: Vec<&'a str>,
    done: Refs,
    failed: Refs,
    failed_errors: Vec<Cow<'a, str>>,
    failed_times: Vec<Timestamp>,
    failed_waitings: Vec<Option<String>>,
    failed_counts: Vec<bool>,
    history_max: i32,
    dead: Refs,
    dead_ids: Vec<Uuid>,
    dead_errors: Vec<Cow<'a, str>>,
    dead_counts: Vec<bool>,
    appends: Appends<'a>,
    states: States<'a>,
    answers: Answers<'a>,
    locked_owners: Vec<&'a str>,
    locked_requests: Vec<&'a str>,
    touched: Refs,
}

impl<'a> Effects<'a> {
    fn of(now: Option<Timestamp>, commit: &'a Commit) -> Result<Self> {
        let fences: BTreeMap<_, _> =
            commit.fences.iter().map(|fence| (fence.partition, fence.epoch)).collect();
        let epoch = |at: MessageRef| fences.get(&at.partition).copied().unwrap_or(0).cast_signed();
        let (by, done): (Vec<_>, Vec<_>) =
            commit.done.iter().partition(|done| done.consumer.is_some());
        let failed = &commit.failed;
        let keys = || {
            let asked = commit.submits.iter().map(|call| &call.key);
            asked.chain(commit.calls.iter().map(|call| &call.key))
        };
        let touched = commit.started.iter().map(|one| one.at);
        let touched = touched.chain(commit.running.iter().map(|one| one.at));
        Ok(Self {
            now,
            instance: commit.instance.0,
            fences: Fences::of(&commit.fences),
            puts: MessageArrays::of(&commit.messages)?,
            submits: Submits::of(&commit.submits)?,
            started: Refs::of(commit.started.iter().map(|one| one.at)),
            started_epochs: commit.started.iter().map(|one| epoch(one.at)).collect(),
            running: RunningCalls::of(&commit.running),
            consumed: Refs::of(by.iter().map(|one| one.at)),
            consumers: by.iter().filter_map(|one| one.consumer.as_deref()).collect(),
            done: Refs::of(done.iter().map(|one| one.at)),
            failed: Refs::of(failed.iter().map(|one| one.at)),
            failed_errors: failed.iter().map(|one| error_text(&one.error)).collect(),
            failed_times: failed.iter().map(|one| one.not_before).collect(),
            failed_waitings: failed.iter().map(|one| consumers(&one.waiting)).collect(),
            failed_counts: failed.iter().map(|one| one.counts).collect(),
            history_max: i32::try_from(HISTORY_MAX).expect("a small number"),
            dead: Refs::of(commit.dead.iter().map(|one| one.at)),
            dead_ids: commit.dead.iter().map(|one| one.id.0).collect(),
            dead_errors: commit.dead.iter().map(|one| error_text(&one.error)).collect(),
            dead_counts: commit.dead.iter().map(|one| one.counts).collect(),
            appends: Appends::of(&commit.events),
            states: States::of(&commit.states),
            answers: Answers::of(&commit.calls),
            locked_owners: keys().map(|key| key.owner.as_str()).collect(),
            locked_requests: keys().map(|key| key.request_id.as_str()).collect(),
            touched: Refs::of(touched.chain(failed.iter().map(|one| one.at))),
        })
    }

    /// Statements for what there is, in the order of the locks: the fence, calls that are there, streams,
    /// messages, event streams, objects.
    fn statements<'b>(&'b self, commit: &Commit) -> Vec<EffectStatement<'b>> {
        let now: Param<'b> = (&self.now, Type::TIMESTAMPTZ);
        let me: Param<'b> = (&self.instance, Type::UUID);
        let fence = self.fences.params(&self.instance).to_vec();
        let mut all = vec![(EffectAnswer::Rest, Sql::value("partition/fence"), fence)];
        let mut add = |is_there: bool, part, sql, params: Vec<Param<'b>>| {
            if is_there {
                all.push((part, sql, params));
            }
        };
        let keys: [Param<'b>; 2] =
            [(&self.locked_owners, Type::TEXT_ARRAY), (&self.locked_requests, Type::TEXT_ARRAY)];
        let locked = [&keys[..], &self.touched.params()].concat();
        add(changes_calls(commit), EffectAnswer::Rest, Sql::value("call/lock_calls"), locked);
        let sent = self.puts.params(&self.now).to_vec();
        add(!commit.messages.is_empty(), EffectAnswer::Sent, sql!("message/send"), sent);
        let asked = self.submits.params(&self.now).to_vec();
        add(
            !commit.submits.is_empty(),
            EffectAnswer::Submitted,
            Sql::rows("call/submit_calls"),
            asked,
        );
        let epochs = (&self.started_epochs as _, Type::INT8_ARRAY);
        let begun = [&[now.clone(), me][..], &self.started.params(), &[epochs]].concat();
        let sql = Sql::value("message/commit_started");
        add(!commit.started.is_empty(), EffectAnswer::Rest, sql, begun);
        let runs = self.running.params(&self.now, &self.instance);
        add(
            !commit.running.is_empty(),
            EffectAnswer::Rest,
            Sql::value("call/commit_running"),
            runs,
        );
        let names = (&self.consumers as _, Type::TEXT_ARRAY);
        let consumed = [&self.consumed.params()[..], &[names]].concat();
        let sql = Sql::value("message/commit_consumed");
        add(!self.consumers.is_empty(), EffectAnswer::Rest, sql, consumed);
        let has_done = self.consumers.len() < commit.done.len();
        add(
            has_done,
            EffectAnswer::Rest,
            Sql::value("message/commit_done"),
            self.done.params().to_vec(),
        );
        let sql = Sql::value("message/commit_failed");
        add(!commit.failed.is_empty(), EffectAnswer::Rest, sql, self.failed_params());
        let given_up = [
            (&self.dead_ids as _, Type::UUID_ARRAY),
            (&self.dead_errors as _, Type::TEXT_ARRAY),
            (&self.dead_counts as _, Type::BOOL_ARRAY),
        ];
        let dead = [&[now][..], &self.dead.params(), &given_up].concat();
        add(!commit.dead.is_empty(), EffectAnswer::Rest, Sql::value("message/commit_dead"), dead);
        let happened = self.appends.params(&self.now).to_vec();
        add(!commit.events.is_empty(), EffectAnswer::Appended, sql!("event/append"), happened);
        let states = self.states.params(&self.now, &self.fences.numbers).to_vec();
        add(!commit.states.is_empty(), EffectAnswer::Rest, Sql::value("object/put_states"), states);
        let answers = self.answers.params(&self.now, &self.instance);
        add(!commit.calls.is_empty(), EffectAnswer::Rest, Sql::value("call/commit_calls"), answers);
        all
    }

    fn failed_params(&self) -> Vec<Param<'_>> {
        let head: [Param<'_>; 2] =
            [(&self.now, Type::TIMESTAMPTZ), (&self.history_max, Type::INT4)];
        let tail: [Param<'_>; 4] = [
            (&self.failed_errors, Type::TEXT_ARRAY),
            (&self.failed_times, Type::TIMESTAMPTZ_ARRAY),
            (&self.failed_waitings, Type::TEXT_ARRAY),
            (&self.failed_counts, Type::BOOL_ARRAY),
        ];
        [&head[..], &self.failed.params(), &tail].concat()
    }
}

/// Whether a part of the commit may change calls: they are locked before anything else.
fn changes_calls(commit: &Commit) -> bool {
    !commit.submits.is_empty()
        || !commit.calls.is_empty()
        || !commit.started.is_empty()
        || !commit.running.is_empty()
        || !commit.failed.is_empty()
}

/// The effect that a statement of a commit writes, so that its answer is read as what it is.
#[derive(Clone, Copy)]
enum EffectAnswer {
    Sent,
    Submitted,
    Appended,
    Rest,
}

impl PostgresBackend {
    /// A commit, and what comes behind it in the same transaction.
    pub(super) async fn write(&self, exchange: &Exchange) -> Result<Exchanged> {
        let commit = &exchange.commit;
        let mut effects = Effects::of(self.db.now(), commit)?;
        effects.puts.recall(&self.streams);
        match self.write_once(exchange, &effects).await {
            Err(error) if is_mistaken(&error) && effects.puts.mistook(&self.streams) => {
                self.write_once(exchange, &effects).await
            }
            written => written,
        }
    }

    async fn write_once(&self, exchange: &Exchange, effects: &Effects<'_>) -> Result<Exchanged> {
        let commit = &exchange.commit;
        let statements = effects.statements(commit);
        let reads = exchange.read.as_ref().map(Reads::of);
        let read = reads.as_ref().map(|reads| reads.params(&effects.now));
        let beat: [Param<'_>; 2] =
            [(&effects.now, Type::TIMESTAMPTZ), (&effects.instance, Type::UUID)];
        let mut calls: Vec<Statement<'_>> =
            statements.iter().map(|(_, sql, params)| Statement { sql: *sql, params }).collect();
        if exchange.heartbeat {
            calls.push(Statement { sql: member::HEARTBEAT, params: &beat });
        }
        if let Some(params) = &read {
            calls.push(Statement { sql: Sql::rows("message/read_owned"), params });
        }
        // Streams and calls that others wait for are let go before the disk has answered. Answers and
        // events are not: a reader of one may act on it outside of this database.
        let is_waited_for = !commit.messages.is_empty() || !commit.running.is_empty();
        let early = is_waited_for && commit.calls.is_empty() && commit.events.is_empty();
        let answers =
            if early { self.db.call_early(&calls).await } else { self.db.call(&calls).await };
        let answers = answers.map_err(with_versions)?;
        let committed = effects.committed(&statements, &answers, &self.streams);
        let work = match &read {
            Some(_) => work(answers.last().map(Vec::as_slice).unwrap_or_default())?,
            None => Default::default(),
        };
        Ok(Exchanged { committed, work })
    }

    /// A commit that ends a transaction which others began, and proved the fences in.
    pub(crate) async fn write_inside(
        &self,
        client: TransactionClient,
        commit: &Commit,
    ) -> Result<Committed> {
        let effects = Effects::of(self.db.now(), commit)?;
        let statements = effects.statements(commit);
        let calls: Vec<Statement<'_>> =
            statements.iter().map(|(_, sql, params)| Statement { sql: *sql, params }).collect();
        let answers = self.db.end(client, &calls).await;
        Ok(effects.committed(&statements, &answers.map_err(with_versions)?, &self.streams))
    }
}

/// A statement for a part of a commit.
type EffectStatement<'a> = (EffectAnswer, Sql, Vec<Param<'a>>);

impl Effects<'_> {
    fn committed(
        &self,
        statements: &[EffectStatement<'_>],
        answers: &[Vec<Row>],
        known: &StreamCache,
    ) -> Committed {
        let mut committed = Committed::default();
        for ((part, ..), answer) in statements.iter().zip(answers) {
            match part {
                EffectAnswer::Sent => committed.sent = self.puts.sent(answer, known),
                EffectAnswer::Submitted => committed.submitted = self.submits.submitted(answer),
                EffectAnswer::Appended => committed.appended = self.appends.appended(answer),
                EffectAnswer::Rest => {}
            }
        }
        committed
    }
}
