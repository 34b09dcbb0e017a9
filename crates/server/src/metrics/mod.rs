//! Metrics for Prometheus, counted where they happen.
//!
//! Holds throughout: a label has few values (verbs, statuses, codes, targets of this process up to a
//! bound); a scrape makes the database count at most twice a minute.

mod executor;
mod pending;
mod process;
mod rates;
mod store;
mod text;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use windrow_domain::control::breaker;
use windrow_engine::TargetProgress;
use windrow_engine::clock::Clock;
use windrow_engine::execute::Executor;
use windrow_store::batch::Batch;
use windrow_store::layer::LayeredStore;
use windrow_store::{Gauges, Store};

use crate::app::App;
use crate::error::{Error, Result};
use crate::messages::gauges::MessageGauges;
use crate::openapi::error_responses::InternalError;

pub use executor::Counted;
use pending::{Pending, PendingCounts};
use process::ProcessMetrics;
use rates::Rates;
use store::Timed;

/// Targets and upstreams that are counted by name; the rest is counted as one.
const TARGETS_MAX: usize = 200;

/// The verb of a store call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    verb: &'static str,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OwnerLabel {
    owner: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TargetLabel {
    target: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    target: String,
    outcome: OutcomeLabel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "they are written as they are")]
enum OutcomeLabel {
    completed,
    throttled,
    not_found,
    failed,
    skipped,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

/// The metrics of one process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Instruments>);

struct Instruments {
    registry: Registry,
    clock: Clock,
    pending: Pending,
    /// Targets and upstreams that are counted by name.
    names: Mutex<HashSet<String>>,
    store_seconds: Family<VerbLabel, Histogram>,
    store_failures: Family<FailureLabels, Counter>,
    items: Family<StatusLabel, Counter>,
    retries: Counter,
    leases_lost: Counter,
    requests: Family<AttemptLabels, Counter>,
    request_seconds: Histogram,
    ingest_seconds: Histogram,
    finalise_seconds: Histogram,
    http: Family<RequestLabels, Counter>,
    http_seconds: Histogram,
    gauges: GaugeSet,
    rates: Rates,
    messages: MessageGauges,
    process: ProcessMetrics,
}

/// Gauges that are read at a scrape.
#[derive(Default)]
struct GaugeSet {
    connections: Family<StatusLabel, Gauge>,
    waiting: Gauge,
    pool_acquires: Counter,
    pool_acquire_seconds: Counter<f64, AtomicU64>,
    /// The names that the two above had before; gone in the next release.
    pool_waits: Gauge,
    pool_wait_micros: Gauge,
    build: Family<BuildLabels, Gauge>,
    in_flight: Family<TargetLabel, Gauge>,
    limit: Family<TargetLabel, Gauge>,
    breaker_open: Family<TargetLabel, Gauge>,
    pending: Gauge,
    /// The same under the word that dashboards have for it.
    queue_depth: Gauge,
    pending_by_owner: Family<OwnerLabel, Gauge>,
}

/// From a tenth of a millisecond to a minute.
fn seconds() -> Histogram {
    let bounds = [
        0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
        10.0, 60.0,
    ];
    Histogram::new(bounds)
}

impl Metrics {
    /// All metrics at zero.
    pub fn new(clock: Clock) -> Self {
        let mut instruments = Instruments {
            registry: Registry::default(),
            clock: clock.clone(),
            pending: Pending::new(clock),
            names: Mutex::default(),
            store_seconds: Family::new_with_constructor(seconds),
            store_failures: Family::default(),
            items: Family::default(),
            retries: Counter::default(),
            leases_lost: Counter::default(),
            requests: Family::default(),
            request_seconds: seconds(),
            ingest_seconds: seconds(),
            finalise_seconds: seconds(),
            http: Family::default(),
            http_seconds: seconds(),
            gauges: GaugeSet::default(),
            rates: Rates::default(),
            messages: MessageGauges::default(),
            process: ProcessMetrics::default(),
        };
        instruments.register();
        Self(Arc::new(instruments))
    }

