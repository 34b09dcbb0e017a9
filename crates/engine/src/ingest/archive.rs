//! Opening a zip archive that anybody may have made: its directory and its sizes are bounded before anything of
//! it is used.
//!
//! Holds throughout: no more than a bound is read while the directory is opened, whatever it says; what is
//! unpacked later is bounded by its reader, so that nothing relies on a size that the archive claims.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zip::ZipArchive;
use zip::result::ZipError;

/// Most bytes that are read to open an archive: its directory.
const DIRECTORY_BYTES_MAX: u64 = 16 << 20;
/// Most entries.
const ENTRIES_MAX: usize = 100_000;
/// An archive that unpacks to this is small, however well it is packed.
const SMALL_BYTES: u64 = 64 << 20;
/// Larger ones are packed at most so well.
const RATIO_MAX: u64 = 200;

/// A reader that gives at most so many bytes, while it is bounded.
pub(crate) struct Metered<R> {
    inner: R,
    left: Arc<AtomicU64>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.load(Ordering::Relaxed);
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::other(TOO_LARGE));
        }
        let read = self.inner.read(&mut buffer[..most])?;
        self.left.store(left - read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

const TOO_LARGE: &str = "the archive's directory is too large";

/// An archive whose directory was read under bounds.
pub(crate) type Archive<R> = ZipArchive<Metered<R>>;

/// Why an archive is not read.
#[derive(Debug)]
pub(crate) enum ArchiveError {
    /// It is not one, or it is made to do harm: a code and a sentence.
    Refused(&'static str, String),
    /// It could not be read.
    Read(io::Error),
}

impl ArchiveError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Refused("invalid_archive", message.into())
    }

    /// What the library said about an archive.
    pub(crate) fn of(error: ZipError) -> Self {
        match error {
            ZipError::Io(error) if error.to_string() == TOO_LARGE => {
                bomb(&format!("its directory has more than {DIRECTORY_BYTES_MAX} bytes"))
            }
            ZipError::Io(error) if error.kind() == io::ErrorKind::Other => Self::Read(error),
            error => Self::invalid(format!("The zip archive cannot be read: {error}.")),
        }
    }
}

fn bomb(because: &str) -> ArchiveError {
    let message = format!("The zip archive is not read: {because}.");
    ArchiveError::Refused("archive_too_large", message)
}

/// Opens an archive of `size` bytes.
pub(crate) fn open<R: Read + Seek>(reader: R, size: u64) -> Result<Archive<R>, ArchiveError> {
    let left = Arc::new(AtomicU64::new(DIRECTORY_BYTES_MAX));
    let metered = Metered { inner: reader, left: left.clone() };
    let archive = ZipArchive::new(metered).map_err(ArchiveError::of)?;
    if archive.len() > ENTRIES_MAX {
        return Err(bomb(&format!("it has more than {ENTRIES_MAX} entries")));
    }
    let (mut packed, mut unpacked) = (0_u64, 0_u64);
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(ArchiveError::of)?;
        packed = packed.saturating_add(entry.compressed_size());
        unpacked = unpacked.saturating_add(entry.size());
    }
    if packed > size {
        return Err(bomb("its entries lie over one another"));
    }
    if unpacked > SMALL_BYTES && unpacked / size.max(1) > RATIO_MAX {
        return Err(bomb(&format!("it unpacks to more than {RATIO_MAX} times its size")));
    }
    // From here on each reader has its own bound.
    left.store(u64::MAX, Ordering::Relaxed);
    Ok(archive)
}
