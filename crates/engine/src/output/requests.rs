//! The requests of a batch's file, in line order, read again from its chunks.
//!
//! Holds throughout: lines have the numbers that the ingest gave them, since the same splitter cuts
//! them; one chunk is in memory; a file of rows, or one that is gone, has no requests, and is no reason to fail.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;

use bytes::Bytes;
use windrow_domain::BatchId;
use windrow_store::ingest::File;
use windrow_store::{Kind, Result, Scope, Store};

use super::StoreRetry;
use super::writer::Source;
use crate::clock::Clock;
use crate::ingest::jsonl::is_blank;
use crate::ingest::split::{Piece, Splitter};
use crate::json;

/// The line of a batch's file with that `custom_id`, whether it ran or not: O(file). None when there is no
/// such line, or the file is gone.
pub async fn line_named(
    store: &dyn Store,
    scope: &Scope,
    batch: BatchId,
    custom_id: &str,
) -> Result<Option<u64>> {
    let store_retry = StoreRetry::usual(Clock::machine());
    let source = Source { store, scope, batch, ending: None, bytes_max: 0, store_retry };
    let mut requests = Requests::new(&source);
    while let Some(request) = requests.next_before(u64::MAX).await? {
        if request.custom_id().as_deref() == Some(custom_id) {
            return Ok(Some(request.line));
        }
    }
    Ok(None)
}

/// Walks over the requests.
pub(super) struct Requests<'a> {
    source: &'a Source<'a>,
    /// None until the first request is wanted: most batches never want one.
    file: Option<File>,
    chunk_no: u32,
    /// None at the end of the file.
    splitter: Option<Splitter>,
    ready: VecDeque<FileRequest>,
}

/// A line of the file that is a request.
#[derive(Debug)]
pub(super) struct FileRequest {
    pub(super) line: u64,
    raw: Bytes,
}

impl FileRequest {
    /// Its own id. None only when the file is not what the ingest accepted.
    pub(super) fn custom_id(&self) -> Option<Cow<'_, str>> {
        json::custom_id(&self.raw)
    }
}

impl<'a> Requests<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        // A sealed file has no line beyond the bound that it was taken in with.
        let splitter = Some(Splitter::new(usize::MAX));
        Self { source, file: None, chunk_no: 0, splitter, ready: VecDeque::new() }
    }

    /// The next request before line `before`, if there is one.
    pub(super) async fn next_before(&mut self, before: u64) -> Result<Option<FileRequest>> {
        while self.ready.is_empty() && self.splitter.is_some() {
            self.fill().await?;
        }
        Ok(self.ready.pop_front_if(|request| request.line < before))
    }

    /// The request on that line; what comes before it is passed over.
    pub(super) async fn find(&mut self, line: u64) -> Result<Option<FileRequest>> {
        while let Some(request) = self.next_before(line.saturating_add(1)).await? {
            if request.line == line {
                return Ok(Some(request));
            }
        }
        Ok(None)
    }

    async fn fill(&mut self) -> Result<()> {
        let Source { store, scope, batch, store_retry, .. } = self.source;
        if self.file.is_none() {
            let batch = store_retry.ask(|| store.batch(scope, *batch)).await?;
            match store_retry.ask(|| store.file(scope, batch.file)).await {
                // Rows are no requests: they have no id of their own, and exports show those that never ran.
                Ok(file) if file.head.is_some() => return self.end(),
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind == Kind::Missing => return self.end(),
                Err(error) => return Err(error),
            }
        }
        let file = self.file.as_ref().expect("it was just read");
        let ready = &mut self.ready;
        let mut give = |piece: Piece| {
            if let Piece::Line { line, raw } = piece
                && !is_blank(&raw)
            {
                ready.push_back(FileRequest { line, raw });
            }
            Ok::<(), Infallible>(())
        };
        let Ok(()) = if self.chunk_no >= file.chunks {
            self.splitter.take().map_or(Ok(()), |splitter| splitter.finish(&mut give))
        } else {
            let (id, no) = (file.id, self.chunk_no);
            let chunk = match store_retry.ask(|| store.read_chunk(scope, id, no)).await {
                Ok(chunk) => chunk,
                Err(error) if error.kind == Kind::Missing => return self.end(),
                Err(error) => return Err(error),
            };
            self.chunk_no += 1;
            self.splitter.as_mut().map_or(Ok(()), |splitter| splitter.push(chunk, &mut give))
        };
        Ok(())
    }

    /// The file is gone: its retention is not that of the results.
    fn end(&mut self) -> Result<()> {
        self.splitter = None;
        Ok(())
    }
}
