//! Before a workbook is opened: each of its parts is unpacked once under bounds and nothing of it is kept.
//!
//! The reader of workbooks takes a part's word for how much memory it needs, and an allocation that fails ends
//! the process. So the sizes are counted here first, by what the parts are and not by what they say.
//!
//! Holds throughout: the memory of a check is one block; every part is checked, since any of them may be named
//! as the one that is read.

use std::io::{self, Read, Seek};

use super::archive::{Archive, ArchiveError};

/// Texts of all sheets, unpacked.
const SHARED_TEXT_BYTES_MAX: u64 = 256 << 20;
/// A text takes at least so many bytes: `<si/>` and the rest.
const SHARED_TEXT_BYTES_MIN: u64 = 8;
/// A part that is read cell by cell, unpacked.
const SHEET_BYTES_MAX: u64 = 4 << 30;
/// A part that is read whole, unpacked: styles, names, relations, and pictures, which nobody reads.
const PART_BYTES_MAX: u64 = 64 << 20;
/// Between two tags, within one, or within one cell. A cell has at most 32,767 characters.
const CELL_BYTES_MAX: u64 = 1 << 20;
/// Unpacked at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// Kept of a tag to know it.
const TAG_BYTES_MAX: usize = 512;

/// Checks every part of a workbook.
pub(crate) fn check<R: Read + Seek>(archive: &mut Archive<R>) -> Result<(), ArchiveError> {
    let mut is_workbook = false;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| match error {
            zip::result::ZipError::UnsupportedArchive(_) => {
                ArchiveError::Refused("encrypted", "The workbook is encrypted.".to_owned())
            }
            error => ArchiveError::of(error),
        })?;
        let name = entry.name().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        judge_name(&name)?;
        is_workbook |= name.ends_with("workbook.xml");
        Scan::default().run(entry).map_err(|stopped| stopped.of_part(&name))?;
    }
    if is_workbook {
        return Ok(());
    }
    Err(ArchiveError::invalid("The archive holds no workbook that can be read."))
}

/// Kinds of workbooks that are refused by their parts.
fn judge_name(name: &str) -> Result<(), ArchiveError> {
    let (code, what) = match name {
        _ if name.ends_with("vbaproject.bin") || name.contains("macrosheets/") => {
            ("macros", "has macros; save it as .xlsx")
        }
        _ if name.ends_with("workbook.bin") => ("wrong_kind", "is binary; save it as .xlsx"),
        "encryptedpackage" | "encryptioninfo" => ("encrypted", "is encrypted"),
        _ => return Ok(()),
    };
    Err(ArchiveError::Refused(code, format!("The workbook {what}.")))
}

/// Why a part was refused.
enum Refused {
    TooLarge(u64),
    CellTooLarge,
    CountLies(u64),
    Disguised,
    Broken(io::Error),
}

impl Refused {
    fn of_part(self, name: &str) -> ArchiveError {
        let name: String = name.chars().take(80).collect();
        let because = match self {
            Refused::TooLarge(bytes_max) => format!("has more than {bytes_max} bytes"),
            Refused::CellTooLarge => format!("has more than {CELL_BYTES_MAX} bytes in one cell"),
            Refused::CountLies(count) => format!("says that it holds {count} texts, and does not"),
            Refused::Disguised => "has marks that no spreadsheet writes".to_owned(),
            Refused::Broken(error) if error.kind() == io::ErrorKind::Other => {
                return ArchiveError::Read(error);
            }
            Refused::Broken(error) => {
                return ArchiveError::invalid(format!(
                    "The part {name:?} cannot be read: {error}."
                ));
            }
        };
        let message = format!("The workbook is not read: its part {name:?} {because}.");
        ArchiveError::Refused("workbook_too_large", message)
    }
}

/// One part on its way through.
#[derive(Default)]
struct Scan {
    total: u64,
    /// Of those that count for the kind that is being read.
    bytes: u64,
    kind: Kind,
    /// Bytes since a cell, a row or a text began.
    since: u64,
    /// Bytes since the last bracket.
    run: u64,
    in_tag: bool,
    tag: Vec<u8>,
    /// How many texts the part says it holds.
    count: Option<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// Nothing was seen yet.
    #[default]
    Unknown,
    /// No XML: nobody reads it.
    Binary,
    Part,
    Sheet,
    SharedTexts,
}

