//! Texts that are kept as files, so that whoever changes a contract sees it, and so does the review.
//!
//! Holds throughout: a difference fails the test and names its lines; only [`UPDATE`] writes.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

/// Set to write the files anew instead of comparing them.
pub const UPDATE: &str = "WINDROW_UPDATE_SNAPSHOTS";

/// Most lines that are shown of a difference.
const SHOWN_MAX: usize = 20;

/// Fails when a text is not the one that is kept in the file.
pub fn assert_kept(path: impl AsRef<Path>, made: &str) {
    let kept = read(path.as_ref(), made);
    if made == kept {
        return;
    }
    let at = made.lines().zip(kept.lines()).position(|(made, kept)| made != kept);
    let gone = missing(&kept, made);
    let new = missing(made, &kept);
    panic!(
        "{} differs from line {:?} on.\nGone:\n{gone}\nNew:\n{new}\n{UPDATE}=1 writes it anew, if \
         this is meant: see CONTRIBUTING.md",
        path.as_ref().display(),
        at.map(|line| line + 1),
    );
}

/// Fails when one of the lines that are kept in the file is no longer among these. More may come.
pub fn assert_none_gone(path: impl AsRef<Path>, found: &BTreeSet<String>) {
    let made: String = found.iter().map(|line| format!("{line}\n")).collect();
    let gone = missing(&read(path.as_ref(), &made), &made);
    assert!(
        gone.is_empty(),
        "gone, and listed in {}:\n{gone}\n{UPDATE}=1 writes it anew, if this is meant: see \
         CONTRIBUTING.md",
        path.as_ref().display(),
    );
}

/// What is kept; written first when that is asked for.
fn read(path: &Path, made: &str) -> String {
    if env::var_os(UPDATE).is_some() {
        let folder = path.parent().unwrap_or(Path::new(""));
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, made));
        written.unwrap_or_else(|why| panic!("{} could not be written: {why}", path.display()));
    }
    fs::read_to_string(path).unwrap_or_default()
}

/// The first lines of one text that the other does not have.
fn missing(of: &str, in_other: &str) -> String {
    let there: BTreeSet<&str> = in_other.lines().collect();
    let lines: Vec<&str> = of.lines().filter(|line| !there.contains(line)).collect();
    let more = lines.len().saturating_sub(SHOWN_MAX);
    let mut shown = lines[..lines.len() - more].join("\n");
    if more > 0 {
        shown.push_str(&format!("\nand {more} more"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_named() {
        assert_eq!(missing("a\nb\nc\n", "b\n"), "a\nc");
        let many: String = (0..30).map(|line| format!("{line}\n")).collect();
        assert!(missing(&many, "").ends_with("19\nand 10 more"));
    }
}
