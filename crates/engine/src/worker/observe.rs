//! The worker watches its own process: it shows how its targets do, claims less under load, and gives lines
//! back when memory runs out.

use std::collections::HashMap;

use super::Worker;
use crate::progress::TargetProgress;

/// How often CPU and memory are read, and the progress of targets is noted.
const OBSERVE_MS: u64 = 500;

impl Worker {
    /// Looks at the load of this process, and notes how the targets do.
    pub(super) fn observe_process(&mut self, now: u64) {
        if now < self.observe_process_ms {
            return;
        }
        self.observe_process_ms = now.saturating_add(OBSERVE_MS);
        if let Some((cpu, memory_bytes)) = self.load.sample(now) {
            let before = self.pressure.stop();
            self.pressure.observe(cpu, memory_bytes);
            if !before && self.pressure.stop() {
                self.relieve(memory_bytes, now);
            }
        }
        let targets = self.queues.iter().map(|queue| TargetProgress {
            upstream: queue.route.upstream.clone(),
            target: queue.route.target.clone(),
            in_flight: queue.in_flight,
            limit: queue.limit(),
            waiting: u32::try_from(queue.jobs.len() + queue.suspects.len()).unwrap_or(u32::MAX),
            breaker: queue.breaker(now),
            open_ms: queue.open_ms(now),
            item_micros: queue.slice.item_ms().map_or(0, micros),
        });
        self.deps.meter.set_targets(targets.collect(), self.in_flight_max());
    }

    /// Most in flight now: the sum of what targets may have, no more for each host than it may.
    fn in_flight_max(&self) -> u64 {
        let mut by_host = HashMap::<&str, u64>::new();
        for queue in &self.queues {
            *by_host.entry(&queue.host).or_default() += u64::from(queue.limit());
        }
        let capped = by_host.into_iter().map(|(name, limits)| {
            let most = self.hosts.get(name).map_or(u64::MAX, |host| host.in_flight_max().into());
            limits.min(most)
        });
        capped.sum()
    }

    /// Far too much memory: what waits here goes back, so that others may run it.
    fn relieve(&mut self, memory_bytes: u64, now: u64) {
        let most = self.deps.options.pressure.memory_bytes_max;
        tracing::warn!(
            memory_bytes,
            most,
            "this process uses far more memory than it should; lines run one at a time"
        );
        for at in 0..self.queues.len() {
            self.release_queue(at, now);
        }
    }

    /// Too much memory to claim while anything is still here.
    pub(super) fn is_choked(&self) -> bool {
        let waiting = || self.queues.iter().any(|queue| !queue.has_no_jobs());
        self.pressure.stop() && (!self.running.is_empty() || waiting())
    }
}

/// Whole microseconds of so many milliseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn micros(ms: f64) -> u64 {
    (ms * 1000.0) as u64
}
