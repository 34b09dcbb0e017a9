//! Keys: found by the hash of their secret, for as long as they may be used.

use tokio::task::JoinSet;
use windrow_domain::{KeyId, Role};
use windrow_store::error::Kind;
use windrow_store::inspect::PAGE_MAX;
use windrow_store::key::{
    KEY_HINT_BYTES_MAX, KEY_NAME_BYTES_MAX, KEYS_TOUCHED_MAX, Key, KeysQuery, NewKey,
};
use windrow_store::{Keys, Scope, Store};

use crate::World;
use crate::fixture::*;

/// A member's key whose hash is all `byte`.
fn new_key(owner_name: &str, byte: u8) -> NewKey {
    NewKey {
        id: KeyId::new(),
        hash: [byte; 32],
        owner: owner(owner_name),
        role: Role::Member,
        name: format!("key {byte} – früh"),
        hint: "wr_…ab".to_owned(),
        expires_at: None,
    }
}

async fn all_keys(store: &impl Store, scope: &Scope, limit: u32) -> Vec<Key> {
    let (mut keys, mut query) = (Vec::new(), KeysQuery { after: None, limit });
    loop {
        let page = store.keys(scope, query.clone()).await.expect("a page comes");
        assert!(page.rows.len() <= limit as usize);
        keys.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return keys,
        }
    }
}

/// A key is found by its hash with everything that was said about it, and by no other hash.
pub async fn a_key_is_found_by_its_hash(world: &impl World) {
    let store = world.store();
    for (byte, role) in [(0, Role::Member), (255, Role::Admin)] {
        let expires_at = (byte == 0).then(|| later(world, 60_000));
        let new = NewKey { role, expires_at, ..new_key("ada", byte) };
        let added = store.add_key(new.clone()).await.unwrap();
        assert_eq!((added.id, &added.owner, added.role), (new.id, &new.owner, new.role));
        assert_eq!((&added.name, &added.hint), (&new.name, &new.hint));
        assert_eq!((added.created_at, added.expires_at), (now(world), expires_at));
        assert_eq!((added.last_used_at, added.revoked_at), (None, None));
        assert_eq!(store.find_key(&new.hash).await.unwrap(), added);
    }
    assert_eq!(kind(store.find_key(&[7; 32]).await), Kind::Missing);
}

/// Adding again gives the same key, also much later, in use, or revoked: a lost reply does no harm.
pub async fn adding_a_key_again_gives_the_same_key(world: &impl World) {
    let store = world.store();
    let new = NewKey { expires_at: Some(later(world, 60_000)), ..new_key("ada", 1) };
    let added = store.add_key(new.clone()).await.unwrap();
    pass(world, 120_000);
    assert_eq!(store.add_key(new.clone()).await.unwrap(), added);
    store.touch_keys(&[new.id]).await.unwrap();
    let revoked = store.revoke_key(&Scope::All, new.id).await.unwrap();
    assert_eq!(store.add_key(new.clone()).await.unwrap(), revoked);
    assert_eq!(kind(store.find_key(&new.hash).await), Kind::Missing, "it is not let in again");
    assert_eq!(all_keys(store, &Scope::All, 10).await, [revoked]);
}

/// An id or a hash that is in other use is refused, and what stands stays as it is.
pub async fn an_id_or_a_hash_in_use_is_a_conflict(world: &impl World) {
    let store = world.store();
    let (one, two) = (new_key("ada", 1), new_key("ada", 2));
    let first = store.add_key(one.clone()).await.unwrap();
    let second = store.add_key(two.clone()).await.unwrap();
    let others = [
        NewKey { id: KeyId::new(), ..one.clone() },
        NewKey { hash: [3; 32], ..one.clone() },
        NewKey { hash: two.hash, ..one.clone() },
        NewKey { owner: owner("bob"), ..one.clone() },
        NewKey { role: Role::Admin, ..one.clone() },
        NewKey { name: "another".to_owned(), ..one.clone() },
        NewKey { hint: "another".to_owned(), ..one.clone() },
        NewKey { expires_at: Some(later(world, 1)), ..one.clone() },
    ];
    for other in others {
        assert_eq!(kind(store.add_key(other.clone()).await), Kind::Conflict, "{other:?}");
    }
    assert_eq!(store.find_key(&one.hash).await.unwrap(), first);
    assert_eq!(store.find_key(&two.hash).await.unwrap(), second);
    assert_eq!(kind(store.find_key(&[3; 32]).await), Kind::Missing);
}

