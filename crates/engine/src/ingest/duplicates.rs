//! Duplicates: finds every `custom_id` that was there before, in bounded memory.
//!
//! Each id is kept as a 128-bit hash with its line number. When the buffer is full it is sorted and
//! written to an unnamed temporary file; at the end the sorted runs are merged, and equal hashes
//! meet. No index on a wide table, and no list of all ids in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

const HASHED_ID_BYTES: usize = 24;
/// Smallest read from a run. Only files of more than `memory / 4 KiB` runs exceed the memory's bound.
const RUN_BUFFER_BYTES_MIN: usize = 4096;

/// A hashed id and the line it is on. Sorted by hash, then line, so the first line comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HashedId {
    hash: [u64; 2],
    line: u64,
}

impl HashedId {
    fn to_bytes(self) -> [u8; HASHED_ID_BYTES] {
        let mut bytes = [0; HASHED_ID_BYTES];
        for (part, word) in bytes.chunks_exact_mut(8).zip([self.hash[0], self.hash[1], self.line]) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes
            .chunks_exact(8)
            .map(|part| u64::from_le_bytes(part.try_into().expect("a part has eight bytes")));
        let mut next = || words.next().expect("an entry has three words");
        Self { hash: [next(), next()], line: next() }
    }
}

/// A line whose id was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Duplicate {
    pub(crate) line: u64,
    /// The first line with that id.
    pub(crate) first: u64,
}

/// The duplicates of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundDuplicates {
    /// The lowest lines, sorted.
    pub(crate) kept: Vec<Duplicate>,
    /// How many there are, kept or not.
    pub(crate) total: u64,
}

/// Collects the ids of a file, to find those that occur twice.
#[derive(Debug)]
pub(crate) struct Duplicates {
    buffer: Vec<HashedId>,
    entries_max: usize,
    spilled: Option<Spilled>,
}

#[derive(Debug)]
struct Spilled {
    file: File,
    /// Entries of each run, in the order of the file.
    runs: Vec<u64>,
}

impl Duplicates {
    /// Uses at most about `memory_bytes_max` at any time.
    pub(crate) fn new(memory_bytes_max: usize) -> Self {
        let entries_max = (memory_bytes_max / HASHED_ID_BYTES).max(1);
        Self { buffer: Vec::new(), entries_max, spilled: None }
    }

    /// Notes the id of a line. Lines come in rising order.
    pub(crate) fn insert(&mut self, id: &str, line: u64) -> io::Result<()> {
        if self.buffer.len() >= self.entries_max {
            self.spill()?;
        }
        if self.buffer.capacity() == 0 {
            // All of it at once: growing would hold two buffers for a moment.
            self.buffer.reserve_exact(self.entries_max);
        }
        let hash = blake3::hash(id.as_bytes());
        let word = |from: usize| {
            u64::from_le_bytes(hash.as_bytes()[from..from + 8].try_into().expect("eight bytes"))
        };
        self.buffer.push(HashedId { hash: [word(0), word(8)], line });
        Ok(())
    }

    /// Every line whose id is on an earlier line; the lowest `kept_max` of them by name.
    pub(crate) fn finish(mut self, kept_max: usize) -> io::Result<FoundDuplicates> {
        let mut collector =
            DuplicateCollector { kept: BinaryHeap::new(), kept_max, total: 0, last: None };
        if self.spilled.is_some() {
            self.spill()?;
        }
        match self.spilled {
            None => {
                self.buffer.sort_unstable();
                self.buffer.iter().for_each(|entry| collector.see(*entry));
            }
            Some(spilled) => {
                let memory = self.entries_max * HASHED_ID_BYTES;
                drop(self.buffer);
                spilled.merge(memory, |entry| collector.see(entry))?;
            }
        }
        Ok(FoundDuplicates { kept: collector.kept.into_sorted_vec(), total: collector.total })
    }

    fn spill(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.buffer.sort_unstable();
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            None => self.spilled.insert(Spilled { file: tempfile::tempfile()?, runs: Vec::new() }),
        };
        let mut writer = BufWriter::with_capacity(1 << 16, &spilled.file);
        for entry in &self.buffer {
            writer.write_all(&entry.to_bytes())?;
        }
        writer.flush()?;
        drop(writer);
        spilled.runs.push(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }
}

/// Sees entries in order and keeps the lowest duplicate lines.
struct DuplicateCollector {
    kept: BinaryHeap<Duplicate>,
    kept_max: usize,
    total: u64,
    last: Option<HashedId>,
}

