//! Executing: a leased line becomes the outcome of one try.
//!
//! Holds throughout: an executor never touches the store; a refused, slow or missing upstream is
//! data ([`Verdict::Failed`]), never an error that climbs; dropping the future ends the attempt.

pub mod http;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use windrow_domain::attempt::Failure;
use windrow_domain::control::{breaker, concurrency, pace};
use windrow_domain::{BatchId, LaneNo, Target};

/// One try of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The batch it belongs to.
    pub batch: BatchId,
    /// Where it goes.
    pub target: Target,
    /// Its lane in the file.
    pub lane: LaneNo,
    /// Its number in the file, from 1.
    pub line: u64,
    /// Its exact bytes, as they came in.
    pub raw: Bytes,
    /// Which attempt in this generation of the batch, from 1.
    pub number: u32,
    /// Tries behind it, over all generations.
    pub tried: u32,
    /// How many of those got a definitive answer: anything but a failed connection or a timeout.
    pub answered: u32,
}

impl Attempt {
    /// The `Idempotency-Key` of this try: `<batch>:<line>:<n>`. After a crash, a failed connection
    /// or a timeout it is the same again, since the target may have done the work; `n`
    /// rises with every definitive answer, so that a bad one is not replayed.
    pub fn key(&self) -> String {
        self.key_of(self.answered)
    }

    /// The key when every try sends another request (variants): `n` rises with every try.
    pub fn key_of_variant(&self) -> String {
        self.key_of(self.tried)
    }

    fn key_of(&self, before: u32) -> String {
        format!("{}:{}:{}", self.batch, self.line, u64::from(before) + 1)
    }
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The request's own id, when the executor read it.
    pub custom_id: Option<String>,
    /// The HTTP status, when there was one.
    pub http_status: Option<u16>,
    /// The raw body of the answer, when there was one.
    pub body: Option<Bytes>,
    /// Whether the target may have seen the request. When it surely has not (no connection), and its
    /// breaker is open, the try does not count. A gateway's 502 or 503 is believed as well, but not
    /// for ever.
    pub reached: bool,
    /// What it means for the line.
    pub verdict: Verdict,
}

/// What a try means for its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has its answer.
    Completed,
    /// It has none; the retry policy decides whether it is tried again.
    Failed(Failure),
    /// It was not to be tried; the sentence says why.
    Skipped(String),
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

    fn of(verdict: Verdict) -> Self {
        Self { custom_id: None, http_status: None, body: None, reached: true, verdict }
    }
}

/// How hard a target may be pressed. Bounds, not constants: the controllers move within them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Requests in flight.
    pub concurrency: concurrency::Bounds,
    /// When to stop trying for a while.
    pub breaker: breaker::Bounds,
    /// Requests over time, shared by the targets of one host.
    pub pace: pace::Bounds,
}

/// Runs lines. HTTP is one; a program that embeds the engine brings its own.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// Tries a line once.
    async fn execute(&self, attempt: Attempt) -> Outcome;

    /// Whether it knows what to do with lines of that target. Others are never claimed.
    fn serves(&self, _target: &Target) -> bool {
        true
    }

    /// How hard that target may be pressed.
    fn limits(&self, _target: &Target) -> Limits {
        Limits::default()
    }

    /// Whose pace the target shares: targets of one host are paced together.
    fn host(&self, target: &Target) -> String {
        target.as_str().to_owned()
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

    fn serves(&self, target: &Target) -> bool {
        (**self).serves(target)
    }

    fn limits(&self, target: &Target) -> Limits {
        (**self).limits(target)
    }

    fn host(&self, target: &Target) -> String {
        (**self).host(target)
    }
}
