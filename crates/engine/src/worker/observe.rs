//! The worker watches its own process: it shows how its targets do, claims less under load, and gives lines
//! back when memory runs out.

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
        if let Some((cpu, memory_bytes)) = self.load.look(now) {
            let before = self.pressure.stop();
            self.pressure.observe(cpu, memory_bytes);
            if !before && self.pressure.stop() {
                self.relieve(memory_bytes, now);
            }
        }
        let targets = self.queues.iter().map(|queue| TargetProgress {
            target: queue.target.clone(),
            in_flight: queue.in_flight,
            limit: queue.limit(),
            waiting: u32::try_from(queue.jobs.len()).unwrap_or(u32::MAX),
            breaker: queue.breaker(now),
            open_ms: queue.open_ms(now),
        });
        self.deps.meter.set_targets(targets.collect());
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
        let waiting = || self.queues.iter().any(|queue| !queue.jobs.is_empty());
        self.pressure.stop() && (!self.running.is_empty() || waiting())
    }
}
