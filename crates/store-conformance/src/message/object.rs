//! Objects: states that commits write.

use bytes::Bytes;
use windrow_domain::InstanceId;
use windrow_store::error::Kind;
use windrow_store::message::Commit;
use windrow_store::object::{OBJECTS_MAX, ObjectKey, PutState, STATE_BYTES_MAX};
use windrow_store::{Messages, Objects, Wakes};

use super::MessageWorld;
use super::fixture::*;

fn text(state: &'static str) -> Option<Bytes> {
    Some(Bytes::from_static(state.as_bytes()))
}

/// A state is what the last commit said, an empty one is not none, and a forgotten one is none.
pub async fn an_object_is_what_was_committed_last(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let keys = [key("wallet/1"), key("wallet/2"), key("wallet/3")];
    assert_eq!(store.states(&keys).await.unwrap(), [None, None, None]);
    let commit = |states: Vec<PutState>| Commit { states, ..runner.effects() };
    store.commit(commit(vec![put("wallet/3", "three"), put("wallet/1", "")])).await.unwrap();
    let other = world.another().await;
    assert_eq!(other.states(&keys).await.unwrap(), [text(""), None, text("three")]);
    let forget = PutState { key: key("wallet/3"), state: None };
    store.commit(commit(vec![forget.clone(), put("wallet/1", "one")])).await.unwrap();
    assert_eq!(other.states(&keys).await.unwrap(), [text("one"), None, None]);
    store.commit(commit(vec![forget])).await.unwrap();
    let bobs = ObjectKey { owner: owner("bob"), ..key("wallet/1") };
    assert_eq!(store.states(&[bobs]).await.unwrap(), [None], "it belongs to its owner");
    let largest = Bytes::from(vec![255; STATE_BYTES_MAX]);
    let large = PutState { key: key("wallet/2"), state: Some(largest.clone()) };
    store.commit(commit(vec![large])).await.unwrap();
    assert!(store.states(&[key("wallet/2")]).await.unwrap() == [Some(largest)]);
}

/// States come in the order they are asked for, as often as they are asked for.
pub async fn states_come_in_the_order_asked_for(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let names: Vec<_> = (0..20).map(|no| format!("wallet/{no}")).collect();
    let states = names.iter().map(|name| put(name, name)).collect();
    store.commit(Commit { states, ..runner.effects() }).await.unwrap();
    let mut asked: Vec<_> = names.iter().chain(&names[3..5]).cloned().collect();
    Dice::seeded(3).shuffle(&mut asked);
    let keys: Vec<_> = asked.iter().map(|name| key(name)).collect();
    let expected: Vec<_> = asked.into_iter().map(|name| Some(Bytes::from(name))).collect();
    assert_eq!(store.states(&keys).await.unwrap(), expected);
    assert!(store.states(&[]).await.unwrap().is_empty());
    let many = vec![key("wallet/1"); OBJECTS_MAX + 1];
    assert_eq!(kind(store.states(&many).await), Kind::Invalid);
    assert_eq!(store.states(&many[..OBJECTS_MAX]).await.unwrap().len(), OBJECTS_MAX);
}

/// Of two states for one object in a commit the later one counts.
pub async fn the_later_of_two_states_counts(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let states = vec![put("wallet/1", "first"), put("wallet/2", "x"), put("wallet/1", "second")];
    world.store().commit(Commit { states, ..runner.effects() }).await.unwrap();
    let found = world.store().states(&[key("wallet/1")]).await.unwrap();
    assert_eq!(found, [text("second")]);
}

/// Whether somebody sleeps or listens changes nothing about the work: a wake is a hint.
pub async fn sleepers_miss_no_work(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let store = world.store();
    let wakes = store.listen(runner.instance).await.unwrap();
    for no in 0..2 {
        store.set_idle(runner.instance, true).await.unwrap();
        store.set_idle(runner.instance, true).await.unwrap();
        send(store, inbox("a", &no.to_string())).await;
        let messages = vec![outbox("b", &no.to_string())];
        store.commit(Commit { messages, ..runner.effects() }).await.unwrap();
        assert_eq!(runner.messages().await.len(), 2 * (no + 1));
        store.set_idle(runner.instance, false).await.unwrap();
        store.set_idle(runner.instance, false).await.unwrap();
    }
    drop(wakes);
    store.set_idle(InstanceId::new(), false).await.unwrap();
}