/// One key that is added many times at the same moment is there once, and everybody is told.
pub async fn one_key_added_many_times_is_there_once(world: &impl World) {
    let new = new_key("ada", 1);
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let (store, new) = (world.another().await, new.clone());
        tasks.spawn(async move { patiently(|| store.add_key(new.clone())).await });
    }
    for added in tasks.join_all().await {
        assert_eq!(added.unwrap().id, new.id);
    }
    assert_eq!(all_keys(world.store(), &Scope::All, 10).await.len(), 1);
}

/// A key ends at its time, not before, and stays in the list.
pub async fn a_key_ends_with_its_time(world: &impl World) {
    let store = world.store();
    let new = NewKey { expires_at: Some(later(world, 1000)), ..new_key("ada", 1) };
    let added = store.add_key(new.clone()).await.unwrap();
    pass(world, 999);
    assert_eq!(store.find_key(&new.hash).await.unwrap(), added);
    pass(world, 1);
    assert_eq!(kind(store.find_key(&new.hash).await), Kind::Missing);
    assert_eq!(all_keys(store, &scope("ada"), 10).await, [added]);
}

/// A revoked key is let in no more; revoking it again changes nothing.
pub async fn a_revoked_key_is_let_in_no_more(world: &impl World) {
    let store = world.store();
    let (new, stays) = (new_key("ada", 1), new_key("ada", 2));
    let added = store.add_key(new.clone()).await.unwrap();
    store.add_key(stays.clone()).await.unwrap();
    pass(world, 1000);
    let revoked = store.revoke_key(&scope("ada"), new.id).await.unwrap();
    assert_eq!(revoked, Key { revoked_at: Some(now(world)), ..added });
    assert_eq!(kind(store.find_key(&new.hash).await), Kind::Missing);
    pass(world, 1000);
    assert_eq!(store.revoke_key(&Scope::All, new.id).await.unwrap(), revoked);
    assert_eq!(store.find_key(&stays.hash).await.unwrap().id, stays.id);
}

/// Another owner's key cannot be revoked or listed, as if it were not there.
pub async fn another_owners_key_is_missing(world: &impl World) {
    let store = world.store();
    let new = new_key("ada", 1);
    let added = store.add_key(new.clone()).await.unwrap();
    for id in [new.id, KeyId::new()] {
        assert_eq!(kind(store.revoke_key(&scope("bob"), id).await), Kind::Missing);
    }
    assert_eq!(kind(store.revoke_key(&Scope::All, KeyId::new()).await), Kind::Missing);
    assert!(all_keys(store, &scope("bob"), 10).await.is_empty());
    assert_eq!(store.find_key(&new.hash).await.unwrap(), added);
}

