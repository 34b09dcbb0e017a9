//! The life of a stream's head: an attempt starts, is marked as started, ends, or waits until it is
//! due; the head is removed when its message is done.

use std::sync::Arc;

use windrow_store::message::Message;
use windrow_store::partition::Fence;

use super::stream::size;
use super::{Phase, StreamQueue, StreamQueues};

/// Messages of a stream that are left when more of it is read.
const MORE_AT: usize = 8;

impl StreamQueues {
    /// The next stream whose head may begin; it is worked on from now on.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        if self.alone_busy.is_none() {
            while let Some(stream_no) = self.alone.pop_front() {
                if self.try_begin(stream_no) {
                    self.alone_busy = Some(stream_no);
                    return Some(stream_no);
                }
            }
        }
        while let Some(stream_no) = self.ready.pop_front() {
            if self.try_begin(stream_no) {
                return Some(stream_no);
            }
        }
        None
    }

    fn try_begin(&mut self, stream_no: u64) -> bool {
        let Some(queue) = self.streams.get_mut(&stream_no) else { return false };
        let Some(owned) = self.partitions.get_mut(&queue.partition) else { return false };
        if queue.busy || queue.waiting.is_empty() || owned.phase != Phase::Open {
            return false;
        }
        queue.busy = true;
        owned.busy += 1;
        self.busy += 1;
        true
    }

    /// The head of a stream that is worked on, and the proof that it is ours.
    pub(crate) fn head(&self, stream_no: u64) -> Option<(Fence, &StreamQueue, &Arc<Message>)> {
        let queue = self.streams.get(&stream_no)?;
        let owned = self.partitions.get(&queue.partition)?;
        Some((owned.fence, queue, queue.waiting.front()?))
    }

    /// The beginning of the head's attempt is stored.
    pub(crate) fn mark(&mut self, stream_no: u64, epoch: u64) {
        let Some(queue) = self.streams.get_mut(&stream_no) else { return };
        queue.marked = true;
        if let Some(head) = queue.waiting.front_mut() {
            let head = Arc::make_mut(head);
            head.attempts += 1;
            head.started = Some(epoch);
        }
    }

    /// One of the head's consumers is done with it; the stream goes on with the next one, which has no
    /// attempts behind it.
    pub(crate) fn done_by(&mut self, stream_no: u64, consumer: &str) {
        self.release(stream_no);
        let Some(queue) = self.streams.get_mut(&stream_no) else { return };
        queue.marked = false;
        if let Some(head) = queue.waiting.front_mut() {
            let head = Arc::make_mut(head);
            head.waiting.retain(|name| name != consumer);
            (head.attempts, head.started) = (0, None);
        }
        self.continue_stream(stream_no);
    }

    /// The head ended; the stream goes on with its next message.
    pub(crate) fn finish(&mut self, stream_no: u64) {
        self.release(stream_no);
        self.head_ended(stream_no);
        let Some(queue) = self.streams.get_mut(&stream_no) else { return };
        queue.marked = false;
        if let Some(message) = queue.waiting.pop_front() {
            self.messages -= 1;
            self.bytes -= size(&message);
        }
        self.continue_stream(stream_no);
    }

    fn continue_stream(&mut self, stream_no: u64) {
        let Some(queue) = self.streams.get_mut(&stream_no) else { return };
        let owned = self.partitions.get_mut(&queue.partition);
        let Some(owned) = owned.filter(|owned| owned.phase == Phase::Open) else {
            return self.remove(stream_no);
        };
        if queue.more && queue.waiting.len() <= MORE_AT {
            queue.more = false;
            owned.dirty = true;
        }
        if queue.waiting.is_empty() {
            self.streams.remove(&stream_no);
        } else {
            self.enqueue(stream_no);
        }
    }

    /// The head's attempt ended, and its stream waits: it is read again when it is due.
    pub(crate) fn put_off(&mut self, stream_no: u64) {
        self.release(stream_no);
        self.head_ended(stream_no);
        self.remove(stream_no);
    }

    /// It is unknown what became of a stream's head: the stream is read again.
    pub(crate) fn forget(&mut self, stream_no: u64) {
        self.release(stream_no);
        let Some(queue) = self.streams.get(&stream_no) else { return };
        let (no, alone) = (queue.partition, queue.alone);
        self.remove(stream_no);
        let Some(owned) = self.partitions.get_mut(&no) else { return };
        owned.dirty = true;
        if alone {
            owned.recheck_suspects();
        }
    }

    /// The stream is not worked on any more.
    fn release(&mut self, stream_no: u64) {
        self.alone_over(stream_no);
        let Some(queue) = self.streams.get_mut(&stream_no).filter(|queue| queue.busy) else {
            return;
        };
        queue.busy = false;
        self.busy -= 1;
        if let Some(owned) = self.partitions.get_mut(&queue.partition) {
            owned.busy -= 1;
        }
    }

    fn head_ended(&mut self, stream_no: u64) {
        let Some(queue) = self.streams.get_mut(&stream_no).filter(|queue| queue.alone) else {
            return;
        };
        queue.alone = false;
        let owned = self.partitions.get_mut(&queue.partition);
        if let Some(suspects) = owned.and_then(|owned| owned.suspects.as_mut()) {
            suspects.heads -= 1;
        }
    }

    pub(super) fn remove(&mut self, stream_no: u64) {
        self.release(stream_no);
        self.head_ended(stream_no);
        let Some(queue) = self.streams.remove(&stream_no) else { return };
        self.forgotten.insert(stream_no);
        self.messages -= queue.waiting.len();
        self.bytes -= queue.waiting.iter().map(|message| size(message)).sum::<usize>();
    }
}
