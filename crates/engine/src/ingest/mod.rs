//! Ingest: bytes become the validated lines of a sealed file.
//!
//! Requests come in by [`ingest`]; [`ingest_input`] takes any input (requests, records, sheets, pictures, packed
//! or not) and finds out what it is. Both are one pipeline. Three things happen at once, with a bounded queue between each two: blocks are read, parsed on a
//! thread of their own, and written in chunks, whose size follows what the store bears.
//!
//! Holds throughout: the bytes that came in are kept exactly; memory does not grow with the file;
//! a file that fails in the middle is invisible and dropped (by this call if the store
//! answers, by the sweep otherwise); a file that does not validate is sealed with its errors.

mod archive;
mod chunks;
mod csv;
mod duplicates;
mod input;
pub(crate) mod jsonl;
mod options;
mod original;
mod parse;
mod picture_rows;
mod recut;
mod rows;
mod sheet;
mod sizer;
pub(crate) mod split;
mod table;
mod unpack;
mod workbook_check;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;
use windrow_domain::FileId;
use windrow_store::ingest::{
    Chunk, File, FileDescription, FileVerdict, LineError, NewFile, Original,
};
use windrow_store::{Ingest, Retry, Scope, pool_wait};

use crate::clock::Clock;
use crate::rows::{Head, WrongKind};
use crate::storage;

