//! Failures: order through them, and nobody else is held up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use windrow_engine::clock::Clock;
use windrow_engine::messages::{Effects, HandlerError};
use windrow_store::{Kind, Scope};

use crate::support::*;

crate::on_both_stores! {
    a_stream_keeps_its_order_through_failures_and_others_go_on,
    one_failing_stream_does_not_hold_up_others_and_ends_as_a_dead_letter,
    a_dead_letter_that_is_sent_again_does_not_wait_for_the_next_look,
    a_handler_that_hangs_fails_in_time_and_a_permanent_error_is_not_repeated,
    a_message_waits_until_it_is_due_and_holds_up_what_is_behind_it,
    a_long_stream_is_read_in_parts_and_every_message_runs_once,
}

async fn a_stream_keeps_its_order_through_failures_and_others_go_on(backend: Backend) {
    let (store, log) = (store(backend).await, Log::default());
    let seen = log.clone();
    // Every third message fails twice, in its own way.
    let consumer = Does(move |context: windrow_engine::messages::Context, _| {
        let seen = seen.clone();
        Box::pin(async move {
            let no: u32 = context.id.split('.').next_back().unwrap().parse().unwrap();
            if no % 3 == 1 && context.attempt < 3 {
                match no % 2 {
                    0 => panic!("on purpose"),
                    _ => return Err(HandlerError::retry("not yet")),
                }
            }
            seen.add(&context);
            Ok(Effects::none())
        }) as _
    });
    let runner = runner(store.clone()).consumer("c", all(), consumer).start().await.unwrap();
    let names: Vec<String> = (0..20).map(|no| format!("s{no}")).collect();
    for round in 0..10 {
        let round = names.iter().map(|name| inbox(name, &format!("{name}.{round}")));
        runner.client().send(round.collect()).await.unwrap();
    }
    settle(&*store).await;
    for name in names {
        let wanted: Vec<String> = (0..10).map(|no| format!("{name}.{no}")).collect();
        assert_eq!(log.of(&name), wanted);
    }
    assert_eq!(dead(&*store).await, []);
    assert!(runner.gauges().retries >= 20 * 3 * 2);
}

async fn one_failing_stream_does_not_hold_up_others_and_ends_as_a_dead_letter(backend: Backend) {
    let (store, log) = (store(backend).await, Log::default());
    let (seen, mended) = (log.clone(), Arc::new(AtomicU32::new(0)));
    let is_mended = mended.clone();
    let consumer = Does(move |context: windrow_engine::messages::Context, _| {
        let (seen, is_mended) = (seen.clone(), is_mended.clone());
        Box::pin(async move {
            if context.id == "bad" && is_mended.load(Ordering::SeqCst) == 0 {
                return Err(HandlerError::retry(format!("try {}", context.attempt)));
            }
            seen.add(&context);
            Ok(Effects::none())
        }) as _
    });
    let runner = runner(store.clone()).consumer("c", all(), consumer).start().await.unwrap();
    let client = runner.client();
    client.send(vec![inbox("a", "bad"), inbox("a", "behind"), inbox("b", "other")]).await.unwrap();
    until("the other stream went on", || async { log.count("other") == 1 }).await;
    settle(&*store).await;
    assert_eq!(log.of("a"), ["behind"]);
    let letters = dead(&*store).await;
    assert_eq!(letters.len(), 1);
    assert_eq!((&*letters[0].message.id, &*letters[0].error), ("bad", "try 5"));
    let history: Vec<&str> = letters[0].history.iter().map(|past| &*past.error).collect();
    assert_eq!(history[..4], ["try 1", "try 2", "try 3", "try 4"]);
    assert_eq!(runner.gauges().dead, 1);

    mended.store(1, Ordering::SeqCst);
    client.replay_dead(&Scope::All, &[letters[0].id]).await.unwrap();
    until("it is replayed", || async { log.count("bad") == 1 }).await;
    settle(&*store).await;
    assert_eq!(dead(&*store).await, []);
}

