//! Text as databases keep it: bounded, and without zero characters, which PostgreSQL refuses.

use std::borrow::Cow;

/// At most that many bytes of a text, cut where a character ends.
pub fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

/// The text as a column keeps it: without zero characters, and at most that many bytes.
pub fn storable(text: &str, bytes_max: usize) -> Cow<'_, str> {
    match without_nul(text) {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..text.floor_char_boundary(bytes_max)]),
        Cow::Owned(text) => Cow::Owned(cut(text, bytes_max)),
    }
}

/// The text with every zero character replaced by the replacement character.
pub fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_a_character_ends() {
        assert_eq!(cut("aüb".to_owned(), 2), "a");
        assert_eq!(cut("aüb".to_owned(), 3), "aü");
        assert_eq!(cut("ab".to_owned(), 9), "ab");
    }

    #[test]
    fn what_is_stored_is_bounded_and_without_zero_characters() {
        assert_eq!(storable("a\0b", 4), "a\u{fffd}");
        assert_eq!(storable("aüb", 2), "a");
        assert!(matches!(storable("ab", 9), Cow::Borrowed("ab")));
    }

    #[test]
    fn zero_characters_are_replaced() {
        assert_eq!(without_nul("a\0b"), "a\u{fffd}b");
        assert!(matches!(without_nul("ab"), Cow::Borrowed("ab")));
    }
}
