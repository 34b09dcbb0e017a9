//! Encodings of text: by their label, guessed by the first bytes, decoded cell by cell.
//!
//! Holds throughout: an encoding in which a line ending or a delimiter could be a part of another character
//! is decoded on its way in; all others are kept as they came and decoded when a row is read. Nothing is
//! replaced in silence: bytes that mean nothing are an error of their cell.

use std::borrow::Cow;

use encoding_rs::{
    BIG5, EUC_KR, GB18030, GBK, ISO_2022_JP, SHIFT_JIS, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// From this byte on a character may be the second byte of another one, in [`Encoding::is_double_byte`].
const SECOND_BYTE_MIN: u8 = 0x40;

/// An encoding of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding(&'static encoding_rs::Encoding);

impl Default for Encoding {
    fn default() -> Self {
        Self(UTF_8)
    }
}

impl Encoding {
    /// The encoding of a label: `utf-8`, `latin1`, `windows-1252`, `shift_jis`, `utf-16le`, …
    pub fn of(label: &str) -> Option<Self> {
        encoding_rs::Encoding::for_label_no_replacement(label.as_bytes()).map(Self)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Whether it is UTF-8.
    pub fn is_utf8(self) -> bool {
        self.0 == UTF_8
    }

    /// Whether text must be decoded before it can be cut into rows.
    pub(crate) fn is_decoded_first(self) -> bool {
        self.0 == UTF_16LE || self.0 == UTF_16BE || self.0 == ISO_2022_JP
    }

    /// Whether `delimiter` may be a part of another character.
    pub(crate) fn may_hide(self, delimiter: u8) -> bool {
        self.is_double_byte() && delimiter >= SECOND_BYTE_MIN
    }

    fn is_double_byte(self) -> bool {
        [SHIFT_JIS, GBK, GB18030, BIG5, EUC_KR].contains(&self.0)
    }

    /// The text of a cell; none when a byte means nothing in this encoding.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        self.0.decode_without_bom_handling_and_without_replacement(bytes)
    }

    /// A decoder of a whole input, which replaces what means nothing.
    pub(crate) fn decoder(self) -> encoding_rs::Decoder {
        self.0.new_decoder_with_bom_removal()
    }

    /// The encoding that the first bytes of a text look like.
    pub(crate) fn guess(sample: &[u8]) -> Self {
        if let Some((found, _)) = encoding_rs::Encoding::for_bom(sample) {
            return Self(found);
        }
        if let Some(found) = guess_utf16(sample) {
            return Self(found);
        }
        if memchr::memmem::find(sample, b"\x1b$B").is_some()
            || memchr::memmem::find(sample, b"\x1b$@").is_some()
        {
            return Self(ISO_2022_JP);
        }
        match std::str::from_utf8(sample) {
            Ok(_) => Self(UTF_8),
            // The sample may end within a character.
            Err(error) if error.error_len().is_none() => Self(UTF_8),
            Err(_) => Self(WINDOWS_1252),
        }
    }
}

/// UTF-16 without a mark: every other byte of plain letters is zero.
fn guess_utf16(sample: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let pairs = sample.len().min(256) / 2;
    let zeros = |at: usize| sample.chunks_exact(2).take(pairs).filter(|two| two[at] == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    if pairs < 2 || first.max(second) * 10 < pairs * 7 || first.min(second) > 0 {
        return None;
    }
    Some(if second > first { UTF_16LE } else { UTF_16BE })
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let label = Cow::<'de, str>::deserialize(deserializer)?;
        Self::of(&label).ok_or_else(|| serde::de::Error::custom("no encoding has this label"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_guessed_by_their_first_bytes() {
        for (sample, wanted) in [
            (&b"id,name\n1,x\n"[..], "UTF-8"),
            ("id,näme\n".as_bytes(), "UTF-8"),
            (&"é".as_bytes()[..1], "UTF-8"),
            (b"\xEF\xBB\xBFid\n", "UTF-8"),
            (b"\xff\xfei\0d\0", "UTF-16LE"),
            (b"\xfe\xff\0i\0d", "UTF-16BE"),
            (b"i\0d\0,\0n\0", "UTF-16LE"),
            (b"\0i\0d\0,\0n", "UTF-16BE"),
            (b"id,n\xe4me\n", "windows-1252"),
            (b"id,\x1b$B%F\x1b(B\n", "ISO-2022-JP"),
            (b"", "UTF-8"),
        ] {
            assert_eq!(Encoding::guess(sample).name(), wanted, "{sample:?}");
        }
    }

    #[test]
    fn a_bar_may_hide_in_shift_jis_and_a_comma_may_not() {
        let shift_jis = Encoding::of("sjis").unwrap();
        assert!(shift_jis.may_hide(b'|') && !shift_jis.may_hide(b','));
        assert!(!Encoding::default().may_hide(b'|'));
    }
}
