//! The read planner: which partitions are read next, how much of them, and what the result means.
//!
//! Holds throughout: reads go round, so that no partition and no stream waits for ever behind a busy
//! one; one read is under way at a time, and only reads admit messages; a partition is clean when a
//! walk that began after it was last marked dirty came to its end.

use std::collections::HashMap;

use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::message::{Read, ReadFrom, Work};
use windrow_store::partition::Fence;

use super::options::Options;
use super::queue::{Phase, StreamQueue, StreamQueues};

/// Heads that wait to run alone before no more of their partitions are read: they are slow, and the
/// room is for all.
const ALONE_MAX: usize = 100;

/// Where the next read begins, and what messages usually weigh.
#[derive(Debug)]
pub(super) struct ReadPlanner {
    /// The partition that comes first.
    next: PartitionNo,
    bytes_mean: usize,
}

impl Default for ReadPlanner {
    fn default() -> Self {
        Self { next: 0, bytes_mean: 1024 }
    }
}

/// From where on a stream's messages are wanted. A stream with enough in memory gets none, however often
/// its partition is read.
fn wanted_after(queue: &mut StreamQueue, stream_max: usize) -> u64 {
    if queue.waiting.len() < stream_max {
        return queue.last;
    }
    queue.more = true;
    i64::MAX as u64
}

impl ReadPlanner {
    /// The next read, if there is something to read and room for it.
    pub(super) fn plan(
        &mut self,
        queues: &mut StreamQueues,
        instance: InstanceId,
        options: &Options,
    ) -> Option<Read> {
        let room = options.messages_held_max.saturating_sub(queues.messages);
        let bytes = options.bytes_held_max.saturating_sub(queues.bytes);
        let room = room.min(bytes / self.bytes_mean.max(1));
        // A read for a few messages costs as much as one for many.
        let enough = (options.read_messages_max as usize).min(options.messages_held_max / 4).max(1);
        if room < enough && queues.messages > 0 {
            return None;
        }
        let suspects_wait = queues.alone_len() >= ALONE_MAX;
        let wanted = queues.partitions.iter_mut().filter(|(_, owned)| {
            let waits = owned.suspects.is_some_and(|suspects| !suspects.passed) && suspects_wait;
            owned.phase == Phase::Open && (owned.dirty || owned.after_stream != 0) && !waits
        });
        let mut from = Vec::new();
        for (_, owned) in wanted {
            if owned.after_stream == 0 {
                owned.dirty = false;
                owned.suspects.iter_mut().for_each(|suspects| suspects.again = false);
            }
            from.push(ReadFrom { fence: owned.fence, after_stream: owned.after_stream });
        }
        if from.is_empty() {
            return None;
        }
        let first = from.partition_point(|from| from.fence.partition < self.next);
        from.rotate_left(first);
        queues.read_begins();
        let messages_max = u32::try_from(room.max(1)).unwrap_or(u32::MAX);
        let messages_max = messages_max.min(options.read_messages_max);
        let stream_max = options.stream_messages_max as usize;
        Some(Read {
            instance,
            from,
            held: queues
                .streams
                .iter_mut()
                .map(|(no, queue)| (*no, wanted_after(queue, stream_max)))
                .collect(),
            messages_max,
            stream_messages_max: options.stream_messages_max.min(messages_max),
        })
    }

    /// Admits the messages of a read. Gives the partitions that are lost.
    pub(super) fn admit(
        &mut self,
        queues: &mut StreamQueues,
        read: &Read,
        work: Work,
    ) -> Vec<Fence> {
        let fences: HashMap<PartitionNo, Fence> =
            read.from.iter().map(|from| (from.fence.partition, from.fence)).collect();
        self.weigh(&work);
        let is_full = work.messages.len() >= read.messages_max as usize;
        let last = work.messages.last().map(|message| message.at.stream_no);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for message in work.messages {
            *counts.entry(message.at.stream_no).or_default() += 1;
            if let Some(fence) = fences.get(&message.at.partition) {
                queues.admit(*fence, message);
            }
        }
        for (stream_no, count) in counts {
            if let Some(queue) = queues.streams.get_mut(&stream_no) {
                // The last stream of a full read may have been cut short.
                queue.more =
                    count >= read.stream_messages_max || (is_full && last == Some(stream_no));
            }
        }
        let marks: HashMap<PartitionNo, u64> =
            work.marks.iter().map(|mark| (mark.partition, mark.after_stream)).collect();
        self.note_marks(queues, read, &marks);
        work.lost.iter().filter_map(|no| fences.get(no).copied()).collect()
    }

    fn note_marks(
        &mut self,
        queues: &mut StreamQueues,
        read: &Read,
        marks: &HashMap<PartitionNo, u64>,
    ) {
        let mut reached = None;
        for from in &read.from {
            let no = from.fence.partition;
            let owned = queues.partitions.get_mut(&no);
            let owned = owned.filter(|owned| owned.fence == from.fence);
            match (marks.get(&no), owned) {
                (Some(mark), Some(owned)) => {
                    reached = Some(no);
                    // A walk that was sent back to the start meanwhile begins anew.
                    let is_same_walk = owned.after_stream == from.after_stream;
                    owned.after_stream = if is_same_walk { *mark } else { 0 };
                    if is_same_walk && *mark == 0 {
                        let suspects = owned.suspects.iter_mut();
                        suspects.for_each(|suspects| suspects.passed = !suspects.again);
                    }
                }
                (None, Some(owned)) => owned.dirty = true,
                (_, None) => {}
            }
        }
        if let Some(reached) = reached {
            self.next = reached.wrapping_add(1);
        }
    }

    fn weigh(&mut self, work: &Work) {
        if work.messages.is_empty() {
            return;
        }
        let bytes: usize = work.messages.iter().map(|message| message.payload.len() + 512).sum();
        let mean = bytes / work.messages.len();
        // Heavier at once, lighter slowly: the bound matters more than the speed.
        self.bytes_mean = mean.max((self.bytes_mean * 3 + mean) / 4);
    }

    /// A read failed: everything it asked for is asked for again.
    pub(super) fn failed(&mut self, queues: &mut StreamQueues, read: &Read) {
        read.from.iter().for_each(|from| queues.mark_dirty(from.fence.partition));
    }
}
