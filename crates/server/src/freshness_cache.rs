//! What was read from the database a moment ago, shared by every listener that asks for it.
//!
//! Holds throughout: a value is served for less than half a second, so a row is read about twice a
//! second at most, however many listeners poll it; the cache has a capacity, and what is no longer
//! fresh goes first.

use std::hash::Hash;

use parking_lot::Mutex;
use windrow_engine::bounded_map::BoundedMap;

/// How old a value may be when another listener asks for it.
const FRESH_MS: u64 = 400;
/// Most values: more than there can be listeners.
const ENTRIES_MAX: usize = 1_000;

/// Values by key, each with the time it was read at.
pub(crate) struct FreshnessCache<K, V>(Mutex<BoundedMap<K, (u64, V)>>);

impl<K: Eq + Hash, V> Default for FreshnessCache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(BoundedMap::new(ENTRIES_MAX)))
    }
}

impl<K: Eq + Hash, V: Clone> FreshnessCache<K, V> {
    /// The value of a key, if it is fresh.
    pub(crate) fn fresh(&self, key: &K, now_ms: u64) -> Option<V> {
        let entries = self.0.lock();
        let (at_ms, value) = entries.get(key)?;
        is_fresh(*at_ms, now_ms).then(|| value.clone())
    }

    /// The last value of a key, however old it is.
    pub(crate) fn last(&self, key: &K) -> Option<V> {
        self.0.lock().get(key).map(|(_, value)| value.clone())
    }

    /// Keeps what `merge` makes of the last value of a key.
    pub(crate) fn update(&self, key: K, now_ms: u64, merge: impl FnOnce(Option<&V>) -> V) {
        let mut entries = self.0.lock();
        let value = merge(entries.get(&key).map(|(_, value)| value));
        entries.insert(key, (now_ms, value), |_, (at_ms, _)| is_fresh(*at_ms, now_ms));
    }
}

fn is_fresh(at_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at_ms) < FRESH_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_served_while_it_is_fresh_and_merged_when_it_comes_again() {
        let cache = FreshnessCache::default();
        cache.update("a", 1_000, |_| 7);
        assert_eq!((cache.fresh(&"a", 1_399), cache.fresh(&"a", 1_400)), (Some(7), None));
        cache.update("a", 1_500, |last| last.copied().unwrap_or_default().max(5));
        assert_eq!((cache.fresh(&"a", 1_500), cache.last(&"a")), (Some(7), Some(7)));
        assert_eq!(cache.last(&"b"), None);
    }
}
