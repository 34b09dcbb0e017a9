//! Where the bytes of an output go.

use async_trait::async_trait;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::storage::{self, Error, Result};

/// Takes the bytes of one output, in order.
#[async_trait]
pub trait Sink: Send {
    /// Takes more bytes: whole lines.
    async fn write(&mut self, lines: &[u8]) -> Result<()>;
}

#[async_trait]
impl Sink for storage::Writer {
    async fn write(&mut self, lines: &[u8]) -> Result<()> {
        storage::Writer::write(self, lines).await
    }
}

/// Drops the lines: that output is not wanted.
#[async_trait]
impl Sink for () {
    async fn write(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Any writer, with a name for messages. Its owner flushes it.
#[derive(Debug)]
pub struct ToWrite<W> {
    name: String,
    writer: W,
}

impl<W> ToWrite<W> {
    /// A sink of that name that writes to `writer`.
    pub fn new(name: impl Into<String>, writer: W) -> Self {
        Self { name: name.into(), writer }
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.writer
    }
}

#[async_trait]
impl<W: AsyncWrite + Send + Unpin> Sink for ToWrite<W> {
    async fn write(&mut self, lines: &[u8]) -> Result<()> {
        let written = self.writer.write_all(lines).await;
        written.map_err(|source| Error::of_io("write", &self.name, source))
    }
}
