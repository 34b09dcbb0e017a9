//! Poison: after a crash the heads run alone, and only the culprit pays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windrow_domain::Queue;
use windrow_engine::clock::Clock;
use windrow_engine::messages::{Context, Effects, Runner};
use windrow_store::message::MessagesQuery;
use windrow_store::{Scope, Store};

use crate::support::*;

crate::on_both_stores! {
    heads_of_a_dead_owners_partitions_run_one_at_a_time,
    a_message_that_kills_its_instance_is_given_up_on_and_others_are_not_charged,
}

async fn heads_of_a_dead_owners_partitions_run_one_at_a_time(backend: Backend) {
    let store = store(backend).await;
    let stuck = Does(|_: Context, _| Box::pin(std::future::pending()) as _);
    let slow = options().handler_timeout(MINUTE);
    let first = runner(store.clone()).options(slow).consumer("c", all(), stuck);
    let first = first.start().await.unwrap();
    let messages = (0..20).map(|no| inbox(&format!("s{}", no % 10), &format!("m{no}"))).collect();
    first.client().send(messages).await.unwrap();
    until("all run", || async { first.gauges().streams_in_flight == 10 }).await;
    drop(first);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (log, peak) = (Log::default(), most.clone());
    let seen = log.clone();
    let watched = Does(move |context: Context, _| {
        let (now, peak, seen) = (now.clone(), peak.clone(), seen.clone());
        Box::pin(async move {
            let no: u32 = context.id[1..].parse().unwrap();
            if no < 10 {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                Clock::machine().sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
            seen.add(&context);
            Ok(Effects::none())
        }) as _
    });
    let second = runner(store.clone()).consumer("c", all(), watched).start().await.unwrap();
    settle(&*store).await;
    assert_eq!(most.load(Ordering::SeqCst), 1);
    for no in 0..10 {
        assert_eq!(log.of(&format!("s{no}")), [format!("m{no}"), format!("m{}", no + 10)]);
    }
    until("they are cleared", || async {
        store.partitions().await.unwrap().iter().all(|partition| !partition.is_suspect)
    })
    .await;
    drop(second);
}

/// Runs until the culprit runs, then dies.
async fn live_and_die(store: Arc<dyn Store>) -> bool {
    let (killed, kill) = (Arc::new(tokio::sync::Notify::new()), Log::default());
    let dies = killed.clone();
    let consumer = Does(move |context: Context, _| {
        let (dies, kill) = (dies.clone(), kill.clone());
        Box::pin(async move {
            if context.id == "culprit" {
                kill.add(&context);
                dies.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(Effects::none())
        }) as _
    });
    let slow = options().handler_timeout(MINUTE);
    let runner = Runner::builder(store.clone(), "test").options(slow);
    let runner = runner.consumer("c", all(), consumer).start().await.unwrap();
    tokio::select! {
        () = killed.notified() => false,
        () = settle(&*store) => {
            runner.stop().await;
            true
        }
    }
}

async fn a_message_that_kills_its_instance_is_given_up_on_and_others_are_not_charged(
    backend: Backend,
) {
    let store = store(backend).await;
    runner(store.clone()).start().await.unwrap().stop().await;
    let mut messages: Vec<_> =
        (0..10).map(|no| inbox(&format!("s{no}"), &format!("m{no}"))).collect();
    messages.insert(5, inbox("bad", "culprit"));
    store.send(messages).await.unwrap();
    let mut lives = 1;
    while !live_and_die(store.clone()).await {
        lives += 1;
        let query = MessagesQuery { queue: Some(Queue::Inbox), limit: 100, ..Default::default() };
        let left = store.messages(&Scope::All, query).await.unwrap().rows;
        let charged = left.iter().filter(|message| message.attempts > 0 && message.id != "culprit");
        assert_eq!(charged.count(), 0, "{left:?}");
    }
    // The first death was without a mark; then the tries of the policy.
    assert_eq!(lives, 7);
    let letters = dead(&*store).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].message.id, "culprit");
    assert!(letters[0].error.contains("its instance died"), "{}", letters[0].error);
}
