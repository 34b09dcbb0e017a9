//! Writing outcomes, and the turn: record and claim in one pipelined transaction.

use async_trait::async_trait;
use jiff::Timestamp;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::attempt::Class;
use windrow_domain::text::without_nul;
use windrow_domain::{BatchId, LeaseId, LeaseProof, LineSet};
use windrow_store::error::{Error, Kind, Result};
use windrow_store::record::{ATTEMPT_ENTRIES_MAX, Fold, Outcomes, Plan, Record, Reply, Turn, plan};

use crate::db::{Param, Sql, Statement, sql};
use crate::error::is_stale;
use crate::{PostgresBackend, claim, rows};
/// How often a turn is planned anew when a lease changed between looking and locking.
const STALE_RETRIES_MAX: usize = 8;

#[async_trait]
impl Record for PostgresBackend {
    async fn turn(&self, turn: Turn) -> Result<Reply> {
        // The caller's belief is right nearly always; only when it is not, look first. Outcomes that
        // change nothing prove nothing either: then look, too.
        let mut believed: Vec<_> =
            turn.outcomes.iter().map(|outcomes| Some(Belief::of(&outcomes.held))).collect();
        if turn.outcomes.iter().any(changes_nothing) {
            believed = self.read_beliefs(&turn).await?;
        }
        for _ in 0..STALE_RETRIES_MAX {
            match self.turn_once(&turn, &believed).await {
                Err(error) if is_stale(&error) => {
                    believed = self.read_beliefs(&turn).await?;
                }
                other => return other,
            }
        }
        Err(Error::of(Kind::Busy).because("its leases keep changing"))
    }
}

/// What is believed of a lease, and the text its row must have for that to be true.
struct Belief {
    held: LeaseProof,
    text: String,
}

impl Belief {
    fn of(held: &LeaseProof) -> Self {
        Self { held: held.clone(), text: held.outstanding.to_string() }
    }
}

fn changes_nothing(outcomes: &Outcomes) -> bool {
    plan(outcomes, &outcomes.held.outstanding).is_ok_and(|plan| plan.is_empty())
}

impl PostgresBackend {
    /// Makes the turn by what is believed of its leases; none stands for a lease that is lost. An
    /// error that [`is_stale`] says that a row differs.
    async fn turn_once(&self, turn: &Turn, believed: &[Option<Belief>]) -> Result<Reply> {
        let mut plans = Vec::with_capacity(turn.outcomes.len());
        for (outcomes, belief) in turn.outcomes.iter().zip(believed) {
            plans.push(match belief {
                Some(belief) => Some((belief, plan(outcomes, &belief.held.outstanding)?)),
                None => None,
            });
        }
        let mut writes: Vec<_> =
            plans.iter().flatten().filter(|(_, plan)| !plan.is_empty()).collect();
        writes.sort_unstable_by_key(|(belief, _)| belief.held.id);
        let arrays = Arrays::of(&writes);
        let request = turn.claim.as_ref().map(claim::prepare);
        let claim_targets = request.as_ref().map_or(Vec::new(), |request| request.targets.clone());

        let now = self.db.now();
        let claim_targets = claim_targets.as_slice();
        let record = arrays.params(&now, &turn.instance.0, &claim_targets);
        let leases_from = self.leases_from();
        let may_wait = writes.is_empty();
        let lease = [(&request.as_ref().map(|request| request.lease) as _, Type::UUID)];
        let claim_params = request.as_ref().map(|request| {
            [
                (&now as _, Type::TIMESTAMPTZ),
                (&turn.instance.0 as _, Type::UUID),
                (&request.lease as _, Type::UUID),
                (&request.upstreams as _, Type::TEXT_ARRAY),
                (&request.targets as _, Type::TEXT_ARRAY),
                (&request.binds as _, Type::TEXT_ARRAY),
                (&request.only as _, Type::UUID),
                (&request.lines_max as _, Type::INT4),
                (&request.lease_ms as _, Type::INT8),
                (&leases_from as _, Type::INT8),
                (&may_wait as _, Type::BOOL),
            ]
        });
        let mut calls = Vec::with_capacity(4);
        if !writes.is_empty() {
            calls.push(Statement { sql: Sql::rows("record/record"), params: &record });
        }
        if let Some(params) = &claim_params {
            calls.push(Statement { sql: Sql::rows("claim/claim"), params });
            calls.extend(claim::reads(&lease));
        }
        let answers =
            if calls.is_empty() { Vec::new() } else { self.db.call_early(&calls).await? };
        let mut answers = answers.into_iter();
        let recorded = if writes.is_empty() { None } else { answers.next() };
        let claimed = match (claim_params.is_some(), answers.as_slice()) {
            (true, [hint, lines, lease]) => {
                self.note_leases_from(&hint[0]);
                claim::tranche(lease, lines)?
            }
            _ => None,
        };
        let folds = turn.outcomes.iter().zip(plans).map(|(outcomes, plan)| fold(outcomes, plan));
        let recorded = recorded.as_deref().and_then(<[Row]>::first);
        let mut stopped: Vec<_> = ids(recorded, "stopped").map(LeaseId).collect();
        stopped.sort_unstable();
        let finalizing = ids(recorded, "finalizing").map(BatchId).collect();
        Ok(Reply { folds: folds.collect(), claimed, finalizing, stopped })
    }

