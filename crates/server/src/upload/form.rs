//! The parts of a form, in any order: texts are kept, the file is passed on as it comes.
//!
//! Holds throughout: the file's end is passed on only when the form was read to its own end and is
//! right.

use std::io;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::expiry::ExpiresAfter;
use super::multipart::{FormPart, MultipartForm};
use crate::error::{Error, Result};

/// The one purpose of an upload.
pub(super) const PURPOSE: &str = "batch";
/// Longest text of a part that is not the file.
const TEXT_BYTES_MAX: usize = 1024;
/// Most parts of a form.
pub(crate) const PARTS_MAX: usize = 16;

/// What the parts beside the file say.
#[derive(Debug, Default)]
pub(crate) struct FormFields {
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
}

/// A file comes.
#[derive(Debug)]
pub(crate) struct FileStart {
    /// What it is called.
    pub(crate) name: Option<String>,
    /// How long it lives, when that was said before it.
    pub(crate) life_secs: Option<u64>,
}

/// What comes of a file.
#[derive(Debug)]
pub(crate) enum FilePiece {
    Bytes(Bytes),
    /// How long it lives, when that was said after it.
    Life(u64),
}

/// Reads a form, and passes its file on to who stores it.
pub(crate) struct FormReader {
    form: FormFields,
    /// Used when the file begins.
    begins: Option<oneshot::Sender<FileStart>>,
    pieces: mpsc::Sender<io::Result<FilePiece>>,
    life_secs: Option<u64>,
}

/// Why a form was not read to its end; none when the file is not wanted any more, and who stores it
/// knows why.
type Stopped = Option<Error>;

impl FormReader {
    pub(crate) fn new(
        form: FormFields,
        begins: oneshot::Sender<FileStart>,
        pieces: mpsc::Sender<io::Result<FilePiece>>,
    ) -> Self {
        Self { form, begins: Some(begins), pieces, life_secs: None }
    }

    /// Reads it to its end. The channel closes only behind a whole file of a form that is right.
    pub(crate) async fn read(mut self, mut parts: MultipartForm) -> Result<(), Stopped> {
        let read = self.read_parts(&mut parts).await;
        if read.is_err() {
            // Without this, what came so far would pass for the whole.
            let _ = self.pieces.send(Err(io::ErrorKind::InvalidData.into())).await;
        }
        read
    }

    async fn read_parts(&mut self, parts: &mut MultipartForm) -> Result<(), Stopped> {
        for _ in 0..PARTS_MAX {
            let Some(part) = parts.next().await? else {
                return self.finish().await;
            };
            match (part.name(), self.begins.take()) {
                (Some("file"), Some(begins)) => self.delegate(part, begins).await?,
                (Some("file"), None) => {
                    return Err(Some(Error::invalid("file", "There is more than one `file`.")));
                }
                (Some(_), begins) => {
                    self.begins = begins;
                    self.form.read(part).await?;
                }
                (None, _) => {
                    return Err(Some(Error::invalid("form", "A part of the form has no name.")));
                }
            }
        }
        Err(Some(Error::invalid("form", format!("A form has at most {PARTS_MAX} parts."))))
    }

    /// What is known to be wrong already stops it before anything is stored.
    async fn delegate(
        &mut self,
        mut part: FormPart<'_>,
        begins: oneshot::Sender<FileStart>,
    ) -> Result<(), Stopped> {
        if self.form.purpose.is_some() {
            self.form.check_purpose()?;
        }
        if self.form.anchor.is_some() && self.form.seconds.is_some() {
            self.life_secs = self.form.life_secs()?;
        }
        let name = part.file_name().map(str::to_owned);
        begins.send(FileStart { name, life_secs: self.life_secs }).map_err(|_| None)?;
        while let Some(bytes) = part.chunk().await? {
            self.pieces.send(Ok(FilePiece::Bytes(bytes))).await.map_err(|_| None)?;
        }
        Ok(())
    }

    async fn finish(&self) -> Result<(), Stopped> {
        if self.begins.is_some() {
            // Who waits for a file learns that none came.
            return Ok(());
        }
        self.form.check_purpose()?;
        match self.form.life_secs()? {
            Some(secs) if self.life_secs.is_none() => {
                self.pieces.send(Ok(FilePiece::Life(secs))).await.map_err(|_| None)
            }
            _ => Ok(()),
        }
    }
}

impl FormFields {
    /// One whose call says what it is for.
    pub(crate) fn for_purpose(purpose: &str) -> Self {
        Self { purpose: Some(purpose.to_owned()), ..Self::default() }
    }

    /// Takes a part that is not the file.
    async fn read(&mut self, mut part: FormPart<'_>) -> Result<(), Stopped> {
        let name = part.name().unwrap_or_default().to_owned();
        let slot = match name.as_str() {
            "purpose" => &mut self.purpose,
            "expires_after[anchor]" => &mut self.anchor,
            "expires_after[seconds]" => &mut self.seconds,
            // A newer client may say more than we know.
            _ => &mut None,
        };
        let wrong = |message: String| Some(Error::invalid(shown(&name), message));
        let mut text = Vec::new();
        while let Some(piece) = part.chunk().await? {
            text.extend_from_slice(&piece);
            if text.len() > TEXT_BYTES_MAX {
                return Err(wrong(format!("It has at most {TEXT_BYTES_MAX} bytes.")));
            }
        }
        let text = String::from_utf8(text).map_err(|_| wrong("It is not UTF-8.".to_owned()))?;
        *slot = Some(text);
        Ok(())
    }

    fn check_purpose(&self) -> Result<()> {
        match self.purpose.as_deref() {
            Some(PURPOSE) => Ok(()),
            Some(_) => {
                Err(Error::invalid("purpose", "Files are taken for the purpose `batch` only."))
            }
            None => Err(Error::invalid(
                "purpose",
                "The form has no part `purpose`; it must be `batch`.",
            )),
        }
    }

    fn life_secs(&self) -> Result<Option<u64>> {
        let (Some(anchor), Some(seconds)) = (&self.anchor, &self.seconds) else {
            return match (&self.anchor, &self.seconds) {
                (None, None) => Ok(None),
                _ => Err(Error::invalid("expires_after", "It needs both `anchor` and `seconds`.")),
            };
        };
        let seconds = seconds.parse().map_err(|_| {
            Error::invalid("expires_after[seconds]", "It must be a whole number of seconds.")
        })?;
        ExpiresAfter::new(anchor, seconds).secs("expires_after").map(Some)
    }
}

/// A name that came from outside, as far as an error shows it.
fn shown(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(64).collect()
}
