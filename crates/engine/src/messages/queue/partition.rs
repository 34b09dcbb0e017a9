//! A partition that this instance owns.

use windrow_store::partition::Fence;

/// What may happen in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Streams begin, run and end.
    Open,
    /// What runs ends, and nothing begins: the partition is to be given back.
    Draining,
    /// Nothing happens until it is known whether the partition is still ours.
    Halted,
}

/// The heads of a partition whose last owner died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suspects {
    /// All streams were seen once.
    pub(crate) passed: bool,
    /// Heads that have not ended yet.
    pub(crate) heads: usize,
    /// A head was dropped before its turn, since the walk over all streams began.
    pub(crate) again: bool,
    /// The database is being told that all had their turn.
    pub(crate) clearing: bool,
}

/// A partition that this instance owns.
#[derive(Debug)]
pub(crate) struct OwnedPartition {
    pub(crate) fence: Fence,
    pub(crate) phase: Phase,
    /// Where the last read ended; 0 at the beginning.
    pub(crate) after_stream: u64,
    /// There may be something that the read under way does not see.
    pub(crate) dirty: bool,
    /// Streams that are worked on.
    pub(crate) busy: usize,
    pub(crate) suspects: Option<Suspects>,
}

impl OwnedPartition {
    /// A suspect may not have had its turn: the heads are gone through once more.
    pub(crate) fn recheck_suspects(&mut self) {
        if let Some(suspects) = &mut self.suspects {
            suspects.passed = false;
            suspects.again = true;
            self.after_stream = 0;
            self.dirty = true;
        }
    }
}
