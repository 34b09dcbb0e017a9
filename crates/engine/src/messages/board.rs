//! What an instance has in memory: its partitions, and the messages of their streams that come next.
//!
//! Holds throughout: a stream's messages are here without a gap and in order, from its first one on;
//! one message of a stream is worked on at a time; what is forgotten is read again from the start; a
//! partition that is not open starts nothing.
//! Absent on purpose: time, the database and handlers. Everything here is decided without waiting.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use windrow_domain::PartitionNo;
use windrow_store::message::Message;
use windrow_store::partition::{Fence, Taken};

/// What may happen in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Everything.
    Open,
    /// What runs ends, and nothing begins: it is to be given back.
    Draining,
    /// Nothing, until it is known whether it is still ours.
    Halted,
}

/// The heads of a partition whose last owner died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    /// All streams were seen once.
    pub(super) passed: bool,
    /// Heads that have not ended yet.
    pub(super) heads: usize,
    /// A head was dropped before its turn, since the walk over all streams began.
    pub(super) again: bool,
    /// Somebody is telling the database.
    pub(super) clearing: bool,
}

/// A partition that is ours.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) fence: Fence,
    pub(super) phase: Phase,
    /// Where the last read ended; 0 at the beginning.
    pub(super) after_stream: u64,
    /// There may be something that the read under way does not see.
    pub(super) dirty: bool,
    /// Streams that are worked on.
    pub(super) busy: usize,
    pub(super) suspects: Option<Suspects>,
}

/// A stream with messages in memory.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) partition: PartitionNo,
    pub(super) waiting: VecDeque<Arc<Message>>,
    /// The last position that was read.
    pub(super) last: u64,
    /// The head that the database said is due.
    pub(super) due: u64,
    pub(super) busy: bool,
    /// Its head runs while no other such head runs.
    pub(super) alone: bool,
    /// The beginning of the head's try is stored.
    pub(super) marked: bool,
    /// The database may have more of it.
    pub(super) more: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) partitions: BTreeMap<PartitionNo, Owned>,
    pub(super) streams: HashMap<u64, Held>,
    ready: VecDeque<u64>,
    alone: VecDeque<u64>,
    alone_busy: Option<u64>,
    /// Streams that were forgotten since the read under way began: what it says of them has a gap.
    forgotten: HashSet<u64>,
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) busy: usize,
}

impl Owned {
    /// A suspect may not have had its turn: the heads are gone through once more.
    fn look_again(&mut self) {
        if let Some(suspects) = &mut self.suspects {
            suspects.passed = false;
            suspects.again = true;
            self.after_stream = 0;
            self.dirty = true;
        }
    }
}

fn size(message: &Message) -> usize {
    // Names and headers count a little, too, so that empty messages are not for nothing.
    message.payload.len() + 512
}

