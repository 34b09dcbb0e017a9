//! A whole `windrow run`, from the start of its process to its end, against the bare loop.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::backend::Backend;
use crate::figures::Size;
use crate::load;
use crate::postgres::PostgresBackend;
use crate::report::{Figure, LINES};
use crate::upstream::Upstream;
use crate::windrow::{CONCURRENCY, Job, Windrow};

const WRK_SECS: u64 = 5;

/// Rounds of both, in turn. The command pays for ingest, store, results and its own start; the loop
/// only sends.
pub(crate) async fn run(
    windrow: &Windrow,
    postgres: Option<(&PostgresBackend, &String)>,
    size: Size,
) -> Result<Figure> {
    let (lines, rounds) = size.run;
    let file = requests(lines)?;
    let upstream = Upstream::start()?;
    let wrk = wrk(&upstream.url, size)?;
    let (mut these, mut those) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        those.push(crate::bare::measure(&upstream.url, CONCURRENCY, file.path())?);
        // Both use the same tables again; a batch of the round before would be resumed.
        if let Some((backend, _)) = postgres {
            backend.empty().await?;
        }
        let database = postgres.map(|(_, url)| url.as_str());
        these.push(timed(windrow, &upstream, file.path(), lines, database)?);
    }
    let store = if postgres.is_some() { "postgres" } else { "sqlite" };
    let mut figure =
        Figure::speed("run / bare HTTP loop", store, LINES, &mut these, &mut those, 0.6);
    let list = |speeds: &[f64]| {
        let words: Vec<String> = speeds.iter().map(|speed| format!("{speed:.0}")).collect();
        words.join(", ")
    };
    figure.detail = Some(format!("run {}; bare {}; {wrk}", list(&these), list(&those)));
    Ok(figure)
}

/// A file of so many request lines.
pub(crate) fn requests(lines: u64) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::with_suffix(".jsonl")?;
    let mut out = std::io::BufWriter::new(file.as_file_mut());
    for line in 1..=lines {
        out.write_all(load::line_text(line).as_bytes())?;
    }
    out.flush()?;
    drop(out);
    Ok(file)
}

/// One command; gives lines a second.
fn timed(
    windrow: &Windrow,
    upstream: &Upstream,
    file: &Path,
    lines: u64,
    database: Option<&str>,
) -> Result<f64> {
    let job = Job { file, to: &upstream.url, data: tempfile::tempdir()? };
    let mut command = windrow.run(&job, database)?;
    let started = Instant::now();
    let status = command.status().context("could not start windrow")?;
    let took = started.elapsed();
    job.check(status, lines)?;
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    Ok(lines as f64 / took.as_secs_f64())
}

/// What wrk reaches on the same upstream, for people; it is another client, and not compared.
fn wrk(url: &str, size: Size) -> Result<String> {
    let body: serde_json::Value = serde_json::from_str(&load::line_text(1))?;
    let mut script = NamedTempFile::with_suffix(".lua")?;
    writeln!(script, "wrk.method = 'POST'")?;
    writeln!(script, "wrk.headers['Content-Type'] = 'application/json'")?;
    writeln!(script, "wrk.body = [[{}]]", body["body"])?;
    let secs = if size.run.1 > 1 { WRK_SECS } else { 1 };
    let output = Command::new("wrk")
        .args(["--threads", "2", "--connections", &CONCURRENCY.to_string()])
        .args(["--duration", &format!("{secs}s"), "--script"])
        .arg(script.path())
        .arg(format!("{url}/v1/chat/completions"))
        .output();
    let Ok(output) = output else { return Ok("wrk is not installed".to_owned()) };
    let said = String::from_utf8_lossy(&output.stdout);
    let speed = said.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    let speed = speed.and_then(|text| text.trim().parse::<f64>().ok());
    let speed = speed.with_context(|| format!("wrk printed no requests a second: {said}"))?;
    Ok(format!("wrk {speed:.0} requests/s"))
}
