//! Any input: what it is is found out first, then it goes the way that its kind needs.
//!
//! | kind | way |
//! |---|---|
//! | requests | unpacked, as [`super::ingest`] takes them |
//! | records, lines of JSON | as they come; first to the storage when they are packed or must be decoded |
//! | workbooks, archives of pictures | to the storage, then read from there |
//! | pictures | into an archive in the storage, then as archives |
//!
//! Holds throughout: one pipeline; an input that cannot be read is refused before a file is opened, or its file
//! is sealed with what is wrong; what fails in the middle leaves neither a file nor an original.

use std::io;

use futures_util::TryStreamExt as _;
use tokio::io::AsyncRead;
use tokio::runtime::Handle;
use tokio_util::io::StreamReader;
use windrow_store::Ingest;
use windrow_store::ingest::{NewFile, Original};

use super::archive::{self, ArchiveError};
use super::original::{self, PictureArchive, original_place};
use super::parse::{Give, Stopped, ValidationReport};
use super::rows::RowParser;
use super::table::Table;
use super::unpack::{Packing, Reader, peek};
use super::{
    Error, IngestWriter, Ingested, Options, ingest_by, picture_rows, sheet, workbook_check,
};
use crate::clock::Clock;
use crate::rows::{Head, InputOptions, RowFormat, SAMPLE_BYTES, Sniffed, WrongKind, sniff};
use crate::storage::{SeekReader, Storage};

/// Takes any input in. What it is follows from its bytes, the file's name and what is told. The file's id must
/// be new for every upload.
pub async fn ingest_input<S, R>(
    store: &S,
    storage: &Storage,
    reader: R,
    file: NewFile,
    told: &InputOptions,
    options: Options,
) -> Result<Ingested, Error>
where
    S: Ingest + Sync + ?Sized,
    R: AsyncRead + Send,
{
    let Recognised { sniffed, packing, reader } = recognise(&file.name, reader, told).await?;
    let input = Input { store, storage, told, options, packing };
    // Each way is large, and only one of them is gone.
    match sniffed? {
        Sniffed::Requests => Box::pin(input.requests(reader, file)).await,
        Sniffed::Rows(head) if head.format == RowFormat::Images => {
            input.refuse_packed()?;
            Box::pin(input.picture(reader, file)).await
        }
        Sniffed::Rows(head) => Box::pin(input.text(reader, file, head)).await,
        Sniffed::Zip => {
            input.refuse_packed()?;
            Box::pin(input.archive(reader, file)).await
        }
    }
}

/// An input of which the beginning was read.
pub struct Recognised<'a> {
    /// What it is, or why it cannot be read.
    pub sniffed: Result<Sniffed, WrongKind>,
    /// How it is packed.
    pub packing: Option<Packing>,
    /// The whole input as it came, packed or not.
    pub reader: Reader<'a>,
}

/// Reads the beginning of an input that people call `name`, and says what it is.
pub async fn recognise<'a>(
    name: &str,
    reader: impl AsyncRead + Send + 'a,
    told: &InputOptions,
) -> Result<Recognised<'a>, Error> {
    let broken = |source| Error::Read { after_line: 0, source };
    let (sample, reader) = peek(reader, SAMPLE_BYTES).await.map_err(broken)?;
    let packing = Packing::of(&sample);
    let sample = match packing {
        Some(packing) => packing.sample(&sample, SAMPLE_BYTES).await,
        None => sample,
    };
    Ok(Recognised { sniffed: sniff(name, &sample, told), packing, reader })
}

/// Takes in the pictures of an archive that was made by [`PictureArchive::create`] for the same file.
pub async fn ingest_pictures<S>(
    store: &S,
    storage: &Storage,
    archive: PictureArchive,
    file: NewFile,
    options: Options,
) -> Result<Ingested, Error>
where
    S: Ingest + Sync + ?Sized,
{
    let told = InputOptions { format: Some(RowFormat::Images), ..InputOptions::default() };
    let input = Input { store, storage, told: &told, options, packing: None };
    Box::pin(input.kept(file, archive.finish())).await
}

struct Input<'i, S: ?Sized> {
    store: &'i S,
    storage: &'i Storage,
    told: &'i InputOptions,
    options: Options,
    packing: Option<Packing>,
}

