//! The engine on a clock that only the test moves: leases are renewed, lost ones come back, batches
//! expire, retries wait. Nothing here sleeps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::watched::Watched;
use support::world::{TICK_MS, World};
use support::{batch, batch_within, failed};
use windrow_domain::attempt::Class;
use windrow_domain::{InstanceId, LeaseId, State, Target};
use windrow_engine::Options;
use windrow_engine::execute::{Attempt, Outcome};
use windrow_engine::signal::Wake;
use windrow_store::claim::Request;
use windrow_store::inspect::{PendingQuery, Place};
use windrow_store::member::NewMember;
use windrow_store::{Claim as _, Inspect as _, Members as _, Scope};

#[tokio::test]
async fn a_lease_is_renewed_while_its_line_is_in_flight() {
    let world = World::new().await;
    let batch = batch(&*world.store, 1).await;
    let answer = Wake::new();
    let answered = answer.clone();
    let executor = move |_: Attempt| {
        let answered = answered.clone();
        async move {
            answered.given().await;
            Outcome::completed("1")
        }
    };
    let engine = world.engine().executor(executor);
    let watch = async {
        world.until(batch, |batch| batch.counts.leased == 1).await;
        // Ten times as long as the lease: without a renewal the sweep would take it back.
        for _ in 0..Options::default().slice.lock_floor_ms * 10 / TICK_MS {
            world.tick().await;
        }
        let counts = world.store.batch(&Scope::All, batch).await.unwrap().counts;
        assert_eq!(counts.leased, 1, "{counts:?}");
        answer.give();
        world.closes(batch).await;
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    assert_eq!(report.unwrap().closed, 1);
}

#[tokio::test]
async fn lines_of_a_worker_that_died_come_back_and_are_finished() {
    let world = World::new().await;
    let batch = batch(&*world.store, 10).await;
    let dead = InstanceId::new();
    let member = NewMember {
        instance: dead,
        service: "w".to_owned(),
        host: "h".to_owned(),
        pid: 1,
        metadata: "{}".to_owned(),
        lock: None,
    };
    world.store.register(member).await.unwrap();
    let request = Request {
        lease: LeaseId::new(),
        routes: vec![Target::new("m1").unwrap().into()],
        binds: false,
        only: None,
        lines_max: 3,
        lease_ms: 20_000,
    };
    assert_eq!(world.store.lease_tranche(dead, request).await.unwrap().unwrap().lines.len(), 3);
    let engine = world.engine().executor(async |_: Attempt| Outcome::completed("1"));
    let watch = async {
        let took = world.closes(batch).await;
        let sweep = windrow_domain::millis(Options::default().sweep_every_max);
        assert!(took >= Duration::from_secs(20), "nobody may take a live lease: {took:?}");
        assert!(took <= Duration::from_millis(20_000 + 2 * sweep), "{took:?}");
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    report.unwrap();
    let counts = world.store.batch(&Scope::All, batch).await.unwrap().counts;
    assert_eq!(counts.completed, 10);
}

/// Deadlines are the sweep's, and what never ran says so by having no result.
#[tokio::test]
async fn a_batch_past_its_deadline_expires_with_what_it_has() {
    let world = World::new().await;
    let batch = batch_within(&*world.store, 10, Some(60)).await;
    // Always busy: every line is put off for longer than the window.
    let executor = async |attempt: Attempt| match attempt.line {
        1..=4 => Outcome::completed("1"),
        _ => {
            let mut tried = failed(Class::Throttled);
            let windrow_engine::execute::Verdict::Failed(failure) = &mut tried.verdict else {
                unreachable!("it failed")
            };
            failure.retry_after = Some(Duration::from_secs(200));
            tried
        }
    };
    let engine = world.engine().executor(executor);
    let watch = async {
        let took = world.closes(batch).await;
        assert!(took >= Duration::from_secs(60), "{took:?}");
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    report.unwrap();
    let batch = world.store.batch(&Scope::All, batch).await.unwrap();
    assert_eq!((batch.state, batch.counts.finished()), (State::Expired, batch.counts.completed));
    assert!(batch.counts.completed < 10);
}

#[tokio::test]
async fn a_retry_waits_as_long_as_its_target_asked() {
    let world = World::new().await;
    let batch = batch(&*world.store, 1).await;
    let executor = async |attempt: Attempt| match attempt.number {
        1 => {
            let mut tried = failed(Class::Throttled);
            if let windrow_engine::execute::Verdict::Failed(failure) = &mut tried.verdict {
                failure.retry_after = Some(Duration::from_secs(30));
            }
            tried
        }
        _ => Outcome::completed("1"),
    };
    let engine = world.engine().executor(executor);
    let watch = async {
        world.until(batch, |batch| batch.counts.returned == 1).await;
        let query = PendingQuery { places: vec![Place::Returned], limit: 1, ..Default::default() };
        let pending = world.store.pending(&Scope::All, query).await.unwrap();
        let line = &pending.rows[0];
        assert!(line.not_before.unwrap().duration_since(line.updated_at).as_secs() >= 29);
        let took = world.closes(batch).await;
        assert!((29..35).contains(&took.as_secs()), "{took:?}");
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    report.unwrap();
}

/// Others buried us while we were stopped: we join again under a new id, and what we held is not ours.
#[tokio::test]
async fn an_instance_that_was_taken_for_dead_joins_again_and_goes_on() {
    let world = World::new().await;
    let batch = batch(&*world.store, 4).await;
    let (first, reaped) = (Wake::new(), Arc::new(AtomicBool::new(false)));
    let (hung, again) = (first.clone(), reaped.clone());
    let executor = move |attempt: Attempt| {
        let (hung, hangs) = (hung.clone(), !again.load(Ordering::SeqCst));
        async move {
            if attempt.line == 1 && hangs {
                hung.give();
                return std::future::pending().await;
            }
            Outcome::completed("1")
        }
    };
    let engine = world.engine().executor(executor);
    let watch = async {
        first.given().await;
        let members = world.store.members().await.unwrap();
        world.store.tombstone(members[0].instance).await.unwrap();
        reaped.store(true, Ordering::SeqCst);
        world.closes(batch).await;
        let members = world.store.members().await.unwrap();
        assert_eq!(members.len(), 2, "{members:?}");
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    report.unwrap();
}

/// A verb that finds nothing to do is one statement on PostgreSQL.
#[tokio::test]
async fn an_idle_engine_asks_the_store_at_most_twice_a_second() {
    const WINDOW_SECS: usize = 30;
    const WINDOWS: usize = 20;
    let world = World::new().await;
    let store = Watched::layer(world.store.clone());
    let engine =
        world.engine_on(store.clone()).executor(async |_: Attempt| Outcome::completed("1"));
    let watch = async {
        let mut asked = Vec::new();
        for _ in 0..WINDOW_SECS * WINDOWS {
            asked.push(store.layer().asked_any());
            world.pass(Duration::from_secs(1)).await;
        }
        world.stop.give();
        let most = asked.windows(WINDOW_SECS + 1).map(|seen| seen[WINDOW_SECS] - seen[0]).max();
        assert!(most <= Some(2 * WINDOW_SECS), "{most:?} in {WINDOW_SECS} s");
        let all = asked[asked.len() - 1];
        assert!(all > WINDOW_SECS * WINDOWS, "it looks for work once a second: {all}");
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    report.unwrap();
}

/// Whoever asks again and again for a batch that this process closed a moment ago is answered from memory,
/// as far as it may see it, and only for a moment.
#[tokio::test]
async fn the_status_of_a_batch_that_was_just_closed_is_known_without_the_store() {
    let world = World::new().await;
    let batch = batch(&*world.store, 3).await;
    let store = Watched::layer(world.store.clone());
    let executor = async |_: Attempt| Outcome::completed("1");
    let engine = world.engine_on(store.clone()).executor(executor).build();
    let handle = engine.handle();
    let mut events = handle.subscribe();
    let asked = |count: usize| assert_eq!(store.layer().asked("batch"), count);
    let watch = async {
        // The event comes after the cache has it.
        while events.try_recv().is_err() {
            world.tick().await;
        }
        let before = store.layer().asked("batch");
        let status = handle.status(&Scope::All, batch).await.unwrap();
        assert_eq!(status, world.see(batch).await);
        asked(before);
        let stranger = Scope::Owner(windrow_domain::Owner::new("stranger").unwrap());
        let refused = handle.status(&stranger, batch).await.unwrap_err();
        assert_eq!(refused.kind, windrow_store::Kind::Missing);
        asked(before + 1);
        world.pass(Duration::from_millis(1_500)).await;
        let before = store.layer().asked("batch");
        handle.status(&Scope::All, batch).await.unwrap();
        asked(before + 1);
        world.stop.give();
    };
    let (report, ()) = tokio::join!(engine.run(), watch);
    assert_eq!(report.unwrap().closed, 1);
}
