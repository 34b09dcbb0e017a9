//! Rates and averages of late, as gauges: what a dashboard shows without computing anything.
//!
//! Holds throughout: a rate fades with a half-life of [`Fading::HALF_LIFE_MS`]; a share is of what ended of
//! late, and 0 when nothing did; labels are bounded as those of all other metrics are. The counters beside
//! them (`windrow_items_total`, …) are for those who compute their own.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use windrow_domain::attempt::Status;
use windrow_domain::control::{Ewma, Fading};
use windrow_engine::TargetProgress;
use windrow_store::Gauges;

use super::{TargetLabel, VerbLabel};

/// The share of a new sample in an average.
const WEIGHT: f64 = 0.1;
/// Store calls whose time tells how the database does: those that write lines and outcomes.
const WRITES: [&str; 3] = ["add_lines", "turn", "turn_claim"];

type RealGauge = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabel {
    upstream: String,
}

/// The rates of one process.
#[derive(Default)]
pub(super) struct Rates {
    seen: Mutex<Seen>,
    ingest_ms: RealGauge,
    items_sec: RealGauge,
    error_rate: RealGauge,
    not_found_rate: RealGauge,
    db_latency: Family<VerbLabel, RealGauge>,
    pool_wait_ms: RealGauge,
    throttle_rate: Family<UpstreamLabel, RealGauge>,
    item_ms: Family<TargetLabel, RealGauge>,
}

/// What was seen of late.
#[derive(Default)]
struct Seen {
    ingest_ms: Ewma,
    finished: Fading,
    failed: Fading,
    not_found: Fading,
    /// Milliseconds of a call, by verb.
    writes: HashMap<&'static str, Ewma>,
    /// Attempts, and those of them that were throttled, by the label of their upstream.
    attempts: HashMap<String, (Fading, Fading)>,
    /// What the pool had counted at the last scrape: acquisitions, and microseconds of waiting.
    pool: (u64, u64),
    pool_wait_ms: Ewma,
}

impl Rates {
    pub(super) fn register(&self, registry: &mut Registry) {
        let mut real = |name: &str, help: &str, gauge: &RealGauge| {
            registry.register(name, help, gauge.clone());
        };
        real("ingest_ms", "Average time that a file took to come in", &self.ingest_ms);
        real("items_sec", "Lines finished in a second, of late", &self.items_sec);
        real("error_rate", "Share of the lines finished of late that failed", &self.error_rate);
        let help = "Share of the lines finished of late that were not found";
        real("not_found_rate", help, &self.not_found_rate);
        let help = "Average time that a call waited for the pool, between the last two scrapes that saw any";
        real("pool_wait_ms", help, &self.pool_wait_ms);
        let help = "Average time of a writing call of the store, in milliseconds";
        registry.register("db_latency_ewma", help, self.db_latency.clone());
        let help = "Share of the attempts of late that an upstream answered with 429";
        registry.register("api_throttle_rate", help, self.throttle_rate.clone());
        let help = "Average time that a line takes, in milliseconds, however many are in flight";
        registry.register("item_ms_ewma", help, self.item_ms.clone());
    }

    pub(super) fn observe_ingest(&self, took: Duration) {
        self.seen.lock().ingest_ms.observe(took.as_secs_f64() * 1000.0, WEIGHT);
    }

    pub(super) fn observe_call(&self, verb: &'static str, took: Duration) {
        if WRITES.contains(&verb) {
            let mut seen = self.seen.lock();
            seen.writes.entry(verb).or_default().observe(took.as_secs_f64() * 1000.0, WEIGHT);
        }
    }

    /// So many lines finished with that status.
    pub(super) fn observe_items(&self, status: Status, count: u64, now_ms: u64) {
        let mut seen = self.seen.lock();
        let count = u32::try_from(count).map_or(f64::from(u32::MAX), f64::from);
        seen.finished.add(count, now_ms);
        match status {
            Status::Failed => seen.failed.add(count, now_ms),
            Status::NotFound => seen.not_found.add(count, now_ms),
            Status::Completed | Status::Skipped => {}
        }
    }

    /// An attempt at an upstream ended; `upstream` is its label.
    pub(super) fn observe_attempt(&self, upstream: String, throttled: bool, now_ms: u64) {
        let mut seen = self.seen.lock();
        let (all, refused) = seen.attempts.entry(upstream).or_default();
        all.add(1.0, now_ms);
        refused.add(f64::from(u8::from(throttled)), now_ms);
    }

    /// Writes the gauges, for a scrape.
    pub(super) fn read(&self, now_ms: u64, gauges: &Gauges) {
        let seen = &mut *self.seen.lock();
        self.ingest_ms.set(seen.ingest_ms.get().unwrap_or(0.0));
        self.items_sec.set(seen.finished.per_sec(now_ms));
        let share = |part: &Fading, whole: &Fading| match whole.amount(now_ms) {
            all if all > f64::MIN_POSITIVE => (part.amount(now_ms) / all).min(1.0),
            _ => 0.0,
        };
        self.error_rate.set(share(&seen.failed, &seen.finished));
        self.not_found_rate.set(share(&seen.not_found, &seen.finished));
        for (verb, latency) in &seen.writes {
            let gauge = self.db_latency.get_or_create(&VerbLabel { verb });
            gauge.set(latency.get().unwrap_or(0.0));
        }
        for (upstream, (all, throttled)) in &seen.attempts {
            let label = UpstreamLabel { upstream: upstream.clone() };
            self.throttle_rate.get_or_create(&label).set(share(throttled, all));
        }
        let (acquired, waited) = (gauges.pool_waits, gauges.pool_wait_micros);
        let calls = acquired.saturating_sub(seen.pool.0);
        if calls > 0 {
            let waited = Duration::from_micros(waited.saturating_sub(seen.pool.1));
            let calls = u32::try_from(calls).unwrap_or(u32::MAX);
            seen.pool_wait_ms.observe(waited.as_secs_f64() * 1000.0 / f64::from(calls), 1.0);
            seen.pool = (gauges.pool_waits, gauges.pool_wait_micros);
        }
        self.pool_wait_ms.set(seen.pool_wait_ms.get().unwrap_or(0.0));
    }

    /// Writes what a line of that target takes.
    pub(super) fn read_target(&self, label: TargetLabel, target: &TargetProgress) {
        let micros = u32::try_from(target.item_micros).unwrap_or(u32::MAX);
        self.item_ms.get_or_create(&label).set(f64::from(micros) / 1000.0);
    }
}
