//! What is known of a picture by its first bytes: its kind, its size in points, when it was taken.

use std::io::Cursor;

use image::{ImageReader, Limits};

use super::{DECODE_BYTES_MAX, Kind, PIXELS_MAX, PictureFault, kind};

/// What is known of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Examined {
    pub(crate) mime: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) taken_at: Option<String>,
}

/// Examines a picture, or its beginning.
pub(crate) fn examine(sample: &[u8]) -> Result<Examined, PictureFault> {
    let Some(kind) = kind(sample) else {
        let message = format!("It is {}, not a picture.", what_it_is(sample));
        return Err(PictureFault::new("not_a_picture", message));
    };
    let (width, height) = measure(kind, sample)?;
    judge_size(width, height)?;
    Ok(Examined { mime: kind.mime(), width, height, taken_at: taken_at(sample) })
}

fn measure(kind: Kind, sample: &[u8]) -> Result<(u32, u32), PictureFault> {
    let mut reader = ImageReader::with_format(Cursor::new(sample), kind.0);
    reader.limits(limits());
    reader.into_dimensions().map_err(|error| {
        PictureFault::new("picture_invalid", format!("Its size cannot be read: {error}."))
    })
}

/// What a decoder may take.
pub(super) fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(DECODE_BYTES_MAX);
    limits
}

/// Whether a picture of that size may be decoded.
pub(super) fn judge_size(width: u32, height: u32) -> Result<(), PictureFault> {
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(PictureFault::new("picture_invalid", "It has no points."));
    }
    if pixels > PIXELS_MAX {
        let message = format!("It has {width} × {height} points; at most {PIXELS_MAX} are read.");
        return Err(PictureFault::new("picture_too_large", message));
    }
    Ok(())
}

/// When a camera says that it took it, as an ISO text without a zone.
fn taken_at(sample: &[u8]) -> Option<String> {
    let exif = exif::Reader::new().read_from_container(&mut Cursor::new(sample)).ok()?;
    let field = exif.get_field(exif::Tag::DateTimeOriginal, exif::In::PRIMARY)?;
    let exif::Value::Ascii(texts) = &field.value else { return None };
    let time = exif::DateTime::from_ascii(texts.first()?).ok()?;
    let exif::DateTime { year, month, day, hour, minute, second, .. } = time;
    let known = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60;
    known.then(|| format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"))
}

/// A word for bytes that are no picture.
fn what_it_is(sample: &[u8]) -> &'static str {
    let text = sample.trim_ascii_start();
    let has = |word: &[u8]| memchr::memmem::find(&sample[..sample.len().min(1024)], word).is_some();
    match sample {
        [] => "empty",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => {
            "HEIC, AVIF or a film (pictures are JPEG, PNG, GIF, WebP, BMP or TIFF)"
        }
        [b'%', b'P', b'D', b'F', ..] => "a PDF document",
        [b'P', b'K', 3, 4, ..] => "a zip archive",
        _ if text.starts_with(b"<") && has(b"<svg") => "SVG",
        _ if text.starts_with(b"<") => "HTML or XML",
        _ if std::str::from_utf8(&sample[..sample.len().min(64)]).is_ok() => "text",
        _ => "something else",
    }
}
