//! Commits: exactly once, whatever becomes of replies, and nobody pays for another's conflict.

use std::sync::Arc;

use windrow_domain::{CrashPolicy, Expected};
use windrow_engine::messages::{Context, Effects};
use windrow_store::call::NewCall;
use windrow_store::event::Append;

use crate::support::*;
use crate::watched::{Fate, Watched};

crate::on_both_stores! {
    effects_happen_once_though_replies_are_lost,
    a_commit_that_is_refused_for_a_lock_is_nobodys_try,
    a_version_conflict_fails_its_own_message_and_no_other,
    what_cannot_be_stored_is_the_handlers_failure,
}

/// Every other commit is lost, before or after it happened.
fn unsure(verb: &'static str, no: u64) -> Fate {
    match (verb, no % 4) {
        ("commit", 1) => Fate::ReplyLost,
        ("commit", 3) => Fate::Lost,
        ("read_owned" | "states", _) if no % 5 == 4 => Fate::Lost,
        _ => Fate::Passes,
    }
}

async fn effects_happen_once_though_replies_are_lost(backend: Backend) {
    let inner = store(backend).await;
    let store = Watched::new(inner.clone(), unsure);
    let runner = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let client = runner.client();
    let calls: Vec<_> =
        (0..200).map(|no| deposit(&format!("w{}", no % 7), &format!("r{no}"), 1)).collect();
    for call in calls.clone() {
        client.submit(call).await.unwrap();
    }
    for call in &calls {
        let outcome = client.wait(&call.key, LONG).await.unwrap();
        assert!(matches!(outcome, windrow_engine::messages::CallOutcome::Reply(_)), "{outcome:?}");
    }
    for wallet in 0..7 {
        let wanted = calls.iter().filter(|call| call.object_id == format!("w{wallet}")).count();
        let stream = stream(&format!("wallet/w{wallet}"));
        assert_eq!(inner.stream_version(&owner(), &stream).await.unwrap(), wanted as u64);
        let now = balance(&client, &format!("w{wallet}"), &format!("b{wallet}")).await;
        assert_eq!(now, reply(&wanted.to_string()));
    }
    assert!(runner.gauges().commits_unknown > 0);
}

/// Half of the commits find something locked. Nothing happened then, so nothing is charged, and no call
/// that may run only once is taken for one that ran.
async fn a_commit_that_is_refused_for_a_lock_is_nobodys_try(backend: Backend) {
    let inner = store(backend).await;
    let locked = |verb, no: u64| match verb {
        "commit" if fastrand::Rng::with_seed(no).bool() => Fate::Refused,
        _ => Fate::Passes,
    };
    let store = Watched::new(inner.clone(), locked);
    let runner = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let client = runner.client();
    let careful = |no: u32| NewCall {
        policy: CrashPolicy::Fail,
        ..deposit(&format!("w{}", no % 7), &format!("r{no}"), 1)
    };
    let calls: Vec<_> = (0..40).map(careful).collect();
    for call in calls.clone() {
        client.submit(call).await.unwrap();
    }
    for call in &calls {
        // Chance may put one off many times, each time for longer.
        let outcome = client.wait(&call.key, LONG * 6).await.unwrap();
        assert!(matches!(outcome, windrow_engine::messages::CallOutcome::Reply(_)), "{outcome:?}");
    }
    let gauges = runner.gauges();
    assert_eq!((gauges.dead, gauges.commits_unknown), (0, 0));
    assert!(gauges.conflicts > 0);
    for wallet in 0..7 {
        let wanted = calls.iter().filter(|call| call.object_id == format!("w{wallet}")).count();
        let stream = stream(&format!("wallet/w{wallet}"));
        assert_eq!(inner.stream_version(&owner(), &stream).await.unwrap(), wanted as u64);
    }
}

async fn a_version_conflict_fails_its_own_message_and_no_other(backend: Backend) {
    let store = store(backend).await;
    let before = Append {
        owner: owner(),
        stream: stream("ledger"),
        expected: Expected::Version(0),
        events: vec![windrow_store::event::NewEvent {
            id: "first".to_owned(),
            kind: "opened".to_owned(),
            payload: "x".into(),
            headers: Default::default(),
        }],
    };
    store.append(vec![before]).await.unwrap();
    // The bad one believes in a version that is not there until its third try.
    let consumer = Does(move |context: Context, _| {
        Box::pin(async move {
            let is_stale = context.id == "m50" && context.attempt < 3;
            let expected = if is_stale { Expected::Version(0) } else { Expected::Any };
            let append = context.append(expected, vec![context.event("added", "y")]);
            let append = Append { stream: stream("ledger"), ..append };
            let message = context.message("told", context.id.clone());
            Ok(Effects::none().append(append).send(message))
        }) as _
    });
    let options =
        options().unrouted(windrow_engine::messages::Unrouted::Drop).commits_in_flight_max(1);
    // All are there before it begins, so that they are committed together.
    let setup = runner(store.clone()).start().await.unwrap();
    setup.stop().await;
    let messages = (0..100).map(|no| inbox(&format!("s{no}"), &format!("m{no}"))).collect();
    store.send(messages).await.unwrap();
    let runner = runner(store.clone()).options(options).consumer("c", all(), consumer);
    let runner = runner.start().await.unwrap();
    settle(&*store).await;
    assert_eq!(store.stream_version(&owner(), &stream("ledger")).await.unwrap(), 101);
    let gauges = runner.gauges();
    assert_eq!((gauges.retries, gauges.dead), (2, 0));
    assert!(gauges.conflicts > 0, "it was in company");
}

async fn what_cannot_be_stored_is_the_handlers_failure(backend: Backend) {
    let store = store(backend).await;
    let consumer = Does(move |context: Context, _| {
        Box::pin(async move {
            Ok(match &*context.id {
                "state" => Effects::none().put("no object"),
                "many" => {
                    let messages = (0..2000).map(|_| context.message("x", "")).collect();
                    Effects { messages, ..Effects::none() }
                }
                _ => Effects::none(),
            })
        }) as _
    });
    let runner = runner(store.clone()).consumer("c", all(), consumer).start().await.unwrap();
    let messages = vec![inbox("a", "state"), inbox("b", "many"), inbox("c", "good")];
    runner.client().send(messages).await.unwrap();
    settle(&*store).await;
    let mut errors: Vec<String> = dead(&*store).await.into_iter().map(|dead| dead.error).collect();
    errors.sort();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].starts_with("its effects cannot be stored"), "{errors:?}");
    assert_eq!(errors[1], "only objects keep a state");
    drop(Arc::new(runner));
}
