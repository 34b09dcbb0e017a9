//! The rows of a batch in the order of its file: every line, whatever its place.
//!
//! Holds throughout: a page costs O(rows of the page + sets of the batch + lanes), wherever it begins; a line
//! with a result is found by its number, one without by the sets that say where it is, and both are merged by
//! number. The merge is here, and what it asks a database for is the database's own business.

use std::cmp::Ordering;

use bytes::Bytes;
use jiff::Timestamp;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, InstanceId, LaneNo, LineSet};

use super::{FinishedLine, Place, check_limit};
use crate::{Error, Result};

/// Fewest line numbers that the merge asks one lane for at a time.
const ASKED_MIN: usize = 8;

/// Which rows of a batch to list. A row is listed when its result has one of `statuses`, or when it has none and
/// is in one of `places`; with both empty, every row is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsQuery {
    /// The batch.
    pub batch: BatchId,
    /// Begins at the line with this number in the file, or the next that is listed, instead of `after`; none for
    /// the first one.
    pub from: Option<u64>,
    /// Goes from the last line to the first.
    pub backward: bool,
    /// Rows with one of these outcomes.
    pub statuses: Vec<Status>,
    /// Rows without a result that are in one of these places.
    pub places: Vec<Place>,
    /// A row that has no result comes with its newest result of an earlier generation, and is listed for its
    /// status, too.
    pub earlier: bool,
    /// With the raw response and the normalised input, which may be large.
    pub bodies: bool,
    /// The page ends before the row whose bytes ([`BatchRow::bytes`]) would bring their sum over this, but holds
    /// at least one row. Like `bodies` and `limit`, it may change from page to page.
    pub bytes_max: Option<u64>,
    /// Where the last page ended.
    pub after: Option<String>,
    /// Most rows, up to [`super::PAGE_MAX`].
    pub limit: u32,
}

impl RowsQuery {
    /// Every row of a batch, from the first line on, without large bodies.
    pub fn of(batch: BatchId, limit: u32) -> Self {
        Self {
            batch,
            from: None,
            backward: false,
            statuses: Vec::new(),
            places: Vec::new(),
            earlier: false,
            bodies: false,
            bytes_max: None,
            after: None,
            limit,
        }
    }

    /// `Invalid` when a page would have no rows or too many, or would begin in two places.
    pub fn check(&self) -> Result<()> {
        check_limit(self.limit)?;
        match self.after.is_some() && self.from.is_some() {
            true => Err(Error::invalid("from", "after is given, too")),
            false => Ok(()),
        }
    }

    /// What a cursor of it is bound to.
    pub fn filters(&self) -> impl std::fmt::Debug + '_ {
        (self.batch, self.backward, &self.statuses, &self.places, self.earlier)
    }

    /// Whether rows with a result may be listed.
    pub fn wants_finished(&self) -> bool {
        !self.statuses.is_empty() || self.places.is_empty()
    }

    /// Whether rows in this place are listed, whatever earlier result they have.
    pub fn wants(&self, place: Place) -> bool {
        self.places.contains(&place) || (self.places.is_empty() && self.statuses.is_empty())
    }

    /// Whether rows are found by an earlier result: for its status, or because nothing else tells of them once the
    /// file is gone.
    pub fn wants_earlier(&self, has_file: bool) -> bool {
        self.earlier && (!self.statuses.is_empty() || (!has_file && self.places.is_empty()))
    }

    /// The number that bounds the lines of a lane which the page begins behind ([`LaneStart`]); none when it may
    /// hold all.
    pub fn lower_than(&self, start: u64) -> Option<u64> {
        match self.backward {
            false => Some(start).filter(|start| *start > 0),
            true => start.checked_add(1),
        }
    }

    /// The first line that the page may hold, given the last one of the page before; none when there is none.
    pub fn start(&self, after: Option<u64>) -> Option<u64> {
        match (after, self.backward) {
            (Some(line), false) => line.checked_add(1),
            (Some(line), true) => line.checked_sub(1),
            (None, false) => Some(self.from.unwrap_or(0)),
            (None, true) => Some(self.from.unwrap_or(u64::MAX)),
        }
    }
}

