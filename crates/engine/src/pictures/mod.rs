//! Pictures: what is known of one when it comes in, and what is made of it when its row is run.
//!
//! The input of a file of pictures is one archive in the storage; a stored row says where in it its picture
//! lies. A picture is decoded only when it is sent or shown, on a bounded pool, and never stored as text.
//!
//! Holds throughout: a picture is what its bytes are, whatever its name says; no picture is decoded that is
//! larger than [`PIXELS_MAX`], and no decoder may take more than [`DECODE_BYTES_MAX`]; what is shown to people
//! was encoded here. SVG is no picture.

mod examine;
mod pool;
mod scale;

use image::ImageFormat;
use serde::{Deserialize, Serialize};
use windrow_recipe::{Cell, Image};

use crate::rows::RowError;

pub(crate) use examine::{Examined, examine};
pub use pool::{Error, Pictures, Scaled, thumbnail_name};

/// Largest picture as it comes in.
pub const PICTURE_BYTES_MAX: u64 = 64 << 20;
/// Most points of a picture.
pub const PIXELS_MAX: u64 = 64_000_000;
/// Most memory that decoding one may take.
pub const DECODE_BYTES_MAX: u64 = 320 << 20;
/// The longer side of a small copy.
pub const THUMBNAIL_SIDE: u32 = 256;

/// What a picture is encoded as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(ImageFormat);

impl Kind {
    /// Its media type.
    pub fn mime(self) -> &'static str {
        self.0.to_mime_type()
    }

    fn of_mime(mime: &str) -> Option<Self> {
        ImageFormat::from_mime_type(mime).map(Self)
    }

    /// Whether models and browsers take it as it is.
    fn is_common(self) -> bool {
        matches!(
            self.0,
            ImageFormat::Jpeg | ImageFormat::Png | ImageFormat::Gif | ImageFormat::WebP
        )
    }
}

/// The kind of picture that the first bytes are of; none for anything else.
pub fn kind(sample: &[u8]) -> Option<Kind> {
    let format = image::guess_format(sample).ok()?;
    let known = match format {
        ImageFormat::Jpeg
        | ImageFormat::Png
        | ImageFormat::Gif
        | ImageFormat::WebP
        | ImageFormat::Tiff => true,
        // Two letters are no proof: the size of the second header follows the first.
        ImageFormat::Bmp => {
            matches!(sample.get(14..18), Some([12 | 40 | 52 | 56 | 64 | 108 | 124, 0, 0, 0]))
        }
        _ => false,
    };
    known.then_some(Kind(format))
}

/// What is wrong with a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct PictureFault {
    /// A stable word: `not_a_picture`, `picture_too_large`, `picture_invalid`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

impl PictureFault {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    /// The same, as an error of a row.
    fn of_row(&self) -> RowError {
        let code = match self.code.as_str() {
            "not_a_picture" => "not_a_picture",
            "picture_too_large" => "picture_too_large",
            _ => "picture_invalid",
        };
        RowError { code, message: self.message.clone(), column: Some("image".to_owned()) }
    }
}

/// A stored row of a file of pictures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Its name in the archive.
    pub name: String,
    /// Where its bytes begin in the archive.
    pub at: u64,
    /// How many bytes it takes there.
    pub packed_bytes: u64,
    /// Whether those are deflated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deflated: bool,
    /// Its size.
    pub bytes: u64,
    /// Its media type.
    #[serde(default)]
    pub mime: String,
    /// In points.
    #[serde(default)]
    pub width: u32,
    /// In points.
    #[serde(default)]
    pub height: u32,
    /// When it was taken, if it says so, as an ISO text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// Why it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<PictureFault>,
}

impl Picture {
    /// Reads a stored row; an error for one that is no picture.
    pub fn read(raw: &[u8]) -> Result<Self, RowError> {
        let picture: Self = serde_json::from_slice(raw).map_err(|_| RowError {
            code: "row_invalid",
            message: "The row is not what was stored.".to_owned(),
            column: None,
        })?;
        match &picture.fault {
            Some(fault) => Err(fault.of_row()),
            None => Ok(picture),
        }
    }

    /// The row as it is stored.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a picture's row is plain values");
        line.push(b'\n');
        line
    }

    /// Its cells, in the order of [`crate::rows::PICTURE_COLUMNS`].
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let text = |text: &str| Cell::Text(text.to_owned());
        vec![
            text(&self.name),
            Cell::Integer(self.width.into()),
            Cell::Integer(self.height.into()),
            Cell::Integer(i64::try_from(self.bytes).unwrap_or(i64::MAX)),
            text(&self.mime),
            self.taken_at.as_deref().map_or(Cell::Empty, text),
        ]
    }

    /// The picture as recipes know it, without its data.
    pub fn image(&self, thumbnail: Option<String>) -> Image {
        Image {
            name: self.name.clone(),
            width: self.width,
            height: self.height,
            bytes: self.bytes,
            mime: self.mime.clone(),
            taken_at: self.taken_at.clone(),
            thumbnail,
            data: None,
        }
    }
}
