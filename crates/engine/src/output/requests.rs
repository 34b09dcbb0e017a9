//! The requests of a batch's file, in line order, read again from its chunks.
//!
//! Holds throughout: lines have the numbers that the ingest gave them, since the same splitter cuts
//! them; one chunk is in memory.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;

use bytes::Bytes;
use windrow_store::Result;
use windrow_store::ingest::File;

use super::writer::Source;
use crate::ingest::jsonl::is_blank;
use crate::ingest::split::{Piece, Splitter};
use crate::json;

/// Walks over the requests.
pub(super) struct Requests<'a> {
    source: &'a Source<'a>,
    /// None until the first request is wanted: most batches never want one.
    file: Option<File>,
    chunk_no: u32,
    /// None at the end of the file.
    splitter: Option<Splitter>,
    ready: VecDeque<Request>,
}

/// A line of the file that is a request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) line: u64,
    raw: Bytes,
}

impl Request {
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
    pub(super) async fn next_before(&mut self, before: u64) -> Result<Option<Request>> {
        while self.ready.is_empty() && self.splitter.is_some() {
            self.fill().await?;
        }
        Ok(self.ready.pop_front_if(|request| request.line < before))
    }

    /// The request on that line; what comes before it is passed over.
    pub(super) async fn find(&mut self, line: u64) -> Result<Option<Request>> {
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
            self.file = Some(store_retry.ask(|| store.file(scope, batch.file)).await?);
        }
        let file = self.file.as_ref().expect("it was just read");
        let ready = &mut self.ready;
        let mut give = |piece: Piece| {
            if let Piece::Line { line, raw } = piece
                && !is_blank(&raw)
            {
                ready.push_back(Request { line, raw });
            }
            Ok::<(), Infallible>(())
        };
        let Ok(()) = if self.chunk_no >= file.chunks {
            self.splitter.take().map_or(Ok(()), |splitter| splitter.finish(&mut give))
        } else {
            let (id, no) = (file.id, self.chunk_no);
            let chunk = store_retry.ask(|| store.read_chunk(scope, id, no)).await?;
            self.chunk_no += 1;
            self.splitter.as_mut().map_or(Ok(()), |splitter| splitter.push(chunk, &mut give))
        };
        Ok(())
    }
}