impl<S: Ingest + Sync + ?Sized> Input<'_, S> {
    fn refuse_packed(&self) -> Result<(), Error> {
        match self.packing {
            Some(_) => Err(WrongKind::new(
                "Within gzip or zstd there is an archive or a picture; unpack it once and send that.",
            )
            .into()),
            None => Ok(()),
        }
    }

    fn unpack<'a>(&self, reader: Reader<'a>) -> Reader<'a> {
        match self.packing {
            Some(packing) => packing.unpack(reader),
            None => reader,
        }
    }

    async fn requests(&self, reader: Reader<'_>, file: NewFile) -> Result<Ingested, Error> {
        let (reader, options) = (self.unpack(reader), self.options.clone());
        ingest_by(&Clock::machine(), self.store, reader, file, options).await
    }

    async fn text(&self, reader: Reader<'_>, file: NewFile, head: Head) -> Result<Ingested, Error> {
        let clock = Clock::machine();
        let writer = IngestWriter::new(&clock, self.store, file.id, self.options.clone());
        let must_keep = self.packing.is_some() || head.decoded_from.is_some();
        let place = original_place(file.id);
        let parser = Box::new(RowParser::new(head, &writer.options, writer.sizer.limit()));
        let kept = place.clone();
        let work = async {
            if !must_keep {
                return writer.fill(reader, parser, None).await;
            }
            let bytes_max = writer.options.file_bytes_max;
            writer.describe_original(&kept).await?;
            let original = original::keep(self.storage, kept, reader, bytes_max).await?;
            let pieces = self.storage.read(&original.place).await?;
            let kept = StreamReader::new(pieces.map_err(io::Error::other));
            writer.fill(self.unpack(Box::pin(kept)), parser, Some(original)).await
        };
        let done = writer.within_file(file, work);
        self.forget_if_failed(done.await, must_keep.then_some(place)).await
    }

    async fn picture(&self, reader: Reader<'_>, file: NewFile) -> Result<Ingested, Error> {
        let mut archive =
            PictureArchive::create(self.storage, file.id, self.options.file_bytes_max)?;
        let name = file.name.clone();
        let keep = async {
            archive.add(&name, reader).await?;
            Box::pin(archive.finish()).await
        };
        self.kept(file, keep).await
    }

    async fn archive(&self, reader: Reader<'_>, file: NewFile) -> Result<Ingested, Error> {
        let bytes_max = self.options.file_bytes_max;
        let keep = original::keep(self.storage, original_place(file.id), reader, bytes_max);
        self.kept(file, keep).await
    }

    /// Keeps an archive in the storage, then makes rows of it.
    async fn kept(
        &self,
        file: NewFile,
        keep: impl Future<Output = Result<Original, Error>> + Send,
    ) -> Result<Ingested, Error> {
        let clock = Clock::machine();
        let writer = IngestWriter::new(&clock, self.store, file.id, self.options.clone());
        let place = original_place(file.id);
        let work = async {
            writer.describe_original(&place).await?;
            let original = keep.await?;
            let head = Head {
                sheet: self.told.sheet.clone(),
                ..Head::new(self.told.format.unwrap_or(RowFormat::Images))
            };
            let work = Work {
                reader: Opener {
                    runtime: Handle::current(),
                    storage: self.storage.clone(),
                    original: original.clone(),
                },
                told: self.told.clone(),
                table: Table::new(head, &writer.options, writer.sizer.limit()),
                line_bytes_max: writer.options.line_bytes_max,
            };
            writer.fill_from(move |give| work.run(give), original).await
        };
        let done = writer.within_file(file, work);
        self.forget_if_failed(done.await, Some(place)).await
    }

    /// An original without its file would stay for ever.
    async fn forget_if_failed(
        &self,
        done: Result<Ingested, Error>,
        place: Option<String>,
    ) -> Result<Ingested, Error> {
        if let (Err(_), Some(place)) = (&done, place) {
            let _ = self.storage.delete(&place).await;
        }
        done
    }
}

/// Opens an original as often as it is read.
struct Opener {
    runtime: Handle,
    storage: Storage,
    original: Original,
}

impl Opener {
    fn open(&self) -> SeekReader {
        let Original { place, bytes } = self.original.clone();
        SeekReader::new(self.runtime.clone(), self.storage.clone(), place, bytes)
    }
}

/// Rows of an archive, made on a thread of its own.
struct Work {
    reader: Opener,
    told: InputOptions,
    table: Table,
    line_bytes_max: usize,
}

impl Work {
    fn run(mut self, give: Give<'_>) -> Result<ValidationReport, Stopped> {
        match self.read(give) {
            Ok(()) => {}
            Err(Trouble::Stopped(stopped)) => return Err(stopped),
            Err(Trouble::Archive(ArchiveError::Read(error))) => return Err(Stopped::Read(error)),
            Err(Trouble::Archive(ArchiveError::Refused(code, message))) => {
                self.table.fail(code, None, message);
            }
        }
        self.table.finish(give)
    }

    fn read(&mut self, give: Give<'_>) -> Result<(), Trouble> {
        let mut archive = archive::open(self.reader.open(), self.reader.original.bytes)?;
        let is_workbook = archive
            .file_names()
            .any(|name| name.is_ok_and(|name| name.eq_ignore_ascii_case("[Content_Types].xml")));
        match (self.told.format, is_workbook) {
            (Some(RowFormat::Images), _) | (None, false) => {
                self.table.head.format = RowFormat::Images;
                Ok(picture_rows::read(&mut archive, &mut self.table, give)?)
            }
            (_, false) => Err(ArchiveError::invalid(
                "The input was said to be a workbook, and is another archive.",
            )
            .into()),
            (_, true) => {
                self.table.head.format = RowFormat::Xlsx;
                self.table.head.decimal = self.told.decimal;
                workbook_check::check(&mut archive)?;
                drop(archive);
                let (told, line_bytes_max) = (self.told.header, self.line_bytes_max);
                let reader = std::io::BufReader::new(self.reader.open());
                Ok(sheet::read(reader, &mut self.table, told, line_bytes_max, give)?)
            }
        }
    }
}

enum Trouble {
    Stopped(Stopped),
    Archive(ArchiveError),
}

impl From<Stopped> for Trouble {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl From<ArchiveError> for Trouble {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}
