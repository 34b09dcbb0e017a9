//! How a stream and a kind become a subject of NATS or a routing key of RabbitMQ, and back.
//!
//! Holds throughout: the mapping can be undone. A name is `<prefix>.<stream>.<kind>`; letters,
//! digits, `-`, `_`, `:`, `/`, `@`, `+`, `=` and `~` stay, and all else is written as `%` and two
//! digits per byte. A kind keeps its full stops, so that `batch.completed` can be asked for by
//! `batch.>` or `batch.#`; a stream's are escaped, so that it is one word.

use std::fmt::Write;

use windrow_engine::deliver::BadOption;

/// The kind of a message that says none.
const KIND_DEFAULT: &str = "message";

/// The name of a message: `windrow.orders-7.order.placed`.
pub(crate) fn write(prefix: &str, stream: &str, kind: &str) -> String {
    let mut name = String::with_capacity(prefix.len() + stream.len() + kind.len() + 2);
    if !prefix.is_empty() {
        name.push_str(prefix);
        name.push('.');
    }
    escape(&mut name, stream, false);
    name.push('.');
    // Two stops in a row, or one at an end, would leave a word empty, which no broker takes.
    let words = kind.split('.').all(|word| !word.is_empty());
    escape(&mut name, kind, words);
    name
}

/// The stream and the kind that a name stands for. What does not begin with the prefix is taken as
/// it is; a name of one word is a stream.
pub(crate) fn read(prefix: &str, name: &str) -> (String, String) {
    let rest = name.strip_prefix(prefix).map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    let rest = rest.filter(|rest| !rest.is_empty()).unwrap_or(name);
    match rest.split_once('.') {
        Some((stream, kind)) => (unescape(stream), unescape(kind)),
        None => (unescape(rest), KIND_DEFAULT.to_owned()),
    }
}

/// Refuses a prefix that no broker takes as the beginning of a name.
pub(crate) fn check_prefix(option: &'static str, prefix: &str) -> Result<(), BadOption> {
    let word = |word: &str| !word.is_empty() && word.bytes().all(stays);
    if prefix.is_empty() || prefix.split('.').all(word) {
        return Ok(());
    }
    Err(BadOption::new(option, "must be words of letters, digits, - and _"))
}

fn stays(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_:/@+=~".contains(&byte)
}

fn escape(out: &mut String, text: &str, keeps_stops: bool) {
    if text.is_empty() {
        // An empty word; `%` alone is nothing else's escape.
        out.push('%');
    }
    for byte in text.bytes() {
        if stays(byte) || (keeps_stops && byte == b'.') {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a string takes everything");
        }
    }
}

fn unescape(text: &str) -> String {
    if text == "%" {
        return String::new();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    // A name made elsewhere may hold a lone percent sign and digits that are no text.
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_read_back() {
        for (stream, kind, wanted) in [
            ("orders-7", "order.placed", "windrow.orders-7.order.placed"),
            ("a.b", "x", "windrow.a%2Eb.x"),
            ("a b*>#", "x>y", "windrow.a%20b%2A%3E%23.x%3Ey"),
            ("ü%41", "a..b", "windrow.%C3%BC%2541.a%2E%2Eb"),
            ("s", "", "windrow.s.%"),
            ("s", ".", "windrow.s.%2E"),
        ] {
            let made = write("windrow", stream, kind);
            assert_eq!(made, wanted);
            assert_eq!(read("windrow", &made), (stream.to_owned(), kind.to_owned()));
        }
        assert_eq!(write("", "s", "k"), "s.k");
        assert_eq!(read("", "s.k"), ("s".to_owned(), "k".to_owned()));
    }

    #[test]
    fn names_of_others_are_read_as_well_as_they_can_be() {
        let read = |name| {
            let (stream, kind) = read("windrow", name);
            format!("{stream}|{kind}")
        };
        assert_eq!(read("orders"), "orders|message");
        assert_eq!(read("shop.order.placed"), "shop|order.placed");
        assert_eq!(read("100%.x"), "100%|x");
        assert_eq!(read("%FF.x"), "%FF|x");
        assert_eq!(read("windrow"), "windrow|message");
    }

    #[test]
    fn a_prefix_is_words() {
        for (prefix, fits) in [("", true), ("a.b-c", true), ("a..b", false), ("a.*", false)] {
            assert_eq!(check_prefix("subject_prefix", prefix).is_ok(), fits, "{prefix}");
        }
    }
}
