//! Ingest: bytes become the validated lines of a sealed file.
//!
//! Three things happen at once, with a bounded queue between each two: blocks are read, parsed on a
//! thread of their own, and written in chunks, whose size follows what the store bears.
//!
//! Holds throughout: the bytes that came in are kept exactly; memory does not grow with the file;
//! a file that fails in the middle is invisible and dropped (by this call if the store
//! answers, by the sweep otherwise); a file that does not validate is sealed with its errors.

mod chunks;
mod duplicates;
pub(crate) mod jsonl;
mod options;
mod parse;
mod sizer;
pub(crate) mod split;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;
use windrow_domain::FileId;
use windrow_store::ingest::{Chunk, File, FileVerdict, LineError, NewFile};
use windrow_store::{Ingest, Retry, Scope};

use crate::clock::Clock;

pub use options::Options;
use parse::{Parser, Stopped, ValidationReport};
use sizer::{Limit, Sizer};

/// Blocks that wait to be parsed.
const BLOCKS_WAITING_MAX: usize = 1;
/// Chunks that wait to be written.
const CHUNKS_WAITING_MAX: usize = 1;

/// A file that was taken in: sealed, or kept as invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// The file as others see it now.
    pub file: File,
    /// What is wrong with it, in line order, as far as it is kept; empty for one that may be run.
    pub errors: Vec<LineError>,
    /// How many errors there are, kept or not.
    pub errors_total: u64,
    /// Names of a line beside those of a request, with the number of lines that have them; the first few
    /// names. Nothing is done with what stands under them.
    pub unknown_keys: BTreeMap<String, u64>,
}

/// An ingest that did not happen. Nothing of the file is visible.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input broke off.
    #[error("could not read the input after line {after_line}")]
    Read {
        /// Lines that were read to their end.
        after_line: u64,
        /// The error of the reader.
        source: io::Error,
    },
    /// The input is larger than [`Options::file_bytes_max`].
    #[error("the input is larger than {bytes_max} bytes; stopped after line {after_line}")]
    TooLarge {
        /// The most bytes that a file may have.
        bytes_max: u64,
        /// Lines that were read to their end.
        after_line: u64,
    },
    /// The store did not take the lines.
    #[error("could not store the file after line {after_line}")]
    Store {
        /// The last line that was stored; it is not visible.
        after_line: u64,
        /// What the store said.
        source: windrow_store::Error,
    },
    /// Ids did not fit in memory, and the temporary file failed.
    #[error("could not use a temporary file for ids after line {after_line}")]
    Spill {
        /// The last line that was stored; it is not visible.
        after_line: u64,
        /// What the file system said.
        source: io::Error,
    },
}

/// What a line of a valid file asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its url, without the query.
    pub path: String,
    /// The target that the line goes to.
    pub target: String,
}

/// Reads what a line asks for; none for one that is blank or no request.
pub fn asked(raw: &[u8], options: &Options) -> Option<Asked> {
    let request = jsonl::read(raw, options).ok()?;
    Some(Asked {
        method: request.method.as_ref().to_owned(),
        path: request.path().to_owned(),
        target: request.target().to_owned(),
    })
}

/// What the reader tells the parser.
enum Block {
    Bytes(Bytes),
    /// The input ended where it should.
    End,
}

#[derive(PartialEq, Eq)]
enum Filled {
    Whole,
    AtEnd,
}

/// What the parser made of the input.
enum Parsed {
    Whole(ValidationReport),
    /// The input broke off after this many whole lines.
    Broken(u64),
}

/// Why the reader stopped early.
enum ReadError {
    Read(io::Error),
    TooLarge,
}

/// Takes a JSONL file in. The file's id must be new for every upload: a repeat with the same id adds
/// nothing to chunks that are already there.
pub async fn ingest<S, R>(
    store: &S,
    reader: R,
    file: NewFile,
    options: Options,
) -> Result<Ingested, Error>
where
    S: Ingest + Sync + ?Sized,
    R: AsyncRead + Send,
{
    ingest_by(&Clock::machine(), store, reader, file, options).await
}

