//! Executing: a leased line becomes the outcome of one attempt.
//!
//! Holds throughout: an executor never touches the store; a refused, slow or missing upstream is
//! data ([`Verdict::Failed`]), never an error that climbs; dropping the future ends the attempt.

mod gate;
pub mod http;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use windrow_domain::attempt::Failure;
use windrow_domain::control::{breaker, concurrency, pace};
use windrow_domain::retry;
use windrow_domain::strategy::Misses;
use windrow_domain::upstream::MarkSecret;
use windrow_domain::{BatchId, LaneNo, Route, Target, UpstreamId};
use windrow_store::upstream::Upstream;

use crate::row_job::RowJob;
pub use gate::Gate;

/// One attempt of one line.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The batch it belongs to.
    pub batch: BatchId,
    /// The upstream that the line was claimed for: it goes there or nowhere.
    pub upstream: UpstreamId,
    /// The target that the line goes to.
    pub target: Target,
    /// Its lane in the file.
    pub lane: LaneNo,
    /// Its number in the file, from 1.
    pub line: u64,
    /// Its exact bytes, as they came in.
    pub raw: Bytes,
    /// Which attempt in this generation of the batch, from 1.
    pub number: u32,
    /// Attempts behind it, over all generations.
    pub tried: u32,
    /// How many of those got a definitive answer: anything but a failed connection or a timeout.
    pub answered: u32,
    /// What a row of a table is asked for; none for a line that is a request.
    pub row: Option<RowTask>,
    /// Asked directly before the line is sent, after every wait: closed, it must not be.
    pub gate: Gate,
}

impl Attempt {
    /// The `Idempotency-Key` of this attempt: `<batch>:<line>:<n>`. After a crash, a failed
    /// connection or a timeout it is the same again, since the target may have done the work; `n`
    /// rises with every definitive answer, so that a bad one is not replayed.
    pub fn key(&self) -> String {
        self.key_of(self.answered)
    }

    /// The key when every attempt sends another request (variants): `n` rises with every attempt.
    pub fn key_of_variant(&self) -> String {
        self.key_of(self.tried)
    }

    fn key_of(&self, before: u32) -> String {
        format!("{}:{}:{}", self.batch, self.line, u64::from(before) + 1)
    }
}

/// What an attempt of a row needs beside its bytes.
#[derive(Clone, Debug)]
pub struct RowTask {
    /// How rows of its file are read, and what they are asked for.
    pub job: Arc<RowJob>,
    /// What its history says about its strategies.
    pub misses: Misses,
}

impl RowTask {
    /// The strategy that is asked now.
    pub fn strategy(&self) -> usize {
        self.misses.strategy(self.job.recipe.strategies())
    }

    /// The upstream that the strategy names; none when it goes where the batch goes.
    pub fn upstream(&self) -> Option<UpstreamId> {
        UpstreamId::new(self.job.recipe.upstream_of(self.strategy())?).ok()
    }
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The request's own id, when the executor read it.
    pub custom_id: Option<String>,
    /// The HTTP status, when there was one.
    pub http_status: Option<u16>,
    /// The raw body of the answer, when there was one.
    pub body: Option<Bytes>,
    /// The columns that a recipe made of the answer (JSON).
    pub shaped: Option<String>,
    /// What a recipe made of the row before it asked (JSON).
    pub normalised: Option<String>,
    /// Whether the target may have seen the request. When it surely has not (no connection), and its
    /// breaker is open, the attempt does not count. A gateway's 502 or 503 is believed as well, but
    /// not for ever.
    pub reached: bool,
    /// What it means for the line.
    pub verdict: Verdict,
}

/// What an attempt means for its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has its answer.
    Completed,
    /// It has none; the retry policy decides whether it is tried again.
    Failed(Failure),
    /// It was not to be tried; the sentence says why.
    Skipped(String),
    /// Its gate closed before it was sent: it goes back as if it had not begun.
    Withdrawn,
}

