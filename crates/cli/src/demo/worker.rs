//! A worker: turn after turn, it records what finished and claims what is next.

use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use windrow::domain::attempt::Status;
use windrow::domain::retry::{Decision, Policy};
use windrow::prelude::*;
use windrow::store::claim::Line;
use windrow::store::member::NewMember;
use windrow::store::record::Reply;
use windrow::store::{Error, Retry};

use super::echo::{self, Answer, Asked};
use super::{LEASE_MS, input};
use crate::clock;

const TRANCHE_LINES: u32 = 500;
/// Tries of one turn: the same turn again, which is safe.
const TURN_TRIES_MAX: u32 = 10;
/// How long to wait when what is left is leased to others or waits for its time.
const IDLE: Duration = Duration::from_millis(10);

/// What a worker did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) turns: u64,
    pub(crate) retries: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.retries += other.retries;
    }
}

pub(crate) struct Worker {
    store: Arc<dyn Store>,
    batch: BatchId,
    instance: InstanceId,
    targets: Vec<Target>,
    policy: Policy,
    tally: Tally,
}

impl Worker {
    pub(crate) fn new(store: Arc<dyn Store>, batch: BatchId) -> anyhow::Result<Self> {
        let targets = input::MODELS.iter().map(|model| Target::new(*model));
        Ok(Self {
            store,
            batch,
            instance: InstanceId::new(),
            targets: targets.collect::<Result<_, _>>()?,
            policy: Policy { backoff_ms_min: 20, ..Policy::default() },
            tally: Tally::default(),
        })
    }

    pub(crate) async fn run(mut self) -> anyhow::Result<Tally> {
        self.store.register(self.member()).await?;
        let mut outcomes = Vec::new();
        loop {
            let reply = self.turn(std::mem::take(&mut outcomes)).await?;
            match reply.claimed {
                Some(tranche) => outcomes.push(self.execute(tranche)?),
                None if self.is_over().await? => break,
                None => clock::pause(IDLE).await,
            }
        }
        self.store.tombstone(self.instance).await?;
        Ok(self.tally)
    }

    fn member(&self) -> NewMember {
        NewMember {
            instance: self.instance,
            service: "demo".to_owned(),
            host: "localhost".to_owned(),
            pid: std::process::id(),
            metadata: "{}".to_owned(),
        }
    }

    /// One turn, repeated as it is when the store says that it may succeed.
    async fn turn(&mut self, outcomes: Vec<Outcomes>) -> Result<Reply, Error> {
        let claim = Request {
            lease: LeaseId::new(),
            targets: self.targets.clone(),
            only: Some(self.batch),
            lines_max: TRANCHE_LINES,
            lease_ms: LEASE_MS,
        };
        let turn = Turn { instance: self.instance, outcomes, claim: Some(claim) };
        let mut tries = 1;
        loop {
            match self.store.turn(turn.clone()).await {
                Err(error) if error.kind.retry() != Retry::Never && tries < TURN_TRIES_MAX => {
                    clock::pause(self.policy.delay(tries, None, 0.5)).await;
                    tries += 1;
                }
                done => {
                    self.tally.turns += 1;
                    return done;
                }
            }
        }
    }

    /// Nothing to claim: because all is done, or because the rest is not due or held by others.
    async fn is_over(&self) -> Result<bool, Error> {
        Ok(!self.store.batch(&Scope::All, self.batch).await?.state.is_running())
    }

    fn execute(&mut self, tranche: Tranche) -> anyhow::Result<Outcomes> {
        let attempt = tranche.lease.attempts + 1;
        let mut outcomes = Outcomes::of(tranche.lease.held);
        for line in &tranche.lines {
            let asked: Asked<'_> = serde_json::from_slice(&line.raw)
                .with_context(|| format!("line {} was valid when it came in", line.line))?;
            self.judge(line, &asked, attempt, &mut outcomes);
        }
        Ok(outcomes)
    }

    fn judge(&mut self, line: &Line, asked: &Asked<'_>, attempt: u32, outcomes: &mut Outcomes) {
        let mut result = Finished::bare(line.seq, line.line, Status::Completed, attempt);
        result.custom_id = Some(asked.custom_id.clone());
        match echo::answer(asked, line.line, attempt) {
            Answer::Good { http_status, body } => {
                result.http_status = Some(http_status);
                result.response = Some(body.into());
            }
            Answer::Skip => {
                result.status = Status::Skipped;
                result.attempts = attempt - 1;
            }
            Answer::Bad { http_status, failure } => {
                let roll = f64::from(u8::try_from(line.line % 97).unwrap_or(0)) / 97.0;
                match self.policy.decide(attempt, &failure, clock::now(), roll) {
                    Decision::Again { not_before } => {
                        self.tally.retries += 1;
                        outcomes.again.push(Again {
                            seq: line.seq,
                            line: line.line,
                            not_before,
                            class: failure.class,
                            error_code: failure.code,
                            error: failure.message,
                        });
                        return;
                    }
                    Decision::GiveUp(status) => {
                        result.status = status;
                        result.http_status = Some(http_status);
                        result.error_code = Some(failure.code);
                        result.error = Some(failure.message);
                    }
                }
            }
        }
        outcomes.finished.push(result);
    }
}
