//! Gathering: results of handlers wait here until they are committed, many in one transaction.

use windrow_domain::millis;

use crate::messages::commit::fitting;
use crate::messages::outcome::PendingCommit;
use crate::messages::stream_backoff::{Access, HELD};

use super::EventLoop;
use super::results::TaskResult;

impl EventLoop {
    /// Adds what is to be committed. What writes to a stream that is held is put off.
    pub(super) fn push(&mut self, pending: PendingCommit) {
        let now = self.deps.clock.millis();
        let pending = match self.stream_backoff.access(now, || pending.written_streams()) {
            Access::Free => pending,
            Access::Probe => return self.alone.push_back(pending),
            Access::Blocked(wait) => self.policy.put_off(pending.task, HELD, wait),
        };
        if self.pending.is_empty() {
            self.pending_since = now;
        }
        self.pending.push_back(pending);
    }

    /// Commits what is pending: at once when no other commit is under way, else gathered.
    pub(super) fn start_commits(&mut self, now: u64) {
        let deps = self.deps.clone();
        let options = &deps.options;
        // One slot is left to commits that no stream holds up.
        let alone_max = options.commits_in_flight_max.saturating_sub(1).max(1);
        while self.alone_commits < alone_max && self.commits < options.commits_in_flight_max {
            let Some(pending) = self.alone.pop_front() else { break };
            self.alone_commits += 1;
            self.start_commit(true, vec![pending]);
        }
        if !self.busy_pause.is_over(now) {
            return;
        }
        while !self.pending.is_empty() && self.commits < options.commits_in_flight_max {
            let waited = now.saturating_sub(self.pending_since) >= millis(options.commit_linger);
            let is_full = self.pending.len() >= options.commit_messages_max;
            if self.commits > 0 && !waited && !is_full {
                return;
            }
            let fits = fitting(self.pending.iter(), options.commit_messages_max);
            let group: Vec<PendingCommit> = self.pending.drain(..fits).collect();
            self.start_commit(false, group);
        }
    }

    fn start_commit(&mut self, alone: bool, group: Vec<PendingCommit>) {
        self.commits += 1;
        let (committer, instance) = (self.committer.clone(), self.deps.notifier.instance());
        self.tasks.spawn(async move {
            let settled = committer.commit(instance, group).await;
            TaskResult::Committed { alone, settled }
        });
    }
}