    /// What the rows say of the turn's leases; none for one that is gone or another's.
    async fn read_beliefs(&self, turn: &Turn) -> Result<Vec<Option<Belief>>> {
        let ids: Vec<Uuid> = turn.outcomes.iter().map(|outcomes| outcomes.held.id.0).collect();
        let params: [Param<'_>; 2] = [(&ids, Type::UUID_ARRAY), (&turn.instance.0, Type::UUID)];
        let found = self.db.rows(sql!("record/read_held"), &params).await?;
        let mut actual = BTreeMap::new();
        for row in &found {
            let held = LeaseProof {
                id: LeaseId(row.get("id")),
                token: rows::count(row, "token"),
                version: rows::small(row, "version"),
                outstanding: rows::read::<LineSet>(row, "lines")?,
            };
            actual.insert(held.id, Belief { held, text: row.get("lines") });
        }
        let same = |outcomes: &Outcomes| {
            let belief = actual.remove(&outcomes.held.id)?;
            (belief.held.token == outcomes.held.token).then_some(belief)
        };
        Ok(turn.outcomes.iter().map(same).collect())
    }
}

/// A column of ids; none when nothing was recorded.
fn ids(recorded: Option<&Row>, column: &str) -> impl Iterator<Item = Uuid> {
    let ids: Option<Vec<Uuid>> = recorded.map(|row| row.get(column));
    ids.unwrap_or_default().into_iter()
}

/// What became of one lease. A plan that writes nothing leaves the lease as it is.
fn fold(outcomes: &Outcomes, plan: Option<(&Belief, Plan<'_>)>) -> Fold {
    let lease = outcomes.held.id;
    let Some((Belief { held, .. }, plan)) = plan else {
        return Fold::Lost { lease };
    };
    let version = held.version + u32::from(!plan.is_empty());
    let (id, token, outstanding) = (held.id, held.token, plan.remaining);
    let held = (!outstanding.is_empty()).then_some(LeaseProof { id, token, version, outstanding });
    Fold::Kept { lease, held, ignored: plan.ignored }
}

/// The plans of a turn as parallel arrays: leases (sorted), results, history, returned sets.
#[derive(Default)]
struct Arrays<'a> {
    leases: Vec<Uuid>,
    tokens: Vec<i64>,
    versions: Vec<i32>,
    texts: Vec<&'a str>,
    rests: Vec<String>,
    rest_sizes: Vec<i32>,
    statuses: [Vec<i32>; 4],
    result_leases: Vec<i32>,
    result_lines: Vec<i64>,
    result_seqs: Vec<i64>,
    result_statuses: Vec<i16>,
    result_attempts: Vec<i32>,
    result_https: Vec<Option<i16>>,
    result_customs: Vec<Option<Cow<'a, str>>>,
    result_codes: Vec<Option<Cow<'a, str>>>,
    result_errors: Vec<Option<Cow<'a, str>>>,
    result_responses: Vec<Option<&'a [u8]>>,
    result_shapeds: Vec<Option<Cow<'a, str>>>,
    result_normaliseds: Vec<Option<Cow<'a, str>>>,
    result_classes: Vec<Option<&'static str>>,
    again_leases: Vec<i32>,
    again_lines: Vec<i64>,
    again_classes: Vec<&'static str>,
    again_codes: Vec<Cow<'a, str>>,
    again_errors: Vec<Cow<'a, str>>,
    again_times: Vec<Timestamp>,
    back_leases: Vec<i32>,
    back_trieds: Vec<bool>,
    back_times: Vec<Option<Timestamp>>,
    back_lines: Vec<String>,
    back_sizes: Vec<i32>,
}

impl<'a> Arrays<'a> {
    fn of(writes: &[&(&'a Belief, Plan<'a>)]) -> Self {
        let mut arrays = Self::default();
        for (position, (belief, plan)) in (1..).zip(writes) {
            arrays.add_lease(belief, plan);
            arrays.add_results(position, plan);
            arrays.add_returns(position, plan);
        }
        arrays
    }

