//! What applications call in their own transactions, and what each role may do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;
use windrow_domain::ids::NAME_BYTES_MAX;
use windrow_domain::message::{
    HEADERS_BYTES_MAX, KIND_BYTES_MAX, MESSAGE_ID_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
use windrow_domain::{Expected, InstanceId, Queue, Stream};
use windrow_store::error::Cause;
use windrow_store::event::{Append, NewEvent};
use windrow_store::member::NewMember;
use windrow_store::message::{Commit, Message, NewMessage, Read, ReadFrom};
use windrow_store::partition::{Fence, Setup};
use windrow_store::transactional::{Script, Sql, Value};
use windrow_store::wake::Wake;
use windrow_store::{Events, Kind, Members, Messages, Partitions, Scope, Transactions, Wakes};
use windrow_store_postgres::{Options, PostgresStore, grants};
use windrow_testkit::postgres::Database;

use crate::support::{Session, fresh, owner, store, until};

const PARTITIONS: u16 = 4;

fn setup() -> Setup {
    let service = "tests".to_owned();
    Setup { service, partitions: PARTITIONS, object_types: Vec::new(), lifecycle: false }
}

/// Somebody who owns every partition.
struct Reader {
    store: PostgresStore,
    instance: InstanceId,
    fences: Vec<Fence>,
}

impl Reader {
    async fn join(store: PostgresStore) -> Self {
        store.set_up(setup()).await.unwrap();
        let instance = InstanceId::new();
        let (service, host) = ("tests".to_owned(), "here".to_owned());
        let member =
            NewMember { instance, service, host, pid: 1, metadata: "{}".to_owned(), lock: None };
        store.register(member).await.unwrap();
        let wanted: Vec<u16> = (0..PARTITIONS).collect();
        let taken = store.take_partitions(instance, &wanted).await.unwrap();
        let fences = taken.iter().map(|taken| taken.fence).collect();
        Self { store, instance, fences }
    }

    async fn messages(&self) -> Vec<Message> {
        let from = |fence: &Fence| ReadFrom { fence: *fence, after_stream: 0 };
        let read = Read {
            instance: self.instance,
            from: self.fences.iter().map(from).collect(),
            held: Vec::new(),
            messages_max: 1000,
            stream_messages_max: 1000,
        };
        self.store.read_owned(read).await.unwrap().messages
    }

    async fn ids(&self) -> Vec<String> {
        self.messages().await.into_iter().map(|message| message.id).collect()
    }
}

async fn world() -> (Database, Reader, Session) {
    let database = fresh().await;
    let reader = Reader::join(store(&database.url()).await).await;
    let session = Session::open(&database.url()).await.unwrap();
    (database, reader, session)
}

fn message(stream: &str, id: &str) -> NewMessage {
    NewMessage {
        queue: Queue::Inbox,
        owner: owner(),
        stream: Stream::new(stream).unwrap(),
        id: id.to_owned(),
        kind: "order.placed".to_owned(),
        payload: Bytes::from_static(b"hello"),
        headers: Default::default(),
        not_before: None,
        consumers: Vec::new(),
        dedupe: false,
    }
}

const SEND: &str = "SELECT windrow.send('inbox', 'ada', $1, 'order.placed', 'hello', $2)";
const APPEND: &str = "SELECT windrow.append('ada', $1, 'money.deposited', 'hello', $2, $3)";

async fn send(session: &Session, stream: &str, id: &str) -> Result<i64, String> {
    let sent = session.query_one(SEND, &[&stream, &id]).await;
    sent.map(|row| row.get(0)).map_err(|error| code(&error))
}

fn code(error: &tokio_postgres::Error) -> String {
    error.code().map(|code| code.code().to_owned()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_application_sends_and_appends_is_like_the_stores_own() {
    let (_database, reader, session) = world().await;
    let all = "SELECT windrow.send(queue => 'outbox', owner => 'ada', stream => 'a', kind => 'k',
               payload => '\\x00ff', headers => '{\"trace\": \"1\"}', consumers => '{x,y}',
               not_before => now() - interval '1 s')";
    let first: i64 = session.query_one(all, &[]).await.unwrap().get(0);
    assert!(first > 0, "its place");
    let message = &reader.messages().await[0];
    assert_eq!((message.queue, message.kind.as_str()), (Queue::Outbox, "k"));
    assert_eq!(message.payload.as_ref(), [0, 255]);
    assert_eq!(message.headers["trace"], "1");
    assert_eq!(message.waiting, ["x", "y"]);
    assert_eq!(message.id.len(), 36, "an id was made");

    // The same digest on both ways in.
    let place = send(&session, "b", "m1").await.unwrap();
    let again = reader.store.send(vec![self::message("b", "m1")]).await.unwrap();
    assert!(again[0].is_duplicate);
    assert_eq!(again[0].at.position.cast_signed(), place);
    let sent = reader.store.send(vec![self::message("b", "m2")]).await.unwrap();
    let first = sent[0].at.position.cast_signed();
    assert_eq!(send(&session, "b", "m2").await, Ok(first), "the place of the first");

    let expected = |version: i64| Some(version);
    for version in 0..2_i64 {
        let id = format!("e{version}");
        let row = session.query_one(APPEND, &[&"b", &expected(version), &id]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), version + 1);
    }
    let row = session.query_one(APPEND, &[&"b", &expected(0), &"e0"]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1, "a repeat");
    let stream = Stream::new("b").unwrap();
    let events = reader.store.read_stream(&owner(), &stream, 1, 10).await.unwrap();
    assert_eq!(events.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["e0", "e1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_functions_have_their_own_codes() {
    let database = fresh().await;
    let session = Session::open(&database.url()).await.unwrap();
    assert_eq!(send(&session, "a", "1").await, Err("WR412".to_owned()), "before the set-up");
    let _reader = Reader::join(store(&database.url()).await).await;
    let long = "x".repeat(257);
    for (stream, id) in [("", "1"), ("a\nb", "1"), (long.as_str(), "1"), ("a", "")] {
        assert_eq!(send(&session, stream, id).await, Err("WR400".to_owned()), "{stream:?} {id:?}");
    }
    let bad = [
        "windrow.send('calls', 'ada', 'a', 'k', '')",
        "windrow.send(NULL, 'ada', 'a', 'k', '')",
        "windrow.send('inbox', NULL, 'a', 'k', '')",
        "windrow.send('inbox', 'ada', 'a', 'k', NULL)",
        "windrow.send('inbox', 'ada', 'a', 'k', '', headers => '[1]')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', headers => '{\"a\": 1}')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', consumers => '{a,b,c,d,e,f,g,h,i}')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', consumers => '{\"\"}')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', consumers => '{a,b,a}')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', consumers => '{{a},{b}}')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', consumers => '{a,NULL}')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', headers => '{\"a\": null}')",
        "windrow.append('ada', 'a', 'k', '', headers => '[]')",
        "windrow.append('ada', 'a', 'k', NULL)",
        // One that no reader could read would stop all of them.
        "windrow.send('inbox', 'ada', 'a', 'k', '', not_before => 'infinity')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', not_before => '-infinity')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', not_before => '10000-01-01')",
        "windrow.send('inbox', 'ada', 'a', 'k', '', not_before => '4000-01-01 BC')",
        "windrow.append('ada', 'a', 'k', '', -1)",
        "windrow.append('ada', '', 'k', '')",
    ];
    for call in bad {
        let error = session.query(&format!("SELECT {call}"), &[]).await.unwrap_err();
        assert_eq!(code(&error), "WR400", "{call}");
    }
    assert!(send(&session, "a", "1").await.is_ok());
    assert_eq!(send(&session, "b", "1").await, Err("WR409".to_owned()));
    let error = session.query(APPEND, &[&"a", &Some(3_i64), &"e"]).await.unwrap_err();
    assert_eq!(code(&error), "WR419");
    assert_eq!(error.as_db_error().unwrap().detail(), Some("[\"a\", 3, 0]"));
}

/// A message or an event of these sizes, in bytes.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    owner: usize,
    stream: usize,
    id: usize,
    kind: usize,
    payload: usize,
    headers: usize,
}

/// As large as they may be.
const LARGEST: Sizes = Sizes {
    owner: NAME_BYTES_MAX,
    stream: NAME_BYTES_MAX,
    id: MESSAGE_ID_BYTES_MAX,
    kind: KIND_BYTES_MAX,
    payload: PAYLOAD_BYTES_MAX,
    headers: HEADERS_BYTES_MAX,
};

/// A text of so many bytes, of characters that have two each where that is possible.
fn sized(bytes: usize) -> String {
    format!("{}{}", "ß".repeat(bytes / 2), "x".repeat(bytes % 2))
}

/// Sends it with one function or appends it with the other; the code of the refusal.
async fn put(session: &Session, function: &str, sizes: Sizes) -> Result<(), String> {
    let headers = format!("{{\"ß\": \"{}\"}}", sized(sizes.headers - "ß".len()));
    let [owner, stream, id, kind] = [sizes.owner, sizes.stream, sizes.id, sizes.kind].map(sized);
    let payload = vec![7_u8; sizes.payload];
    let statement = format!(
        "SELECT {function} owner => $1::text, stream => $2::text, kind => $3::text, payload => $4::bytea,
         id => $5::text, headers => $6::text::jsonb)"
    );
    let done = session.query(&statement, &[&owner, &stream, &kind, &payload, &id, &headers]).await;
    done.map(drop).map_err(|error| code(&error))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_whole_and_the_largest_is_not() {
    let (_database, reader, session) = world().await;
    let functions = ["windrow.send('inbox',", "windrow.send('outbox',", "windrow.append("];
    for function in functions {
        for sizes in [
            Sizes { owner: LARGEST.owner + 1, ..LARGEST },
            Sizes { stream: LARGEST.stream + 1, ..LARGEST },
            Sizes { id: LARGEST.id + 1, ..LARGEST },
            Sizes { kind: LARGEST.kind + 1, ..LARGEST },
            Sizes { payload: LARGEST.payload + 1, ..LARGEST },
            Sizes { headers: LARGEST.headers + 1, ..LARGEST },
        ] {
            let refused = put(&session, function, sizes).await;
            assert_eq!(refused, Err("WR400".to_owned()), "{function} {sizes:?}");
        }
        assert!(reader.messages().await.is_empty(), "{function}");
    }
    let counts = "SELECT (SELECT count(*) FROM windrow.streams)
                       + (SELECT count(*) FROM windrow.event_streams)";
    assert_eq!(session.query_one(counts, &[]).await.unwrap().get::<_, i64>(0), 0);
    for function in functions {
        assert_eq!(put(&session, function, LARGEST).await, Ok(()), "{function}");
    }
    let messages = reader.messages().await;
    assert_eq!(messages.len(), 2);
    assert!(messages.iter().all(|message| message.payload.len() == PAYLOAD_BYTES_MAX));
}

/// Sends in one transaction to these streams, in this order; tells when the first is held, and waits
/// until the other's is.
async fn send_both(
    session: &Session,
    streams: [&str; 2],
    id: &str,
    held: &Barrier,
) -> Result<(), String> {
    session.batch_execute("BEGIN").await.unwrap();
    let mut sent = Ok(0);
    for (no, stream) in streams.into_iter().enumerate() {
        if sent.is_ok() {
            sent = send(session, stream, &format!("{id}-{stream}")).await;
        }
        if no == 0 {
            held.wait().await;
        }
    }
    let end = if sent.is_ok() { "COMMIT" } else { "ROLLBACK" };
    session.batch_execute(end).await.unwrap();
    sent.map(drop)
}

/// Two applications that send to the same streams the other way round: one is told, and nothing of it
/// is there until it tries again.
#[tokio::test(flavor = "multi_thread")]
async fn who_sends_the_other_way_round_is_told_and_tries_again() {
    let (database, reader, session) = world().await;
    let other = Session::open(&database.url()).await.unwrap();
    let held = Barrier::new(2);
    let (one, two) = tokio::join!(
        send_both(&session, ["a", "b"], "1", &held),
        send_both(&other, ["b", "a"], "2", &held),
    );
    let told = Err("40P01".to_owned());
    assert!((one.is_ok() && two == told) || (one == told && two.is_ok()), "{one:?} {two:?}");
    let (winner, loser) = if one.is_ok() { ("1", "2") } else { ("2", "1") };
    let ids = |id: &str| ["a", "b"].map(|stream| format!("{id}-{stream}"));
    let mut there = reader.ids().await;
    there.sort_unstable();
    assert_eq!(there, ids(winner), "nothing of the other");
    let alone = Barrier::new(1);
    assert_eq!(send_both(&session, ["a", "b"], loser, &alone).await, Ok(()));
    let mut there = reader.ids().await;
    there.sort_unstable();
    let both = [ids("1"), ids("2")].concat();
    assert_eq!(there, both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_held_open_hides_and_skips_nothing() {
    let (_database, reader, session) = world().await;
    session.batch_execute("BEGIN").await.unwrap();
    let first = send(&session, "a", "a1").await.unwrap();
    send(&session, "b", "b1").await.unwrap();
    session.query(APPEND, &[&"a", &None::<i64>, &"e1"]).await.unwrap();
    assert!(reader.ids().await.is_empty());

    // Others go on meanwhile; who sends to the same stream waits, and comes behind.
    reader.store.send(vec![message("c", "c1")]).await.unwrap();
    let mut tasks = JoinSet::new();
    let sender = reader.store.clone();
    tasks.spawn(async move { sender.send(vec![message("a", "a2")]).await.unwrap() });
    let other = Stream::new("other").unwrap();
    let (id, kind) = ("e2".to_owned(), "k".to_owned());
    let (payload, headers) = (Bytes::new(), Default::default());
    let events = vec![NewEvent { id, kind, payload, headers }];
    let append = Append { owner: owner(), stream: other, expected: Expected::Any, events };
    reader.store.append(vec![append]).await.unwrap();
    assert_eq!(reader.ids().await, ["c1"]);
    let feed = reader.store.read_all(&Scope::All, None, 10).await.unwrap();
    assert!(feed.rows.is_empty(), "the feed lags behind the open transaction");

    session.batch_execute("COMMIT").await.unwrap();
    let sent = tasks.join_all().await.remove(0);
    assert!(sent[0].at.position.cast_signed() > first, "behind it");
    let mut ids = reader.ids().await;
    ids.sort_unstable();
    assert_eq!(ids, ["a1", "a2", "b1", "c1"]);
    // Transactions of other databases of the same server hold the feed up, too.
    let (mut after, mut seen) = (feed.next, Vec::new());
    let reading = async {
        while seen.len() < 2 {
            let feed = reader.store.read_all(&Scope::All, after.as_deref(), 10).await.unwrap();
            seen.extend(feed.rows.into_iter().map(|event| event.id));
            after = feed.next;
        }
    };
    timeout(Duration::from_secs(20), reading).await.expect("nothing is held up for ever");
    assert_eq!(seen, ["e1", "e2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_together_is_rolled_back_together() {
    let (_database, reader, session) = world().await;
    session.batch_execute("CREATE TABLE orders (id int PRIMARY KEY)").await.unwrap();
    for end in ["ROLLBACK", "COMMIT"] {
        session.batch_execute("BEGIN; INSERT INTO orders VALUES (1)").await.unwrap();
        send(&session, "a", "m1").await.unwrap();
        send(&session, "b", "m2").await.unwrap();
        session.query(APPEND, &[&"a", &Some(0_i64), &"e1"]).await.unwrap();
        session.batch_execute(end).await.unwrap();
        let committed = end == "COMMIT";
        assert_eq!(reader.ids().await.len(), if committed { 2 } else { 0 });
        let version = reader.store.stream_version(&owner(), &Stream::new("a").unwrap()).await;
        assert_eq!(version.unwrap(), u64::from(committed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeper_is_told_of_work_and_its_stream_ends_with_the_connection() {
    let (database, reader, session) = world().await;
    let mut wakes = reader.store.listen(reader.instance).await.unwrap();
    send(&session, "a", "untold").await.unwrap();
    reader.store.set_idle(reader.instance, true).await.unwrap();
    send(&session, "a", "told").await.unwrap();
    let wake = timeout(Duration::from_secs(10), wakes.next()).await.unwrap();
    let partition = reader.messages().await[0].at.partition;
    assert_eq!(wake, Some(Wake::Work(vec![partition])));
    reader.store.set_idle(reader.instance, false).await.unwrap();
    send(&session, "a", "untold again").await.unwrap();
    let listening = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE datname = current_database() AND query LIKE '%LISTEN /*%' AND pid <> pg_backend_pid()";
    assert_eq!(session.query(listening, &[]).await.unwrap().len(), 1, "{}", database.name());
    let end = timeout(Duration::from_secs(10), wakes.next()).await.unwrap();
    assert_eq!(end, None, "nobody was told in between");
    drop(wakes);
    let sessions = "SELECT FROM pg_stat_activity WHERE datname = current_database()
                    AND query LIKE '%LISTEN /*%' AND pid <> pg_backend_pid()";
    let wakes = reader.store.listen(reader.instance).await.unwrap();
    drop(wakes);
    until("who does not listen any more is gone", async || {
        session.query(sessions, &[]).await.unwrap().is_empty()
    })
    .await;
}

/// What a role may do of these statements.
async fn allowed(url: &str, role: &str, statements: &[&'static str]) -> Vec<&'static str> {
    let session = Session::open(&format!("{url}?options=-c%20role%3D{role}")).await.unwrap();
    let mut allowed = Vec::new();
    for statement in statements {
        session.batch_execute("BEGIN").await.unwrap();
        match session.batch_execute(statement).await {
            Ok(()) => allowed.push(*statement),
            Err(error) => assert_eq!(code(&error), "42501", "{role}: {statement}: {error:?}"),
        }
        session.batch_execute("ROLLBACK").await.unwrap();
    }
    allowed
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_can_do_what_it_must_and_nothing_more() {
    let (database, _reader, session) = world().await;
    let url = database.url();
    let roles = ["app", "mon", "adm"].map(|kind| format!("{}_{kind}", database.name()));
    let [app, monitor, admin] = &roles;
    for role in &roles {
        session.batch_execute(&format!("CREATE ROLE {role}")).await.unwrap();
    }
    let uses = [
        "SELECT windrow.send('inbox', 'ada', 'a', 'k', '')",
        "SELECT windrow.append('ada', 'a', 'k', '')",
    ];
    let reads = ["SELECT * FROM windrow.messages", "SELECT * FROM windrow.batches"];
    let keys = ["SELECT * FROM windrow.keys"];
    let writes = [
        "INSERT INTO windrow.sleepers VALUES (gen_random_uuid())",
        "UPDATE windrow.partitions SET epoch = epoch + 1",
        "DELETE FROM windrow.messages",
    ];
    let creates = ["CREATE TABLE windrow.more ()"];
    let all = [&uses[..], &reads, &keys, &writes, &creates].concat();
    for role in &roles {
        assert!(allowed(&url, role, &all).await.is_empty(), "before the grants");
    }
    session.batch_execute(&grants(app, monitor, admin)).await.unwrap();
    assert_eq!(allowed(&url, app, &all).await, uses);
    assert_eq!(allowed(&url, monitor, &all).await, reads);
    let most = [&uses[..], &reads, &keys, &writes].concat();
    assert_eq!(allowed(&url, admin, &all).await, most);

    // The engine works as the one who administers.
    let options = Options::new(format!("{url}?options=-c%20role%3D{admin}"));
    let engine = PostgresStore::connect(options).await.unwrap();
    engine.set_up(setup()).await.unwrap();
    engine.send(vec![message("a", "1")]).await.unwrap();
    let refused = PostgresStore::connect(Options::new(format!("{url}?options=-c%20role%3D{app}")));
    let refused = refused.await.unwrap().send(vec![message("a", "2")]).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Corrupt);
    for role in &roles {
        let clear = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        session.batch_execute(&clear).await.unwrap();
    }
}

/// Sets something for its session, if that can be, and says what it was.
struct Sets(Arc<Mutex<String>>, Commit, bool);

#[async_trait]
impl Script for Sets {
    async fn run(self: Box<Self>, sql: &mut dyn Sql) -> Result<Commit, Cause> {
        let was = sql.query("SELECT current_setting('work_mem')", &[]).await?;
        let Value::Text(was) = &was[0][0] else { panic!("{was:?}") };
        *self.0.lock().unwrap() = was.clone();
        let held = sql
            .query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77", &[])
            .await?;
        assert_eq!(held[0][0], Value::Int(0));
        let user = sql.query("SELECT current_user::text", &[]).await?;
        assert_ne!(user[0][0], Value::from("pg_monitor"));
        sql.query("SELECT pg_advisory_lock(77)", &[]).await?;
        sql.query("CREATE TEMP TABLE pad (id INT)", &[]).await?;
        sql.query("SELECT set_config('role', 'pg_monitor', false)", &[]).await?;
        sql.query("SELECT set_config('role', 'none', true)", &[]).await?;
        sql.query("SELECT set_config('work_mem', '77MB', false)", &[]).await?;
        if self.2 { Ok(self.1) } else { Err("it fails".into()) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_own_transaction_sets_ends_with_it() {
    let database = fresh().await;
    let options = Options::new(database.url()).pool_max(1);
    let reader = Reader::join(PostgresStore::connect(options).await.unwrap()).await;
    for succeeds in [true, false, true] {
        let was = Arc::default();
        let commit = Commit { fences: reader.fences.clone(), ..Commit::new(reader.instance) };
        let script = Sets(Arc::clone(&was), commit, succeeds);
        let ended =
            reader.store.commit_with(reader.instance, &reader.fences, 4000, Box::new(script));
        let ended = ended.await;
        assert_eq!(ended.is_ok(), succeeds, "{ended:?}");
        assert_ne!(*was.lock().unwrap(), "77MB");
    }
}
