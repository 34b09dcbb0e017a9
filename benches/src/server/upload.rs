//! A large upload: its speed against `windrow ingest` of the same file, and the server's memory.

use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;

use super::Server;
use crate::figures::Size;
use crate::load;
use crate::report::{Bar, Figure};
use crate::windrow::Windrow;

const PEAK_MIB_MAX: f64 = 150.0;

pub(crate) async fn upload(windrow: &Windrow, size: Size) -> Result<[Figure; 2]> {
    let (file, bytes) = large(size.watched)?;
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    let speed = |started: Instant| bytes as f64 / 1e6 / started.elapsed().as_secs_f64();
    let (mut these, mut those, mut peak) = (Vec::new(), Vec::new(), 0.0_f64);
    for _ in 0..size.rounds.min(3) {
        let data = tempfile::tempdir()?;
        let started = Instant::now();
        let mut command = windrow.command("ingest", data.path(), None)?;
        let status = command.arg(file.path()).status().context("could not start windrow")?;
        those.push(speed(started));
        ensure!(status.success(), "windrow ingest ended with {status}");
        let server = Server::start(windrow, tempfile::tempdir()?, None)?;
        let started = Instant::now();
        server.upload(file.path()).await?;
        these.push(speed(started));
        peak = peak.max(server.peak_mib()?);
    }
    let name = "upload / windrow ingest";
    let upload = Figure::speed(name, "sqlite", "MB/s", &mut these, &mut those, 0.5);
    let memory = Figure {
        name: "upload peak memory, MiB / 150",
        store: "sqlite",
        this: format!("{peak:.0} MiB"),
        that: format!("{} MB", bytes / 1_000_000),
        ratio: peak / PEAK_MIB_MAX,
        bar: Bar::AtMost(1.0),
        samples: these.len(),
        detail: None,
    };
    Ok([upload, memory])
}

/// A file of about so many bytes.
fn large(bytes_wanted: u64) -> Result<(NamedTempFile, u64)> {
    let mut file = NamedTempFile::with_suffix(".jsonl")?;
    let mut out = std::io::BufWriter::new(file.as_file_mut());
    let (mut bytes, mut line) = (0, 0);
    while bytes < bytes_wanted {
        line += 1;
        let text = load::line_text(line);
        out.write_all(text.as_bytes())?;
        bytes += text.len() as u64;
    }
    out.flush()?;
    drop(out);
    Ok((file, bytes))
}
