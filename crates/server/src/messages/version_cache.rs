//! How far streams of events are, as it was a moment ago: asked for once for all who follow them.
//!
//! Holds throughout: a stream's version is asked for twice a second at most, however many follow it;
//! those who follow hear at once of what is appended through this process.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use windrow_domain::{Owner, Stream};
use windrow_engine::clock::Clock;
use windrow_store::{MessageStore, Result};

/// Streams whose version is kept; those that are old go when there are more.
const STREAMS_MAX: usize = 1_000;
/// How old a look may be when another one asks.
const FRESH_MS: u64 = 400;

/// Whose stream, and which.
pub(super) type Key = (Owner, Stream);

/// The last looks.
#[derive(Default)]
pub(super) struct VersionCache {
    versions: Mutex<HashMap<Key, (u64, u64)>>,
    on_append: Notify,
}

impl VersionCache {
    /// The stream's version, not older than a look may be.
    pub(super) async fn version(
        &self,
        message_store: &dyn MessageStore,
        clock: &Clock,
        key: &Key,
    ) -> Result<u64> {
        let now_ms = clock.millis();
        if let Some(&(at_ms, version)) = self.versions().get(key)
            && is_fresh(at_ms, now_ms)
        {
            return Ok(version);
        }
        let version = message_store.stream_version(&key.0, &key.1).await?;
        self.note(now_ms, key, version);
        Ok(version)
    }

    /// Somebody appended here.
    pub(super) fn on_append(&self, clock: &Clock, key: &Key, version: u64) {
        self.note(clock.millis(), key, version);
        self.on_append.notify_waiters();
    }

    /// Waits until a stream is known to be at this version or behind it, by an append here.
    pub(super) async fn wait_for(&self, key: &Key, version: u64) {
        loop {
            let on_append = self.on_append.notified();
            tokio::pin!(on_append);
            // What is appended between the look and the wait is heard, too.
            on_append.as_mut().enable();
            if self.versions().get(key).is_some_and(|(_, known)| *known >= version) {
                return;
            }
            on_append.await;
        }
    }

    /// A later version is never replaced by an earlier one.
    fn note(&self, now_ms: u64, key: &Key, version: u64) {
        let mut versions = self.versions();
        if versions.len() >= STREAMS_MAX && !versions.contains_key(key) {
            versions.retain(|_, (at_ms, _)| is_fresh(*at_ms, now_ms));
        }
        if versions.len() < STREAMS_MAX || versions.contains_key(key) {
            let known = versions.entry(key.clone()).or_default();
            *known = (now_ms, known.1.max(version));
        }
    }

    /// A panic while it was held left at worst an entry too many.
    fn versions(&self) -> MutexGuard<'_, HashMap<Key, (u64, u64)>> {
        self.versions.lock()
    }
}

fn is_fresh(at_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at_ms) < FRESH_MS
}
