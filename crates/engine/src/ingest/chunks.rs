//! Chunks: pieces gathered until they are worth a transaction, each in its lane.
//!
//! Holds throughout: lanes are numbered in the order in which they appear, `seq` is dense in each
//! lane and in the bytes that are no request, and a chunk names the lanes it is the first to use.
//! How many pieces a chunk has may change at any time; see [`super::sizer`].

use std::collections::HashMap;

use bytes::Bytes;
use windrow_domain::lane::LANES_MAX;
use windrow_domain::{LaneNo, Target};
use windrow_store::ingest::{Chunk, NewLane, NewLine};

use super::Options;
use super::sizer::Limit;

/// Gathers pieces of a file into chunks.
#[derive(Debug)]
pub(crate) struct Chunker {
    lines_max: Limit,
    bytes_max: usize,
    lanes_max: usize,
    numbers: HashMap<String, usize>,
    lanes: Vec<Lane>,
    /// The lane of the line before: most files keep to one for a while.
    last: usize,
    /// The next `seq` of the bytes that are no request.
    seq_none: u64,
    chunk: Chunk,
    bytes: usize,
}

#[derive(Debug)]
struct Lane {
    target: Target,
    /// The `seq` of the next line of this lane.
    seq: u64,
}

/// The file has as many lanes as it may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyLanes;

impl Chunker {
    pub(crate) fn new(options: &Options, lines_max: Limit) -> Self {
        Self {
            lines_max,
            bytes_max: options.chunk_bytes_max,
            lanes_max: options.lanes_max.min(LANES_MAX),
            numbers: HashMap::new(),
            lanes: Vec::new(),
            last: 0,
            seq_none: 0,
            chunk: Chunk::default(),
            bytes: 0,
        }
    }

    /// The lane of a target that is a good name; a new one for a new target.
    pub(crate) fn lane(&mut self, target: &str) -> Result<LaneNo, TooManyLanes> {
        if self.lanes.get(self.last).is_none_or(|lane| lane.target.as_str() != target) {
            self.last = match self.numbers.get(target) {
                Some(known) => *known,
                None => self.add_lane(target)?,
            };
        }
        Ok(LaneNo::try_from(self.last).expect("lanes are bounded"))
    }

    fn add_lane(&mut self, target: &str) -> Result<usize, TooManyLanes> {
        let number = self.lanes.len();
        if number >= self.lanes_max {
            return Err(TooManyLanes);
        }
        let target = Target::new(target).expect("a target was judged before");
        self.numbers.insert(target.to_string(), number);
        self.lanes.push(Lane { target, seq: 0 });
        Ok(number)
    }

    /// Adds a piece, after giving out the chunk that it would have made too large.
    pub(crate) fn add(&mut self, lane: Option<LaneNo>, line: u64, raw: Bytes) -> Option<Chunk> {
        let full = self.chunk.lines.len() >= self.lines_max.get()
            || (!self.chunk.lines.is_empty() && self.bytes + raw.len() > self.bytes_max);
        let out = if full { self.cut() } else { None };
        let next = match lane {
            Some(lane) => &mut self.lanes[usize::from(lane)].seq,
            None => &mut self.seq_none,
        };
        let seq = *next;
        *next += 1;
        if let (Some(lane), 0) = (lane, seq) {
            let target = self.lanes[usize::from(lane)].target.clone();
            self.chunk.lanes.push(NewLane { lane, target });
        }
        self.bytes += raw.len();
        self.chunk.lines.push(NewLine { lane, seq, line, raw });
        out
    }

    /// The chunk as it is; none when it is empty.
    pub(crate) fn cut(&mut self) -> Option<Chunk> {
        if self.chunk.lines.is_empty() {
            return None;
        }
        self.bytes = 0;
        let next = Chunk {
            no: self.chunk.no.checked_add(1).expect("a file has fewer than 2^32 chunks"),
            lanes: Vec::new(),
            lines: Vec::with_capacity(self.chunk.lines.len()),
        };
        Some(std::mem::replace(&mut self.chunk, next))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Adds lines (a lane's name, or none, and a size) and gives all chunks.
    fn chunks(lines: &[(Option<u8>, usize)], options: &Options) -> Vec<Chunk> {
        let (mut chunker, mut chunks) =
            (Chunker::new(options, Limit::of(options.chunk_lines_max)), Vec::new());
        for (number, (target, size)) in (1..).zip(lines) {
            let lane = target.map(|target| chunker.lane(&format!("t{target}")).unwrap());
            chunks.extend(chunker.add(lane, number, Bytes::from(vec![b'x'; *size])));
        }
        chunks.extend(chunker.cut());
        assert_eq!(chunker.cut().map(|chunk| chunk.no), None);
        chunks
    }

    #[test]
    fn a_target_too_many_is_refused_and_the_others_go_on() {
        let options = Options { lanes_max: 2, ..Options::default() };
        let mut chunker = Chunker::new(&options, Limit::of(1));
        assert_eq!(
            [chunker.lane("a"), chunker.lane("b"), chunker.lane("a")],
            [Ok(0), Ok(1), Ok(0)]
        );
        assert_eq!(chunker.lane("c"), Err(TooManyLanes));
        assert_eq!(chunker.lane("b"), Ok(1));
    }

    proptest! {
        #[test]
        fn chunks_are_dense_bounded_and_whole(
            lines in prop::collection::vec((prop::option::of(0_u8..5), 1_usize..30), 0..120),
            chunk_lines_max in 1_usize..20,
            chunk_bytes_max in 1_usize..80,
        ) {
            let options = Options { chunk_lines_max, chunk_bytes_max, ..Options::default() };
            let chunks = chunks(&lines, &options);
            let (mut seqs, mut none, mut targets) = (Vec::<u64>::new(), 0, Vec::<String>::new());
            let mut all = lines.iter();
            for (no, chunk) in (0..).zip(&chunks) {
                prop_assert_eq!(chunk.no, no);
                prop_assert!(!chunk.lines.is_empty() && chunk.lines.len() <= chunk_lines_max);
                prop_assert!(chunk.lines.len() == 1 || chunk.bytes() <= chunk_bytes_max as u64);
                prop_assert!(chunk.spans().is_ok());
                for lane in &chunk.lanes {
                    prop_assert_eq!(usize::from(lane.lane), targets.len(), "in order of appearance");
                    targets.push(lane.target.to_string());
                    seqs.push(0);
                }
                for line in &chunk.lines {
                    let (target, size) = all.next().unwrap();
                    prop_assert_eq!(line.raw.len(), *size);
                    let next = match line.lane {
                        Some(lane) => {
                            prop_assert_eq!(&targets[usize::from(lane)], &format!("t{}", target.unwrap()));
                            &mut seqs[usize::from(lane)]
                        }
                        None => &mut none,
                    };
                    prop_assert_eq!(line.seq, *next);
                    *next += 1;
                }
            }
            prop_assert_eq!(all.next(), None);
        }
    }
}
