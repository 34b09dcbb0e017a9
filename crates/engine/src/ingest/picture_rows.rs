//! Rows of pictures: each entry of an archive in the storage becomes a row that says where its picture lies.
//!
//! Holds throughout: of each entry only the beginning is read, as far as it is needed to know the picture's
//! size; an entry that is no picture is a row that says so; what systems leave in archives is passed over.

use std::io::{Read, Seek};

use zip::CompressionMethod;
use zip::read::ZipFile;

use super::archive::{Archive, ArchiveError, Metered};
use super::parse::{Give, Stopped};
use super::table::Table;
use crate::pictures::{PICTURE_BYTES_MAX, Picture, PictureFault, examine};
use crate::rows::{PICTURE_COLUMNS, read_row};

/// Read of an entry to know what it is.
const SAMPLE_BYTES: u64 = 64 << 10;
/// Longest name of an entry that is kept.
const NAME_CHARS_MAX: usize = 512;

/// Adds a row for each picture of an archive.
pub(crate) fn read<R: Read + Seek>(
    archive: &mut Archive<R>,
    table: &mut Table,
    give: Give<'_>,
) -> Result<(), Stopped> {
    table.name_columns(None, PICTURE_COLUMNS.map(str::to_owned).to_vec());
    let mut number = 0;
    for index in 0..archive.len() {
        let picture = match picture(archive, index) {
            Ok(Some(picture)) => picture,
            Ok(None) => continue,
            Err(ArchiveError::Read(error)) => return Err(Stopped::Read(error)),
            Err(ArchiveError::Refused(code, message)) => {
                table.fail(code, None, message);
                return Ok(());
            }
        };
        number += 1;
        let line = picture.line();
        if let Err(mut error) = read_row(&table.head, &line) {
            error.message = format!("{}: {}", picture.name, error.message);
            table.warn(number, error);
        }
        table.add(number, line.into(), give)?;
        if table.is_full() {
            return Ok(());
        }
    }
    Ok(())
}

/// The row of an entry; none for a folder and for what systems leave.
fn picture<R: Read + Seek>(
    archive: &mut Archive<R>,
    index: usize,
) -> Result<Option<Picture>, ArchiveError> {
    let mut entry = archive.by_index_raw(index).map_err(ArchiveError::of)?;
    let name = match entry.name() {
        Ok(name) => name.into_owned(),
        Err(_) => String::from_utf8_lossy(entry.name_raw()).into_owned(),
    };
    if entry.is_dir() || is_left_behind(&name) {
        return Ok(None);
    }
    let (packed_bytes, bytes) = (entry.compressed_size(), entry.size());
    let mut picture = Picture {
        name: name.chars().take(NAME_CHARS_MAX).collect(),
        at: entry.data_start().unwrap_or_default(),
        packed_bytes,
        deflated: entry.compression() == CompressionMethod::Deflated,
        bytes,
        mime: String::new(),
        width: 0,
        height: 0,
        taken_at: None,
        fault: None,
    };
    match examine_entry(&mut entry) {
        Ok(examined) => {
            examined.mime.clone_into(&mut picture.mime);
            (picture.width, picture.height) = (examined.width, examined.height);
            picture.taken_at = examined.taken_at;
        }
        Err(Trouble::Fault(fault)) => picture.fault = Some(fault),
        Err(Trouble::Archive(error)) => return Err(error),
    }
    Ok(Some(picture))
}

enum Trouble {
    Fault(PictureFault),
    Archive(ArchiveError),
}

fn examine_entry<R: Read>(
    entry: &mut ZipFile<'_, Metered<R>>,
) -> Result<crate::pictures::Examined, Trouble> {
    let (bytes, method) = (entry.size(), entry.compression());
    judge(entry).map_err(Trouble::Fault)?;
    let mut reader: Box<dyn Read + '_> = match method {
        CompressionMethod::Stored => Box::new(entry),
        _ => Box::new(flate2::read::DeflateDecoder::new(entry)),
    };
    let mut sample = Vec::new();
    let mut read = |sample: &mut Vec<u8>, most: u64| {
        let read = (&mut reader).take(most).read_to_end(sample);
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::Other => Trouble::Archive(ArchiveError::Read(error)),
            _ => Trouble::Fault(PictureFault::new("picture_invalid", "It cannot be unpacked.")),
        })
    };
    read(&mut sample, SAMPLE_BYTES)?;
    match examine(&sample) {
        // What says its size may stand behind large notes, or at the end.
        Err(fault) if fault.code == "picture_invalid" && (sample.len() as u64) < bytes => {
            read(&mut sample, PICTURE_BYTES_MAX)?;
            examine(&sample).map_err(Trouble::Fault)
        }
        examined => examined.map_err(Trouble::Fault),
    }
}

/// Whether an entry may be examined at.
fn judge<R: Read>(entry: &ZipFile<'_, Metered<R>>) -> Result<(), PictureFault> {
    let fault = |code: &str, message: String| Err(PictureFault::new(code, message));
    let (bytes, packed) = (entry.size(), entry.compressed_size());
    match entry.compression() {
        _ if entry.encrypted() => fault("picture_invalid", "It is encrypted.".to_owned()),
        _ if entry.is_symlink() || entry.enclosed_name().is_none() => {
            fault("not_a_picture", "It is a link, or its name leads out of the archive.".to_owned())
        }
        CompressionMethod::Stored | CompressionMethod::Deflated => {
            if bytes.max(packed) <= PICTURE_BYTES_MAX {
                return Ok(());
            }
            let message = format!("It has {bytes} bytes; at most {PICTURE_BYTES_MAX} are read.");
            fault("picture_too_large", message)
        }
        method => fault("picture_invalid", format!("It is packed by {method}, which is not read.")),
    }
}

/// What systems and programs leave in folders: nobody means it as a picture.
fn is_left_behind(name: &str) -> bool {
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name).to_ascii_lowercase();
    name.split(['/', '\\'])
        .any(|part| part == "__MACOSX" || (part.starts_with('.') && part != ".."))
        || matches!(last.as_str(), "thumbs.db" | "desktop.ini" | "")
}
