//! Silence of members, as this instance observed it with its own clock.
//!
//! Holds throughout: time counts only between two reads that follow each other closely, with no failure in
//! between. While the database,
//! the network or this process was away nobody could be heard, so that time says nothing about others: the
//! first process that is back after an outage buries nobody.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use windrow_domain::{InstanceId, millis};
use windrow_store::member::Member;

/// A read counts when it comes within so many of the usual pauses after the one before …
const GAP_PAUSES: u32 = 2;
/// … or within such a part of the silence that is waited for, whichever is longer.
const GAP_PART: u32 = 3;

/// Remembers the heartbeats of members, and how long each has been the same.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    gap_ms_max: u64,
    stale_ms: u64,
    read_at: Option<u64>,
    beats: HashMap<InstanceId, Beat>,
}

#[derive(Debug)]
struct Beat {
    heartbeat_at: Timestamp,
    silent_ms: u64,
}

impl SilenceWatch {
    /// For members that are read with at most that pause in between, and are silent after that time.
    pub(crate) fn new(pause: Duration, stale_after: Duration) -> Self {
        let gap = pause.saturating_mul(GAP_PAUSES).max(stale_after / GAP_PART);
        let (gap_ms_max, stale_ms) = (millis(gap), millis(stale_after));
        Self { gap_ms_max, stale_ms, read_at: None, beats: HashMap::new() }
    }

    /// The database could not be asked: the time until the next read does not count.
    pub(crate) fn interrupt(&mut self) {
        self.read_at = None;
    }

    /// These members were read at that time of this process. Gives those that were silent for too
    /// long, with the heartbeat that did not change.
    pub(crate) fn observe<'a>(
        &mut self,
        now: u64,
        members: impl Iterator<Item = &'a Member>,
    ) -> Vec<(InstanceId, Timestamp)> {
        let gap = self.read_at.map_or(0, |read_at| now.saturating_sub(read_at));
        let counted = if gap <= self.gap_ms_max { gap } else { 0 };
        self.read_at = Some(now);
        let mut before = std::mem::take(&mut self.beats);
        for member in members {
            let heartbeat_at = member.heartbeat_at;
            let same = before.remove(&member.instance);
            let same = same.filter(|beat| beat.heartbeat_at == heartbeat_at);
            let silent_ms = same.map_or(0, |beat| beat.silent_ms.saturating_add(counted));
            self.beats.insert(member.instance, Beat { heartbeat_at, silent_ms });
        }
        let silent = self.beats.iter().filter(|(_, beat)| beat.silent_ms > self.stale_ms);
        silent.map(|(instance, beat)| (*instance, beat.heartbeat_at)).collect()
    }
}
