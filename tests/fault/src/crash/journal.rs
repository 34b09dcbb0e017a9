//! What happened, in order, over every life of the process.
//!
//! Holds throughout: an entry is one write to a file opened for appending, so entries of a process
//! that dies are whole, and come before those of the next.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A line was tried, with that key.
    Tried(u64, String),
    /// The store said that the line has its result.
    Kept(u64),
}

/// Where it is written.
#[derive(Debug)]
pub struct Journal(Mutex<File>);

impl Journal {
    /// Goes on where an earlier process ended.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Mutex::new(File::options().create(true).append(true).open(path)?)))
    }

    /// Writes an entry.
    ///
    /// # Panics
    /// When it cannot be written: the test would miss it.
    pub fn write(&self, entry: &Entry) {
        let text = match entry {
            Entry::Tried(line, key) => format!("tried {line} {key}\n"),
            Entry::Kept(line) => format!("kept {line}\n"),
        };
        let mut file = self.0.lock().expect("nobody panics while writing");
        file.write_all(text.as_bytes()).expect("the journal can be written");
    }
}

/// All entries so far.
///
/// # Panics
/// When it holds something else.
pub fn read(path: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let entry = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["tried", line, key] => Some(Entry::Tried(line.parse().ok()?, key.to_owned())),
            ["kept", line] => Some(Entry::Kept(line.parse().ok()?)),
            _ => None,
        }
    };
    text.lines().map(|text| entry(text).expect("the journal has two kinds of entries")).collect()
}
