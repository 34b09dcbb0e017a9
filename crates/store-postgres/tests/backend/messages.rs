//! The message plane once, on things of its own: every statement runs. And the plans of hot verbs on
//! tables with much in them.

use std::collections::BTreeMap;

use bytes::Bytes;
use windrow_domain::{
    CrashPolicy, DeadLetterId, Expected, InstanceId, Owner, Queue, RequestId, Stream,
};
use windrow_store::call::{Answer, CallKey, CallResult, CallsQuery, NewCall, StatsQuery};
use windrow_store::event::{Append, NewEvent, Snapshot};
use windrow_store::member::NewMember;
use windrow_store::message::{
    Commit, Dead, Done, Exchange, FailedAttempt, Message, MessageRetention, MessagesQuery,
    NewMessage, ProcessingReport, Read, ReadFrom, Started,
};
use windrow_store::object::{ObjectKey, PutState};
use windrow_store::partition::{Fence, Setup};
use windrow_store::{Calls, Events, Members, Messages, Objects, Partitions, Scope, Wakes};
use windrow_store_postgres::PostgresStore;
use windrow_testkit::postgres::Database;

use crate::support::{Session, fresh, sessions_ended, store};

const ALL: &Scope = &Scope::All;
const PARTITIONS: u16 = 16;
/// Tables that grow with messages, events and calls.
pub(crate) const LARGE: [&str; 7] =
    ["messages", "message_ids", "streams", "objects", "events", "event_streams", "calls"];
/// Enough that a scan costs more than a look by key.
const STREAMS: usize = 2_000;
const ROUNDS: usize = 10;
const BATCH: usize = 200;

pub(crate) fn owner() -> Owner {
    Owner::new("plane").unwrap()
}

pub(crate) fn stream(name: &str) -> Stream {
    Stream::new(name).unwrap()
}

pub(crate) fn message(queue: Queue, name: &str, id: String) -> NewMessage {
    NewMessage {
        queue,
        owner: owner(),
        stream: stream(name),
        id,
        kind: "order.placed".to_owned(),
        payload: Bytes::from(vec![b'x'; 300]),
        headers: BTreeMap::new(),
        not_before: None,
        consumers: Vec::new(),
        dedupe: false,
    }
}

pub(crate) fn append(name: &str, id: String) -> Append {
    let (kind, payload) = ("money.deposited".to_owned(), Bytes::from_static(b"{}"));
    let event = NewEvent { id, kind, payload, headers: BTreeMap::new() };
    Append { owner: owner(), stream: stream(name), expected: Expected::Any, events: vec![event] }
}

pub(crate) fn call(object: &str, request: &str) -> NewCall {
    NewCall {
        key: CallKey { owner: owner(), request_id: RequestId::new(request).unwrap() },
        object_type: "wallet".to_owned(),
        object_id: object.to_owned(),
        method: "deposit".to_owned(),
        args: Bytes::from_static(b"{}"),
        policy: CrashPolicy::Retry,
        caller_object: None,
        caller_client: None,
        expires_at: None,
        waiter: None,
    }
}

/// Somebody who owns every partition.
pub(crate) struct Runner {
    instance: InstanceId,
    fences: Vec<Fence>,
}

impl Runner {
    pub(crate) async fn join(store: &PostgresStore) -> Self {
        let (service, object_types) = ("tests".to_owned(), vec!["wallet".to_owned()]);
        let setup = Setup { service, partitions: PARTITIONS, object_types, lifecycle: true };
        store.set_up(setup).await.unwrap();
        let instance = InstanceId::new();
        let (service, host) = ("tests".to_owned(), "here".to_owned());
        let member =
            NewMember { instance, service, host, pid: 1, metadata: "{}".to_owned(), lock: None };
        store.register(member).await.unwrap();
        let wanted: Vec<u16> = (0..PARTITIONS).collect();
        let taken = store.take_partitions(instance, &wanted).await.unwrap();
        Self { instance, fences: taken.iter().map(|taken| taken.fence).collect() }
    }

    fn read(&self, messages_max: usize) -> Read {
        let from = |fence: &Fence| ReadFrom { fence: *fence, after_stream: 0 };
        Read {
            instance: self.instance,
            from: self.fences.iter().map(from).collect(),
            held: vec![(1 << 40, 1)],
            messages_max: u32::try_from(messages_max).unwrap(),
            stream_messages_max: 10,
        }
    }

    pub(crate) fn effects(&self) -> Commit {
        Commit { fences: self.fences.clone(), ..Commit::new(self.instance) }
    }

    fn ending(&self, messages: &[Message]) -> Commit {
        let done = |message: &Message| Done { at: message.at, consumer: None };
        Commit { done: messages.iter().map(done).collect(), ..self.effects() }
    }
}

