//! Responses that are made while they are read: one chunk at a time, and one more in reserve.
//!
//! Holds throughout: a reader that is slow slows the writer down; a writer that fails cuts the response
//! off, so that the reader knows that it is not complete.

use std::future::Future;
use std::io;
use std::ops::Range;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use tokio::sync::mpsc;
use windrow_engine::output::Sink;
use windrow_engine::storage;

/// Chunks that wait for the reader.
const PIECES_WAITING_MAX: usize = 1;

/// The content type and file name of a response.
pub(crate) struct Download {
    content_type: &'static str,
    name: String,
}

impl Download {
    pub(crate) fn new(content_type: &'static str, name: &str) -> Self {
        Self { content_type, name: name.to_owned() }
    }

    pub(crate) fn jsonl(name: &str) -> Self {
        Self::new("application/jsonl", name)
    }

    /// The whole content, whose length is not known yet.
    pub(crate) fn of(
        &self,
        bytes: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Response {
        let mut response = Response::new(Body::from_stream(bytes));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CONTENT_DISPOSITION, disposition(&self.name));
        // Content that a caller uploaded, or an upstream answered, must never be taken for a web
        // page.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// A range of content whose length is known, or all of it.
    pub(crate) fn part(
        &self,
        bytes: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        part: Range<u64>,
        whole: u64,
    ) -> Response {
        let mut response = self.of(bytes);
        let headers = response.headers_mut();
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(part.end - part.start));
        if part != (0..whole) {
            let last = part.end.saturating_sub(1);
            let range = format!("bytes {}-{last}/{whole}", part.start);
            let range = HeaderValue::try_from(range).expect("numbers are plain");
            headers.insert(header::CONTENT_RANGE, range);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        response
    }
}

/// Characters that clients read differently are replaced.
fn disposition(name: &str) -> HeaderValue {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let plain: String =
        name.chars().map(|letter| if keep(letter) { letter } else { '_' }).collect();
    HeaderValue::try_from(format!("attachment; filename=\"{plain}\""))
        .expect("only plain letters are left")
}

/// The writing end of a download.
pub(crate) struct Pipe(mpsc::Sender<io::Result<Bytes>>);

impl Pipe {
    /// Fails when the reader has gone.
    pub(crate) async fn put(&self, bytes: Bytes) -> io::Result<()> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.send(Ok(bytes)).await.map_err(gone)
    }
}

#[async_trait]
impl Sink for Pipe {
    async fn write(&mut self, lines: &[u8]) -> storage::Result<()> {
        let put = self.put(Bytes::copy_from_slice(lines)).await;
        put.map_err(|source| storage::Error::of_io("send", "the download", source))
    }
}

/// Runs a writer while the client reads. A writer that fails cuts the response off, so that the
/// reader knows that it is not complete.
pub(crate) fn pipe<F>(
    writer: impl FnOnce(Pipe) -> F + Send + 'static,
) -> BoxStream<'static, io::Result<Bytes>>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (sender, mut pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let last = sender.clone();
    let writing = async move {
        if let Err(error) = writer(Pipe(sender)).await
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            tracing::error!(error = %windrow_store::error::chain(&error), "download failed");
            let _ = last.send(Err(error)).await;
        }
    };
    let mut writing = Box::pin(writing);
    let mut over = false;
    // The writer is part of the stream: it runs only while it is read, and is dropped with it.
    stream::poll_fn(move |context| {
        if !over && writing.as_mut().poll(context).is_ready() {
            over = true;
        }
        match pieces.poll_recv(context) {
            std::task::Poll::Pending if over => {
                // The writer's end of the channel went with it.
                std::task::Poll::Ready(None)
            }
            polled => polled,
        }
    })
    .boxed()
}
