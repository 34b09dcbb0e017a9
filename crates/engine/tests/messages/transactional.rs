//! Handlers with their own transaction: their rows and their effects happen together, and once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tempfile::TempDir;
use windrow_domain::Expected;
use windrow_engine::messages::{
    CallOutcome, Client, Context, Effects, HandlerError, Transactional, TransactionalConsumer,
};
use windrow_store::call::NewCall;
use windrow_store::message::NewMessage;
use windrow_store::transactional::{SCRIPT_MS_MAX, Sql, Value};
use windrow_store::{Kind, Store};
use windrow_store_sqlite::SqliteStore;

use crate::support::*;
use crate::watched::{Fate, Watched};

crate::on_both_stores! {
    own_rows_and_effects_happen_once_though_replies_are_lost,
    whatever_goes_wrong_is_a_try_that_leaves_nothing,
    a_consumers_own_rows_and_effects_happen_once_though_replies_are_lost,
    a_consumer_that_panics_or_waits_for_others_by_name_leaves_nothing_behind,
}

/// Keeps a row for each call in a table of its own. Nothing in the table tells a repeat.
struct Ledger {
    timeout: Duration,
}

fn ledger() -> Ledger {
    Ledger { timeout: Duration::from_secs(1) }
}

#[async_trait]
impl Transactional for Ledger {
    const TYPE: &'static str = "ledger";

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn call(
        &self,
        context: Context,
        sql: &mut dyn Sql,
        method: &str,
        _: Bytes,
    ) -> Result<Effects, HandlerError> {
        sql.execute("CREATE TABLE IF NOT EXISTS ledger (account TEXT, request TEXT)", &[]).await?;
        let row: [Value; 2] = [context.key().into(), context.id.as_str().into()];
        if method == "rows" {
            let count = "SELECT count(*) FROM ledger WHERE account = $1";
            let rows = sql.query(count, &row[..1]).await?;
            return Ok(Effects::reply(format!("{:?}", rows[0][0])));
        }
        sql.execute("INSERT INTO ledger (account, request) VALUES ($1, $2)", &row).await?;
        let is_first = context.attempt == 1;
        let mut expected = Expected::Any;
        match method {
            "fail" if is_first => return Err(HandlerError::retry("not yet")),
            "never" => return Err(HandlerError::permanent("never")),
            "panic" if is_first => panic!("broken on purpose"),
            "hang" if is_first => std::future::pending().await,
            "nonsense" if is_first => drop(sql.execute("INSERT INTO nowhere", &[]).await),
            "stale" if is_first => expected = Expected::Version(77),
            _ => {}
        }
        let before =
            context.state.as_deref().map_or("", |state| std::str::from_utf8(state).unwrap());
        let state = format!("{before}x");
        let event = context.append(expected, vec![context.event("booked", "")]);
        Ok(Effects::reply(state.len().to_string()).put(state).append(event))
    }
}

fn book(account: &str, id: &str, method: &str) -> NewCall {
    NewCall { object_type: "ledger".to_owned(), ..question(account, id, method, "") }
}

/// A transaction of a handler's own is one of many: in memory there is only one.
async fn on_disk(backend: Backend) -> (TempDir, Arc<dyn Store>) {
    let dir = tempfile::tempdir().unwrap();
    if backend == Backend::Postgres {
        return (dir, store(backend).await);
    }
    let options = windrow_store_sqlite::Options::file(dir.path().join("windrow.db"));
    let store = SqliteStore::open(options).await.unwrap();
    (dir, Arc::new(store))
}

async fn rows(client: &Client, account: &str) -> CallOutcome {
    client.call(book(account, &format!("rows of {account}"), "rows"), LONG).await.unwrap()
}

/// Every other commit is lost, before or after it happened.
fn unsure(verb: &'static str, no: u64) -> Fate {
    match (verb, no % 4) {
        ("commit_with", 1) => Fate::ReplyLost,
        ("commit_with", 3) => Fate::Lost,
        ("commit", _) if no % 7 == 6 => Fate::ReplyLost,
        _ => Fate::Passes,
    }
}

async fn own_rows_and_effects_happen_once_though_replies_are_lost(backend: Backend) {
    let (_dir, inner) = on_disk(backend).await;
    let store = Watched::new(inner.clone(), unsure);
    let built = runner(store.clone()).object_tx(ledger()).typed(Wallet);
    let runner = built.start().await.unwrap();
    let client = runner.client();
    let calls: Vec<_> =
        (0..60).map(|no| book(&format!("a{}", no % 4), &format!("r{no}"), "book")).collect();
    for call in calls.clone() {
        client.submit(call).await.unwrap();
    }
    // One without a transaction of its own, beside them.
    client.submit(deposit("w", "d", 5)).await.unwrap();
    for call in &calls {
        let outcome = client.wait(&call.key, LONG).await.unwrap();
        assert!(matches!(outcome, CallOutcome::Reply(_)), "{outcome:?}");
    }
    for account in 0..4 {
        let name = format!("a{account}");
        assert_eq!(rows(&client, &name).await, reply("Int(15)"));
        let stream = stream(&format!("ledger/{name}"));
        assert_eq!(inner.stream_version(&owner(), &stream).await.unwrap(), 15);
        let again = client.call(book(&name, &format!("r{}", 56 + account), "book"), LONG).await;
        assert_eq!(again.unwrap(), reply("15"), "a repeat gets the first answer");
    }
    assert_eq!(client.wait(&key("d"), LONG).await.unwrap(), reply("5"));
    assert!(runner.gauges().commits_unknown > 0);
}