impl Scan {
    fn run(mut self, mut part: impl Read) -> Result<(), Refused> {
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let read = part.read(&mut block).map_err(Refused::Broken)?;
            if read == 0 {
                return self.judge_count();
            }
            self.bytes += read as u64;
            self.total += read as u64;
            self.take(&block[..read])?;
            let bytes_max = match self.kind {
                Kind::Unknown | Kind::Binary | Kind::Part => PART_BYTES_MAX,
                Kind::Sheet => SHEET_BYTES_MAX,
                Kind::SharedTexts => SHARED_TEXT_BYTES_MAX,
            };
            if self.bytes > bytes_max || self.total > SHEET_BYTES_MAX {
                return Err(Refused::TooLarge(bytes_max));
            }
        }
    }

    fn take(&mut self, mut block: &[u8]) -> Result<(), Refused> {
        if self.kind == Kind::Unknown {
            let text = block.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(block).trim_ascii_start();
            self.kind = if text.starts_with(b"<") { Kind::Part } else { Kind::Binary };
        }
        while self.kind != Kind::Binary && !block.is_empty() {
            let wanted = if self.in_tag { b'>' } else { b'<' };
            let found = memchr::memchr(wanted, block);
            let end = found.map_or(block.len(), |at| at + 1);
            self.run += end as u64;
            self.since += end as u64;
            if self.in_tag && self.tag.len() < TAG_BYTES_MAX {
                let room = TAG_BYTES_MAX - self.tag.len();
                self.tag.extend_from_slice(&block[..end.min(room)]);
            }
            if self.run > CELL_BYTES_MAX || (self.is_counted() && self.since > CELL_BYTES_MAX) {
                return Err(Refused::CellTooLarge);
            }
            if found.is_some() {
                if self.in_tag {
                    self.end_tag()?;
                }
                (self.in_tag, self.run) = (!self.in_tag, 0);
            }
            block = &block[end..];
        }
        Ok(())
    }

    fn is_counted(&self) -> bool {
        matches!(self.kind, Kind::Sheet | Kind::SharedTexts)
    }

    fn end_tag(&mut self) -> Result<(), Refused> {
        let tag = std::mem::take(&mut self.tag);
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/');
        let (closes, name) = match tag.strip_prefix(b"/") {
            Some(name) => (true, name),
            None => (false, &tag[..]),
        };
        let name = name.split(is_end).next().unwrap_or_default();
        let local = name.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        match local {
            // What stands in a comment or in raw text is no tag, and looks like one here.
            _ if tag.starts_with(b"!") && self.is_counted() => return Err(Refused::Disguised),
            b"sheetData" => {
                self.kind = if closes { Kind::Part } else { Kind::Sheet };
                (self.since, self.bytes) = (0, if closes { 0 } else { self.bytes });
            }
            b"sst" if !closes => {
                (self.kind, self.since) = (Kind::SharedTexts, 0);
                self.count = self.count.max(unique_count(&tag)?);
            }
            b"row" | b"c" | b"si" => self.since = 0,
            _ => {}
        }
        self.tag = tag;
        self.tag.clear();
        Ok(())
    }

    /// A part that says it holds texts that it has no room for would have memory taken for them.
    fn judge_count(&self) -> Result<(), Refused> {
        match self.count {
            Some(count) if count > self.total / SHARED_TEXT_BYTES_MIN => {
                Err(Refused::CountLies(count))
            }
            _ => Ok(()),
        }
    }
}

/// How many texts a tag `sst` says there are, at most. One that is too long to be seen whole, or whose quotes
/// do not pair, could say anything.
fn unique_count(tag: &[u8]) -> Result<Option<u64>, Refused> {
    let unpaired = |quote: u8| memchr::memchr_iter(quote, tag).count() % 2 == 1;
    if tag.len() >= TAG_BYTES_MAX || unpaired(b'"') || unpaired(b'\'') {
        return Err(Refused::Disguised);
    }
    let counts = memchr::memmem::find_iter(tag, b"uniqueCount").map(|at| {
        let rest = &tag[at + b"uniqueCount".len()..];
        let digits = rest.iter().skip_while(|byte| !byte.is_ascii_digit());
        let digits: Vec<u8> = digits.copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
    });
    Ok(counts.max())
}
