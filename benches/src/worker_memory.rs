//! Memory of a whole `windrow run`, as the kernel counts it, while it runs.

use std::fs;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::backend::Backend;
use crate::figures::Size;
use crate::postgres::PostgresBackend;
use crate::report::{Bar, Figure};
use crate::throughput::requests;
use crate::upstream::Upstream;
use crate::windrow::{Job, Windrow, mib};

const PEAK_MIB_MAX: f64 = 200.0;
/// A short run must have enough samples for its quarters to mean something.
const SAMPLE_MS: u64 = 100;
const SAMPLES_MIN: usize = 4;

/// The peak against its bar, and the last quarter of the run against its second: the first is where
/// caches fill.
pub(crate) async fn worker_memory(
    windrow: &Windrow,
    postgres: Option<(&PostgresBackend, &String)>,
    size: Size,
) -> Result<[Figure; 2]> {
    let file = requests(size.worked)?;
    let upstream = Upstream::start()?;
    if let Some((backend, _)) = postgres {
        backend.empty().await?;
    }
    let job = Job { file: file.path(), to: &upstream.url, data: tempfile::tempdir()? };
    let mut command = windrow.run(&job, postgres.map(|(_, url)| url.as_str()))?;
    let mut child = command.spawn().context("could not start windrow")?;
    let samples = watch(&mut child).await?;
    job.check(child.wait()?, size.worked)?;
    ensure!(samples.rss.len() >= SAMPLES_MIN, "it ended before it could be watched");
    let store = if postgres.is_some() { "postgres" } else { "sqlite" };
    let quarter = samples.rss.len() / 4;
    let early = mean(&samples.rss[quarter..2 * quarter]);
    let late = mean(&samples.rss[samples.rss.len() - quarter..]);
    let peak = Figure {
        name: "worker peak memory, MiB / 200",
        store,
        this: format!("{:.0} MiB", samples.peak),
        that: format!("{} lines", size.worked),
        ratio: samples.peak / PEAK_MIB_MAX,
        bar: Bar::AtMost(1.0),
        samples: samples.rss.len(),
        detail: Some(format!("of it not pages of files: {:.0} MiB at most", samples.anonymous)),
    };
    let flat = Figure {
        name: "worker memory, 4th / 2nd quarter",
        store,
        this: format!("{late:.0} MiB"),
        that: format!("{early:.0} MiB"),
        ratio: late / early,
        bar: Bar::AtMost(1.15),
        samples: samples.rss.len(),
        detail: None,
    };
    Ok([peak, flat])
}

/// Memory of a process over time, in MiB.
#[derive(Default)]
struct Samples {
    rss: Vec<f64>,
    /// The kernel's own high-water mark, which misses nothing between two samples.
    peak: f64,
    /// The most that no file backs.
    anonymous: f64,
}

async fn watch(child: &mut Child) -> Result<Samples> {
    let path = format!("/proc/{}/status", child.id());
    let mut samples = Samples::default();
    let mut ticks = tokio::time::interval(Duration::from_millis(SAMPLE_MS));
    while child.try_wait()?.is_none() {
        ticks.tick().await;
        let status = fs::read_to_string(&path).unwrap_or_default();
        // One that has just ended has no memory any more.
        let Ok(rss) = mib(&status, "VmRSS:") else { continue };
        samples.rss.push(rss);
        samples.peak = samples.peak.max(mib(&status, "VmHWM:")?);
        samples.anonymous = samples.anonymous.max(mib(&status, "RssAnon:")?);
    }
    Ok(samples)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}
