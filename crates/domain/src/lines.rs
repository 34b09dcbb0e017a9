//! Line sets: sorted, disjoint, non-adjacent ranges of line numbers, and their algebra.
//!
//! Holds throughout: `ranges` is sorted, ranges do not touch or overlap, and each has `lo <= hi`.
//! The text form (`1-100,105,200-210`) is what both databases store. Reading accepts ranges in any
//! order, as long as they do not overlap, because a store may append to a set by appending text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Largest text of one stored set, in bytes; a larger set is stored as several rows.
pub const TEXT_BYTES_MAX: usize = 4096;

/// A set of line numbers, kept as inclusive ranges.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LineSet {
    ranges: Vec<(u64, u64)>,
}

/// Text that is not a line set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLineSet {
    /// The part that could not be read.
    pub part: String,
    /// What is wrong with it.
    pub because: &'static str,
}

impl fmt::Display for BadLineSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line set part {:?} {}", self.part, self.because)
    }
}

impl std::error::Error for BadLineSet {}

impl LineSet {
    /// The set with no lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lines `lo..=hi`; empty when `hi < lo`.
    pub fn range(lo: u64, hi: u64) -> Self {
        let ranges = if lo <= hi { vec![(lo, hi)] } else { Vec::new() };
        Self { ranges }
    }

    /// The `count` lines from `first` on.
    pub fn span(first: u64, count: u64) -> Self {
        match count {
            0 => Self::new(),
            _ => Self::range(first, first.saturating_add(count - 1)),
        }
    }

    /// How many lines it holds (`u64::MAX` for the set of all numbers, whose size does not fit).
    pub fn len(&self) -> u64 {
        self.ranges
            .iter()
            .fold(0, |sum: u64, (lo, hi)| sum.saturating_add(hi - lo).saturating_add(1))
    }

    /// Whether it holds no line.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest line.
    pub fn first(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.0)
    }

    /// The highest line.
    pub fn last(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.1)
    }

    /// The inclusive ranges, sorted.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// Every line, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().flat_map(|&(lo, hi)| lo..=hi)
    }

    /// Whether `line` is in the set.
    pub fn contains(&self, line: u64) -> bool {
        let after = self.ranges.partition_point(|&(lo, _)| lo <= line);
        after > 0 && self.ranges[after - 1].1 >= line
    }

    /// Adds one line; says whether it was new.
    pub fn insert(&mut self, line: u64) -> bool {
        let at = self.ranges.partition_point(|&(lo, _)| lo <= line);
        if at > 0 && self.ranges[at - 1].1 >= line {
            return false;
        }
        let joins_left = at > 0 && self.ranges[at - 1].1 + 1 == line;
        let joins_right = self.ranges.get(at).is_some_and(|&(lo, _)| line + 1 == lo);
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = line,
            (false, true) => self.ranges[at].0 = line,
            (false, false) => self.ranges.insert(at, (line, line)),
        }
        true
    }

    /// Lines in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all: Vec<_> = self.ranges.iter().chain(&other.ranges).copied().collect();
        all.sort_unstable();
        Self { ranges: merged(all) }
    }

    /// Lines in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        let mut ranges = Vec::new();
        while let (Some(&&(a_lo, a_hi)), Some(&&(b_lo, b_hi))) = (left.peek(), right.peek()) {
            let (lo, hi) = (a_lo.max(b_lo), a_hi.min(b_hi));
            if lo <= hi {
                ranges.push((lo, hi));
            }
            if a_hi < b_hi {
                left.next();
            } else {
                right.next();
            }
        }
        Self { ranges }
    }

    /// Lines of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        let mut cuts = other.ranges.iter().copied().peekable();
        for &(lo, hi) in &self.ranges {
            let mut from = Some(lo);
            while let Some(start) = from {
                match cuts.peek().copied() {
                    Some((_, cut_hi)) if cut_hi < start => {
                        cuts.next();
                    }
                    Some((cut_lo, cut_hi)) if cut_lo <= hi => {
                        if cut_lo > start {
                            ranges.push((start, cut_lo - 1));
                        }
                        from = (cut_hi < hi).then(|| cut_hi + 1);
                    }
                    Some(_) | None => {
                        ranges.push((start, hi));
                        from = None;
                    }
                }
            }
        }
        Self { ranges }
    }

    /// Whether the sets share no line.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersection(other).is_empty()
    }

    /// The lowest `count` lines, and the rest.
    #[must_use]
    pub fn take(&self, count: u64) -> (Self, Self) {
        let (mut taken, mut rest, mut wanted) = (Vec::new(), Vec::new(), count);
        for &(lo, hi) in &self.ranges {
            if wanted == 0 {
                rest.push((lo, hi));
            } else if hi - lo < wanted {
                taken.push((lo, hi));
                wanted -= hi - lo + 1;
            } else {
                taken.push((lo, lo + wanted - 1));
                rest.push((lo + wanted, hi));
                wanted = 0;
            }
        }
        (Self { ranges: taken }, Self { ranges: rest })
    }

    /// Splits the set so that no part's text is longer than `bytes_max` (and each has a range).
    pub fn split_text(&self, bytes_max: usize) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let mut bytes: usize = 0;
        for &(lo, hi) in &self.ranges {
            let text = range_text(lo, hi).len();
            match parts.last_mut() {
                Some(part) if bytes.saturating_add(1 + text) <= bytes_max => {
                    part.ranges.push((lo, hi));
                    bytes += 1 + text;
                }
                Some(_) | None => {
                    parts.push(Self::range(lo, hi));
                    bytes = text;
                }
            }
        }
        parts
    }
}