async fn a_dead_letter_that_is_sent_again_does_not_wait_for_the_next_look(backend: Backend) {
    let (store, log) = (store(backend).await, Log::default());
    let seen = log.clone();
    let consumer = Does(move |context: windrow_engine::messages::Context, _| {
        let seen = seen.clone();
        Box::pin(async move {
            seen.add(&context);
            match seen.count("bad") {
                1 => Err(HandlerError::permanent("not the first time")),
                _ => Ok(Effects::none()),
            }
        }) as _
    });
    let options = options().poll_every(MINUTE).poll_awake_every(MINUTE);
    let awake = options.idle_after;
    let runner = runner(store.clone()).options(options).consumer("c", all(), consumer);
    let runner = runner.start().await.unwrap();
    let client = runner.client();
    client.send(vec![inbox("a", "bad")]).await.unwrap();
    settle(&*store).await;
    // It sleeps, and looks by itself in a minute.
    Clock::machine().sleep(awake * 3).await;
    let letter = dead(&*store).await[0].id;
    assert_eq!(client.replay_dead(&Scope::All, &[letter]).await.unwrap().len(), 1);
    until("it ran again", || async { log.count("bad") == 2 }).await;
    let gone = client.replay_dead(&Scope::All, &[letter]).await.unwrap_err();
    assert_eq!(gone.kind, Kind::Missing);
}

async fn a_handler_that_hangs_fails_in_time_and_a_permanent_error_is_not_repeated(
    backend: Backend,
) {
    let store = store(backend).await;
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = attempts.clone();
    let consumer = Does(move |context: windrow_engine::messages::Context, _| {
        let counted = counted.clone();
        Box::pin(async move {
            match &*context.id {
                "hangs" if context.attempt == 1 => std::future::pending().await,
                "wrong" => {
                    counted.fetch_add(1, Ordering::SeqCst);
                    Err(HandlerError::permanent("never"))
                }
                _ => Ok(Effects::none()),
            }
        }) as _
    });
    let options = options().handler_timeout(Duration::from_millis(50));
    let runner = runner(store.clone()).options(options).consumer("c", all(), consumer);
    let runner = runner.start().await.unwrap();
    runner.client().send(vec![inbox("a", "hangs"), inbox("b", "wrong")]).await.unwrap();
    settle(&*store).await;
    assert_eq!((attempts.load(Ordering::SeqCst), runner.gauges().retries), (1, 1));
    assert_eq!(dead(&*store).await[0].error, "never");
}

async fn a_message_waits_until_it_is_due_and_holds_up_what_is_behind_it(backend: Backend) {
    let (store, log) = (store(backend).await, Log::default());
    let seen = log.clone();
    let consumer = Does(move |context: windrow_engine::messages::Context, _| {
        seen.add(&context);
        Box::pin(async { Ok(Effects::none()) }) as _
    });
    let runner = runner(store.clone()).consumer("c", all(), consumer).start().await.unwrap();
    let clock = windrow_engine::clock::Clock::machine();
    let later = clock.now().checked_add(Duration::from_millis(300)).unwrap();
    let waits = windrow_store::message::NewMessage { not_before: Some(later), ..inbox("a", "2") };
    runner.client().send(vec![inbox("a", "1"), waits, inbox("a", "3")]).await.unwrap();
    until("the first ran", || async { log.count("1") == 1 }).await;
    settle(&*store).await;
    assert_eq!(log.of("a"), ["1", "2", "3"]);
    assert!(clock.elapsed() >= Duration::from_millis(290));
}

async fn a_long_stream_is_read_in_parts_and_every_message_runs_once(backend: Backend) {
    let (store, log) = (store(backend).await, Log::default());
    let seen = log.clone();
    let consumer = Does(move |context: windrow_engine::messages::Context, _| {
        seen.add(&context);
        Box::pin(async { Ok(Effects::none()) }) as _
    });
    let messages: Vec<_> =
        (0..900).map(|no| inbox(&format!("s{}", no % 3), &no.to_string())).collect();
    let options = options()
        .messages_held_max(40)
        .streams_in_flight_max(4)
        .read_messages_max(20)
        .stream_messages_max(7);
    let runner = runner(store.clone()).options(options).consumer("c", all(), consumer);
    let runner = runner.start().await.unwrap();
    runner.client().send(messages).await.unwrap();
    settle(&*store).await;
    for stream in 0..3 {
        let wanted: Vec<String> =
            (0..900).filter(|no| no % 3 == stream).map(|no| no.to_string()).collect();
        assert_eq!(log.of(&format!("s{stream}")), wanted);
    }
}
