//! Acts: who did what to a batch, kept with it.

use tokio::task::JoinSet;
use windrow_domain::{AuditEntryId, BatchId};
use windrow_store::audit_log::{
    ACTION_BYTES_MAX, ACTOR_BYTES_MAX, AUDIT_ENTRIES_MAX, AuditEntry, NewAuditEntry,
};
use windrow_store::error::Kind;
use windrow_store::{Batches, Inspect, Scope};

use crate::World;
use crate::fixture::*;

fn new_audit_entry(actor: &str, action: &str) -> NewAuditEntry {
    let address = Some("203.0.113.9".to_owned());
    NewAuditEntry {
        id: AuditEntryId::new(),
        actor: actor.to_owned(),
        address,
        action: action.to_owned(),
    }
}

/// What was done is listed oldest first, with the database's time and everything that was said.
pub async fn acts_are_listed_oldest_first(world: &impl World) {
    let store = world.store();
    let (id, other) = (batch_of(store, "ada", 1).await, batch_of(store, "ada", 1).await);
    assert!(store.audit_log(&scope("ada"), id).await.unwrap().is_empty());
    let mut expected = Vec::new();
    for (no, action) in ["create", "pause", "resume", "cancel"].into_iter().enumerate() {
        let address = (no != 2).then(|| "2001:db8::1".to_owned());
        let entry = NewAuditEntry { address, ..new_audit_entry("Zoë (key 7)", action) };
        let NewAuditEntry { actor, address, action, .. } = entry.clone();
        expected.push(AuditEntry { at: now(world), actor, address, action });
        store.add_audit_entry(&scope("ada"), id, entry).await.unwrap();
        // Two of one moment stay in the order in which they were made.
        pass(world, if no == 1 { 0 } else { 1000 });
    }
    assert_eq!(store.audit_log(&scope("ada"), id).await.unwrap(), expected);
    assert_eq!(store.audit_log(&Scope::All, id).await.unwrap(), expected);
    assert!(store.audit_log(&scope("ada"), other).await.unwrap().is_empty());
}

/// The same act sent again, later or at the same moment, is noted once.
pub async fn a_repeated_act_is_noted_once(world: &impl World) {
    let id = batch_of(world.store(), "ada", 1).await;
    let entry = new_audit_entry("ada", "pause");
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (store, entry) = (world.another().await, entry.clone());
        tasks.spawn(async move {
            patiently(|| store.add_audit_entry(&Scope::All, id, entry.clone())).await
        });
    }
    tasks.join_all().await.into_iter().for_each(|noted| noted.unwrap());
    let noted = world.store().audit_log(&Scope::All, id).await.unwrap();
    assert_eq!(noted.len(), 1);
    pass(world, 1000);
    let other = NewAuditEntry { action: "resume".to_owned(), ..entry };
    world.store().add_audit_entry(&Scope::All, id, other).await.unwrap();
    assert_eq!(world.store().audit_log(&Scope::All, id).await.unwrap(), noted, "what stands stays");
}

/// Another owner's batch has no acts and takes none, as if it were not there.
pub async fn acts_of_another_owners_batch_are_missing(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    for (scope, id) in [(scope("bob"), id), (Scope::All, BatchId::new())] {
        assert_eq!(
            kind(store.add_audit_entry(&scope, id, new_audit_entry("bob", "pause")).await),
            Kind::Missing
        );
        assert_eq!(kind(store.audit_log(&scope, id).await), Kind::Missing);
    }
    assert!(store.audit_log(&Scope::All, id).await.unwrap().is_empty());
}

/// Of very many acts the newest are kept, and read oldest first; no row of the others is left.
pub async fn the_newest_acts_are_kept(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    for no in 0..AUDIT_ENTRIES_MAX + 3 {
        store
            .add_audit_entry(&Scope::All, id, new_audit_entry(&no.to_string(), "export"))
            .await
            .unwrap();
        pass(world, 1);
    }
    let entries = store.audit_log(&Scope::All, id).await.unwrap();
    assert!(
        entries
            .iter()
            .map(|entry| entry.actor.clone())
            .eq((3..AUDIT_ENTRIES_MAX + 3).map(|no| no.to_string()))
    );
    let worker = Worker::on(store);
    worker.drain(id, &[MODEL]).await;
    worker.close(id).await;
    let others = reap_all(store, 10_000).await.0;
    store.delete_batch(&Scope::All, id).await.unwrap();
    let (rows, _) = reap_all(store, 10_000).await;
    let few = u64::from(AUDIT_ENTRIES_MAX) + 10;
    assert!(others == 0 && (u64::from(AUDIT_ENTRIES_MAX)..few).contains(&rows), "{rows}");
}

/// Acts go with their batch, to the last row.
pub async fn acts_go_with_their_batch(world: &impl World) {
    let store = world.store();
    let worker = Worker::on(store);
    let (id, stays) = (batch_of(store, "ada", 1).await, batch_of(store, "bob", 1).await);
    for batch in [id, stays] {
        for _ in 0..20 {
            store
                .add_audit_entry(&Scope::All, batch, new_audit_entry("ada", "export"))
                .await
                .unwrap();
        }
    }
    worker.drain(id, &[MODEL]).await;
    worker.close(id).await;
    store.add_audit_entry(&Scope::All, id, new_audit_entry("ada", "delete")).await.unwrap();
    store.delete_batch(&Scope::All, id).await.unwrap();
    assert_eq!(kind(store.audit_log(&Scope::All, id).await), Kind::Missing);
    let late = store.add_audit_entry(&Scope::All, id, new_audit_entry("ada", "delete")).await;
    assert_eq!(kind(late), Kind::Missing);
    let (rows, steps) = reap_all(store, 10).await;
    assert!(
        rows >= 23 && steps >= 3,
        "21 acts, a result and a batch in small steps: {rows}, {steps}"
    );
    assert_eq!(reap_all(store, 10).await, (0, 1));
    assert_eq!(store.audit_log(&Scope::All, stays).await.unwrap().len(), 20);
}

/// Texts of an act have bounds.
pub async fn an_act_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 1).await;
    let (actor, action) = ("a".repeat(ACTOR_BYTES_MAX), "x".repeat(ACTION_BYTES_MAX));
    let fits = NewAuditEntry { address: Some(actor.clone()), ..new_audit_entry(&actor, &action) };
    store.add_audit_entry(&Scope::All, id, fits.clone()).await.unwrap();
    let bad = [
        NewAuditEntry { id: AuditEntryId::new(), actor: format!("{actor}a"), ..fits.clone() },
        NewAuditEntry {
            id: AuditEntryId::new(),
            address: Some(format!("{actor}a")),
            ..fits.clone()
        },
        NewAuditEntry { id: AuditEntryId::new(), action: format!("{action}x"), ..fits.clone() },
        NewAuditEntry { id: AuditEntryId::new(), actor: "a\0".to_owned(), ..fits },
    ];
    for entry in bad {
        assert_eq!(kind(store.add_audit_entry(&Scope::All, id, entry).await), Kind::Invalid);
    }
    assert_eq!(store.audit_log(&Scope::All, id).await.unwrap().len(), 1);
}