    /// The store with a layer that times its calls.
    pub fn store(&self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(LayeredStore::new(inner, Timed(self.clone())))
    }

    /// The executor, with its attempts counted.
    pub fn executor<E: Executor>(&self, inner: E) -> Counted<E> {
        Counted::new(inner, self.clone())
    }

    /// Counts an upload.
    pub(crate) fn observe_ingest(&self, took: Duration) {
        self.0.ingest_seconds.observe(took.as_secs_f64());
        self.0.rates.observe_ingest(took);
    }

    /// Counts a batch that was closed.
    pub fn observe_closed(&self, batch: &Batch) {
        if let (Some(from), Some(to)) = (batch.finalizing_at, batch.closed_at) {
            self.0.finalise_seconds.observe(to.duration_since(from).as_secs_f64());
        }
    }

    /// Counts a request of the API.
    pub(crate) fn observe_request(
        &self,
        method: &'static str,
        route: &str,
        status: u16,
        took: Duration,
    ) {
        let labels = RequestLabels { method, route: route.to_owned(), status };
        self.0.http.get_or_create(&labels).inc();
        self.0.http_seconds.observe(took.as_secs_f64());
    }

    /// The label of a target or an upstream: its name, or `other` beyond the bound.
    fn label(&self, name: &str) -> String {
        let mut names = self.0.names.lock();
        if !names.contains(name) && names.len() >= TARGETS_MAX {
            return "other".to_owned();
        }
        names.insert(name.to_owned());
        name.to_owned()
    }
}

impl Instruments {
    fn register(&mut self) {
        self.process.register(&mut self.registry);
        let registry = self.registry.sub_registry_with_prefix("windrow");
        let mut timed = |name: &str, help: &str, instruments: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, instruments.clone());
        };
        timed("upstream_request", "How long one try of a line took", &self.request_seconds);
        timed("ingest", "How long a file took to come in", &self.ingest_seconds);
        timed("finalise", "From a batch's last line to its closing", &self.finalise_seconds);
        timed("http_request", "How long an answer of the API took to begin", &self.http_seconds);
        let help =
            "How long a call of the store took; a turn is a commit, turn_claim one with a claim";
        registry.register_with_unit("store_call", help, Unit::Seconds, self.store_seconds.clone());
        registry.register(
            "store_failures",
            "Calls of the store that failed",
            self.store_failures.clone(),
        );
        registry.register("items", "Lines that were finished, by status", self.items.clone());
        registry.register("retries", "Tries that failed and are repeated", self.retries.clone());
        registry.register(
            "leases_lost",
            "Leases that were lost to another instance",
            self.leases_lost.clone(),
        );
        let help = "Tries by target and outcome; throttled are those answered with 429";
        registry.register("upstream_requests", help, self.requests.clone());
        registry.register(
            "http_requests",
            "Requests of the API, by route and status",
            self.http.clone(),
        );
        self.gauges.register(registry);
        self.rates.register(registry);
        self.messages.register(registry);
    }
}

