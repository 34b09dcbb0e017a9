//! Exports of a large batch: memory, and how soon the first bytes come.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::Server;
use crate::figures::Size;
use crate::report::{Bar, Figure};
use crate::throughput::requests;
use crate::upstream::Upstream;
use crate::windrow::Windrow;

const PEAK_MIB_MAX: f64 = 200.0;
const FIRST_SECS_MAX: f64 = 1.0;

pub(crate) async fn export(windrow: &Windrow, size: Size) -> Result<[Figure; 2]> {
    let (data, batch) = finished(windrow, size).await?;
    // A process of its own, whose memory knows nothing of the run.
    let server = Server::start(windrow, data, None)?;
    let id = batch.strip_prefix("batch_").unwrap_or(&batch);
    let csv = fetch(&server, &format!("/api/jobs/{id}/export?format=csv")).await?;
    let xlsx = fetch(&server, &format!("/api/jobs/{id}/export?format=xlsx")).await?;
    let peak = server.peak_mib()?;
    ensure!(csv.lines == size.worked + 1, "{} lines of csv", csv.lines);
    let figure = |name, this, ratio, detail| Figure {
        name,
        store: "sqlite",
        this,
        that: format!("{} lines", size.worked),
        ratio,
        bar: Bar::AtMost(1.0),
        samples: 1,
        detail,
    };
    let told = |what: &str, fetched: &Fetched| {
        let (mb, secs) = (fetched.bytes / 1_000_000, fetched.secs);
        format!("{what} {mb} MB in {secs:.1} s, first bytes after {:.2} s", fetched.first_secs)
    };
    let detail = format!("{}; {}", told("csv", &csv), told("xlsx", &xlsx));
    Ok([
        figure(
            "export peak memory, MiB / 200",
            format!("{peak:.0} MiB"),
            peak / PEAK_MIB_MAX,
            Some(detail),
        ),
        figure(
            "export csv, first bytes / 1 s",
            format!("{:.2} s", csv.first_secs),
            csv.first_secs / FIRST_SECS_MAX,
            None,
        ),
    ])
}

/// A batch that is completed, and the folder that holds it.
async fn finished(windrow: &Windrow, size: Size) -> Result<(tempfile::TempDir, String)> {
    let file = requests(size.worked)?;
    let upstream = Upstream::start()?;
    let mut server = Server::start(windrow, tempfile::tempdir()?, Some(&upstream.url))?;
    let input = server.upload(file.path()).await?;
    let batch = server.create(&input).await?;
    server.completed(&batch).await?;
    let data = std::mem::replace(&mut server.data, tempfile::tempdir()?);
    Ok((data, batch))
}

struct Fetched {
    bytes: u64,
    lines: u64,
    secs: f64,
    first_secs: f64,
}

async fn fetch(server: &Server, path: &str) -> Result<Fetched> {
    let started = Instant::now();
    let mut response = server.get(path).send().await?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    let mut fetched = Fetched { bytes: 0, lines: 0, secs: 0.0, first_secs: 0.0 };
    while let Some(piece) = response.chunk().await.context("the export broke off")? {
        if fetched.bytes == 0 {
            fetched.first_secs = started.elapsed().as_secs_f64();
        }
        fetched.bytes += piece.len() as u64;
        fetched.lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    fetched.secs = started.elapsed().as_secs_f64();
    Ok(fetched)
}
