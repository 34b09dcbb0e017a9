//! The executor, counted: tries by target and outcome.

use async_trait::async_trait;
use windrow_domain::Target;
use windrow_domain::attempt::Class;
use windrow_engine::execute::{Call, Executor, Limits, Tried, Verdict};

use super::{Metrics, Outcome, Tried as Labels};

/// An executor whose tries are counted.
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
    async fn execute(&self, call: Call) -> Tried {
        let target = self.metrics.named(call.target.as_str());
        let numbers = &self.metrics.0;
        let began = numbers.clock.elapsed();
        let tried = self.inner.execute(call).await;
        let took = numbers.clock.elapsed().saturating_sub(began);
        numbers.request_seconds.observe(took.as_secs_f64());
        let outcome = match &tried.verdict {
            Verdict::Completed => Outcome::completed,
            Verdict::Skipped(_) => Outcome::skipped,
            Verdict::Failed(failure) => match failure.class {
                Class::Throttled => Outcome::throttled,
                Class::NotFound => Outcome::not_found,
                _ => Outcome::failed,
            },
        };
        numbers.requests.get_or_create(&Labels { target, outcome }).inc();
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
