//! One call in, executed in the same process, its reply out: how long, when nothing else is to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use windrow_engine::messages::{CallOutcome, Options};
use windrow_store::MessageStore;

use super::instance::{question, start};
use crate::figures::Size;
use crate::report::{Bar, Figure};

const P50_MS_MAX: f64 = 5.0;
/// Between two calls, so that the instance has nothing to do each time.
const PAUSE: Duration = Duration::from_millis(30);

/// The middle one of many calls, one after another, each to an idle instance.
pub(crate) async fn latency(
    store: Arc<dyn MessageStore>,
    name: &'static str,
    size: Size,
) -> Result<Figure> {
    let runner = start(store, Options::default()).await?;
    let client = runner.client();
    let mut times = Vec::new();
    for n in 0..size.samples as u64 {
        tokio::time::sleep(PAUSE).await;
        let started = Instant::now();
        let outcome = client.call(question(n), Duration::from_secs(10)).await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        ensure!(matches!(outcome, CallOutcome::Reply(_)), "call {n} gave {outcome:?}");
    }
    runner.stop().await;
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    let [p50, p90, p99] = [50, 90, 99].map(at);
    Ok(Figure {
        name: "latency of a call, p50 ms / 5",
        store: name,
        this: format!("{p50:.2} ms"),
        that: "in process".to_owned(),
        ratio: p50 / P50_MS_MAX,
        bar: Bar::AtMost(1.0),
        samples: times.len(),
        detail: Some(format!("p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2} ms")),
    })
}
