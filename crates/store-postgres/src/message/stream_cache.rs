//! The numbers of streams that were seen before: a send that knows them all finds their rows by number
//! and need not look whether they are there.
//!
//! Holds throughout: what is here is a hint. The database compares the names, and says when a stream is
//! not there any more.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Most streams that are remembered. Beyond it all are forgotten, and learnt again.
const KNOWN_MAX: usize = 50_000;

/// A stream: whose, in which queue, its name.
pub(super) type StreamKey<'a> = (&'a str, i16, &'a str);

/// The numbers of streams that were met, by owner, queue and name.
#[derive(Debug, Default)]
pub(crate) struct StreamCache(Mutex<HashMap<String, i64>>);

impl StreamCache {
    /// The numbers of all these streams, or nothing when one is not known.
    pub(super) fn numbers<'a>(
        &self,
        keys: impl Iterator<Item = StreamKey<'a>>,
    ) -> Option<Vec<i64>> {
        let known = self.0.lock();
        let mut text = String::new();
        keys.map(|key| {
            write(&mut text, key);
            known.get(&text).copied()
        })
        .collect()
    }

    /// These streams have these numbers.
    pub(super) fn learn<'a>(&self, streams: impl Iterator<Item = (StreamKey<'a>, i64)>) {
        let mut known = self.0.lock();
        for (key, number) in streams {
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            let mut text = String::new();
            write(&mut text, key);
            known.insert(text, number);
        }
    }

    /// One of these streams is not what it was.
    pub(super) fn forget<'a>(&self, keys: impl Iterator<Item = StreamKey<'a>>) {
        let mut known = self.0.lock();
        let mut text = String::new();
        for key in keys {
            write(&mut text, key);
            known.remove(&text);
        }
    }
}

/// No owner and no stream has a zero byte in its name.
fn write(text: &mut String, (owner, queue, name): StreamKey<'_>) {
    use std::fmt::Write as _;
    text.clear();
    let _ = write!(text, "{owner}\0{queue}\0{name}");
}
