//! A message whose handler takes its process down, again and again.

use std::collections::BTreeMap;

use windrow::domain::Queue;
use windrow::store::message::{MessagesQuery, NewMessage};
use windrow::store::{Scope, Store};
use windrow_fault::instance::{ATTEMPT, Bounds, POISON};
use windrow_fault::{Backend, Fixture, wait};

use crate::instances::Instances;
use crate::{WITHIN, history, number, numbered, on_both_stores, owner, stream};

const ATTEMPTS_MAX: u32 = 3;
const BOUNDS: Bounds = Bounds { heartbeat_ms: 200, stale_ms: 1_000, attempts_max: ATTEMPTS_MAX };
const STREAMS: u64 = 30;
const MESSAGES: u64 = 10;
const BAD: &str = "bad";
/// The message that kills, with others of its stream before and behind it.
const KILLER: u64 = 4;

on_both_stores!(a_message_that_kills_its_instances_is_given_up_on_alone);

async fn a_message_that_kills_its_instances_is_given_up_on_alone(backend: Backend) {
    let fixture = Fixture::on(backend).await;
    history::record(&fixture).await;
    let mut instances = Instances::start(&fixture, 2, BOUNDS).await;
    let mut written: BTreeMap<String, u64> = BTreeMap::new();
    for no in 1..=MESSAGES {
        let names = (0..STREAMS).map(|at| format!("s{at}")).chain([BAD.to_owned()]);
        let messages = names.map(|name| {
            let message = numbered(Queue::Inbox, &name, no);
            written.insert(name.clone(), no);
            match name == BAD && no == KILLER {
                true => NewMessage { kind: POISON.to_owned(), ..message },
                false => message,
            }
        });
        fixture.store().send(messages.collect()).await.unwrap();
    }
    let mut deaths = 0;
    let look = || {
        deaths += instances.replace_ended();
        let left = fixture.store().messages(&Scope::All, all());
        async move { left.await.ok()?.rows.is_empty().then_some(()) }
    };
    let state = || async {
        format!("{:#?}", fixture.store().messages(&Scope::All, all()).await.unwrap().rows)
    };
    wait::until(WITHIN, look, state).await;
    let letters = fixture.store().dead_letters(&Scope::All, all()).await.unwrap().rows;
    let ids: Vec<&str> = letters.iter().map(|letter| letter.message.id.as_str()).collect();
    assert_eq!(ids, [format!("{BAD}-{KILLER}")], "{letters:#?}");
    assert_eq!(letters[0].message.attempts, ATTEMPTS_MAX, "{letters:#?}");
    // The first death charges nobody: it is not known whose it was.
    assert_eq!(deaths, ATTEMPTS_MAX + 1, "{letters:#?}");
    instances.all_run();
    written.remove(BAD);
    history::check_effects(fixture.store(), &written).await;
    let events = fixture.store().read_stream(&owner(), &stream(BAD), 1, 100).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| number(&event.payload)).collect();
    let wanted: Vec<u64> = (1..=MESSAGES).filter(|no| *no != KILLER).collect();
    assert_eq!(numbers, wanted, "those before and behind it");
    check_uncharged(fixture.store()).await;
}

fn all() -> MessagesQuery {
    MessagesQuery { limit: 1000, ..MessagesQuery::default() }
}

/// Nobody but the killer is charged for a death: all others took effect at their first try.
async fn check_uncharged(store: &dyn Store) {
    let events = store.read_all(&Scope::All, None, 1000).await.unwrap().rows;
    for event in events {
        assert_eq!(event.headers[ATTEMPT], "1", "it paid for another one: {event:?}");
    }
}
