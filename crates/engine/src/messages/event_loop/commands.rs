//! Partitions come and go: what the membership commands, and what is done when one may be lost.

use std::collections::VecDeque;

use windrow_domain::PartitionNo;
use windrow_domain::millis;
use windrow_store::Kind;
use windrow_store::partition::{Fence, Taken};

use crate::messages::gauges::count;
use crate::messages::outcome::PendingCommit;
use crate::messages::queue::Phase;

use super::EventLoop;
use super::idle::IdleState;

/// What the membership tells the loop.
#[derive(Debug)]
pub(crate) enum Command {
    /// These are ours, anew or still.
    Own(Vec<Taken>),
    /// These are to be given back when nothing runs in them.
    Drain(Vec<PartitionNo>),
    /// These are not ours any more.
    Lose(Vec<PartitionNo>),
    /// Nothing is ours any more.
    Reset,
}

impl EventLoop {
    pub(super) fn on_command(&mut self, command: Command) {
        match command {
            Command::Own(taken) => {
                for no in self.queues.own(&taken) {
                    self.states.forget_partition(no);
                    self.dues.remove(&no);
                }
                if self.is_stopping {
                    self.drain_all();
                }
            }
            Command::Drain(partitions) => {
                partitions.into_iter().for_each(|no| self.queues.close(no, Phase::Draining));
            }
            Command::Lose(partitions) => partitions.into_iter().for_each(|no| self.lose(no)),
            Command::Reset => {
                let all: Vec<PartitionNo> = self.queues.partitions.keys().copied().collect();
                all.into_iter().for_each(|no| self.lose(no));
                self.wake();
            }
        }
    }

    pub(super) fn drain_all(&mut self) {
        let all: Vec<PartitionNo> = self.queues.partitions.keys().copied().collect();
        all.into_iter().for_each(|no| self.queues.close(no, Phase::Draining));
    }

    fn lose(&mut self, no: PartitionNo) {
        self.queues.lose(no);
        self.states.forget_partition(no);
        self.dues.remove(&no);
        self.pending.retain(|one| one.task.fence.partition != no);
        self.alone.retain(|one| one.task.fence.partition != no);
    }

    /// Partitions that another instance may own: nothing is done there until that is known.
    pub(super) fn halt(&mut self, fences: &[Fence]) {
        let open = fences.iter().filter(|fence| self.queues.is_open(**fence));
        for fence in open.collect::<Vec<_>>() {
            count(&self.deps.counters.lease_losses);
            self.queues.close(fence.partition, Phase::Halted);
            self.states.forget_partition(fence.partition);
            // In one commit with these, others would be refused, too.
            for pending in [&mut self.pending, &mut self.alone] {
                let (halted, kept): (VecDeque<PendingCommit>, VecDeque<PendingCommit>) =
                    std::mem::take(pending).into_iter().partition(|one| one.task.fence == *fence);
                *pending = kept;
                halted.iter().for_each(|one| self.queues.forget(one.task.stream_no()));
            }
        }
        self.deps.notifier.verify_ownership.give();
    }

    /// A request to the database failed.
    pub(super) fn store_failed(&mut self, kind: Kind) {
        if !self.check_ownership(kind) {
            self.pause_store();
        }
    }

    /// Whether it failed because something may not be ours any more, which is checked then.
    pub(super) fn check_ownership(&mut self, kind: Kind) -> bool {
        let is_lost = matches!(kind, Kind::LeaseLost | Kind::Missing);
        if is_lost {
            self.deps.notifier.verify_ownership.give();
        }
        is_lost
    }

    /// Waits a little, since the database is in trouble.
    pub(super) fn pause_store(&mut self) {
        self.store_pause.extend(self.deps.clock.millis(), &self.deps.jitter);
    }

    /// After a bug of ours: everything in memory is read again, and nothing that is still under way is
    /// used. Partitions are taken anew under the same epoch.
    pub(super) fn start_anew(&mut self) {
        self.tasks.abort_all();
        self.tasks.detach_all();
        let all: Vec<PartitionNo> = self.queues.partitions.keys().copied().collect();
        all.into_iter().for_each(|no| self.lose(no));
        self.pending.clear();
        self.alone.clear();
        self.unloaded.clear();
        self.unrouted.clear();
        self.long_calls.clear();
        (self.commits, self.alone_commits, self.is_reading) = (0, 0, false);
        self.idle = IdleState::new(self.deps.clock.millis(), millis(self.deps.options.idle_after));
        self.pause_store();
        self.deps.notifier.verify_ownership.give();
    }
}