impl Outcome {
    /// The line has its answer.
    pub fn completed(body: impl Into<Bytes>) -> Self {
        Self { body: Some(body.into()), ..Self::of(Verdict::Completed) }
    }

    /// The line has no answer.
    pub fn failed(failure: Failure) -> Self {
        Self::of(Verdict::Failed(failure))
    }

    /// The line was not to be tried.
    pub fn skipped(because: impl Into<String>) -> Self {
        Self::of(Verdict::Skipped(because.into()))
    }

    /// The gate closed before the line was sent.
    pub fn withdrawn() -> Self {
        Self { reached: false, ..Self::of(Verdict::Withdrawn) }
    }

    fn of(verdict: Verdict) -> Self {
        Self {
            custom_id: None,
            http_status: None,
            body: None,
            shaped: None,
            normalised: None,
            reached: true,
            verdict,
        }
    }
}

/// How hard a target may be pressed. Bounds, not constants: the controllers move within them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Bounds of the requests in flight. The most of them is also the most of the target's host, over all its
    /// targets.
    pub concurrency: concurrency::Bounds,
    /// When to stop trying for a while.
    pub breaker: breaker::Bounds,
    /// Requests over time, shared by the targets of one host.
    pub pace: pace::Bounds,
    /// Attempts and waits, in place of the engine's.
    pub retry: retry::Overrides,
}

/// Runs lines. HTTP is one; a program that embeds the engine brings its own.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Makes one attempt of a line.
    async fn execute(&self, attempt: Attempt) -> Outcome;

    /// The executor that this one wraps, if it does: all that follows is then as the wrapped one says.
    fn inner(&self) -> Option<&dyn Executor> {
        None
    }

    /// The upstreams that it serves. Lines of others are never claimed. By default it is the program's
    /// own executor, for batches that name no upstream.
    fn upstreams(&self) -> Vec<UpstreamId> {
        self.inner().map_or_else(|| vec![UpstreamId::own()], |inner| inner.upstreams())
    }

    /// Whether it knows what to do with lines of that target of an upstream that it serves. Others
    /// are never claimed.
    fn serves(&self, route: &Route) -> bool {
        self.inner().is_none_or(|inner| inner.serves(route))
    }

    /// Where lines of that target go when the upstream of their batch is not known: the first claim
    /// binds them to it. None leaves them to other processes.
    fn binds(&self, target: &Target) -> Option<UpstreamId> {
        if let Some(inner) = self.inner() {
            return inner.binds(target);
        }
        let upstreams = self.upstreams();
        let mut routes = upstreams.iter().map(|id| Route::new(id.clone(), target.clone()));
        routes.find(|route| self.serves(route)).map(|route| route.upstream)
    }

    /// What the database is to know of the upstreams, with marks of their keys made with its secret.
    /// A process that differs from what is known of an upstream claims nothing of it.
    fn registrations(&self, secret: &MarkSecret) -> Vec<Upstream> {
        self.inner().map(|inner| inner.registrations(secret)).unwrap_or_default()
    }

    /// How hard that target may be pressed.
    fn limits(&self, route: &Route) -> Limits {
        self.inner().map(|inner| inner.limits(route)).unwrap_or_default()
    }

    /// Whose slots, rate and connections the target shares: targets of one host are bounded together.
    fn host(&self, route: &Route) -> String {
        let own = || route.target.as_str().to_owned();
        self.inner().map_or_else(own, |inner| inner.host(route))
    }
}

/// An async function is an executor.
#[async_trait]
impl<F, T> Executor for F
where
    F: Fn(Attempt) -> T + Send + Sync + 'static,
    T: Future<Output = Outcome> + Send,
{
    async fn execute(&self, attempt: Attempt) -> Outcome {
        self(attempt).await
    }
}

#[async_trait]
impl Executor for Arc<dyn Executor> {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        (**self).execute(attempt).await
    }

    fn inner(&self) -> Option<&dyn Executor> {
        Some(&**self)
    }
}
