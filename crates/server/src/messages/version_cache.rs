//! The last version of event streams, read from the database once for all clients that follow them.
//!
//! Holds throughout: a stream's version is read about twice a second at most, however many follow it;
//! an append through this process reaches its followers at once; a version never goes back.

use tokio::sync::Notify;
use windrow_domain::{Owner, Stream};
use windrow_engine::clock::Clock;
use windrow_store::{MessageStore, Result};

use crate::freshness_cache::FreshnessCache;

/// An owner's stream.
pub(super) type Key = (Owner, Stream);

/// The last known version of streams that are followed.
#[derive(Default)]
pub(super) struct VersionCache {
    versions: FreshnessCache<Key, u64>,
    appended: Notify,
}

impl VersionCache {
    /// The stream's version, fresh from the cache or from the database.
    pub(super) async fn version(
        &self,
        message_store: &dyn MessageStore,
        clock: &Clock,
        key: &Key,
    ) -> Result<u64> {
        let now_ms = clock.millis();
        if let Some(version) = self.versions.fresh(key, now_ms) {
            return Ok(version);
        }
        let version = message_store.stream_version(&key.0, &key.1).await?;
        self.update(now_ms, key, version);
        Ok(version)
    }

    /// Takes note of an append through this process, and wakes its followers.
    pub(super) fn on_append(&self, clock: &Clock, key: &Key, version: u64) {
        self.update(clock.millis(), key, version);
        self.appended.notify_waiters();
    }

    /// Resolves when an append through this process brought the stream to this version or beyond.
    pub(super) async fn wait_for(&self, key: &Key, version: u64) {
        loop {
            let appended = self.appended.notified();
            tokio::pin!(appended);
            // An append between the check and the wait must not be missed.
            appended.as_mut().enable();
            if self.versions.last(key).is_some_and(|last| last >= version) {
                return;
            }
            appended.await;
        }
    }

    fn update(&self, now_ms: u64, key: &Key, version: u64) {
        let merge = |last: Option<&u64>| last.copied().unwrap_or_default().max(version);
        self.versions.update(key.clone(), now_ms, merge);
    }
}
