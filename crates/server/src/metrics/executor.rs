//! An executor that counts its attempts by target and outcome.

use async_trait::async_trait;
use windrow_domain::Target;
use windrow_domain::attempt::Class;
use windrow_engine::execute::{Attempt, Executor, Limits, Outcome, Verdict};

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
        let target = self.metrics.target_label(attempt.target.as_str());
        let instruments = &self.metrics.0;
        let began = instruments.clock.elapsed();
        let tried = self.inner.execute(attempt).await;
        let took = instruments.clock.elapsed().saturating_sub(began);
        instruments.request_seconds.observe(took.as_secs_f64());
        let outcome = match &tried.verdict {
            Verdict::Completed => OutcomeLabel::completed,
            Verdict::Skipped(_) => OutcomeLabel::skipped,
            Verdict::Failed(failure) => match failure.class {
                Class::Throttled => OutcomeLabel::throttled,
                Class::NotFound => OutcomeLabel::not_found,
                _ => OutcomeLabel::failed,
            },
        };
        instruments.requests.get_or_create(&AttemptLabels { target, outcome }).inc();
        tried
    }

    fn serves(&self, target: &Target) -> bool {
        self.inner.serves(target)
    }

    fn limits(&self, target: &Target) -> Limits {
        self.inner.limits(target)
    }

    fn host(&self, target: &Target) -> String {
        self.inner.host(target)
    }
}
