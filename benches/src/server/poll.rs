//! How long a look at a batch takes while it drains.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Server;
use crate::figures::Size;
use crate::report::Figure;
use crate::throughput::requests;
use crate::upstream::Upstream;
use crate::windrow::Windrow;

const BAR_MS: f64 = 20.0;
const EVERY: Duration = Duration::from_millis(20);

pub(crate) async fn poll(windrow: &Windrow, size: Size) -> Result<Figure> {
    let file = requests(size.worked)?;
    let upstream = Upstream::start()?;
    let server = Server::start(windrow, tempfile::tempdir()?, Some(&upstream.url))?;
    let input = server.upload(file.path()).await?;
    let batch = server.create(&input).await?;
    let mut times = Vec::new();
    loop {
        let started = Instant::now();
        let status = server.batch(&batch).await?["status"].as_str().unwrap_or_default().to_owned();
        times.push(started.elapsed().as_secs_f64() * 1e3);
        if status == "completed" {
            break;
        }
        anyhow::ensure!(matches!(status.as_str(), "in_progress" | "finalizing"), "it is {status}");
        tokio::time::sleep(EVERY).await;
    }
    let name = "polling a batch that drains, p99 / 20 ms";
    Ok(Figure::times(name, "sqlite", &mut times, BAR_MS, (size.worked, "looks")))
}
