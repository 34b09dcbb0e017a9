//! What the parts of a runner, and its clients, share.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use windrow_domain::{InstanceId, PartitionNo};
use windrow_store::call::{Answer, CallKey};

use crate::signal::Wake;

use super::gauges::Counters;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Who this instance is, who waits for calls, and where something new may be.
pub(super) struct Shared {
    instance: Mutex<InstanceId>,
    pub(super) counters: Arc<Counters>,
    pokes: Mutex<Pokes>,
    /// Given with every poke.
    pub(super) poked: Wake,
    /// Given when the membership is to look whether the partitions are still ours.
    pub(super) doubted: Wake,
    waiters: Mutex<HashMap<CallKey, Vec<oneshot::Sender<Told>>>>,
    waiters_max: usize,
}

/// What a waiter is told.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// The answer.
    Answer(Answer),
    /// There is one: ask for it.
    Look,
}

/// Where something new may be.
#[derive(Debug, Default)]
pub(super) struct Pokes {
    pub(super) partitions: BTreeSet<PartitionNo>,
    pub(super) all: bool,
}

impl Shared {
    pub(super) fn new(waiters_max: usize) -> Self {
        Self {
            instance: Mutex::new(InstanceId::new()),
            counters: Arc::default(),
            pokes: Mutex::default(),
            poked: Wake::new(),
            doubted: Wake::new(),
            waiters: Mutex::default(),
            waiters_max,
        }
    }

    pub(super) fn instance(&self) -> InstanceId {
        *lock(&self.instance)
    }

    pub(super) fn set_instance(&self, instance: InstanceId) {
        *lock(&self.instance) = instance;
    }

    /// There is something new in these partitions.
    pub(super) fn poke(&self, partitions: impl IntoIterator<Item = PartitionNo>) {
        let mut pokes = lock(&self.pokes);
        pokes.partitions.extend(partitions);
        drop(pokes);
        self.poked.give();
    }

    /// There may be something new anywhere.
    pub(super) fn poke_all(&self) {
        lock(&self.pokes).all = true;
        self.poked.give();
    }

    pub(super) fn take_pokes(&self) -> Pokes {
        std::mem::take(&mut lock(&self.pokes))
    }

    /// Waits for a call's answer in memory. None when too many wait already: ask the database.
    pub(super) fn wait_for(&self, key: &CallKey) -> Option<oneshot::Receiver<Told>> {
        let mut waiters = lock(&self.waiters);
        if waiters.len() >= self.waiters_max {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let senders = waiters.entry(key.clone()).or_default();
        senders.retain(|sender| !sender.is_closed());
        senders.push(sender);
        Some(receiver)
    }

    /// Nobody waits any more, unless others do.
    pub(super) fn wait_no_more(&self, key: &CallKey) {
        let mut waiters = lock(&self.waiters);
        if let Some(senders) = waiters.get_mut(key) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                waiters.remove(key);
            }
        }
    }

    /// Tells everybody who waits for a call.
    pub(super) fn tell(&self, key: &CallKey, told: &Told) {
        let senders = lock(&self.waiters).remove(key).unwrap_or_default();
        // One that is gone does not wait any more.
        senders.into_iter().for_each(|sender| drop(sender.send(told.clone())));
    }

    /// Tells everybody who waits for any call.
    pub(super) fn tell_all(&self, told: &Told) {
        let waiters = std::mem::take(&mut *lock(&self.waiters));
        waiters.into_values().flatten().for_each(|sender| drop(sender.send(told.clone())));
    }
}
