//! Reading an object anywhere, for libraries that read and seek: archives and workbooks.
//!
//! Holds throughout: used on a thread that may wait; at most one window of the object is in memory; windows
//! grow while the reading goes on in order, and are small after a jump.

use std::io::{self, Read, Seek, SeekFrom};

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use tokio::runtime::Handle;

use super::Storage;

/// The window after a jump.
const WINDOW_BYTES_MIN: u64 = 128 << 10;
/// The largest window.
const WINDOW_BYTES_MAX: u64 = 2 << 20;

/// Reads and seeks in one object. May only be used on a blocking thread of a runtime.
pub(crate) struct SeekReader {
    runtime: Handle,
    storage: Storage,
    name: String,
    size: u64,
    at: u64,
    window: Bytes,
    window_at: u64,
    window_bytes: u64,
}

impl SeekReader {
    /// A reader of the object of that name and size.
    pub(crate) fn new(runtime: Handle, storage: Storage, name: String, size: u64) -> Self {
        let (window, window_bytes) = (Bytes::new(), WINDOW_BYTES_MIN);
        Self { runtime, storage, name, size, at: 0, window, window_at: 0, window_bytes }
    }

    /// Fills the window from where the reader stands.
    fn fill(&mut self) -> io::Result<()> {
        let in_order = self.at == self.window_at + self.window.len() as u64 && self.at > 0;
        self.window_bytes =
            if in_order { (self.window_bytes * 2).min(WINDOW_BYTES_MAX) } else { WINDOW_BYTES_MIN };
        let range = self.at..self.size.min(self.at + self.window_bytes);
        let (storage, name) = (&self.storage, &self.name);
        let read = async {
            let mut pieces = storage.read_range(name, range).await?;
            let mut window = BytesMut::new();
            while let Some(piece) = pieces.try_next().await? {
                window.extend_from_slice(&piece);
            }
            Ok::<_, super::Error>(window.freeze())
        };
        self.window = self.runtime.block_on(read).map_err(io::Error::other)?;
        self.window_at = self.at;
        Ok(())
    }
}

impl Read for SeekReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let end = self.window_at + self.window.len() as u64;
        if self.at < self.window_at || self.at >= end {
            self.fill()?;
        }
        let from = usize::try_from(self.at - self.window_at).map_err(io::Error::other)?;
        let there = self.window.get(from..).unwrap_or_default();
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for SeekReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
