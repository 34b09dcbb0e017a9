//! Clients of this process that wait for the answers of calls.
//!
//! Holds throughout: at most `waiters_max` calls are waited for in memory; a waiter that is dropped leaves
//! nothing behind.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windrow_store::call::{Answer, CallKey};

use crate::messages::notifier::Notifier;

/// What a waiter gets.
#[derive(Clone, Debug)]
pub(crate) enum AnswerSignal {
    /// The answer itself.
    Answer(Answer),
    /// There is news of the call: read it from the database.
    Recheck,
}

/// All waiters, by the call.
pub(crate) struct Waiters {
    by_call: Mutex<HashMap<CallKey, Vec<oneshot::Sender<AnswerSignal>>>>,
    calls_max: usize,
}

impl Waiters {
    pub(crate) fn new(calls_max: usize) -> Self {
        Self { by_call: Mutex::default(), calls_max }
    }

    /// Waits for a call's answer in memory. None when too many are waited for already: poll the database.
    fn add(&self, key: &CallKey) -> Option<oneshot::Receiver<AnswerSignal>> {
        let mut waiters = self.by_call.lock();
        if waiters.len() >= self.calls_max {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let senders = waiters.entry(key.clone()).or_default();
        senders.retain(|sender| !sender.is_closed());
        senders.push(sender);
        Some(receiver)
    }

    /// Drops the waiters of a call that have gone.
    fn remove_closed(&self, key: &CallKey) {
        let mut waiters = self.by_call.lock();
        if let Some(senders) = waiters.get_mut(key) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                waiters.remove(key);
            }
        }
    }

    /// Signals all waiters of a call.
    pub(crate) fn notify(&self, key: &CallKey, signal: &AnswerSignal) {
        let senders = self.by_call.lock().remove(key).unwrap_or_default();
        // A waiter that is gone does not wait any more.
        senders.into_iter().for_each(|sender| drop(sender.send(signal.clone())));
    }

    /// Makes all waiters of all calls read the database.
    pub(crate) fn recheck_all(&self) {
        let waiters = std::mem::take(&mut *self.by_call.lock());
        let senders = waiters.into_values().flatten();
        senders.for_each(|sender| drop(sender.send(AnswerSignal::Recheck)));
    }
}

/// A wait for one call, which ends when it is dropped.
pub(crate) struct Waiter {
    notifier: Arc<Notifier>,
    key: CallKey,
    receiver: Option<oneshot::Receiver<AnswerSignal>>,
}

impl Waiter {
    pub(crate) fn new(notifier: &Arc<Notifier>, key: &CallKey) -> Self {
        let receiver = notifier.waiters.add(key);
        Self { notifier: notifier.clone(), key: key.clone(), receiver }
    }

    /// Waits for a signal; for ever when there is no room for this waiter, or it had its signal.
    pub(crate) async fn signalled(&mut self) -> AnswerSignal {
        match &mut self.receiver {
            Some(receiver) => {
                let signal = receiver.await;
                self.receiver = None;
                signal.unwrap_or(AnswerSignal::Recheck)
            }
            None => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.receiver.take().is_some() {
            self.notifier.waiters.remove_closed(&self.key);
        }
    }
}
