//! The figures of `windrow serve`, a process of its own, asked over HTTP as its callers do.

mod export;
mod poll;
mod upload;
mod visits;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::StreamExt as _;
use reqwest::{Body, Client, RequestBuilder, Response};
use serde_json::Value;
use tempfile::TempDir;

use crate::windrow::{Windrow, mib};

pub(crate) use export::export;
pub(crate) use poll::poll;
pub(crate) use upload::upload;
pub(crate) use visits::visits;

const KEY: &str = "bench-admin-key-0123456789";
const BOUNDARY: &str = "windrow-bench-boundary";
/// Bytes of a file that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A running server; gone when dropped.
pub(crate) struct Server {
    child: Child,
    url: String,
    client: Client,
    pub(crate) data: TempDir,
}

impl Server {
    /// Starts one on SQLite in a folder of its own. Without an upstream it only serves.
    pub(crate) fn start(windrow: &Windrow, data: TempDir, to: Option<&str>) -> Result<Self> {
        let mut command = windrow.command("serve", data.path(), None)?;
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        match to {
            Some(to) => command.args(["--to", to, "--concurrency", "64"]),
            None => command.arg("--no-work"),
        };
        // What one caller may ask is not what is measured.
        for set in ["requests_per_sec_max=1000000", "requests_burst=1000000", "uploads_max=1000"] {
            command.args(["--set", set]);
        }
        command.env("WINDROW_ADMIN_KEY", KEY).env("WINDROW_LOG", "warn").stdout(Stdio::piped());
        let mut child = command.spawn().context("could not start the server")?;
        let out = child.stdout.take().context("the server's output is a pipe")?;
        let mut said = String::new();
        BufReader::new(out).read_line(&mut said)?;
        let said: Value = serde_json::from_str(&said).context("the server says where it is")?;
        let url = said["listening"].as_str().context("an address")?.to_owned();
        let client = Client::builder().no_proxy().build()?;
        Ok(Self { child, url, client, data })
    }

    /// Its memory at its highest, in MiB.
    pub(crate) fn peak_mib(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        mib(&status, "VmHWM:")
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.url)).bearer_auth(KEY)
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).bearer_auth(KEY)
    }

    /// Uploads a file, a piece at a time; gives its id.
    pub(crate) async fn upload(&self, path: &Path) -> Result<String> {
        let file = tokio::fs::File::open(path).await?;
        let pieces = futures_util::stream::unfold(file, async |mut file| {
            let mut piece = bytes::BytesMut::with_capacity(PIECE_BYTES);
            match tokio::io::AsyncReadExt::read_buf(&mut file, &mut piece).await {
                Ok(0) => None,
                Ok(_) => Some((Ok(piece.freeze()), file)),
                Err(error) => Some((Err(error), file)),
            }
        });
        self.send(Body::wrap_stream(form(pieces))).await
    }

    /// Uploads what is in memory; gives its id.
    pub(crate) async fn upload_bytes(&self, content: Bytes) -> Result<String> {
        let pieces = futures_util::stream::iter([Ok(content)]);
        self.send(Body::wrap_stream(form(pieces))).await
    }

    async fn send(&self, body: Body) -> Result<String> {
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let sent = self.post("/v1/files").header("content-type", kind).body(body).send().await?;
        id(sent).await
    }

    /// Creates a batch over a file; gives its id.
    pub(crate) async fn create(&self, file: &str) -> Result<String> {
        let body = serde_json::json!({
            "input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h",
        });
        let create = self.post("/v1/batches").header("content-type", "application/json");
        id(create.body(body.to_string()).send().await?).await
    }

    /// A batch as the API shows it.
    pub(crate) async fn batch(&self, id: &str) -> Result<Value> {
        good(self.get(&format!("/v1/batches/{id}")).send().await?).await
    }

    /// Waits until a batch is completed.
    pub(crate) async fn completed(&self, id: &str) -> Result<()> {
        loop {
            let batch = self.batch(id).await?;
            match batch["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "expired" | "cancelled") => anyhow::bail!("the batch is {batch}"),
                _ => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The form of an upload around the pieces of its file.
fn form(
    pieces: impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    let part =
        |name: &str| format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"");
    let head = format!(
        "{}\r\n\r\nbatch\r\n{}; filename=\"a.jsonl\"\r\ncontent-type: application/octet-stream\r\n\r\n",
        part("purpose"),
        part("file")
    );
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let around = |text: String| futures_util::stream::iter([Ok(Bytes::from(text))]);
    around(head).chain(pieces).chain(around(tail))
}

async fn good(response: Response) -> Result<Value> {
    let status = response.status();
    let text = response.text().await?;
    ensure!(status.is_success(), "{status}: {text}");
    Ok(serde_json::from_str(&text)?)
}

async fn id(response: Response) -> Result<String> {
    let object = good(response).await?;
    Ok(object["id"].as_str().context("an object with an id")?.to_owned())
}
