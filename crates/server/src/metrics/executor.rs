//! An executor that counts its attempts by target and outcome.

use async_trait::async_trait;
use windrow_domain::attempt::Class;
use windrow_engine::execute::{Attempt, Executor, Outcome, Verdict};

use super::{AttemptLabels, Metrics, OutcomeLabel};

/// An executor whose attempts are counted.
pub struct Counted<E> {
    inner: E,
    metrics: Metrics,
}

impl<E> Counted<E> {
    pub(super) fn new(inner: E, metrics: Metrics) -> Self {
        Self { inner, metrics }
    }
}

#[async_trait]
impl<E: Executor> Executor for Counted<E> {
    async fn execute(&self, attempt: Attempt) -> Outcome {
        let target = self.metrics.label(attempt.target.as_str());
        let upstream = self.metrics.label(attempt.upstream.as_str());
        let instruments = &self.metrics.0;
        let began = instruments.clock.elapsed();
        let tried = self.inner.execute(attempt).await;
        if tried.verdict == Verdict::Withdrawn {
            return tried;
        }
        let took = instruments.clock.elapsed().saturating_sub(began);
        instruments.request_seconds.observe(took.as_secs_f64());
        let outcome = match &tried.verdict {
            Verdict::Completed => OutcomeLabel::completed,
            Verdict::Skipped(_) | Verdict::Withdrawn => OutcomeLabel::skipped,
            Verdict::Failed(failure) => match failure.class {
                Class::Throttled => OutcomeLabel::throttled,
                Class::NotFound => OutcomeLabel::not_found,
                _ => OutcomeLabel::failed,
            },
        };
        let throttled = matches!(outcome, OutcomeLabel::throttled);
        instruments.rates.observe_attempt(upstream, throttled, instruments.clock.millis());
        instruments.requests.get_or_create(&AttemptLabels { target, outcome }).inc();
        tried
    }

    fn inner(&self) -> Option<&dyn Executor> {
        Some(&self.inner)
    }
}