async fn whatever_goes_wrong_is_a_try_that_leaves_nothing(backend: Backend) {
    let (_dir, store) = on_disk(backend).await;
    let ledger = Ledger { timeout: Duration::from_millis(300) };
    let runner = runner(store.clone()).object_tx(ledger).start().await.unwrap();
    let client = runner.client();
    for method in ["fail", "panic", "hang", "nonsense", "stale"] {
        let outcome = client.call(book("a", method, method), LONG).await.unwrap();
        assert!(matches!(outcome, CallOutcome::Reply(_)), "{method}: {outcome:?}");
    }
    let never = client.call(book("a", "never", "never"), LONG).await.unwrap();
    assert_eq!(never, CallOutcome::Failed("never".to_owned()));
    assert_eq!(rows(&client, "a").await, reply("Int(5)"));
    assert_eq!(inner_version(&*store).await, 5);
    let gauges = runner.gauges();
    assert_eq!((gauges.retries, gauges.dead, gauges.conflicts), (5, 1, 1));
    runner.stop().await;
}

async fn inner_version(store: &dyn Store) -> u64 {
    store.stream_version(&owner(), &stream("ledger/a")).await.unwrap()
}

#[tokio::test]
async fn a_transaction_has_its_bounds() {
    for ms in [0, SCRIPT_MS_MAX + 1] {
        let timeout = Duration::from_millis(ms);
        let built = runner(store(Backend::Sqlite).await).object_tx(Ledger { timeout });
        let refused = built.start().await.err().expect("the bound is checked at the start");
        assert_eq!(refused.kind, Kind::Invalid);
    }
}

/// Keeps a row for each message in a table of its own, under its own name.
struct Diary(&'static str);

#[async_trait]
impl TransactionalConsumer for Diary {
    async fn consume(
        &self,
        context: Context,
        sql: &mut dyn Sql,
        payload: Bytes,
    ) -> Result<Effects, HandlerError> {
        sql.execute("CREATE TABLE IF NOT EXISTS ledger (account TEXT, request TEXT)", &[]).await?;
        let row: [Value; 2] = [self.0.into(), context.id.as_str().into()];
        sql.execute("INSERT INTO ledger (account, request) VALUES ($1, $2)", &row).await?;
        match &payload[..] {
            b"panic" if context.attempt < 3 => panic!("broken on purpose"),
            b"never" => return Err(HandlerError::permanent("never")),
            _ => {}
        }
        let event = context.append(Expected::Any, vec![context.event("noted", payload)]);
        Ok(Effects::none().append(event))
    }
}

async fn a_consumers_own_rows_and_effects_happen_once_though_replies_are_lost(backend: Backend) {
    let (_dir, inner) = on_disk(backend).await;
    let store = Watched::new(inner.clone(), unsure);
    let diary = Diary("diary");
    let built = runner(store.clone()).object_tx(ledger()).consumer_tx("diary", all(), diary);
    let runner = built.start().await.unwrap();
    let messages = (0..60).map(|no| inbox(&format!("s{}", no % 4), &format!("m{no}")));
    runner.client().send(messages.collect()).await.unwrap();
    settle(&*inner).await;
    assert_eq!(rows(&runner.client(), "diary").await, reply("Int(60)"));
    for name in ["s0", "s1", "s2", "s3"] {
        assert_eq!(inner.stream_version(&owner(), &stream(name)).await.unwrap(), 15);
    }
    assert_eq!(dead(&*inner).await, []);
    assert!(runner.gauges().commits_unknown > 0);
}

async fn a_consumer_that_panics_or_waits_for_others_by_name_leaves_nothing_behind(
    backend: Backend,
) {
    let (_dir, store) = on_disk(backend).await;
    let built = runner(store.clone()).object_tx(ledger());
    let built = built.consumer_tx("one", all(), Diary("one"));
    let runner = built.consumer_tx("two", all(), Diary("two")).start().await.unwrap();
    let said = |id: &str, said: &str, consumers: &[&str]| NewMessage {
        payload: Bytes::from(said.to_owned()),
        consumers: consumers.iter().map(|name| (*name).to_owned()).collect(),
        ..inbox("s", id)
    };
    let messages = vec![
        said("1", "panic", &[]),
        said("2", "never", &[]),
        said("3", "both", &["two", "one"]),
        said("4", "panic", &["two", "one"]),
    ];
    let client = runner.client();
    client.send(messages).await.unwrap();
    settle(&*store).await;
    assert_eq!(rows(&client, "one").await, reply("Int(3)"));
    assert_eq!(rows(&client, "two").await, reply("Int(2)"));
    let version = store.stream_version(&owner(), &stream("s")).await.unwrap();
    let letters: Vec<String> = dead(&*store).await.into_iter().map(|dead| dead.error).collect();
    assert_eq!((version, letters), (5, vec!["never".to_owned()]));
}

#[tokio::test]
async fn a_consumers_transaction_has_its_bounds() {
    struct Slow;

    #[async_trait]
    impl TransactionalConsumer for Slow {
        async fn consume(
            &self,
            _: Context,
            _: &mut dyn Sql,
            _: Bytes,
        ) -> Result<Effects, HandlerError> {
            Ok(Effects::none())
        }

        fn timeout(&self) -> Duration {
            Duration::from_millis(SCRIPT_MS_MAX + 1)
        }
    }
    let built = runner(store(Backend::Sqlite).await).consumer_tx("slow", all(), Slow);
    let refused = built.start().await.err().expect("the bound is checked at the start");
    assert_eq!(refused.kind, Kind::Invalid);
}
