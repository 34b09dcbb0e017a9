//! The bare loop: the same HTTP client, the same bodies, as many at a time, and no store.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

/// What the loop needs of a line.
#[derive(Deserialize)]
struct RequestLine<'a> {
    url: &'a str,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Runs the loop in a process of its own, as `windrow run` is; gives requests a second.
pub(crate) fn measure(to: &str, concurrency: usize, file: &Path) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .args(["bare", "--to", to, "--concurrency", &concurrency.to_string()])
        .arg(file)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Sends every body and reads every answer. Reading the file beforehand is not counted, so what it
/// prints is the most that this client can do.
pub(crate) async fn send(to: &str, concurrency: usize, file: &Path) -> Result<()> {
    let content = Bytes::from(std::fs::read(file)?);
    let mut requests = Vec::new();
    for text in content.split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
        let line: RequestLine<'_> = serde_json::from_slice(text).context("a request line")?;
        let url = reqwest::Url::parse(&format!("{to}{}", line.url))?;
        requests.push((url, content.slice_ref(line.body.get().as_bytes())));
    }
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let client = client(concurrency)?;
    let started = Instant::now();
    let mut senders = JoinSet::new();
    for _ in 0..concurrency {
        let (client, requests, next) = (client.clone(), requests.clone(), next.clone());
        senders.spawn(async move {
            while let Some((url, body)) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let request = client.post(url.clone()).header("content-type", "application/json");
                let answer = request.body(body.clone()).send().await?.error_for_status()?;
                answer.bytes().await?;
            }
            Ok::<_, reqwest::Error>(())
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender??;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    let speed = requests.len() as f64 / started.elapsed().as_secs_f64();
    println!("{speed:.1}");
    Ok(())
}

/// Built as the engine builds its own for plain HTTP.
fn client(concurrency: usize) -> Result<reqwest::Client> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(30))
        .connect_timeout(Duration::from_secs(10))
        .pool_max_idle_per_host(concurrency)
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .tls_certs_only([]);
    Ok(client.build()?)
}
