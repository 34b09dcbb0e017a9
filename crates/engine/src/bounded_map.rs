//! A hash map with a capacity, for caches and for per-key limits whose keys come from outside.
//!
//! Holds throughout: nothing is evicted below the capacity; at the capacity a new key first evicts
//! every entry that the caller's `keep` does not want. What happens when `keep` wants all of them is
//! the caller's choice: [`BoundedMap::insert`] then refuses (a cache), while
//! [`BoundedMap::get_or_insert_with`] grows past the capacity (entries in use must not be lost).
//! Absent on purpose: a lock and a clock. The caller has both, and `keep` knows what is old.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// A map that evicts entries when a new key arrives at its capacity.
#[derive(Clone, Debug)]
pub struct BoundedMap<K, V> {
    entries: HashMap<K, V>,
    capacity: usize,
}

impl<K: Eq + Hash, V> BoundedMap<K, V> {
    /// An empty map that evicts from this many entries on.
    pub fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), capacity }
    }

    /// The value of a key. Reading neither evicts nor refreshes.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key)
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key)
    }

    /// Puts a value under a key, in place of the one it has. At the capacity a new key evicts what
    /// `keep` does not want; where that makes no room, nothing is stored, and the answer is false.
    pub fn insert(&mut self, key: K, value: V, keep: impl FnMut(&K, &V) -> bool) -> bool {
        self.make_room(&key, keep);
        let fits = self.entries.len() < self.capacity || self.entries.contains_key(&key);
        if fits {
            self.entries.insert(key, value);
        }
        fits
    }

    /// The value of a key, made when there is none. At the capacity a new key evicts what `keep` does
    /// not want; where that makes no room, the map grows.
    pub fn get_or_insert_with(
        &mut self,
        key: K,
        keep: impl FnMut(&K, &V) -> bool,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        self.make_room(&key, keep);
        self.entries.entry(key).or_insert_with(make)
    }

    /// Takes an entry out.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key)
    }

    /// Drops every entry.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn make_room(&mut self, key: &K, mut keep: impl FnMut(&K, &V) -> bool) {
        if self.entries.len() >= self.capacity && !self.entries.contains_key(key) {
            self.entries.retain(|key, value| keep(key, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> BoundedMap<&'static str, u32> {
        let mut map = BoundedMap::new(2);
        assert!(map.insert("a", 1, |_, _| false) && map.insert("b", 2, |_, _| false));
        map
    }

    #[test]
    fn nothing_is_evicted_below_the_capacity_or_for_a_known_key() {
        let mut map = full();
        assert!(map.insert("a", 3, |_, _| false));
        assert_eq!(*map.get_or_insert_with("b", |_, _| false, || 9), 2);
        assert_eq!((map.get("a"), map.get("b"), map.len()), (Some(&3), Some(&2), 2));
    }

    #[test]
    fn a_new_key_evicts_what_is_not_kept() {
        let mut map = full();
        assert!(map.insert("c", 3, |_, value| *value > 1));
        assert_eq!((map.get("a"), map.get("b"), map.get("c")), (None, Some(&2), Some(&3)));
        assert_eq!(*map.get_or_insert_with("d", |key, _| *key == "c", || 4), 4);
        assert_eq!((map.get("b"), map.get("c"), map.len()), (None, Some(&3), 2));
    }

    #[test]
    fn where_all_are_kept_an_insert_is_refused_and_an_entry_in_use_makes_the_map_grow() {
        let mut map = full();
        assert!(!map.insert("c", 3, |_, _| true));
        assert_eq!((map.get("c"), map.len()), (None, 2));
        assert_eq!(*map.get_or_insert_with("c", |_, _| true, || 3), 3);
        assert_eq!(map.len(), 3);
    }

    #[test]
    fn entries_can_be_taken_out() {
        let mut map = full();
        assert_eq!((map.remove("a"), map.remove("a")), (Some(1), None));
        map.clear();
        assert!(map.is_empty());
    }
}