/// A row of a batch: a line of its file, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRow {
    /// Its number in the file.
    pub line: u64,
    /// Its lane.
    pub lane: LaneNo,
    /// Its number in the lane.
    pub seq: u64,
    /// Its exact bytes; none when the file was dropped.
    pub raw: Option<Bytes>,
    /// Where it is; none when it has a result.
    pub place: Option<Place>,
    /// Attempts that it has behind it.
    pub attempts: u32,
    /// When it may be claimed again, if it was returned.
    pub not_before: Option<Timestamp>,
    /// The instance that holds it.
    pub held_by: Option<InstanceId>,
    /// Since when that instance holds it.
    pub held_since: Option<Timestamp>,
    /// A stable word for what its history has last, while it has no result: a failed attempt, or a result that
    /// was put back.
    pub last_error_code: Option<String>,
    /// A sentence about it.
    pub last_error: Option<String>,
    /// Its result, or (`earlier`) the one that stands in for it; `response` and `normalised` only when the query
    /// asked for bodies.
    pub result: Option<FinishedLine>,
}

impl BatchRow {
    /// How many bytes its input, its texts and its bodies have, as far as the page holds them.
    pub fn bytes(&self) -> u64 {
        let raw = self.raw.as_ref().map_or(0, |raw| raw.len() as u64);
        let error = self.last_error.as_ref().map_or(0, |error| error.len() as u64);
        raw + error + self.result.as_ref().map_or(0, FinishedLine::body_bytes)
    }
}

/// Lines of one lane that are in one place for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceSet {
    /// The lane.
    pub lane: LaneNo,
    /// Where they are.
    pub place: Place,
    /// The lines, by their numbers in the lane.
    pub lines: LineSet,
    /// Attempts that they have behind them.
    pub attempts: u32,
    /// When they may be claimed again, if they were returned.
    pub not_before: Option<Timestamp>,
    /// The instance that holds them.
    pub held_by: Option<InstanceId>,
    /// Since when that instance holds them.
    pub held_since: Option<Timestamp>,
}

/// The unfinished lines of a batch, by lane and number in it.
#[derive(Clone, Debug, Default)]
pub struct PlaceSets {
    sets: Vec<PlaceSet>,
    /// Lane, first and last line, and which set; sorted.
    ranges: Vec<(LaneNo, u64, u64, usize)>,
}

impl PlaceSets {
    /// Of these sets, which share no line.
    pub fn new(sets: Vec<PlaceSet>) -> Self {
        let mut ranges = Vec::new();
        for (at, set) in sets.iter().enumerate() {
            ranges.extend(set.lines.ranges().iter().map(|&(lo, hi)| (set.lane, lo, hi, at)));
        }
        ranges.sort_unstable();
        Self { sets, ranges }
    }

    /// The set that a line is in; none when it has a result.
    pub fn find(&self, lane: LaneNo, seq: u64) -> Option<&PlaceSet> {
        let after = self.ranges.partition_point(|&(no, lo, _, _)| (no, lo) <= (lane, seq));
        let (no, _, hi, set) = self.ranges[..after].last()?;
        (*no == lane && *hi >= seq).then(|| &self.sets[*set])
    }

    /// The lines that a query lists for their places, by lane, from where each lane begins.
    fn walks(&self, query: &RowsQuery, starts: &[LaneStart]) -> Vec<LaneWalk> {
        let lanes = self.ranges.chunk_by(|a, b| a.0 == b.0).map(|ranges| {
            let lane = ranges[0].0;
            let start = starts.iter().find(|start| start.lane == lane);
            let (first, end) = match (start, query.backward) {
                (None, _) => (0, u64::MAX),
                (Some(start), false) => (start.passed, u64::MAX),
                (Some(start), true) => (0, start.passed),
            };
            let listed = ranges.iter().filter(|range| query.wants(self.sets[range.3].place));
            let cut = listed.map(|&(_, lo, hi, _)| (lo.max(first), hi.saturating_add(1).min(end)));
            let left = cut.filter(|(lo, end)| lo < end).map(|(lo, end)| (lo, end - 1));
            let mut ranges: Vec<_> = left.collect();
            if !query.backward {
                ranges.reverse();
            }
            LaneWalk { lane, ranges, step: 0, reached: None }
        });
        lanes.filter(|lane| !lane.ranges.is_empty()).collect()
    }
}

/// A row that a page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKey {
    /// Its number in the file.
    pub line: u64,
    /// Its lane.
    pub lane: LaneNo,
    /// Its number in the lane.
    pub seq: u64,
    /// It has a result.
    pub finished: bool,
}

impl RowKey {
    /// The row without what is read by its key.
    pub fn row(&self, places: &PlaceSets) -> BatchRow {
        let set = places.find(self.lane, self.seq).filter(|_| !self.finished);
        BatchRow {
            line: self.line,
            lane: self.lane,
            seq: self.seq,
            raw: None,
            place: set.map(|set| set.place),
            attempts: set.map_or(0, |set| set.attempts),
            not_before: set.and_then(|set| set.not_before),
            held_by: set.and_then(|set| set.held_by),
            held_since: set.and_then(|set| set.held_since),
            last_error_code: None,
            last_error: None,
            result: None,
        }
    }
}

