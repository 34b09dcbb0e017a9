//! Many clients at once that upload, create, poll and read, while the worker runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::Server;
use crate::figures::Size;
use crate::load;
use crate::report::{Bar, Figure};
use crate::upstream::Upstream;
use crate::windrow::Windrow;

const CLIENTS: usize = 200;
const LINES: u64 = 200;
/// Looks between two uploads of a client.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Visits {
    requests: AtomicU64,
    uploads: AtomicU64,
    errors: Mutex<Vec<String>>,
    files: Mutex<Vec<String>>,
    batches: Mutex<Vec<String>>,
}

pub(crate) async fn visits(windrow: &Windrow, size: Size) -> Result<Figure> {
    let upstream = Upstream::start()?;
    let server = Arc::new(Server::start(windrow, tempfile::tempdir()?, Some(&upstream.url))?);
    let content: Bytes = (1..=LINES).map(load::line_text).collect::<String>().into();
    let visits = Arc::new(Visits::default());
    let until = Instant::now() + size.crowded;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (server, visits, content) = (server.clone(), visits.clone(), content.clone());
        clients.spawn(async move {
            while Instant::now() < until {
                if let Err(error) = visit(&server, &visits, content.clone(), until).await {
                    visits.errors.lock().await.push(format!("{error:#}"));
                }
            }
        });
    }
    clients.join_all().await;
    check(&server, &visits, &content).await?;
    let errors = visits.errors.lock().await;
    let (requests, uploads) =
        (visits.requests.load(Ordering::Relaxed), visits.uploads.load(Ordering::Relaxed));
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    Ok(Figure {
        name: "errors of 200 clients",
        store: "sqlite",
        this: format!("{} errors", errors.len()),
        that: format!("{requests} requests"),
        ratio: errors.len() as f64,
        bar: Bar::AtMost(0.0),
        samples: CLIENTS,
        detail: Some(format!(
            "{uploads} uploads over {:.0} s, all there afterwards, all batches completed, server at \
             {:.0} MiB at most{}",
            size.crowded.as_secs_f64(),
            server.peak_mib()?,
            errors.first().map(|error| format!("; first error: {error}")).unwrap_or_default()
        )),
    })
}

/// One upload, one batch, and some looks at it.
async fn visit(server: &Server, visits: &Visits, content: Bytes, until: Instant) -> Result<()> {
    let file = server.upload_bytes(content).await.context("upload")?;
    visits.uploads.fetch_add(1, Ordering::Relaxed);
    visits.files.lock().await.push(file.clone());
    let batch = server.create(&file).await.context("create")?;
    visits.batches.lock().await.push(batch.clone());
    visits.requests.fetch_add(2, Ordering::Relaxed);
    for _ in 0..LOOKS {
        if Instant::now() >= until {
            return Ok(());
        }
        server.batch(&batch).await.context("poll")?;
        visits.requests.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// No upload is lost, and every batch ends.
async fn check(server: &Server, visits: &Visits, content: &Bytes) -> Result<()> {
    for file in visits.files.lock().await.iter() {
        let sent = server.get(&format!("/v1/files/{file}/content")).send().await?;
        ensure!(sent.status().is_success(), "{file} is gone: {}", sent.status());
        ensure!(sent.bytes().await? == content, "{file} is not what was sent");
    }
    for batch in visits.batches.lock().await.iter() {
        server.completed(batch).await?;
    }
    Ok(())
}