/// Runs every verb of the plane at least once.
pub(crate) async fn run_every_verb(store: &PostgresStore) {
    let runner = Runner::join(store).await;
    let me = runner.instance;
    assert!(store.setup().await.unwrap().is_some());
    assert_eq!(store.partitions().await.unwrap().len(), usize::from(PARTITIONS));
    let prefix = me.to_string();
    work(store, &runner, &prefix).await;
    ask(store, &runner, &prefix).await;
    happen(store, &prefix).await;
    drop(store.listen(me).await.unwrap());
    store.set_idle(me, true).await.unwrap();
    store.set_idle(me, false).await.unwrap();
    let retention = MessageRetention {
        dedupe_ms: 0,
        archive_ms: 0,
        archived_ms: None,
        tombstone_ms: 0,
        dead_ms: Some(0),
        stream_ms: 0,
        event_ms: Some(0),
    };
    assert!(store.prune_messages(retention, 1000).await.unwrap().total() > 0);
    store.backlog().await.unwrap();
    store.clear_suspects(me, &runner.fences).await.unwrap();
    let freed = store.release_partitions(me, &runner.fences).await.unwrap();
    assert_eq!(freed, u64::from(PARTITIONS));
    store.tombstone(me).await.unwrap();
}

async fn work(store: &PostgresStore, runner: &Runner, prefix: &str) {
    let id = |no: usize| format!("{prefix}-{no}");
    let both = |message: NewMessage| {
        let consumers = vec!["a".to_owned(), "b".to_owned()];
        NewMessage { consumers, ..message }
    };
    let mut new: Vec<_> = (0..6).map(|no| message(Queue::Inbox, &id(no), id(no))).collect();
    new.push(both(message(Queue::Inbox, &id(6), id(6))));
    store.send(new.clone()).await.unwrap();
    assert!(store.send(new).await.unwrap().iter().all(|sent| sent.is_duplicate));
    let found = store.read_owned(runner.read(1000)).await.unwrap().messages;
    let at = |no: usize| found.iter().find(|message| message.id == id(no)).unwrap().at;
    let consumed = |name: &str| Done { at: at(6), consumer: Some(name.to_owned()) };
    let failed = FailedAttempt {
        at: at(1),
        error: "no".to_owned(),
        not_before: jiff::Timestamp::from_second(1).unwrap(),
        waiting: Vec::new(),
        counts: true,
    };
    let letter = DeadLetterId::new();
    let key = ObjectKey { owner: owner(), stream: stream(&id(0)) };
    let commit = Commit {
        started: vec![Started { at: at(0) }],
        done: vec![consumed("a"), consumed("b"), Done { at: at(0), consumer: None }],
        failed: vec![failed],
        dead: vec![Dead { at: at(2), id: letter, error: "no".to_owned(), counts: true }],
        states: vec![PutState { key: key.clone(), state: Some(Bytes::from_static(b"s")) }],
        events: vec![append(&id(0), id(0))],
        messages: vec![message(Queue::Outbox, &id(0), id(7))],
        submits: vec![call("1", &format!("{prefix}-asked"))],
        ..runner.effects()
    };
    let read = Some(runner.read(1000));
    let exchanged = store.exchange(Exchange { commit, heartbeat: true, read }).await.unwrap();
    assert_eq!((exchanged.committed.sent.len(), exchanged.committed.submitted.len()), (1, 1));
    assert!(store.states(&[key]).await.unwrap()[0].is_some());
    let query = MessagesQuery { limit: 5, ..MessagesQuery::default() };
    store.messages(ALL, query.clone()).await.unwrap();
    store.messages(&Scope::Owner(owner()), query.clone()).await.unwrap();
    assert!(!store.dead_letters(ALL, query).await.unwrap().rows.is_empty());
    assert_eq!(store.replay_dead(ALL, &[letter]).await.unwrap().len(), 1);
    assert_eq!(store.discard_dead(ALL, &[letter]).await.unwrap(), 0);
}

async fn ask(store: &PostgresStore, runner: &Runner, prefix: &str) {
    let new = call("2", prefix);
    let submitted = store.submit_call(new.clone()).await.unwrap();
    assert!(store.submit_call(new.clone()).await.unwrap().at.is_none());
    let (at, not_before) = (submitted.at.unwrap(), None);
    let running = vec![ProcessingReport { at, attempts: 0, not_before }];
    store.commit(Commit { running, ..runner.effects() }).await.unwrap();
    let reply = Answer::Reply(Bytes::from_static(b"42"));
    let answer = CallResult { key: new.key.clone(), at, answer: reply };
    store.commit(Commit { calls: vec![answer], ..runner.effects() }).await.unwrap();
    store.call(&new.key).await.unwrap();
    store.calls(ALL, CallsQuery { limit: 5, ..CallsQuery::default() }).await.unwrap();
    let stats = StatsQuery { window_ms: 60_000, old_ms: 1_000 };
    assert!(store.call_stats(ALL, stats).await.unwrap().rows > 0);
}