    fn add_lease(&mut self, belief: &'a Belief, plan: &Plan<'_>) {
        let held = &belief.held;
        self.texts.push(&belief.text);
        self.leases.push(held.id.0);
        self.tokens.push(held.token.cast_signed());
        self.versions.push(held.version.cast_signed());
        self.rests.push(plan.remaining.to_string());
        self.rest_sizes.push(size(&plan.remaining));
        for (counts, count) in self.statuses.iter_mut().zip(plan.statuses) {
            counts.push(i32::try_from(count).expect("bounded by TRANCHE_LINES_MAX"));
        }
    }

    fn add_results(&mut self, position: i32, plan: &Plan<'a>) {
        for line in &plan.finished {
            self.result_leases.push(position);
            self.result_lines.push(line.line.cast_signed());
            self.result_seqs.push(line.seq.cast_signed());
            self.result_statuses.push(line.status.code());
            self.result_attempts.push(line.attempts.cast_signed());
            self.result_https.push(line.http_status.map(u16::cast_signed));
            self.result_customs.push(line.custom_id.as_deref().map(without_nul));
            self.result_codes.push(line.error_code.as_deref().map(without_nul));
            self.result_errors.push(line.error.as_deref().map(without_nul));
            self.result_responses.push(line.response.as_deref());
            self.result_shapeds.push(line.shaped.as_deref().map(without_nul));
            self.result_normaliseds.push(line.normalised.as_deref().map(without_nul));
            self.result_classes.push(line.class.map(Class::as_str));
        }
    }

    fn add_returns(&mut self, position: i32, plan: &Plan<'a>) {
        for line in &plan.again {
            self.again_leases.push(position);
            self.again_lines.push(line.line.cast_signed());
            self.again_classes.push(line.class.as_str());
            self.again_codes.push(without_nul(&line.error_code));
            self.again_errors.push(without_nul(&line.error));
            self.again_times.push(line.not_before);
        }
        for back in &plan.backs {
            self.back_leases.push(position);
            self.back_trieds.push(back.tried);
            self.back_times.push(back.not_before);
            self.back_lines.push(back.lines.to_string());
            self.back_sizes.push(size(&back.lines));
        }
    }

    /// In the order of `sql/record/record.sql`: the call is written from this list.
    fn params<'b>(
        &'b self,
        now: &'b Option<Timestamp>,
        instance: &'b Uuid,
        claim_targets: &'b &'b [&'b str],
    ) -> Vec<Param<'b>> {
        let [completed, failed, not_found, skipped] = &self.statuses;
        vec![
            (now, Type::TIMESTAMPTZ),
            (instance, Type::UUID),
            (claim_targets, Type::TEXT_ARRAY),
            (&ENTRIES_MAX, Type::INT4),
            (&self.leases, Type::UUID_ARRAY),
            (&self.tokens, Type::INT8_ARRAY),
            (&self.versions, Type::INT4_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
            (&self.rests, Type::TEXT_ARRAY),
            (&self.rest_sizes, Type::INT4_ARRAY),
            (completed, Type::INT4_ARRAY),
            (failed, Type::INT4_ARRAY),
            (not_found, Type::INT4_ARRAY),
            (skipped, Type::INT4_ARRAY),
            (&self.result_leases, Type::INT4_ARRAY),
            (&self.result_lines, Type::INT8_ARRAY),
            (&self.result_seqs, Type::INT8_ARRAY),
            (&self.result_statuses, Type::INT2_ARRAY),
            (&self.result_attempts, Type::INT4_ARRAY),
            (&self.result_https, Type::INT2_ARRAY),
            (&self.result_customs, Type::TEXT_ARRAY),
            (&self.result_codes, Type::TEXT_ARRAY),
            (&self.result_errors, Type::TEXT_ARRAY),
            (&self.result_responses, Type::BYTEA_ARRAY),
            (&self.result_shapeds, Type::TEXT_ARRAY),
            (&self.result_normaliseds, Type::TEXT_ARRAY),
            (&self.result_classes, Type::TEXT_ARRAY),
            (&self.again_leases, Type::INT4_ARRAY),
            (&self.again_lines, Type::INT8_ARRAY),
            (&self.again_classes, Type::TEXT_ARRAY),
            (&self.again_codes, Type::TEXT_ARRAY),
            (&self.again_errors, Type::TEXT_ARRAY),
            (&self.again_times, Type::TIMESTAMPTZ_ARRAY),
            (&self.back_leases, Type::INT4_ARRAY),
            (&self.back_trieds, Type::BOOL_ARRAY),
            (&self.back_times, Type::TIMESTAMPTZ_ARRAY),
            (&self.back_lines, Type::TEXT_ARRAY),
            (&self.back_sizes, Type::INT4_ARRAY),
        ]
    }
}

/// As the database wants it.
const ENTRIES_MAX: i32 = ATTEMPT_ENTRIES_MAX.cast_signed();

fn size(lines: &LineSet) -> i32 {
    i32::try_from(lines.len()).expect("bounded by TRANCHE_LINES_MAX")
}