impl GaugeSet {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "store_connections",
            "Connections to the database",
            self.connections.clone(),
        );
        let help = "Calls that wait for a connection, or for the one that writes";
        registry.register("store_waiting", help, self.waiting.clone());
        let help = "Times that the pool was asked for a connection";
        registry.register("pool_acquires", help, self.pool_acquires.clone());
        let help = "Time that calls waited for the pool, altogether";
        let seconds = self.pool_acquire_seconds.clone();
        registry.register_with_unit("pool_acquire_wait", help, Unit::Seconds, seconds);
        let help = "The old name of windrow_pool_acquires_total";
        registry.register("pool_waits", help, self.pool_waits.clone());
        let help = "The old name of windrow_pool_acquire_wait_seconds_total, in microseconds";
        registry.register("pool_wait_micros", help, self.pool_wait_micros.clone());
        registry.register("build_info", "1 for the version that runs", self.build.clone());
        let version = env!("CARGO_PKG_VERSION");
        self.build.get_or_create(&BuildLabels { version }).set(1);
        registry.register("target_in_flight", "Tries in flight", self.in_flight.clone());
        registry.register("target_limit", "Most tries in flight, as adapted", self.limit.clone());
        registry.register(
            "target_breaker_open",
            "1 while the breaker is not closed",
            self.breaker_open.clone(),
        );
        let help = "Lines of open batches without a result; counted at most twice a minute";
        registry.register("pending_items", help, self.pending.clone());
        registry.register("queue_depth", help, self.queue_depth.clone());
        let help = "The same by owner, for the owners with the most; the others together";
        registry.register("pending_count", help, self.pending_by_owner.clone());
    }

    fn read_pending(&self, counts: &PendingCounts) {
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.pending.set(whole(counts.total));
        self.queue_depth.set(whole(counts.total));
        // An owner without pending lines is shown no more.
        self.pending_by_owner.clear();
        for (owner, lines) in &counts.by_owner {
            let label = OwnerLabel { owner: owner.clone() };
            self.pending_by_owner.get_or_create(&label).set(whole(*lines));
        }
    }

    fn read(&self, gauges: &Gauges) {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let set = |status: &'static str, number: usize| {
            self.connections.get_or_create(&StatusLabel { status }).set(whole(number));
        };
        set("open", gauges.connections_open);
        set("idle", gauges.connections_idle);
        set("max", gauges.connections_max);
        self.waiting.set(whole(gauges.waiting));
        self.pool_acquires.inner().store(gauges.pool_waits, Ordering::Relaxed);
        let waited = Duration::from_micros(gauges.pool_wait_micros).as_secs_f64();
        self.pool_acquire_seconds.inner().store(waited.to_bits(), Ordering::Relaxed);
        self.pool_waits.set(i64::try_from(gauges.pool_waits).unwrap_or(i64::MAX));
        self.pool_wait_micros.set(i64::try_from(gauges.pool_wait_micros).unwrap_or(i64::MAX));
    }

    fn read_target(&self, label: &TargetLabel, target: &TargetProgress) {
        self.in_flight.get_or_create(label).set(target.in_flight.into());
        self.limit.get_or_create(label).set(target.limit.into());
        let is_open = target.breaker != breaker::BreakerState::Closed;
        self.breaker_open.get_or_create(label).set(is_open.into());
    }
}

/// Numbers for Prometheus
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "Operations",
    responses((status = 200, description = "All metrics: as OpenMetrics when `Accept` asks for it, else \
        as Prometheus text.", content(
            (String = "text/plain"), (String = "application/openmetrics-text"))), InternalError))]
pub(crate) async fn metrics(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<impl IntoResponse> {
    let instruments = &app.metrics.0;
    if let Some(counts) = instruments.pending.count(&*app.store).await {
        instruments.gauges.read_pending(&counts);
    }
    let gauges = app.store.gauges();
    instruments.gauges.read(&gauges);
    instruments.rates.read(instruments.clock.millis(), &gauges);
    let targets = app.engine.as_ref().map(|engine| engine.progress().targets);
    for target in targets.unwrap_or_default() {
        let label = TargetLabel { target: app.metrics.label(target.target.as_str()) };
        instruments.gauges.read_target(&label, &target);
        instruments.rates.read_target(label, &target);
    }
    instruments.messages.read(&app).await;
    instruments.process.read();
    let mut output = String::new();
    encode(&mut output, &instruments.registry).map_err(Error::internal)?;
    let is_open_metrics = text::wants_open_metrics(&headers);
    if !is_open_metrics {
        output = text::plain(&output);
    }
    let kind = text::content_type(is_open_metrics);
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], output))
}
