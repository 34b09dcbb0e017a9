//! Originals: inputs whose stored rows are not their bytes (packed, sheets, pictures, decoded text) are kept in
//! the storage as they came, before anything is made of them.
//!
//! Holds throughout: all that belongs to a file lies in one folder of the storage, named by the file's id; an
//! original is there whole or not at all.

use std::io::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use windrow_domain::FileId;
use windrow_store::ingest::Original;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, StreamWriter, ZipWriter};

use super::Error;
use crate::pictures::PICTURE_BYTES_MAX;
use crate::storage::{self, Storage, Writer};

/// Read at a time.
const BLOCK_BYTES: usize = 1 << 18;
/// The folder of all originals.
pub(crate) const FOLDER: &str = "inputs";

/// Small copies that are listed at a time, to be deleted.
const COPIES_LISTED_MAX: usize = 1000;

/// Where the original of a file is kept.
pub fn original_place(file: FileId) -> String {
    format!("{FOLDER}/{file}/original")
}

/// Deletes an output, or an original with all that was made of it.
pub(crate) async fn delete_place(storage: &Storage, place: &str) -> storage::Result<()> {
    let folder = place.strip_suffix("/original").filter(|folder| folder.starts_with(FOLDER));
    if let Some(folder) = folder {
        loop {
            let copies = storage.list(&format!("{folder}/thumbnails"), COPIES_LISTED_MAX).await?;
            for copy in &copies {
                storage.delete(&copy.name).await?;
            }
            if copies.len() < COPIES_LISTED_MAX {
                break;
            }
        }
    }
    storage.delete(place).await
}

/// Keeps an input; a larger one than the bound is not kept.
pub(super) async fn keep(
    storage: &Storage,
    place: String,
    reader: impl AsyncRead + Send,
    bytes_max: u64,
) -> Result<Original, Error> {
    let mut reader = std::pin::pin!(reader);
    let mut writer = storage.create(&place)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let read = reader.read(&mut block).await;
        let read = read.map_err(|source| Error::Read { after_line: 0, source })?;
        if read == 0 {
            let bytes = writer.finish().await?;
            return Ok(Original { place, bytes });
        }
        if writer.bytes() + read as u64 > bytes_max {
            writer.abort().await;
            return Err(Error::TooLarge { bytes_max, after_line: 0 });
        }
        writer.write(&block[..read]).await?;
    }
}

/// Makes one archive of several pictures, on their way into the storage. At most one picture is in memory.
pub struct PictureArchive {
    place: String,
    zip: ZipWriter<StreamWriter<Shared>>,
    made: Shared,
    writer: Writer,
    bytes_max: u64,
}

/// What the archive's writer made and the storage did not take yet.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PictureArchive {
    /// Begins the archive of a file.
    pub fn create(storage: &Storage, file: FileId, bytes_max: u64) -> Result<Self, Error> {
        let (place, made) = (original_place(file), Shared::default());
        let (zip, writer) = (ZipWriter::new_stream(made.clone()), storage.create(&place)?);
        Ok(Self { place, zip, made, writer, bytes_max })
    }

    /// Adds a picture, or what somebody takes for one. Of one that is too large only so much is kept that it
    /// is seen.
    pub async fn add(&mut self, name: &str, reader: impl AsyncRead + Send) -> Result<(), Error> {
        let broken = |source| Error::Read { after_line: 0, source };
        let mut bytes = Vec::new();
        let most = PICTURE_BYTES_MAX + 1;
        std::pin::pin!(reader).take(most).read_to_end(&mut bytes).await.map_err(broken)?;
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let other = |error: zip::result::ZipError| broken(io::Error::other(error));
        self.zip.start_file(name, options).map_err(other)?;
        self.zip.write_all(&bytes).map_err(broken)?;
        drop(bytes);
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let made = std::mem::take(&mut *self.made.0.lock());
        if self.writer.bytes() + made.len() as u64 > self.bytes_max {
            return Err(Error::TooLarge { bytes_max: self.bytes_max, after_line: 0 });
        }
        Ok(self.writer.write(&made).await?)
    }

    /// Makes it visible.
    pub(super) async fn finish(mut self) -> Result<Original, Error> {
        let finished = self.zip.finish().map(drop).map_err(io::Error::other);
        finished.map_err(|source| Error::Read { after_line: 0, source })?;
        let made = std::mem::take(&mut *self.made.0.lock());
        self.writer.write(&made).await?;
        let bytes = self.writer.finish().await?;
        Ok(Original { place: self.place, bytes })
    }
}