async fn happen(store: &PostgresStore, prefix: &str) {
    let name = stream(prefix);
    assert_eq!(store.append(vec![append(prefix, "e".to_owned())]).await.unwrap()[0].last, 1);
    assert_eq!(store.read_stream(&owner(), &name, 1, 10).await.unwrap().len(), 1);
    assert_eq!(store.stream_version(&owner(), &name).await.unwrap(), 1);
    store.read_all(ALL, None, 10).await.unwrap();
    let (version, state) = (1, Bytes::new());
    let snapshot = Snapshot { owner: owner(), stream: name.clone(), version, state };
    store.put_snapshot(snapshot).await.unwrap();
    assert!(store.snapshot(&owner(), &name).await.unwrap().is_some());
}

/// A database with many streams, and what its tables saw.
struct Watched {
    database: Database,
    session: Session,
    runner: Runner,
    sent: usize,
    scans: Vec<String>,
}

impl Watched {
    async fn fill() -> Self {
        let database = fresh().await;
        let session = Session::open(&database.url()).await.unwrap();
        let filler = store(&database.url()).await;
        let runner = Runner::join(&filler).await;
        for first in (0..STREAMS).step_by(BATCH) {
            let some = first..first + BATCH;
            let new =
                some.clone().map(|no| message(Queue::Inbox, &no.to_string(), format!("f{no}")));
            filler.send(new.collect()).await.unwrap();
            let appends = some.clone().map(|no| append(&no.to_string(), format!("f{no}")));
            filler.append(appends.collect()).await.unwrap();
            let submits = some.map(|no| call(&no.to_string(), &format!("f{no}"))).collect();
            filler.commit(Commit { submits, ..runner.effects() }).await.unwrap();
        }
        Self { database, session, runner, sent: 0, scans: Vec::new() }
    }

    async fn seen(&self) -> BTreeMap<String, i64> {
        sessions_ended(&self.session).await;
        let counts =
            "SELECT relname::text, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'windrow'";
        let rows = self.session.query(counts, &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Runs a verb on a store of its own and notes every large table that it scanned.
    async fn during(&mut self, verb: &str, run: impl AsyncFnOnce(&PostgresStore, &Runner, usize)) {
        let before = self.seen().await;
        let worker = store(&self.database.url()).await;
        run(&worker, &self.runner, self.sent).await;
        drop(worker);
        self.sent += ROUNDS * BATCH;
        let after = self.seen().await;
        for table in LARGE {
            let scans = after[table] - before[table];
            if scans > 0 {
                self.scans.push(format!("{verb} scanned {table} {scans} times"));
            }
        }
    }

    async fn hot_verbs(&mut self) {
        self.during("send", async |store, _, from| {
            for round in 0..ROUNDS {
                let id = |no: usize| format!("m{}", from + round * BATCH + no);
                let new = (0..BATCH).map(|no| message(Queue::Inbox, &no.to_string(), id(no)));
                let new: Vec<_> = new.collect();
                store.send(new.clone()).await.unwrap();
                store.send(new).await.unwrap();
            }
        })
        .await;
        self.during("exchange", async |store, runner, _| {
            let mut commit = runner.effects();
            for _ in 0..ROUNDS {
                let read = Some(runner.read(BATCH));
                let exchange = Exchange { commit, heartbeat: true, read };
                let found = store.exchange(exchange).await.unwrap().work.messages;
                assert_eq!(found.len(), BATCH);
                let (inbox, others): (Vec<_>, Vec<_>) =
                    found.into_iter().partition(|one| one.queue == Queue::Inbox);
                commit = runner.ending(&inbox);
                commit.running = others.iter().map(ProcessingReport::of).collect();
                commit.started = inbox.iter().map(|one| Started { at: one.at }).collect();
            }
        })
        .await;
        self.during("append", async |store, _, from| {
            for round in 0..ROUNDS {
                let id = |no: usize| format!("e{}", from + round * BATCH + no);
                let appends = (0..BATCH).map(|no| append(&no.to_string(), id(no)));
                store.append(appends.collect()).await.unwrap();
            }
            store.read_all(ALL, None, 100).await.unwrap();
            store.read_stream(&owner(), &stream("7"), 1, 100).await.unwrap();
        })
        .await;
        self.during("calls", async |store, _, from| {
            for no in 0..ROUNDS {
                let new = call("7", &format!("c{}", from + no));
                store.submit_call(new.clone()).await.unwrap();
                store.call(&new.key).await.unwrap();
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_of_the_plane_runs() {
    let database = fresh().await;
    let store = store(&database.url()).await;
    run_every_verb(&store).await;
    run_every_verb(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_verbs_of_the_plane_scan_no_large_table_before_and_after_analyze() {
    let mut watched = Watched::fill().await;
    watched.hot_verbs().await;
    watched.session.batch_execute("ANALYZE").await.unwrap();
    watched.hot_verbs().await;
    assert!(watched.scans.is_empty(), "{}", watched.scans.join("\n"));
}
