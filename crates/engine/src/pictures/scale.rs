//! Decoding and scaling one picture: work for a thread of its own.

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader};

use super::examine::{judge_size, limits};
use super::{Kind, PictureFault, Scaled, THUMBNAIL_SIDE};

/// How much of a picture a JPEG keeps, of 100.
const JPEG_QUALITY: u8 = 85;

/// What was made of a picture.
pub(super) struct Made {
    /// Within the side that was asked for.
    pub(super) scaled: Scaled,
    /// The small copy, when it was asked for.
    pub(super) thumbnail: Option<Bytes>,
}

/// Makes a picture fit to be sent: within `side_max` if one is given, in an encoding that is common. One that
/// fits already stays as it is.
pub(super) fn make(
    kind: Kind,
    bytes: Bytes,
    side_max: Option<u32>,
    thumbnail: bool,
) -> Result<Made, PictureFault> {
    let (width, height) = size(kind, &bytes)?;
    judge_size(width, height)?;
    let fits = side_max.is_none_or(|side| width.max(height) <= side);
    if fits && kind.is_common() && !thumbnail {
        return Ok(Made { scaled: Scaled { mime: kind.mime(), bytes }, thumbnail: None });
    }
    let image = decode(kind, &bytes)?;
    let small = thumbnail.then(|| image.thumbnail(THUMBNAIL_SIDE, THUMBNAIL_SIDE));
    let scaled = match side_max {
        _ if fits && kind.is_common() => Scaled { mime: kind.mime(), bytes },
        Some(side) if !fits => {
            let scaled = image.thumbnail(side.max(1), side.max(1));
            drop(image);
            encode(&scaled)?
        }
        Some(_) | None => encode(&image)?,
    };
    let thumbnail = match small {
        Some(small) => Some(jpeg(&small)?),
        None => None,
    };
    Ok(Made { scaled, thumbnail })
}

fn size(kind: Kind, bytes: &[u8]) -> Result<(u32, u32), PictureFault> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), kind.0);
    reader.limits(limits());
    reader.into_dimensions().map_err(broken)
}

/// The picture, turned as its camera was held.
fn decode(kind: Kind, bytes: &[u8]) -> Result<DynamicImage, PictureFault> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), kind.0);
    reader.limits(limits());
    let mut decoder = reader.into_decoder().map_err(broken)?;
    let orientation = decoder.orientation().map_err(broken)?;
    let mut image = DynamicImage::from_decoder(decoder).map_err(broken)?;
    image.apply_orientation(orientation);
    Ok(image)
}

fn encode(image: &DynamicImage) -> Result<Scaled, PictureFault> {
    if !image.color().has_alpha() {
        return Ok(Scaled { mime: ImageFormat::Jpeg.to_mime_type(), bytes: jpeg(image)? });
    }
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).map_err(broken)?;
    Ok(Scaled { mime: ImageFormat::Png.to_mime_type(), bytes: bytes.into_inner().into() })
}

fn jpeg(image: &DynamicImage) -> Result<Bytes, PictureFault> {
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
    image.to_rgb8().write_with_encoder(encoder).map_err(broken)?;
    Ok(bytes.into())
}

fn broken(error: image::ImageError) -> PictureFault {
    match error {
        image::ImageError::Limits(_) => PictureFault::new(
            "picture_too_large",
            "Decoding it takes more memory than a picture may have.",
        ),
        error => PictureFault::new("picture_invalid", format!("It cannot be decoded: {error}.")),
    }
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage, Rgba, RgbaImage};

    use super::super::{Kind, PIXELS_MAX, examine};
    use super::*;

    fn encoded(image: DynamicImage, format: ImageFormat) -> Bytes {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner().into()
    }

    fn photo(width: u32, height: u32) -> DynamicImage {
        let byte = |at: u32| u8::try_from(at % 256).unwrap();
        RgbImage::from_fn(width, height, |x, y| Rgb([byte(x), byte(y), 7])).into()
    }

    #[test]
    fn a_large_picture_is_scaled_and_a_small_one_stays() {
        let bytes = encoded(photo(640, 480), ImageFormat::Jpeg);
        let kind = Kind(ImageFormat::Jpeg);
        let made = make(kind, bytes.clone(), Some(320), true).unwrap();
        let examined = examine(&made.scaled.bytes).unwrap();
        assert_eq!((examined.mime, examined.width, examined.height), ("image/jpeg", 320, 240));
        let small = examine(&made.thumbnail.unwrap()).unwrap();
        assert_eq!((small.width, small.height), (256, 192));
        let same = make(kind, bytes.clone(), Some(640), false).unwrap();
        assert_eq!(same.scaled.bytes, bytes, "not encoded again");
    }

    #[test]
    fn what_is_transparent_stays_so_and_rare_kinds_become_common() {
        let clear: DynamicImage = RgbaImage::from_pixel(40, 40, Rgba([1, 2, 3, 4])).into();
        let png = make(Kind(ImageFormat::Png), encoded(clear, ImageFormat::Png), Some(20), false)
            .unwrap();
        assert_eq!(png.scaled.mime, "image/png");
        for rare in [ImageFormat::Bmp, ImageFormat::Tiff] {
            let made = make(Kind(rare), encoded(photo(8, 8), rare), None, false).unwrap();
            assert_eq!(made.scaled.mime, "image/jpeg");
        }
    }

    /// A PNG of a few bytes that says it has 60,000 × 60,000 points.
    #[test]
    fn a_picture_bomb_is_refused_before_it_is_decoded() {
        let mut bomb = encoded(photo(4, 4), ImageFormat::Png).to_vec();
        bomb[16..24].copy_from_slice(&[0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60]);
        let crc = {
            let mut crc = !0_u32;
            for byte in &bomb[12..29] {
                crc ^= u32::from(*byte);
                for _ in 0..8 {
                    crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
                }
            }
            !crc
        };
        bomb[29..33].copy_from_slice(&crc.to_be_bytes());
        const { assert!(60_000 * 60_000 > PIXELS_MAX) };
        assert_eq!(examine(&bomb).unwrap_err().code, "picture_too_large");
        let made = make(Kind(ImageFormat::Png), bomb.into(), Some(100), false);
        assert_eq!(made.err().map(|fault| fault.code), Some("picture_too_large".to_owned()));
    }

    #[test]
    fn what_is_no_picture_is_named() {
        for (bytes, word) in [
            (&b"<?xml?><svg xmlns='x'/>"[..], "SVG"),
            (b"<html>", "HTML"),
            (b"hello, world", "text"),
            (b"%PDF-1.7", "PDF"),
            (b"BM, a text that begins so", "text"),
            (b"\0\0\0\x18ftypheic", "HEIC"),
            (b"", "empty"),
        ] {
            let fault = examine(bytes).unwrap_err();
            assert_eq!(fault.code, "not_a_picture");
            assert!(fault.message.contains(word), "{fault}");
        }
        let mut cut = encoded(photo(64, 64), ImageFormat::Jpeg).to_vec();
        cut.truncate(20);
        assert_eq!(examine(&cut).unwrap_err().code, "picture_invalid");
    }
}
