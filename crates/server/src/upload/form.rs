//! The parts of an upload form, in any order: texts are kept, the file is passed on as it arrives.
//!
//! Holds throughout: the end of the file is passed on only when the form was read to its own end and is
//! valid.

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

/// The text parts of a form.
#[derive(Debug, Default)]
pub(crate) struct FormFields {
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
}

/// The start of a file.
#[derive(Debug)]
pub(crate) struct FileStart {
    /// The file name.
    pub(crate) name: Option<String>,
    /// The file's life, when its parts came before the file.
    pub(crate) life_secs: Option<u64>,
}

/// A piece of a file, or what came after it.
#[derive(Debug)]
pub(crate) enum FilePiece {
    Bytes(Bytes),
    /// The file's life, when its parts came after the file.
    Life(u64),
}

/// Reads a form, and passes its file on to the ingest.
pub(crate) struct FormReader {
    form: FormFields,
    /// Used when the file starts.
    begins: Option<oneshot::Sender<FileStart>>,
    pieces: mpsc::Sender<io::Result<FilePiece>>,
    life_secs: Option<u64>,
}

/// Why a form was not read to its end; none when the ingest ended first and has the error.
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
            // Without this, what was read so far would pass for the whole file.
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
                    return Err(Some(Error::invalid(
                        "file",
                        "The form has more than one part `file`.",
                    )));
                }
                (Some(_), begins) => {
                    self.begins = begins;
                    self.form.read(part).await?;
                }
                (None, _) => {
                    return Err(Some(Error::invalid(
                        "form",
                        "Every part of the form must have a name.",
                    )));
                }
            }
        }
        Err(Some(Error::invalid("form", format!("A form may have at most {PARTS_MAX} parts."))))
    }

    /// Errors that are known already stop the upload before anything is stored.
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
            // The ingest learns from the closed channel that there is no file.
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
    /// A form whose purpose the route implies.
    pub(crate) fn for_purpose(purpose: &str) -> Self {
        Self { purpose: Some(purpose.to_owned()), ..Self::default() }
    }

    /// Reads a part that is not the file.
    async fn read(&mut self, mut part: FormPart<'_>) -> Result<(), Stopped> {
        let name = part.name().unwrap_or_default().to_owned();
        let slot = match name.as_str() {
            "purpose" => &mut self.purpose,
            "expires_after[anchor]" => &mut self.anchor,
            "expires_after[seconds]" => &mut self.seconds,
            // A newer client may send parts that are not known here.
            _ => &mut None,
        };
        let wrong = |message: String| Some(Error::invalid(shown(&name), message));
        let mut text = Vec::new();
        while let Some(piece) = part.chunk().await? {
            text.extend_from_slice(&piece);
            if text.len() > TEXT_BYTES_MAX {
                return Err(wrong(format!("A text part may have at most {TEXT_BYTES_MAX} bytes.")));
            }
        }
        let text =
            String::from_utf8(text).map_err(|_| wrong("A text part must be UTF-8.".to_owned()))?;
        *slot = Some(text);
        Ok(())
    }

    fn check_purpose(&self) -> Result<()> {
        match self.purpose.as_deref() {
            Some(PURPOSE) => Ok(()),
            Some(_) => Err(Error::invalid("purpose", "`purpose` must be `batch`.")),
            None => {
                Err(Error::invalid("purpose", "The form has no part `purpose`; set it to `batch`."))
            }
        }
    }

    fn life_secs(&self) -> Result<Option<u64>> {
        let (Some(anchor), Some(seconds)) = (&self.anchor, &self.seconds) else {
            return match (&self.anchor, &self.seconds) {
                (None, None) => Ok(None),
                _ => Err(Error::invalid(
                    "expires_after",
                    "`expires_after` requires both `anchor` and `seconds`.",
                )),
            };
        };
        let seconds = seconds.parse().map_err(|_| {
            Error::invalid("expires_after[seconds]", "`expires_after[seconds]` must be an integer.")
        })?;
        ExpiresAfter::new(anchor, seconds).secs("expires_after").map(Some)
    }
}

/// A part's name, shortened for an error.
fn shown(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(64).collect()
}