impl DuplicateCollector {
    fn see(&mut self, entry: HashedId) {
        match self.last {
            Some(first) if first.hash == entry.hash => {
                self.total += 1;
                self.kept.push(Duplicate { line: entry.line, first: first.line });
                if self.kept.len() > self.kept_max {
                    self.kept.pop();
                }
            }
            _ => self.last = Some(entry),
        }
    }
}

impl Spilled {
    fn merge(mut self, memory: usize, mut see: impl FnMut(HashedId)) -> io::Result<()> {
        let buffer = (memory / self.runs.len()).max(RUN_BUFFER_BYTES_MIN);
        let buffer = buffer / HASHED_ID_BYTES * HASHED_ID_BYTES;
        let (mut runs, mut heap, mut at) = (Vec::new(), BinaryHeap::new(), 0);
        for entries in &self.runs {
            let bytes = entries * HASHED_ID_BYTES as u64;
            let mut run = Run { at, end: at + bytes, buffer: Vec::new(), from: 0 };
            at += bytes;
            if let Some(entry) = run.next(&mut self.file, buffer)? {
                heap.push(Reverse((entry, runs.len())));
            }
            runs.push(run);
        }
        while let Some(mut lowest) = heap.peek_mut() {
            let Reverse((entry, index)) = *lowest;
            see(entry);
            match runs[index].next(&mut self.file, buffer)? {
                Some(next) => *lowest = Reverse((next, index)),
                None => drop(std::collections::binary_heap::PeekMut::pop(lowest)),
            }
        }
        Ok(())
    }
}

/// A sorted run in the file, read a buffer at a time.
struct Run {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    from: usize,
}

impl Run {
    fn next(&mut self, file: &mut File, bytes_max: usize) -> io::Result<Option<HashedId>> {
        if self.from == self.buffer.len() {
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            self.buffer.resize(left.min(bytes_max), 0);
            self.from = 0;
            if self.buffer.is_empty() {
                return Ok(None);
            }
            file.seek(SeekFrom::Start(self.at))?;
            file.read_exact(&mut self.buffer)?;
            self.at += self.buffer.len() as u64;
        }
        let entry = HashedId::from_bytes(&self.buffer[self.from..self.from + HASHED_ID_BYTES]);
        self.from += HASHED_ID_BYTES;
        Ok(Some(entry))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn find(ids: &[String], memory: usize, kept_max: usize) -> FoundDuplicates {
        let mut duplicates = Duplicates::new(memory);
        for (line, id) in (1..).zip(ids) {
            duplicates.insert(id, line).unwrap();
            assert!(duplicates.buffer.capacity() * HASHED_ID_BYTES <= memory.max(HASHED_ID_BYTES));
        }
        duplicates.finish(kept_max).unwrap()
    }

    fn model(ids: &[String]) -> Vec<Duplicate> {
        let (mut firsts, mut found) = (HashMap::new(), Vec::new());
        for (line, id) in (1..).zip(ids) {
            let first = *firsts.entry(id).or_insert(line);
            if first != line {
                found.push(Duplicate { line, first });
            }
        }
        found
    }

    proptest! {
        /// With memory for one entry every line spills; with more, some do; the answer is the same.
        #[test]
        fn the_same_whether_it_spills_or_not(
            ids in prop::collection::vec("[a-f]{1,2}", 0..150),
            memory in prop::sample::select(vec![1, 24, 100, 500, 1 << 20]),
            kept_max in 0_usize..40,
        ) {
            let expected = model(&ids);
            let found = find(&ids, memory, kept_max);
            prop_assert_eq!(found.total, expected.len() as u64);
            prop_assert_eq!(&found.kept[..], &expected[..expected.len().min(kept_max)]);
        }
    }

    #[test]
    fn a_duplicate_far_from_its_first_is_found_across_runs() {
        let mut ids: Vec<String> = (0..50_000).map(|n| format!("request-{n}")).collect();
        ids.push("request-3".to_owned());
        ids.push("request-49999".to_owned());
        ids.push("request-3".to_owned());
        let found = find(&ids, 64 * 1024, 1000);
        let duplicate = |line, first| Duplicate { line, first };
        assert_eq!(
            found.kept,
            [duplicate(50_001, 4), duplicate(50_002, 50_000), duplicate(50_003, 4)]
        );
    }

    #[test]
    fn entries_read_back() {
        let entry = HashedId { hash: [u64::MAX, 1], line: 1 << 40 };
        assert_eq!(HashedId::from_bytes(&entry.to_bytes()), entry);
    }
}