/// The last use of many keys is noted at once and never goes back; unknown keys have no effect.
pub async fn the_last_use_of_keys_is_noted(world: &impl World) {
    let store = world.store();
    let mut ids = Vec::new();
    for byte in 0..3 {
        ids.push(store.add_key(new_key("ada", byte)).await.unwrap().id);
    }
    pass(world, 1000);
    store.touch_keys(&[]).await.unwrap();
    store.touch_keys(&[ids[2], KeyId::new(), ids[0], ids[0]]).await.unwrap();
    let at = now(world);
    let used = async |byte| store.find_key(&[byte; 32]).await.unwrap().last_used_at;
    assert_eq!([used(0).await, used(1).await, used(2).await], [Some(at), None, Some(at)]);
    pass(world, 1000);
    store.touch_keys(&[ids[0]]).await.unwrap();
    assert_eq!([used(0).await, used(2).await], [Some(now(world)), Some(at)]);
    let mut many: Vec<_> = (0..KEYS_TOUCHED_MAX).map(|_| KeyId::new()).collect();
    store.touch_keys(&many).await.unwrap();
    many.push(KeyId::new());
    assert_eq!(kind(store.touch_keys(&many).await), Kind::Invalid);
}

/// Many instances that note the same keys in any order neither wait in a circle nor lose one.
pub async fn many_note_the_same_keys_at_once(world: &impl World) {
    let mut ids = Vec::new();
    for byte in 0..20 {
        ids.push(world.store().add_key(new_key("ada", byte)).await.unwrap().id);
    }
    pass(world, 1000);
    let mut tasks = JoinSet::new();
    for seed in 0..6 {
        let (store, mut ids) = (world.another().await, ids.clone());
        Dice::seeded(seed).shuffle(&mut ids);
        tasks.spawn(async move {
            for _ in 0..5 {
                patiently(|| store.touch_keys(&ids)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let keys = all_keys(world.store(), &Scope::All, 100).await;
    assert!(keys.iter().all(|key| key.last_used_at == Some(now(world))));
}

/// Keys are listed newest first, page by page, each once, those that ended included.
pub async fn keys_are_listed_newest_first(world: &impl World) {
    let store = world.store();
    for byte in 0..7 {
        let name = if byte == 4 { "bob" } else { "ada" };
        let id = store.add_key(new_key(name, byte)).await.unwrap().id;
        if byte == 2 {
            store.revoke_key(&Scope::All, id).await.unwrap();
        }
        pass(world, if byte % 3 == 0 { 0 } else { 1000 });
    }
    for (scope, count) in [(Scope::All, 7), (scope("ada"), 6), (scope("bob"), 1)] {
        let whole = all_keys(store, &scope, PAGE_MAX).await;
        assert_eq!(whole.len(), count);
        let order =
            |pair: &[Key]| (pair[0].created_at, pair[0].id) > (pair[1].created_at, pair[1].id);
        assert!(whole.windows(2).all(order), "newest first: {whole:?}");
        for limit in [1, 2, 3, 7] {
            assert_eq!(all_keys(store, &scope, limit).await, whole, "pages of {limit}");
        }
    }
    let next = store.keys(&scope("ada"), KeysQuery { after: None, limit: 1 }).await.unwrap().next;
    let theirs = KeysQuery { after: next, limit: 1 };
    assert_eq!(kind(store.keys(&Scope::All, theirs).await), Kind::Invalid, "another's cursor");
    for limit in [0, PAGE_MAX + 1] {
        let query = KeysQuery { after: None, limit };
        assert_eq!(kind(store.keys(&Scope::All, query).await), Kind::Invalid);
    }
}

/// Names and hints have bounds.
pub async fn a_key_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let (name, hint) = ("n".repeat(KEY_NAME_BYTES_MAX), "h".repeat(KEY_HINT_BYTES_MAX));
    let fits = NewKey { name: name.clone(), hint: hint.clone(), ..new_key("ada", 1) };
    store.add_key(fits).await.unwrap();
    let bad = [
        NewKey { name: format!("{name}n"), ..new_key("ada", 2) },
        NewKey { hint: format!("{hint}h"), ..new_key("ada", 2) },
        NewKey { name: "a\0b".to_owned(), ..new_key("ada", 2) },
    ];
    for key in bad {
        assert_eq!(kind(store.add_key(key).await), Kind::Invalid);
    }
    assert_eq!(all_keys(store, &Scope::All, 10).await.len(), 1);
}
