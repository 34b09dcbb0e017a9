//! The demo's file, made as it is read, so that it is never in memory as a whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

pub(crate) const ENDPOINT: &str = "/v1/echo";
/// The file has a lane for each.
pub(crate) const MODELS: [&str; 2] = ["echo-small", "echo-large"];

/// Gives so many lines of JSONL.
pub(crate) struct Lines {
    left: std::ops::RangeInclusive<u64>,
    line: Vec<u8>,
    at: usize,
}

impl Lines {
    pub(crate) fn new(lines: u64) -> Self {
        Self { left: 1..=lines, line: Vec::new(), at: 0 }
    }
}

impl AsyncRead for Lines {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buffer.remaining() > 0 {
            if self.at == self.line.len() {
                let Some(number) = self.left.next() else { break };
                (self.line, self.at) = (line(number), 0);
            }
            let rest = &self.line[self.at..];
            let taken = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..taken]);
            self.at += taken;
        }
        Poll::Ready(Ok(()))
    }
}

fn line(number: u64) -> Vec<u8> {
    let model = MODELS[usize::from(number.is_multiple_of(3))];
    let body = serde_json::json!({ "model": model, "input": format!("Hello from line {number}.") });
    let custom_id = format!("demo-{number}");
    let request = serde_json::json!({
        "custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body,
    });
    let mut line = request.to_string().into_bytes();
    line.push(b'\n');
    line
}