pub(crate) use csv::CsvCutter;
pub use input::{Recognised, ingest_input, ingest_pictures, recognise};
pub use options::Options;
pub(crate) use original::delete_place;
pub use original::{PictureArchive, original_place};
use parse::{Give, Parse, Parser, Stopped, ValidationReport};
pub use recut::recut;
use sizer::Sizer;
pub use unpack::{Packing, Reader, peek};

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
    /// What its rows are; none for a file of requests.
    pub head: Option<Head>,
    /// Rows that cannot be read, in order, as far as they are kept. They stop no other row.
    pub warnings: Vec<LineError>,
    /// How many such rows there are, kept or not.
    pub warnings_total: u64,
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
    /// The input is a kind of file that cannot be read. Nothing was stored.
    #[error(transparent)]
    WrongKind(#[from] WrongKind),
    /// The storage did not keep the input.
    #[error("could not keep the input in the storage")]
    Storage(#[from] storage::Error),
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
    let writer = IngestWriter::new(clock, store, file.id, options);
    let parser = Parser::new(writer.options.clone(), writer.sizer.limit());
    writer.within_file(file, writer.fill(reader, Box::new(parser), None)).await
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

impl<'s, S: Ingest + Sync + ?Sized> IngestWriter<'s, S> {
    fn new(clock: &'s Clock, store: &'s S, file: FileId, options: Options) -> Self {
        let options = options.bounded();
        let sizer = Sizer::new(&options);
        Self { clock, store, file, options, sizer, stored: 0.into() }
    }

    /// Opens the file, waits for the work that fills it, and drops the file if that failed.
    async fn within_file(
        &self,
        file: NewFile,
        work: impl Future<Output = Result<Ingested, Error>> + Send,
    ) -> Result<Ingested, Error> {
        self.call(|| self.store.open_file(file.clone())).await?;
        let done = work.await;
        if done.is_err() {
            // Best effort: the sweep drops what was not sealed.
            let _ = self.store.drop_file(&Scope::Owner(file.owner), file.id).await;
        }
        done
    }

    /// Says where the input will be kept, before it is: then the sweep finds what is given up.
    async fn describe_original(&self, place: &str) -> Result<(), Error> {
        let original = Original { place: place.to_owned(), bytes: 0 };
        let description = FileDescription { head: None, original: Some(original) };
        self.call(|| self.store.describe_file(self.file, description.clone())).await
    }

    /// Fills the file with what is read, and seals it.
    async fn fill(
        &self,
        reader: impl AsyncRead + Send,
        parser: Box<dyn Parse>,
        original: Option<Original>,
    ) -> Result<Ingested, Error> {
        let (to_parser, blocks) = mpsc::channel(BLOCKS_WAITING_MAX);
        let (to_writer, chunks) = mpsc::channel(CHUNKS_WAITING_MAX);
        // When this call is given up, both channels close and the thread ends by itself.
        let parser = tokio::task::spawn_blocking(move || parse(blocks, &to_writer, parser));
        let (read, written) = self.move_lines(reader, to_parser, chunks).await;
        let parsed = parser.await.expect("the parser does not panic");
        written?;
        match (parsed, read) {
            (Ok(Parsed::Whole(report)), _) => self.seal(report, original).await,
            (Ok(Parsed::Broken(after_line)), Err(ReadError::Read(source))) => {
                Err(Error::Read { after_line, source })
            }
            (Ok(Parsed::Broken(after_line)), Err(ReadError::TooLarge)) => {
                Err(Error::TooLarge { bytes_max: self.options.file_bytes_max, after_line })
            }
            (Err(Stopped::Spill(source)), _) => {
                Err(Error::Spill { after_line: self.stored.load(Ordering::Relaxed), source })
            }
            (Err(Stopped::Read(source)), _) => {
                Err(Error::Read { after_line: self.stored.load(Ordering::Relaxed), source })
            }
            (Err(Stopped::Unwanted) | Ok(Parsed::Broken(_)), _) => {
                unreachable!("the reader and the writer end before the parser, or say why")
            }
        }
    }

    /// Fills the file with what `produce` makes on a thread of its own, and seals it.
    async fn fill_from(
        &self,
        produce: impl FnOnce(Give<'_>) -> Result<ValidationReport, Stopped> + Send + 'static,
        original: Original,
    ) -> Result<Ingested, Error> {
        let (to_writer, chunks) = mpsc::channel(CHUNKS_WAITING_MAX);
        let producer = tokio::task::spawn_blocking(move || {
            produce(&mut |chunk| to_writer.blocking_send(chunk).map_err(|_| Stopped::Unwanted))
        });
        let written = self.write(chunks).await;
        let produced = producer.await;
        written?;
        let after_line = self.stored.load(Ordering::Relaxed);
        // The libraries that read workbooks and archives may panic over what nobody foresaw.
        let Ok(produced) = produced else {
            let source = io::Error::new(io::ErrorKind::InvalidData, "the input cannot be read");
            return Err(Error::Read { after_line, source });
        };
        match produced {
            Ok(report) => self.seal(report, Some(original)).await,
            Err(Stopped::Read(source)) => Err(Error::Read { after_line, source }),
            Err(Stopped::Spill(source)) => Err(Error::Spill { after_line, source }),
            Err(Stopped::Unwanted) => unreachable!("the writer says why it stopped"),
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
        let (done, waited) = pool_wait::watched(self.store.add_lines(self.file, chunk)).await;
        self.sizer.observe(pieces, self.clock.millis() - started_ms, waited, &done);
        done
    }

    async fn seal(
        &self,
        report: ValidationReport,
        original: Option<Original>,
    ) -> Result<Ingested, Error> {
        let ValidationReport { errors, errors_total, endpoint, unknown_keys, .. } = report;
        let ValidationReport { head, warnings, warnings_total, .. } = report;
        if head.is_some() || original.is_some() {
            // A head that is too large is an error of the file, and has no names here.
            let head = head.as_ref().and_then(Head::to_text);
            let description = FileDescription { head, original };
            self.call(|| self.store.describe_file(self.file, description.clone())).await?;
        }
        let verdict = match (errors.is_empty(), endpoint) {
            (true, Some(endpoint)) => FileVerdict::ValidFor(endpoint),
            (true, None) => FileVerdict::Valid,
            (false, _) => FileVerdict::Invalid(errors.clone()),
        };
        let file = self.call(|| self.store.seal_file(self.file, verdict.clone())).await?;
        Ok(Ingested { file, errors, errors_total, unknown_keys, head, warnings, warnings_total })
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
    mut parser: Box<dyn Parse>,
) -> Result<Parsed, Stopped> {
    let mut give = |chunk| to_writer.blocking_send(chunk).map_err(|_| Stopped::Unwanted);
    loop {
        match blocks.blocking_recv() {
            Some(Block::Bytes(block)) => parser.push(block, &mut give)?,
            Some(Block::End) => return parser.finish(&mut give).map(Parsed::Whole),
            None => return Ok(Parsed::Broken(parser.lines())),
        }
    }
}
