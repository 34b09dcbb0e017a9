//! The queues of an instance in memory: its partitions, and the messages of their streams that come next.
//!
//! Holds throughout: a stream's messages are here without a gap and in order, from its first one on;
//! one message of a stream is worked on at a time; what is forgotten is read again from the start; a
//! partition that is not open starts nothing.
//! Absent on purpose: time, the database and handlers. Everything here is decided without waiting.

mod partition;
mod progress;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use windrow_domain::PartitionNo;
use windrow_store::message::Message;
use windrow_store::partition::{Fence, Taken};

pub(crate) use self::partition::{OwnedPartition, Phase, Suspects};
pub(crate) use self::stream::StreamQueue;

use self::stream::size;

/// The partitions of this instance, and the queues of their streams by the number of the stream.
#[derive(Debug, Default)]
pub(crate) struct StreamQueues {
    pub(crate) partitions: BTreeMap<PartitionNo, OwnedPartition>,
    pub(crate) streams: HashMap<u64, StreamQueue>,
    ready: VecDeque<u64>,
    alone: VecDeque<u64>,
    alone_busy: Option<u64>,
    /// Streams that were forgotten since the read under way began: what it says of them has a gap.
    forgotten: HashSet<u64>,
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) busy: usize,
}

impl StreamQueues {
    /// Partitions are ours from now on, or were all along. Gives those whose epoch is new.
    pub(crate) fn own(&mut self, taken: &[Taken]) -> Vec<PartitionNo> {
        let mut fresh = Vec::new();
        for taken in taken {
            let no = taken.fence.partition;
            let known = self.partitions.get_mut(&no).filter(|owned| owned.fence == taken.fence);
            if let Some(owned) = known {
                owned.phase = Phase::Open;
                owned.dirty = true;
                continue;
            }
            self.lose(no);
            let owned = OwnedPartition {
                fence: taken.fence,
                phase: Phase::Open,
                after_stream: 0,
                dirty: true,
                busy: 0,
                suspects: taken.is_suspect.then(Suspects::default),
            };
            self.partitions.insert(no, owned);
            fresh.push(no);
        }
        fresh
    }

    /// A partition is not ours any more.
    pub(crate) fn lose(&mut self, no: PartitionNo) {
        if self.partitions.remove(&no).is_none() {
            return;
        }
        let of = self.streams.iter().filter(|(_, queue)| queue.partition == no);
        for stream_no in of.map(|(stream_no, _)| *stream_no).collect::<Vec<_>>() {
            self.remove(stream_no);
        }
    }

    /// Nothing more begins in a partition. What is not worked on is dropped.
    pub(crate) fn close(&mut self, no: PartitionNo, phase: Phase) {
        let Some(owned) = self.partitions.get_mut(&no) else { return };
        owned.phase = phase;
        owned.recheck_suspects();
        let of = self.streams.iter();
        let of = of.filter(|(_, queue)| queue.partition == no && !queue.busy);
        for stream_no in of.map(|(stream_no, _)| *stream_no).collect::<Vec<_>>() {
            self.remove(stream_no);
        }
    }

    /// Whether a partition is ours in that epoch.
    pub(crate) fn is_ours(&self, fence: Fence) -> bool {
        self.is_in_phase(fence, &[Phase::Open, Phase::Draining, Phase::Halted])
    }

    fn is_in_phase(&self, fence: Fence, phases: &[Phase]) -> bool {
        let owned = self.partitions.get(&fence.partition);
        owned.is_some_and(|owned| owned.fence == fence && phases.contains(&owned.phase))
    }

    /// Whether a partition is ours in that epoch, and not in doubt.
    pub(crate) fn is_open(&self, fence: Fence) -> bool {
        self.is_in_phase(fence, &[Phase::Open, Phase::Draining])
    }

    /// The handler of a head that ran alone has ended.
    pub(crate) fn alone_over(&mut self, stream_no: u64) {
        if self.alone_busy == Some(stream_no) {
            self.alone_busy = None;
        }
    }

    /// How many heads wait to run alone.
    pub(crate) fn alone_len(&self) -> usize {
        self.alone.len()
    }

    /// There may be something new in a partition.
    pub(crate) fn mark_dirty(&mut self, no: PartitionNo) {
        if let Some(owned) = self.partitions.get_mut(&no) {
            owned.dirty = true;
        }
    }

    /// There may be something new anywhere.
    pub(crate) fn mark_all_dirty(&mut self) {
        self.partitions.values_mut().for_each(|owned| owned.dirty = true);
    }

    /// A read begins: from now on forgotten streams are remembered.
    pub(crate) fn read_begins(&mut self) {
        self.forgotten.clear();
    }

    /// Takes a message in that a read gave. `fence` is that of the read.
    pub(crate) fn admit(&mut self, fence: Fence, message: Message) {
        let (no, at) = (fence.partition, message.at);
        let Some(owned) = self.partitions.get_mut(&no).filter(|owned| owned.fence == fence) else {
            return;
        };
        if owned.phase != Phase::Open {
            return;
        }
        if self.forgotten.contains(&at.stream_no) {
            owned.dirty = true;
            return;
        }
        let queue = self.streams.entry(at.stream_no).or_insert_with(|| {
            let suspects = owned.suspects.as_mut().filter(|suspects| !suspects.passed);
            let alone = suspects.is_some();
            suspects.into_iter().for_each(|suspects| suspects.heads += 1);
            StreamQueue {
                partition: no,
                waiting: VecDeque::new(),
                last: 0,
                due: at.position,
                busy: false,
                alone,
                marked: false,
                more: false,
            }
        });
        if at.position <= queue.last {
            return;
        }
        self.messages += 1;
        self.bytes += size(&message);
        let was_empty = queue.waiting.is_empty();
        queue.last = at.position;
        queue.waiting.push_back(Arc::new(message));
        if was_empty && !queue.busy {
            self.enqueue(at.stream_no);
        }
    }

    fn enqueue(&mut self, stream_no: u64) {
        let alone = self.streams.get(&stream_no).is_some_and(|queue| queue.alone);
        let waiting = if alone { &mut self.alone } else { &mut self.ready };
        waiting.push_back(stream_no);
    }

    /// Partitions that are drained and can be given back. They are not ours any more.
    pub(crate) fn take_drained(&mut self) -> Vec<Fence> {
        let drained = self.partitions.values();
        let drained = drained.filter(|owned| owned.phase == Phase::Draining && owned.busy == 0);
        let drained: Vec<Fence> = drained.map(|owned| owned.fence).collect();
        drained.iter().for_each(|fence| self.lose(fence.partition));
        drained
    }

    /// Partitions whose suspects have all had their turn. They are being cleared from now on.
    pub(crate) fn take_cleared(&mut self) -> Vec<Fence> {
        let mut cleared = Vec::new();
        for owned in self.partitions.values_mut().filter(|owned| owned.phase == Phase::Open) {
            let Some(suspects) = &mut owned.suspects else { continue };
            if suspects.passed && suspects.heads == 0 && !suspects.clearing {
                suspects.clearing = true;
                cleared.push(owned.fence);
            }
        }
        cleared
    }

    /// The database has stored that the suspects had their turn, or has not.
    pub(crate) fn cleared(&mut self, fences: &[Fence], is_stored: bool) {
        for fence in fences {
            let owned = self.partitions.get_mut(&fence.partition);
            let Some(owned) = owned.filter(|owned| owned.fence == *fence) else { continue };
            if is_stored {
                owned.suspects = None;
            } else if let Some(suspects) = &mut owned.suspects {
                suspects.clearing = false;
            }
        }
    }
}
