//! Metrics of messages, for Prometheus.
//!
//! Holds throughout: a scrape makes the database count at most twice a minute; a label has few values:
//! methods are those that the database lists, up to its bound.

use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use windrow_domain::{CallState, Queue};
use windrow_store::Scope;
use windrow_store::call::{CallStats, StatsQuery};
use windrow_store::message::Backlog;
use windrow_store::partition::Partition;

use super::calls::{OLD_MS, WINDOW_MS};
use super::state::Messages;
use crate::app::App;

/// How long a count is good for.
const COUNT_MS: u64 = 30_000;

type Real = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    queue: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQuantile {
    quantile: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMethod {
    object_type: String,
    method: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTable {
    table: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCount {
    what: &'static str,
}

/// Gauges that are read at a scrape.
#[derive(Default)]
pub(crate) struct MessageGauges {
    /// When the database counts again.
    until_ms: Mutex<u64>,
    backlog: Family<OfQueue, Gauge>,
    oldest_secs: Family<OfQueue, Real>,
    dead: Family<OfQueue, Gauge>,
    calls: Family<OfState, Gauge>,
    pending_age_secs: Real,
    pending_old: Gauge,
    stuck: Gauge,
    call_secs: Family<OfQuantile, Real>,
    failure_rate: Real,
    retries_mean: Family<OfMethod, Real>,
    rows: Family<OfTable, Gauge>,
    bytes: Gauge,
    partitions: Family<OfState, Gauge>,
    runner: Family<OfCount, Gauge>,
}

impl MessageGauges {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let family = |registry: &mut Registry, name, help, gauges: &Family<OfQueue, Gauge>| {
            registry.register(name, help, gauges.clone());
        };
        let help = "Messages that wait, by queue; counted at most twice a minute";
        family(registry, "messages_backlog", help, &self.backlog);
        let help = "Age of the oldest message that waits";
        registry.register("messages_oldest_seconds", help, self.oldest_secs.clone());
        family(registry, "dead_letters", "Messages that were given up on", &self.dead);
        let help = "Calls by state, of the last hour; pending and processing ones of any time";
        registry.register("calls", help, self.calls.clone());
        let help = "Age of the oldest call that is pending";
        registry.register("calls_pending_age_seconds", help, self.pending_age_secs.clone());
        let help = "Pending calls that are older than a minute";
        registry.register("calls_pending_old", help, self.pending_old.clone());
        let help = "Calls that have been processing for more than a minute";
        registry.register("calls_stuck", help, self.stuck.clone());
        let help = "From question to answer, of calls answered within the last hour";
        registry.register("call_answer_seconds", help, self.call_secs.clone());
        let help = "Share of the calls answered within the last hour that failed";
        registry.register("calls_failure_rate", help, self.failure_rate.clone());
        let help = "How often a call is repeated, on average";
        registry.register("calls_retries_mean", help, self.retries_mean.clone());
        registry.register("calls_rows", "Calls that are kept, by table", self.rows.clone());
        registry.register("calls_bytes", "What calls take on disk", self.bytes.clone());
        let help = "Partitions, by whether a live instance has them";
        registry.register("partitions", help, self.partitions.clone());
        let help = "What the message runner of this process has, and has done";
        registry.register("runner", help, self.runner.clone());
    }

    /// Reads the gauges, and has the database count when it is time.
    pub(crate) async fn read(&self, app: &App) {
        let Ok(messages) = app.messages() else { return };
        self.read_runner(messages);
        if !self.is_due(app.clock.millis()) {
            return;
        }
        let message_store = messages.message_store();
        let window = StatsQuery { window_ms: WINDOW_MS, old_ms: OLD_MS };
        let read = async {
            self.set_backlog(app, &message_store.backlog().await?);
            self.set_calls(&message_store.call_stats(&Scope::All, window).await?);
            self.set_partitions(&message_store.partitions().await?);
            Ok::<_, windrow_store::Error>(())
        };
        // While the database is unavailable the last values stay.
        if let Err(error) = read.await {
            tracing::debug!(error = %windrow_store::error::chain(&error), "could not count messages");
        }
    }

    /// Whether it is time to count; true for only one of concurrent scrapes.
    fn is_due(&self, now_ms: u64) -> bool {
        let mut until_ms = self.until_ms.lock();
        let is_due = now_ms >= *until_ms;
        if is_due {
            *until_ms = now_ms + COUNT_MS;
        }
        is_due
    }

    fn set_backlog(&self, app: &App, backlog: &[Backlog]) {
        for queue in Queue::ALL {
            let of = backlog.iter().find(|backlog| backlog.queue == queue);
            let label = OfQueue { queue: queue.as_str() };
            let age = of.and_then(|of| of.oldest_sent_at);
            let age = age.map(|sent| app.clock.now().duration_since(sent).as_secs_f64().max(0.0));
            self.oldest_secs.get_or_create(&label).set(age.unwrap_or(0.0));
            self.backlog.get_or_create(&label).set(whole(of.map_or(0, |of| of.messages)));
            self.dead.get_or_create(&label).set(whole(of.map_or(0, |of| of.dead)));
        }
    }

    fn set_calls(&self, stats: &CallStats) {
        for state in CallState::ALL {
            let of = stats.by_state.iter().find(|(of, _)| *of == state);
            let label = OfState { state: state.as_str() };
            self.calls.get_or_create(&label).set(whole(of.map_or(0, |(_, calls)| *calls)));
        }
        self.pending_age_secs.set(stats.pending_age_ms.unwrap_or(0) as f64 / 1000.0);
        self.pending_old.set(whole(stats.pending_old));
        self.stuck.set(whole(stats.stuck));
        for (quantile, ms) in
            [("0.5", stats.p50_ms), ("0.95", stats.p95_ms), ("0.99", stats.p99_ms)]
        {
            let secs = ms.map_or(f64::NAN, |ms| ms / 1000.0);
            self.call_secs.get_or_create(&OfQuantile { quantile }).set(secs);
        }
        self.failure_rate.set(stats.failure_rate.unwrap_or(0.0));
        self.retries_mean.clear();
        for of in &stats.retries {
            let label = OfMethod { object_type: of.object_type.clone(), method: of.method.clone() };
            self.retries_mean.get_or_create(&label).set(of.retries_mean);
        }
        self.rows.get_or_create(&OfTable { table: "calls" }).set(whole(stats.rows));
        self.rows.get_or_create(&OfTable { table: "archive" }).set(whole(stats.archived_rows));
        self.bytes.set(whole(stats.bytes.unwrap_or(0)));
    }

    fn set_partitions(&self, partitions: &[Partition]) {
        let owned =
            partitions.iter().filter(|of| of.instance.is_some() && of.is_owner_live).count();
        let set = |state, count: usize| {
            self.partitions.get_or_create(&OfState { state }).set(whole(count as u64));
        };
        set("owned", owned);
        set("unowned", partitions.len() - owned);
    }

    /// Reads the runner of this process, if there is one.
    fn read_runner(&self, messages: &Messages) {
        let Some(gauges) = messages.runner() else { return };
        let counts = [
            ("partitions_owned", gauges.partitions_owned),
            ("partitions_unowned", gauges.partitions_unowned),
            ("messages_held", gauges.messages_held),
            ("streams_in_flight", gauges.streams_in_flight),
            ("done", gauges.done),
            ("retries", gauges.retries),
            ("dead", gauges.dead),
            ("commits", gauges.commits),
            ("commits_unknown", gauges.commits_unknown),
            ("conflicts", gauges.conflicts),
            ("reads", gauges.reads),
            ("lease_losses", gauges.lease_losses),
        ];
        for (what, count) in counts {
            self.runner.get_or_create(&OfCount { what }).set(whole(count));
        }
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
