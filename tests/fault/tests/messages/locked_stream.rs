//! A transaction of an application holds a stream that handlers write to: they wait, and nobody else.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use windrow::domain::{CrashPolicy, Expected, Queue, RequestId};
use windrow::engine::clock::Clock;
use windrow::engine::deliver::Patterns;
use windrow::engine::messages::{
    CallOutcome, Client, Consumer, Context, Effects, HandlerError, Object, Runner, Unrouted,
};
use windrow::store::call::{CallKey, NewCall};
use windrow::store::event::Append;
use windrow::store::message::NewMessage;
use windrow_fault::instance::{Bounds, SERVICE};
use windrow_fault::{Backend, Fixture, fixture, wait};

use crate::{WITHIN, history, number, numbered, owner, stream};

const BOUNDS: Bounds = Bounds { heartbeat_ms: 300, stale_ms: 2_000, attempts_max: 5 };
const NEIGHBOURS: u64 = 50;
/// Rounds in which somebody writes to the held streams; each follows one in which nobody does.
const ROUNDS: u64 = 8;
/// The stream that is held, of messages and of events.
const HELD: &str = "held";
/// A round that waits for a lock takes at least that much longer than one without anybody in its way.
const A_WAIT: Duration = Duration::from_secs(4);

/// Notes each message in its own stream. Those of `to-events` and `to-outbox` write to the held ones, too.
struct Notes;

#[async_trait]
impl Consumer for Notes {
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError> {
        let note = |said: Bytes| context.append(Expected::Any, vec![context.event("noted", said)]);
        let told = format!("{}", context.attempt);
        let effects = Effects::none().append(note(payload));
        Ok(match context.stream.as_str() {
            "to-events" => effects.append(Append { stream: stream(HELD), ..note(told.into()) }),
            "to-outbox" => {
                let message = context.message("told", told);
                effects.send(NewMessage { stream: stream(HELD), ..message })
            }
            _ => effects,
        })
    }
}

/// Counts its calls, which may not run twice.
struct Counter;

#[async_trait]
impl Object for Counter {
    const TYPE: &'static str = "counter";

    async fn call(&self, context: Context, _: &str, _: Bytes) -> Result<Effects, HandlerError> {
        let before: u64 = context.state.as_deref().map_or(0, number);
        let count = (before + 1).to_string();
        Ok(Effects::reply(count.clone()).put(count))
    }
}

fn count(object: u64, round: u64) -> NewCall {
    NewCall {
        key: key(object, round),
        object_type: "counter".to_owned(),
        object_id: object.to_string(),
        method: "count".to_owned(),
        args: Bytes::new(),
        policy: CrashPolicy::Fail,
        caller_object: None,
        caller_client: None,
        expires_at: None,
        waiter: None,
    }
}

fn key(object: u64, round: u64) -> CallKey {
    CallKey { owner: owner(), request_id: RequestId::new(format!("c{object}-{round}")).unwrap() }
}

/// Everybody has something to do; gives how long the neighbours took.
async fn round(client: &Client, no: u64, with_culprits: bool) -> Duration {
    let clock = Clock::machine();
    let names = (0..NEIGHBOURS).map(|at| format!("n{at}"));
    let mut sent: Vec<_> = names.map(|name| numbered(Queue::Inbox, &name, no)).collect();
    if with_culprits {
        sent.extend(["to-events", "to-outbox"].map(|name| numbered(Queue::Inbox, name, no)));
    }
    client.send(sent).await.unwrap();
    for object in 0..NEIGHBOURS {
        client.submit(count(object, no)).await.unwrap();
    }
    for object in 0..NEIGHBOURS {
        let outcome = client.wait(&key(object, no), WITHIN).await.unwrap();
        assert_eq!(outcome, CallOutcome::Reply(no.to_string().into()), "counter {object}");
    }
    for at in 0..NEIGHBOURS {
        let name = stream(&format!("n{at}"));
        let noted = || async {
            let version = client.store().stream_version(&owner(), &name).await.unwrap();
            (version >= no).then_some(())
        };
        wait::until(WITHIN, noted, || async { format!("n{at} waits for others") }).await;
    }
    clock.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_writes_to_a_held_stream_waits_and_nobody_else_does() {
    let fixture = Fixture::on(Backend::Postgres).await;
    let store = fixture::open(fixture.database()).await.unwrap();
    let options = BOUNDS.options().unrouted(Unrouted::Keep);
    let builder = Runner::builder(store.clone(), SERVICE).options(options).object(Counter);
    let runner = builder.consumer("notes", Patterns::default(), Notes).start().await.unwrap();
    let client = runner.client();
    let version = |name| {
        let store = store.clone();
        async move { store.stream_version(&owner(), &stream(name)).await.unwrap() }
    };
    history::connect(fixture.database(), async |application| {
        let late = application.transaction().await.unwrap();
        let held = "SELECT windrow.send('outbox', $1, $2, 'kept', 'x'::bytea, 'first'), \
                           windrow.append($1, $2, 'kept', '0'::bytea)";
        late.execute(held, &[&owner().as_str(), &HELD]).await.unwrap();
        let mut took = Vec::new();
        for no in 1..=ROUNDS {
            let alone = round(&client, 2 * no - 1, false).await;
            // Later culprits find out that the stream is held before they hold up anybody.
            took.push((alone, round(&client, 2 * no, true).await));
        }
        println!("rounds took {took:?}");
        let slow = took.iter().filter(|(alone, with)| *with > *alone + A_WAIT).count();
        assert!(slow <= 2, "neighbours wait for the held streams: {took:?}");
        assert_eq!((version("to-events").await, version(HELD).await), (0, 0));
        late.commit().await.unwrap();
    })
    .await;
    let done = || async {
        let written = [version("to-events").await, version("to-outbox").await, version(HELD).await];
        (written == [ROUNDS, ROUNDS, ROUNDS + 1]).then_some(())
    };
    wait::until(WITHIN, done, || async { "the held ones do not come through".to_owned() }).await;
    let held = store.read_stream(&owner(), &stream(HELD), 2, 100).await.unwrap();
    let attempts: Vec<u64> = held.iter().map(|event| number(&event.payload)).collect();
    assert_eq!(attempts.len() as u64, ROUNDS, "each happened once");
    assert!(attempts.iter().all(|attempt| *attempt == 1), "none was charged: {attempts:?}");
    let sent = windrow::store::message::MessagesQuery { limit: 100, ..Default::default() };
    let sent = store.messages(&windrow::store::Scope::All, sent).await.unwrap().rows;
    assert_eq!(sent.len() as u64, ROUNDS + 1, "each was sent once: {sent:#?}");
    let gauges = runner.gauges();
    assert_eq!((gauges.dead, gauges.commits_unknown), (0, 0));
    assert!(gauges.conflicts > 0, "nobody met the lock");
    runner.stop().await;
}
