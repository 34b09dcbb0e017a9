//! Metrics for Prometheus, counted where they happen.
//!
//! Holds throughout: a label has few values (verbs, statuses, codes, targets of this process up to a
//! bound); a scrape makes the database count at most twice a minute.

mod executor;
mod pending;
mod store;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
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
use windrow_engine::clock::Clock;
use windrow_engine::execute::Executor;
use windrow_store::Store;
use windrow_store::batch::Batch;
use windrow_store::layer::LayeredStore;

use crate::app::App;
use crate::error::{Error, Result};
use crate::messages::gauges::MessageGauges;
use crate::openapi::error_responses::InternalError;

pub use executor::Counted;
use pending::Pending;
use store::Timed;

/// Targets that are counted by name; the rest is counted as one.
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
    /// Targets that are counted by name.
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
    messages: MessageGauges,
}

/// Gauges that are read at a scrape.
#[derive(Default)]
struct GaugeSet {
    connections: Family<StatusLabel, Gauge>,
    waiting: Gauge,
    pool_waits: Gauge,
    pool_wait_micros: Gauge,
    in_flight: Family<TargetLabel, Gauge>,
    limit: Family<TargetLabel, Gauge>,
    breaker_open: Family<TargetLabel, Gauge>,
    pending: Gauge,
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
            registry: Registry::with_prefix("windrow"),
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
            messages: MessageGauges::default(),
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

    /// The label of a target: its name, or `other` beyond the bound.
    fn target_label(&self, target: &str) -> String {
        let mut names = self.0.names.lock();
        if !names.contains(target) && names.len() >= TARGETS_MAX {
            return "other".to_owned();
        }
        names.insert(target.to_owned());
        target.to_owned()
    }
}

impl Instruments {
    fn register(&mut self) {
        let registry = &mut self.registry;
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
        registry.register(
            "pool_waits",
            "Times that the pool was asked for a connection",
            self.pool_waits.clone(),
        );
        let help = "Microseconds that calls waited for the pool, altogether";
        registry.register("pool_wait_micros", help, self.pool_wait_micros.clone());
        registry.register("target_in_flight", "Tries in flight", self.in_flight.clone());
        registry.register("target_limit", "Most tries in flight, as adapted", self.limit.clone());
        registry.register(
            "target_breaker_open",
            "1 while the breaker is not closed",
            self.breaker_open.clone(),
        );
        let help = "Lines of open batches without a result; counted at most twice a minute";
        registry.register("pending_items", help, self.pending.clone());
    }

    fn read(&self, app: &App, pending: Option<u64>, name: impl Fn(&str) -> String) {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let gauges = app.store.gauges();
        let set = |status: &'static str, number: usize| {
            self.connections.get_or_create(&StatusLabel { status }).set(whole(number));
        };
        set("open", gauges.connections_open);
        set("idle", gauges.connections_idle);
        set("max", gauges.connections_max);
        self.waiting.set(whole(gauges.waiting));
        self.pool_waits.set(i64::try_from(gauges.pool_waits).unwrap_or(i64::MAX));
        self.pool_wait_micros.set(i64::try_from(gauges.pool_wait_micros).unwrap_or(i64::MAX));
        if let Some(pending) = pending {
            self.pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
        }
        let targets = app.engine.as_ref().map(|engine| engine.progress().targets);
        for target in targets.unwrap_or_default() {
            let of = TargetLabel { target: name(target.target.as_str()) };
            self.in_flight.get_or_create(&of).set(target.in_flight.into());
            self.limit.get_or_create(&of).set(target.limit.into());
            self.breaker_open
                .get_or_create(&of)
                .set((target.breaker != breaker::State::Closed).into());
        }
    }
}

/// Numbers for Prometheus
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "Operations",
    responses((status = 200, description = "All metrics, as OpenMetrics text.",
        content_type = "application/openmetrics-text", body = String), InternalError))]
pub(crate) async fn metrics(State(app): State<App>) -> Result<impl IntoResponse> {
    let instruments = &app.metrics.0;
    let pending = instruments.pending.count(&*app.store).await;
    instruments.gauges.read(&app, pending, |target| app.metrics.target_label(target));
    instruments.messages.read(&app).await;
    let mut text = String::new();
    encode(&mut text, &instruments.registry).map_err(Error::internal)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], text))
}