impl Board {
    /// Partitions are ours from now on, or were all along. Gives those whose epoch is new.
    pub(super) fn own(&mut self, taken: &[Taken]) -> Vec<PartitionNo> {
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
            let owned = Owned {
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
    pub(super) fn lose(&mut self, no: PartitionNo) {
        if self.partitions.remove(&no).is_none() {
            return;
        }
        let of = self.streams.iter().filter(|(_, held)| held.partition == no);
        for stream_no in of.map(|(stream_no, _)| *stream_no).collect::<Vec<_>>() {
            self.remove(stream_no);
        }
    }

    /// Nothing more begins in a partition. What is not worked on is dropped.
    pub(super) fn close(&mut self, no: PartitionNo, phase: Phase) {
        let Some(owned) = self.partitions.get_mut(&no) else { return };
        owned.phase = phase;
        owned.look_again();
        let of = self.streams.iter();
        let of = of.filter(|(_, held)| held.partition == no && !held.busy);
        for stream_no in of.map(|(stream_no, _)| *stream_no).collect::<Vec<_>>() {
            self.remove(stream_no);
        }
    }

    /// Whether a partition is ours in that epoch.
    pub(super) fn is_ours(&self, fence: Fence) -> bool {
        self.is_known(fence, &[Phase::Open, Phase::Draining, Phase::Halted])
    }

    /// Whether a partition is ours in that epoch, as far as we know.
    fn is_known(&self, fence: Fence, phases: &[Phase]) -> bool {
        let owned = self.partitions.get(&fence.partition);
        owned.is_some_and(|owned| owned.fence == fence && phases.contains(&owned.phase))
    }

    /// Whether a partition is ours in that epoch, and nobody doubts it.
    pub(super) fn is_open(&self, fence: Fence) -> bool {
        self.is_known(fence, &[Phase::Open, Phase::Draining])
    }

    /// The handler of a head that ran alone has ended.
    pub(super) fn alone_over(&mut self, stream_no: u64) {
        if self.alone_busy == Some(stream_no) {
            self.alone_busy = None;
        }
    }

    /// How many heads wait to run alone.
    pub(super) fn alone_len(&self) -> usize {
        self.alone.len()
    }

    /// There may be something new in a partition.
    pub(super) fn poke(&mut self, no: PartitionNo) {
        if let Some(owned) = self.partitions.get_mut(&no) {
            owned.dirty = true;
        }
    }

    /// There may be something new anywhere.
    pub(super) fn poke_all(&mut self) {
        self.partitions.values_mut().for_each(|owned| owned.dirty = true);
    }

    /// A read begins: from now on forgotten streams are remembered.
    pub(super) fn read_begins(&mut self) {
        self.forgotten.clear();
    }

    /// Takes a message in that a read gave. `fence` is that of the read.
    pub(super) fn admit(&mut self, fence: Fence, message: Message) {
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
        let held = self.streams.entry(at.stream_no).or_insert_with(|| {
            let suspects = owned.suspects.as_mut().filter(|suspects| !suspects.passed);
            let alone = suspects.is_some();
            suspects.into_iter().for_each(|suspects| suspects.heads += 1);
            Held {
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
        if at.position <= held.last {
            return;
        }
        self.messages += 1;
        self.bytes += size(&message);
        let was_empty = held.waiting.is_empty();
        held.last = at.position;
        held.waiting.push_back(Arc::new(message));
        if was_empty && !held.busy {
            self.queue_up(at.stream_no);
        }
    }

    fn queue_up(&mut self, stream_no: u64) {
        match self.streams.get(&stream_no).is_some_and(|held| held.alone) {
            true => self.alone.push_back(stream_no),
            false => self.ready.push_back(stream_no),
        }
    }

    /// The next stream whose head may begin; it is worked on from now on.
    pub(super) fn begin(&mut self) -> Option<u64> {
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
        let Some(held) = self.streams.get_mut(&stream_no) else { return false };
        let Some(owned) = self.partitions.get_mut(&held.partition) else { return false };
        if held.busy || held.waiting.is_empty() || owned.phase != Phase::Open {
            return false;
        }
        held.busy = true;
        owned.busy += 1;
        self.busy += 1;
        true
    }

    /// The head of a stream that is worked on, and the proof that it is ours.
    pub(super) fn head(&self, stream_no: u64) -> Option<(Fence, &Held, &Arc<Message>)> {
        let held = self.streams.get(&stream_no)?;
        let owned = self.partitions.get(&held.partition)?;
        Some((owned.fence, held, held.waiting.front()?))
    }

    /// The beginning of the head's try is stored.
    pub(super) fn mark(&mut self, stream_no: u64, epoch: u64) {
        let Some(held) = self.streams.get_mut(&stream_no) else { return };
        held.marked = true;
        if let Some(head) = held.waiting.front_mut() {
            let head = Arc::make_mut(head);
            head.attempts += 1;
            head.started = Some(epoch);
        }
    }

    /// One of the head's consumers is done with it; the stream goes on with the next one, which has no
    /// tries behind it.
    pub(super) fn done_by(&mut self, stream_no: u64, consumer: &str) {
        self.rest(stream_no);
        let Some(held) = self.streams.get_mut(&stream_no) else { return };
        held.marked = false;
        if let Some(head) = held.waiting.front_mut() {
            let head = Arc::make_mut(head);
            head.waiting.retain(|name| name != consumer);
            (head.attempts, head.started) = (0, None);
        }
        self.go_on(stream_no);
    }

    /// The head ended; the stream goes on with its next message.
    pub(super) fn finish(&mut self, stream_no: u64) {
        self.rest(stream_no);
        self.head_ended(stream_no);
        let Some(held) = self.streams.get_mut(&stream_no) else { return };
        held.marked = false;
        if let Some(message) = held.waiting.pop_front() {
            self.messages -= 1;
            self.bytes -= size(&message);
        }
        self.go_on(stream_no);
    }

    fn go_on(&mut self, stream_no: u64) {
        let Some(held) = self.streams.get_mut(&stream_no) else { return };
        let owned = self.partitions.get_mut(&held.partition);
        let Some(owned) = owned.filter(|owned| owned.phase == Phase::Open) else {
            return self.remove(stream_no);
        };
        if held.more && held.waiting.len() <= MORE_AT {
            held.more = false;
            owned.dirty = true;
        }
        match held.waiting.is_empty() {
            true => drop(self.streams.remove(&stream_no)),
            false => self.queue_up(stream_no),
        }
    }

    /// The head's try ended, and its stream waits: it is read again when it is due.
    pub(super) fn put_off(&mut self, stream_no: u64) {
        self.rest(stream_no);
        self.head_ended(stream_no);
        self.remove(stream_no);
    }

    /// Nobody knows what became of a stream's head: it is read again.
    pub(super) fn forget(&mut self, stream_no: u64) {
        self.rest(stream_no);
        let Some(held) = self.streams.get(&stream_no) else { return };
        let (no, alone) = (held.partition, held.alone);
        self.remove(stream_no);
        let Some(owned) = self.partitions.get_mut(&no) else { return };
        owned.dirty = true;
        if alone {
            owned.look_again();
        }
    }

    /// It is not worked on any more.
    fn rest(&mut self, stream_no: u64) {
        self.alone_over(stream_no);
        let Some(held) = self.streams.get_mut(&stream_no).filter(|held| held.busy) else { return };
        held.busy = false;
        self.busy -= 1;
        if let Some(owned) = self.partitions.get_mut(&held.partition) {
            owned.busy -= 1;
        }
    }

    fn head_ended(&mut self, stream_no: u64) {
        let Some(held) = self.streams.get_mut(&stream_no).filter(|held| held.alone) else { return };
        held.alone = false;
        let owned = self.partitions.get_mut(&held.partition);
        if let Some(suspects) = owned.and_then(|owned| owned.suspects.as_mut()) {
            suspects.heads -= 1;
        }
    }

    fn remove(&mut self, stream_no: u64) {
        self.rest(stream_no);
        self.head_ended(stream_no);
        let Some(held) = self.streams.remove(&stream_no) else { return };
        self.forgotten.insert(stream_no);
        self.messages -= held.waiting.len();
        self.bytes -= held.waiting.iter().map(|message| size(message)).sum::<usize>();
    }

    /// Partitions that are drained and can be given back. They are not ours any more.
    pub(super) fn take_drained(&mut self) -> Vec<Fence> {
        let drained = self.partitions.values();
        let drained = drained.filter(|owned| owned.phase == Phase::Draining && owned.busy == 0);
        let drained: Vec<Fence> = drained.map(|owned| owned.fence).collect();
        drained.iter().for_each(|fence| self.lose(fence.partition));
        drained
    }

    /// Partitions whose suspects have all had their turn. They are being cleared from now on.
    pub(super) fn take_cleared(&mut self) -> Vec<Fence> {
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

    /// The database knows that the suspects had their turn, or does not.
    pub(super) fn cleared(&mut self, fences: &[Fence], is_known: bool) {
        for fence in fences {
            let owned = self.partitions.get_mut(&fence.partition);
            let Some(owned) = owned.filter(|owned| owned.fence == *fence) else { continue };
            match is_known {
                true => owned.suspects = None,
                false => owned.suspects.iter_mut().for_each(|suspects| suspects.clearing = false),
            }
        }
    }
}

/// Messages of a stream that are left when more of it is read.
const MORE_AT: usize = 8;

#[cfg(test)]
mod tests;
