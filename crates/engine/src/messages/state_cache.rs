//! The cache of object states: those used last, within bounds.
//!
//! Holds throughout: what is here was committed by this instance, or read while it owned the partition;
//! it goes when the partition goes and when the result of the last commit is unknown.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use windrow_domain::PartitionNo;

struct CachedState {
    state: Option<Bytes>,
    partition: PartitionNo,
    used: u64,
}

/// The states, by the number of their object's stream.
pub(super) struct StateCache {
    kept: HashMap<u64, CachedState>,
    by_use: BTreeMap<u64, u64>,
    tick: u64,
    bytes: usize,
    states_max: usize,
    bytes_max: usize,
}

fn size(state: Option<&Bytes>) -> usize {
    state.map_or(0, Bytes::len)
}

impl StateCache {
    pub(super) fn new(states_max: usize, bytes_max: usize) -> Self {
        let (kept, by_use) = (HashMap::new(), BTreeMap::new());
        Self { kept, by_use, tick: 0, bytes: 0, states_max, bytes_max }
    }

    /// The state, if it is known: none inside for an object that has none.
    pub(super) fn get(&mut self, stream_no: u64) -> Option<Option<Bytes>> {
        self.tick += 1;
        let kept = self.kept.get_mut(&stream_no)?;
        self.by_use.remove(&kept.used);
        kept.used = self.tick;
        self.by_use.insert(self.tick, stream_no);
        Some(kept.state.clone())
    }

    pub(super) fn put(&mut self, stream_no: u64, partition: PartitionNo, state: Option<Bytes>) {
        self.forget(stream_no);
        self.tick += 1;
        self.bytes += size(state.as_ref());
        self.by_use.insert(self.tick, stream_no);
        self.kept.insert(stream_no, CachedState { state, partition, used: self.tick });
        while self.kept.len() > self.states_max || self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first_key_value() else { return };
            self.forget(*oldest);
        }
    }

    pub(super) fn forget(&mut self, stream_no: u64) {
        if let Some(kept) = self.kept.remove(&stream_no) {
            self.by_use.remove(&kept.used);
            self.bytes -= size(kept.state.as_ref());
        }
    }

    pub(super) fn forget_partition(&mut self, partition: PartitionNo) {
        let of = self.kept.iter().filter(|(_, kept)| kept.partition == partition);
        for stream_no in of.map(|(no, _)| *no).collect::<Vec<_>>() {
            self.forget(stream_no);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_used_goes_first_and_bounds_hold() {
        let mut states = StateCache::new(2, 10);
        states.put(1, 0, Some(Bytes::from_static(b"one")));
        states.put(2, 0, None);
        assert_eq!(states.get(1), Some(Some(Bytes::from_static(b"one"))));
        states.put(3, 1, None);
        assert_eq!((states.get(2), states.get(3)), (None, Some(None)));
        states.put(4, 1, Some(Bytes::from_static(b"123456789")));
        assert_eq!((states.get(1), states.bytes), (None, 9));
        states.forget_partition(1);
        assert!(states.kept.is_empty() && states.by_use.is_empty() && states.bytes == 0);
    }
}