/// Where the lines of a lane begin that a page may hold: how many of its lines are numbered lower than the
/// first that the page may hold (with `backward`: not higher).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneStart {
    /// The lane.
    pub lane: LaneNo,
    /// How many lines of it are before that place in the file.
    pub passed: u64,
}

/// Merges the unfinished lines of several lanes by their numbers in the file, and asks for as few numbers as it
/// can: [`Merge::ask`], then [`Merge::tell`], until nothing is asked for.
#[derive(Debug)]
pub struct Merge {
    backward: bool,
    wanted: usize,
    lanes: Vec<LaneWalk>,
    known: Vec<RowKey>,
}

/// The lines of one lane that are still to be asked for, in the order of the page.
#[derive(Debug)]
struct LaneWalk {
    lane: LaneNo,
    /// Ranges that are left, the next one last.
    ranges: Vec<(u64, u64)>,
    /// How many to ask for next.
    step: usize,
    /// The number of the last line that was told.
    reached: Option<u64>,
}

impl Merge {
    /// The first `wanted` unfinished lines that the query lists. Lanes without a start begin at their first
    /// line (with `backward`: at their last).
    pub fn new(query: &RowsQuery, wanted: usize, places: &PlaceSets, starts: &[LaneStart]) -> Self {
        let mut lanes = places.walks(query, starts);
        let step = wanted.div_ceil(lanes.len().max(1)).max(ASKED_MIN);
        lanes.iter_mut().for_each(|lane| lane.step = step);
        Self { backward: query.backward, wanted, lanes, known: Vec::new() }
    }

    /// The lines, by lane and number in it, whose numbers in the file it needs; none when it knows enough. Each
    /// answer must have all of them.
    pub fn ask(&mut self) -> Vec<(LaneNo, u64)> {
        let backward = self.backward;
        self.known.sort_unstable_by(|a, b| order(backward, a.line, b.line));
        let last = self.known.get(self.wanted.saturating_sub(1)).map(|key| key.line);
        let mut asked = Vec::new();
        for lane in &mut self.lanes {
            // A lane that is known beyond the last row of the page has nothing more for it.
            let passed = lane.reached.zip(last);
            if passed.is_some_and(|(reached, last)| order(backward, reached, last).is_ge()) {
                continue;
            }
            lane.take(backward, &mut asked);
        }
        asked
    }

    /// The number in the file of a line that it asked for.
    pub fn tell(&mut self, lane: LaneNo, seq: u64, line: u64) {
        self.known.push(RowKey { line, lane, seq, finished: false });
        let backward = self.backward;
        if let Some(walk) = self.lanes.iter_mut().find(|walk| walk.lane == lane) {
            let further = walk.reached.is_none_or(|reached| order(backward, reached, line).is_lt());
            walk.reached = if further { Some(line) } else { walk.reached };
        }
    }

    /// The rows it found and these, in the order of the page, each once, and no more than were wanted.
    pub fn with(mut self, others: impl IntoIterator<Item = RowKey>) -> Vec<RowKey> {
        self.known.extend(others);
        self.known.sort_unstable_by(|a, b| order(self.backward, a.line, b.line));
        self.known.dedup_by_key(|key| key.line);
        self.known.truncate(self.wanted);
        self.known
    }
}

impl LaneWalk {
    /// Takes the next lines, and twice as many the next time.
    fn take(&mut self, backward: bool, asked: &mut Vec<(LaneNo, u64)>) {
        let mut left = self.step as u64;
        while left > 0 {
            let Some((lo, hi)) = self.ranges.pop() else { break };
            let n = left.min(hi - lo + 1);
            let (taken, rest) = match backward {
                false => ((lo, lo + (n - 1)), (lo + (n - 1) < hi).then(|| (lo + n, hi))),
                true => ((hi - (n - 1), hi), (hi - (n - 1) > lo).then(|| (lo, hi - n))),
            };
            asked.extend((taken.0..=taken.1).map(|seq| (self.lane, seq)));
            self.ranges.extend(rest);
            left -= n;
        }
        self.step = self.step.saturating_mul(2);
    }
}

fn order(backward: bool, a: u64, b: u64) -> Ordering {
    if backward { b.cmp(&a) } else { a.cmp(&b) }
}
