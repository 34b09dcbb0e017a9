//! Signals between the parts of a runner and its clients: which partitions may hold new messages, and
//! which answers are there.
//!
//! Holds throughout: a partition that was marked stays marked until the event loop has taken the mark; a
//! signal about an answer is a hint, and its waiter also asks the database from time to time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use windrow_domain::{InstanceId, PartitionNo};

use crate::signal::Wake;

use super::client::waiters::Waiters;

/// The id of this instance, its marks and its waiters. A client without a runner has one of its own.
pub(super) struct Notifier {
    instance: Mutex<InstanceId>,
    dirty: Mutex<DirtyPartitions>,
    /// Given with every mark.
    pub(super) work_ready: Wake,
    /// Given when the membership is to check which partitions this instance still owns.
    pub(super) verify_ownership: Wake,
    /// Clients that wait for answers.
    pub(super) waiters: Waiters,
    has_heard: AtomicBool,
}

/// Partitions that may hold something new.
#[derive(Debug, Default)]
pub(super) struct DirtyPartitions {
    pub(super) partitions: BTreeSet<PartitionNo>,
    pub(super) all: bool,
}

impl Notifier {
    pub(super) fn new(waiters_max: usize) -> Self {
        Self {
            instance: Mutex::new(InstanceId::new()),
            dirty: Mutex::default(),
            work_ready: Wake::new(),
            verify_ownership: Wake::new(),
            waiters: Waiters::new(waiters_max),
            has_heard: AtomicBool::new(false),
        }
    }

    pub(super) fn instance(&self) -> InstanceId {
        *self.instance.lock()
    }

    pub(super) fn set_instance(&self, instance: InstanceId) {
        *self.instance.lock() = instance;
    }

    /// There is something new in these partitions.
    pub(super) fn mark_dirty(&self, partitions: impl IntoIterator<Item = PartitionNo>) {
        self.dirty.lock().partitions.extend(partitions);
        self.work_ready.give();
    }

    /// There may be something new anywhere.
    pub(super) fn mark_all_dirty(&self) {
        self.dirty.lock().all = true;
        self.work_ready.give();
    }

    /// The marks since the last call.
    pub(super) fn take_dirty(&self) -> DirtyPartitions {
        std::mem::take(&mut self.dirty.lock())
    }

    /// Whether the database notified this process on its present connection. Some databases never do.
    pub(super) fn has_heard(&self) -> bool {
        self.has_heard.load(Ordering::Relaxed)
    }

    pub(super) fn set_heard(&self, heard: bool) {
        self.has_heard.store(heard, Ordering::Relaxed);
    }
}