/// The same by another clock, which decides how long the store took and how long to back off.
pub async fn ingest_by<S, R>(
    clock: &Clock,
    store: &S,
    reader: R,
    file: NewFile,
    options: Options,
) -> Result<Ingested, Error>
where
    S: Ingest + Sync + ?Sized,
    R: AsyncRead + Send,
{
    let options = options.bounded();
    let sizer = Sizer::new(&options);
    let writer = IngestWriter { clock, store, file: file.id, options, sizer, stored: 0.into() };
    writer.call(|| store.open_file(file.clone())).await?;
    let done = writer.fill(reader).await;
    if done.is_err() {
        // Best effort: the sweep drops what was not sealed.
        let _ = store.drop_file(&Scope::Owner(file.owner), file.id).await;
    }
    done
}

/// The end that talks to the store.
struct IngestWriter<'s, S: ?Sized> {
    clock: &'s Clock,
    store: &'s S,
    file: FileId,
    options: Options,
    sizer: Sizer,
    /// The last line of the last chunk that was stored.
    stored: AtomicU64,
}

impl<S: Ingest + Sync + ?Sized> IngestWriter<'_, S> {
    async fn fill(&self, reader: impl AsyncRead + Send) -> Result<Ingested, Error> {
        let (to_parser, blocks) = mpsc::channel(BLOCKS_WAITING_MAX);
        let (to_writer, chunks) = mpsc::channel(CHUNKS_WAITING_MAX);
        let (options, rows) = (self.options.clone(), self.sizer.limit());
        // When this call is given up, both channels close and the thread ends by itself.
        let parser = tokio::task::spawn_blocking(move || parse(blocks, &to_writer, options, rows));
        let (read, written) = self.move_lines(reader, to_parser, chunks).await;
        let parsed = parser.await.expect("the parser does not panic");
        written?;
        match (parsed, read) {
            (Ok(Parsed::Whole(report)), _) => self.seal(report).await,
            (Ok(Parsed::Broken(after_line)), Err(ReadError::Read(source))) => {
                Err(Error::Read { after_line, source })
            }
            (Ok(Parsed::Broken(after_line)), Err(ReadError::TooLarge)) => {
                Err(Error::TooLarge { bytes_max: self.options.file_bytes_max, after_line })
            }
            (Err(Stopped::Spill(source)), _) => {
                Err(Error::Spill { after_line: self.stored.load(Ordering::Relaxed), source })
            }
            (Err(Stopped::Unwanted) | Ok(Parsed::Broken(_)), _) => {
                unreachable!("the reader and the writer end before the parser, or say why")
            }
        }
    }

    /// Reads and writes at the same time. Writing ends when the parser has ended or the store has
    /// failed: then no more input is waited for, however slow it is.
    async fn move_lines(
        &self,
        reader: impl AsyncRead + Send,
        to_parser: mpsc::Sender<Block>,
        chunks: mpsc::Receiver<Chunk>,
    ) -> (Result<(), ReadError>, Result<(), Error>) {
        let mut writing = std::pin::pin!(self.write(chunks));
        let reading = std::pin::pin!(self.read(reader, to_parser));
        tokio::select! {
            read = reading => (read, writing.await),
            written = &mut writing => (Ok(()), written),
        }
    }

    /// Reads blocks until the end. A parser that stopped says itself why.
    async fn read(
        &self,
        reader: impl AsyncRead + Send,
        to_parser: mpsc::Sender<Block>,
    ) -> Result<(), ReadError> {
        let mut reader = Box::pin(reader);
        let mut left = self.options.file_bytes_max;
        loop {
            let mut block = BytesMut::with_capacity(self.options.block_bytes);
            let filled = self.fill_block(&mut reader, &mut block).await;
            let size = block.len() as u64;
            left = left.checked_sub(size).ok_or(ReadError::TooLarge)?;
            if to_parser.send(Block::Bytes(block.freeze())).await.is_err() {
                return Ok(());
            }
            if filled.map_err(ReadError::Read)? == Filled::AtEnd {
                let _ = to_parser.send(Block::End).await;
                return Ok(());
            }
        }
    }

    /// Fills a block. What was read before an error stays in it.
    async fn fill_block(
        &self,
        reader: &mut (impl AsyncRead + Unpin),
        block: &mut BytesMut,
    ) -> io::Result<Filled> {
        while block.len() < self.options.block_bytes {
            if reader.read_buf(block).await? == 0 {
                return Ok(Filled::AtEnd);
            }
        }
        Ok(Filled::Whole)
    }

    async fn write(&self, mut chunks: mpsc::Receiver<Chunk>) -> Result<(), Error> {
        while let Some(chunk) = chunks.recv().await {
            let last = chunk.lines.last().map_or(0, |line| line.line);
            self.call(|| self.add(chunk.clone())).await?;
            self.stored.store(last, Ordering::Relaxed);
        }
        Ok(())
    }

    /// One attempt. Each counts by itself: a backoff says nothing about the size of a chunk.
    async fn add(&self, chunk: Chunk) -> windrow_store::Result<()> {
        let (pieces, started_ms) = (chunk.lines.len(), self.clock.millis());
        let done = self.store.add_lines(self.file, chunk).await;
        self.sizer.observe(pieces, self.clock.millis() - started_ms, &done);
        done
    }

    async fn seal(&self, report: ValidationReport) -> Result<Ingested, Error> {
        let ValidationReport { errors, errors_total, endpoint, unknown_keys } = report;
        let verdict = match (errors.is_empty(), endpoint) {
            (true, Some(endpoint)) => FileVerdict::ValidFor(endpoint),
            (true, None) => FileVerdict::Valid,
            (false, _) => FileVerdict::Invalid(errors.clone()),
        };
        let file = self.call(|| self.store.seal_file(self.file, verdict.clone())).await?;
        Ok(Ingested { file, errors, errors_total, unknown_keys })
    }

    /// Makes a store call, again if the store says that it may succeed. All of them are repeatable.
    async fn call<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = windrow_store::Result<T>>,
    {
        let policy = self.options.policy();
        let mut attempt = 1;
        loop {
            let source = match call().await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if source.kind.retry() == Retry::Never || attempt >= policy.attempts_max {
                let after_line = self.stored.load(Ordering::Relaxed);
                return Err(Error::Store { after_line, source });
            }
            self.clock.sleep(policy.delay(attempt, None, self.roll(attempt))).await;
            attempt += 1;
        }
    }

    /// Spreads the waits of several ingests: a number in `0.0..1.0` out of the file's own id.
    fn roll(&self, attempt: u32) -> f64 {
        let id = self.file.0.as_u64_pair().1;
        let mixed = id.rotate_left(attempt).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        f64::from(u32::try_from(mixed >> 32).expect("32 bits are left")) / f64::from(u32::MAX)
    }
}

/// The parser's thread: from blocks to chunks until the input ends or the chunks are not wanted any more.
fn parse(
    mut blocks: mpsc::Receiver<Block>,
    to_writer: &mpsc::Sender<Chunk>,
    options: Options,
    rows: Limit,
) -> Result<Parsed, Stopped> {
    let mut parser = Parser::new(options, rows);
    let mut give = |chunk| to_writer.blocking_send(chunk).map_err(|_| Stopped::Unwanted);
    loop {
        match blocks.blocking_recv() {
            Some(Block::Bytes(block)) => parser.push(block, &mut give)?,
            Some(Block::End) => return parser.finish(&mut give).map(Parsed::Whole),
            None => return Ok(Parsed::Broken(parser.lines())),
        }
    }
}
