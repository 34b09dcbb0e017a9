//! Formats numbers, times and sizes for people, and prints lines.

use std::io::{self, Write as _};
use std::time::Duration;

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 line`, `1,000 lines`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    if number == 1 {
        return format!("1 {noun}");
    }
    let noun = match noun.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with("ch") => format!("{noun}es"),
        None => format!("{noun}s"),
    };
    format!("{} {noun}", count(number))
}

/// Seconds, or milliseconds when it is short.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        secs if secs < 1.0 => format!("{:.1} ms", secs * 1000.0),
        secs => format!("{secs:.2} s"),
    }
}

/// Hours, minutes and seconds, for what takes long.
pub(crate) fn long_time(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..60 => format!("{secs} s"),
        secs @ 60..3600 => format!("{} min {:02} s", secs / 60, secs % 60),
        secs => format!("{} h {:02} min", secs / 3600, secs / 60 % 60),
    }
}

/// A number of which people want two or three digits.
pub(crate) fn decimal(number: f64) -> String {
    match number {
        small if small < 10.0 => format!("{small:.1}"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is rounded"
        )]
        large => count(large.round() as u64),
    }
}

/// How much of it is done, rounded down: 100% is all of it.
pub(crate) fn percent(done: u64, total: u64) -> String {
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    format!("{percent}%")
}

/// The beginning of an id, enough to name it.
pub(crate) fn short_id(id: impl std::fmt::Display) -> String {
    id.to_string().chars().take(8).collect()
}

/// Without line breaks and other control characters, which could move a terminal's cursor.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// How many a second.
pub(crate) fn rate(number: u64, time: Duration) -> String {
    let nanos = time.as_nanos().max(1);
    let rate = u128::from(number) * 1_000_000_000 / nanos;
    count(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// A size in megabytes, for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..100_000 => format!("{} bytes", count(bytes)),
        _ => format!("{}.{} MB", count(bytes / 1_000_000), bytes / 100_000 % 10),
    }
}

/// Shortened to so many characters.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Prints. A reader that went away (`| head`) is no error.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let groups = [0, 999, 1000, 1_234_567].map(count);
        assert_eq!(groups, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(plural(1, "line"), "1 line");
        assert_eq!([plural(0, "line"), plural(1000, "retry")], ["0 lines", "1,000 retries"]);
        assert_eq!(plural(2, "batch"), "2 batches");
        assert_eq!([999, 2_345_678].map(size), ["999 bytes", "2.3 MB"]);
        assert_eq!(rate(500, Duration::from_millis(250)), "2,000");
        assert_eq!(time(Duration::from_micros(1500)), "1.5 ms");
        let long = [5, 65, 3_700].map(|secs| long_time(Duration::from_secs(secs)));
        assert_eq!(long, ["5 s", "1 min 05 s", "1 h 01 min"]);
        assert_eq!([decimal(0.51), decimal(1234.6)], ["0.5", "1,235"]);
        assert_eq!([percent(999, 1000), percent(0, 0)], ["99%", "0%"]);
        assert_eq!(one_line("a\nb\u{1b}[2J"), "a b [2J");
        assert_eq!([short("héllo", 2), short("hé", 2)], ["hé…", "hé"]);
    }
}