fn range_text(lo: u64, hi: u64) -> String {
    if lo == hi { lo.to_string() } else { format!("{lo}-{hi}") }
}

/// Joins sorted ranges that overlap or touch.
fn merged(sorted: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
    for (lo, hi) in sorted {
        match ranges.last_mut() {
            Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
            _ => ranges.push((lo, hi)),
        }
    }
    ranges
}

impl FromIterator<u64> for LineSet {
    fn from_iter<I: IntoIterator<Item = u64>>(lines: I) -> Self {
        let mut all: Vec<_> = lines.into_iter().map(|line| (line, line)).collect();
        all.sort_unstable();
        Self { ranges: merged(all) }
    }
}

impl fmt::Display for LineSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &(lo, hi)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", range_text(lo, hi))?;
        }
        Ok(())
    }
}

impl fmt::Debug for LineSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LineSet({self})")
    }
}

impl FromStr for LineSet {
    type Err = BadLineSet;

    fn from_str(text: &str) -> Result<Self, BadLineSet> {
        if text.is_empty() {
            return Ok(Self::new());
        }
        let mut all = text.split(',').map(read_range).collect::<Result<Vec<_>, _>>()?;
        all.sort_unstable();
        if let Some(pair) = all.windows(2).find(|pair| pair[0].1 >= pair[1].0) {
            let part = range_text(pair[1].0, pair[1].1);
            return Err(BadLineSet { part, because: "overlaps another part" });
        }
        Ok(Self { ranges: merged(all) })
    }
}

fn read_range(part: &str) -> Result<(u64, u64), BadLineSet> {
    let bad = |because| BadLineSet { part: part.chars().take(40).collect(), because };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(|| bad("is not a number"))
    };
    let (lo, hi) = match part.split_once('-') {
        Some((lo, hi)) => (number(lo)?, number(hi)?),
        None => (number(part)?, number(part)?),
    };
    if lo > hi { Err(bad("ends before it starts")) } else { Ok((lo, hi)) }
}

impl TryFrom<String> for LineSet {
    type Error = BadLineSet;

    fn try_from(text: String) -> Result<Self, BadLineSet> {
        text.parse()
    }
}

impl From<LineSet> for String {
    fn from(set: LineSet) -> String {
        set.to_string()
    }
}
