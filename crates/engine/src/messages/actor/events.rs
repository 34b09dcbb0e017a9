//! What tasks gave, and what the membership says.

use std::collections::VecDeque;

use bytes::Bytes;
use windrow_domain::PartitionNo;
use windrow_store::message::Work;
use windrow_store::partition::Fence;
use windrow_store::{Kind, Result};

use crate::messages::board::Phase;
use crate::messages::commit::Verdict;
use crate::messages::contended::HELD;
use crate::messages::entry::{End, Entry, Task};
use crate::messages::gauges::count;
use crate::messages::reading::Request;
use crate::messages::registry::Plan;
use crate::messages::shared::Told;
use crate::messages::transactional::Ran;
use windrow_store::error::chain;

use super::{Actor, Command, Event};

impl Actor {
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Own(taken) => {
                for no in self.board.own(&taken) {
                    self.states.forget_partition(no);
                    self.dues.remove(&no);
                }
                if self.is_stopping {
                    self.drain_all();
                }
            }
            Command::Drain(partitions) => {
                partitions.into_iter().for_each(|no| self.board.close(no, Phase::Draining));
            }
            Command::Lose(partitions) => partitions.into_iter().for_each(|no| self.lose(no)),
            Command::Reset => {
                let all: Vec<PartitionNo> = self.board.partitions.keys().copied().collect();
                all.into_iter().for_each(|no| self.lose(no));
                self.wake_up();
            }
        }
    }

    fn lose(&mut self, no: PartitionNo) {
        self.board.lose(no);
        self.states.forget_partition(no);
        self.dues.remove(&no);
        self.pending.retain(|entry| entry.task.fence.partition != no);
        self.apart.retain(|entry| entry.task.fence.partition != no);
    }

    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Read(request, work) => self.read(&request, work),
            Event::Loaded(waiting, states) => self.loaded(waiting, states),
            Event::Tried(entry) => {
                self.runs.end(&entry.task);
                if self.board.is_ours(entry.task.fence) {
                    // Its handler has ended; the next suspect is marked in the same commit.
                    self.board.alone_over(entry.task.stream_no());
                    self.push(*entry);
                }
            }
            Event::Ran(Ran::Failed(entry)) => self.take(Event::Tried(entry)),
            Event::Ran(Ran::Settled(entry, verdict)) => {
                self.runs.end(&entry.task);
                self.doze.worked(self.core.clock.millis());
                self.settled(*entry, verdict);
            }
            Event::Settled { apart, settled } => {
                self.commits -= 1;
                self.apart_commits -= usize::from(apart);
                self.doze.worked(self.core.clock.millis());
                settled.into_iter().for_each(|(entry, verdict)| self.settled(entry, verdict));
            }
            Event::Told(due, told) => {
                self.runs.told(self.core.clock.millis(), &due, told.is_ok());
                if let Err(error) = told {
                    tracing::warn!(error = %chain(&error), "calls that run for long are not shown");
                    self.doubt(error.kind);
                }
            }
            Event::Dozed(asleep, told) => self.dozed(asleep, &told),
            Event::Cleared(fences, cleared) => {
                self.board.cleared(&fences, cleared.is_ok());
                if let Err(error) = cleared {
                    tracing::warn!(error = %chain(&error), "suspects were not cleared");
                    self.trouble(error.kind);
                }
            }
        }
    }

    /// The database refused or could not be asked.
    fn trouble(&mut self, kind: Kind) {
        if !self.doubt(kind) {
            self.pause();
        }
    }

    /// Whether it refused because something may not be ours any more: that is looked at.
    fn doubt(&mut self, kind: Kind) -> bool {
        let is_lost = matches!(kind, Kind::LeaseLost | Kind::Missing);
        if is_lost {
            self.core.shared.doubted.give();
        }
        is_lost
    }

    fn read(&mut self, request: &Request, work: Result<Work>) {
        self.is_reading = false;
        let work = match work {
            Ok(work) => work,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "no messages could be read");
                self.reader.failed(&mut self.board, request);
                self.pause();
                return self.trouble(error.kind);
            }
        };
        self.pause.over();
        let now = self.core.clock.millis();
        if !work.messages.is_empty() {
            self.doze.worked(now);
        }
        if let Some(due) = work.next_due {
            // A due that has passed here and not there would be asked for all the time.
            match due <= self.core.clock.now() {
                true => self.due_pause.longer(now),
                false => self.due_pause.over(),
            }
            request.read.from.iter().for_each(|from| self.note_due(from.fence.partition, due));
        }
        let lost = self.reader.take_in(&mut self.board, request, work);
        if !lost.is_empty() {
            self.lost(&lost);
        }
    }

    /// Partitions that somebody else may have: nothing is done there until it is known.
    fn lost(&mut self, fences: &[Fence]) {
        let open = fences.iter().filter(|fence| self.board.is_open(**fence));
        for fence in open.collect::<Vec<_>>() {
            count(&self.core.shared.counters.lease_losses);
            self.board.close(fence.partition, Phase::Halted);
            self.states.forget_partition(fence.partition);
            // In one commit with these, others would be refused, too.
            for entries in [&mut self.pending, &mut self.apart] {
                let (halted, kept): (VecDeque<Entry>, VecDeque<Entry>) = std::mem::take(entries)
                    .into_iter()
                    .partition(|entry| entry.task.fence == *fence);
                *entries = kept;
                halted.iter().for_each(|entry| self.board.forget(entry.task.stream_no()));
            }
        }
        self.core.shared.doubted.give();
    }

    fn loaded(&mut self, waiting: Vec<(Task, Plan)>, states: Result<Vec<Option<Bytes>>>) {
        let states = match states {
            Ok(states) => states,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "no states could be read");
                self.trouble(error.kind);
                for (task, _) in waiting {
                    if self.board.is_ours(task.fence) {
                        self.board.forget(task.stream_no());
                    }
                }
                return;
            }
        };
        for ((task, plan), state) in waiting.into_iter().zip(states) {
            if self.board.is_ours(task.fence) {
                self.states.put(task.stream_no(), task.fence.partition, state.clone());
                self.spawn(task, plan, state);
            }
        }
    }

    /// A mistake of ours: everything in memory is read again, and nothing that is still under way is
    /// believed. Partitions are taken anew under the same epoch.
    pub(super) fn start_anew(&mut self) {
        self.tasks.abort_all();
        self.tasks.detach_all();
        let all: Vec<PartitionNo> = self.board.partitions.keys().copied().collect();
        all.into_iter().for_each(|no| self.lose(no));
        self.pending.clear();
        self.apart.clear();
        self.unloaded.clear();
        self.runs.clear();
        (self.commits, self.apart_commits, self.is_reading) = (0, 0, false);
        self.doze = super::Doze::new(self.core.clock.millis(), self.core.options.awake_ms);
        self.pause();
        self.core.shared.doubted.give();
    }

    fn settled(&mut self, entry: Entry, verdict: Verdict) {
        let (fence, stream_no) = (entry.task.fence, entry.task.stream_no());
        match verdict {
            Verdict::Busy { alone } => {
                if self.board.is_ours(fence) {
                    self.refused(entry, alone);
                }
            }
            Verdict::Committed(partitions) => {
                self.pause.over();
                self.busy_pause.over();
                self.contended.free(|| entry.touched());
                partitions.into_iter().for_each(|no| self.board.poke(no));
                if let Some(result) = entry.answer() {
                    self.core.shared.tell(&result.key, &Told::Answer(result.answer.clone()));
                }
                if self.board.is_ours(fence) {
                    self.committed(entry);
                }
            }
            Verdict::Gone | Verdict::Unknown | Verdict::Lost => {
                // The answer may be there, or come from somebody else.
                if let Some(key) = entry.task.call_key() {
                    self.core.shared.tell(&key, &Told::Look);
                }
                if self.board.is_ours(fence) {
                    self.states.forget(stream_no);
                    self.board.forget(stream_no);
                }
                match verdict {
                    Verdict::Lost => self.lost(&[fence]),
                    // Also when it is gone: a database that contradicts itself is not asked in a rush.
                    _ => self.pause(),
                }
            }
        }
    }

    /// A commit was refused because something was locked. Nothing happened: whoever writes to no stream of
    /// others is committed again, the others one by one, and the one that is refused alone is put off.
    fn refused(&mut self, entry: Entry, alone: bool) {
        let (now, touched) = (self.core.clock.millis(), entry.touched());
        match touched.is_empty() {
            true => {
                self.busy_pause.longer(now);
                self.pending.push_front(entry);
            }
            false if alone => {
                let wait = self.contended.hold(now, touched);
                let entry = self.judge.put_off(entry.task, HELD, wait);
                self.push(entry);
            }
            false => self.apart.push_back(entry),
        }
    }

    fn committed(&mut self, entry: Entry) {
        let (fence, stream_no) = (entry.task.fence, entry.task.stream_no());
        let counters = self.core.shared.counters.clone();
        if let Some(state) = entry.state() {
            self.states.put(stream_no, fence.partition, state.clone());
        }
        match entry.end {
            End::Marked => {
                self.board.mark(stream_no, fence.epoch);
                self.start(stream_no);
            }
            End::Done => {
                count(&counters.done);
                self.board.finish(stream_no);
            }
            End::DoneBy(consumer) => self.board.done_by(stream_no, &consumer),
            End::Again(not_before) => {
                count(&counters.retries);
                self.board.put_off(stream_no);
                self.note_due(fence.partition, not_before);
            }
            End::Narrowed(error) => {
                let entry = self.judge.give_up(entry.task, &error);
                self.push(entry);
            }
            End::Dead => {
                count(&counters.dead);
                self.judge.away.forget(entry.task.at());
                let (id, queue) = (&entry.task.message.id, entry.task.message.queue);
                tracing::warn!(id, %queue, attempt = entry.task.attempt, "a message was given up on");
                self.board.finish(stream_no);
            }
        }
    }
}
