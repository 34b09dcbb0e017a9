//! A transaction is held open while others commit: nothing is skipped, and streams keep their order.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::Transaction;
use windrow::domain::{Expected, Queue};
use windrow::store::event::{Append, NewEvent};
use windrow::store::message::Headers;
use windrow::store::{Scope, Store};
use windrow_fault::instance::Bounds;
use windrow_fault::{Backend, Fixture, fixture, wait};

use crate::instances::Instances;
use crate::{WITHIN, history, numbered, owner, stream};

const BOUNDS: Bounds = Bounds { heartbeat_ms: 300, stale_ms: 2_000, attempts_max: 1000 };
const OTHERS: u64 = 20;
/// Long enough for everybody to pass by, if they can.
const A_WHILE: Duration = Duration::from_millis(700);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_a_transaction_that_commits_late_are_not_skipped() {
    let fixture = Fixture::on(Backend::Postgres).await;
    history::record(&fixture).await;
    let mut instances = Instances::start(&fixture, 2, BOUNDS).await;
    let store = fixture.store();
    let mut written: BTreeMap<String, u64> = BTreeMap::new();
    let mut behind = JoinSet::new();
    history::connect(fixture.database(), async |client| {
        let late = client.transaction().await.unwrap();
        send(&late, "late", 1).await;
        // The stream is held: who sends to it waits for those who were first.
        let other = fixture::open(fixture.database()).await.unwrap();
        behind.spawn(async move {
            // It waits for a lock only so long.
            while other.send(vec![numbered(Queue::Inbox, "late", 3)]).await.is_err() {}
        });
        for no in 1..=OTHERS {
            let names = (0..OTHERS).map(|at| format!("s{at}"));
            let messages: Vec<_> = names.map(|name| numbered(Queue::Inbox, &name, no)).collect();
            store.send(messages).await.unwrap();
        }
        written.extend((0..OTHERS).map(|at| (format!("s{at}"), OTHERS)));
        // What others sent is handled meanwhile, also in the partition of the stream that is held.
        history::settle(store).await;
        history::check_effects(store, &written).await;
        send(&late, "late", 2).await;
        assert!(behind.try_join_next().is_none(), "it did not wait");
        late.commit().await.unwrap();
    })
    .await;
    timeout(WITHIN, behind.join_all()).await.expect("it comes through now");
    written.insert("late".to_owned(), 3);
    // The last one was sent after the commit, and nothing was missed before it.
    history::settle(store).await;
    instances.all_run();
    history::check(&fixture, &written).await;
}

/// As an application does, beside its own rows.
async fn send(transaction: &Transaction<'_>, name: &str, no: u64) {
    let statement = "SELECT windrow.send('inbox', $1, $2, 'counted', $3, $4)";
    let (owner, id, payload) = (owner(), format!("{name}-{no}"), no.to_string());
    let words: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&owner.as_str(), &name, &payload.as_bytes(), &id];
    transaction.execute(statement, &words).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_waits_for_an_old_transaction_and_keeps_every_streams_order() {
    let fixture = Fixture::on(Backend::Postgres).await;
    let store = fixture.store();
    store.append(vec![appended("shared", 1)]).await.unwrap();
    let mut feed = Feed::default();
    feed.reaches(store, 1).await;
    history::connect(fixture.database(), async |client| {
        let old = client.transaction().await.unwrap();
        append(&old, "old", 1).await;
        // Younger ones commit, in other streams and in one that the old one will touch.
        store.append(vec![appended("young", 1), appended("shared", 2)]).await.unwrap();
        store.append(vec![appended("young", 2)]).await.unwrap();
        wait::pause(A_WHILE).await;
        feed.read(store).await;
        assert_eq!(feed.seen.len(), 1, "it passed an open transaction: {:?}", feed.seen);
        append(&old, "shared", 3).await;
        append(&old, "old", 2).await;
        old.commit().await.unwrap();
    })
    .await;
    store.append(vec![appended("shared", 4)]).await.unwrap();
    feed.reaches(store, 8).await;
    for (name, count) in [("shared", 4), ("young", 2), ("old", 2)] {
        let of = feed.seen.iter().filter(|(stream, _)| stream == name);
        let versions: Vec<u64> = of.map(|(_, version)| *version).collect();
        assert_eq!(versions, (1..=count).collect::<Vec<u64>>(), "{name} of {:?}", feed.seen);
    }
}

/// What the feed gave so far: streams and versions.
#[derive(Default)]
struct Feed {
    seen: Vec<(String, u64)>,
    after: Option<String>,
}

impl Feed {
    /// Reads on as far as it goes.
    async fn read(&mut self, store: &dyn Store) {
        loop {
            let page = store.read_all(&Scope::All, self.after.as_deref(), 3).await.unwrap();
            self.after = page.next;
            if page.rows.is_empty() {
                return;
            }
            let rows = page.rows.iter();
            self.seen.extend(rows.map(|row| (row.stream.as_str().to_owned(), row.version)));
        }
    }

    /// Reads on until there are that many. Transactions of other tests hold it up, too.
    async fn reaches(&mut self, store: &dyn Store, count: usize) {
        let reading = async {
            while self.seen.len() < count {
                self.read(store).await;
                wait::pause(Duration::from_millis(20)).await;
            }
        };
        timeout(WITHIN, reading).await.expect("the feed gives everything in the end");
        assert_eq!(self.seen.len(), count, "{:?}", self.seen);
    }
}

async fn append(transaction: &Transaction<'_>, name: &str, no: u64) {
    let statement = "SELECT windrow.append($1, $2, 'counted', $3)";
    let (owner, payload) = (owner(), no.to_string());
    let words: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&owner.as_str(), &name, &payload.as_bytes()];
    transaction.execute(statement, &words).await.unwrap();
}

fn appended(name: &str, no: u64) -> Append {
    let event = NewEvent {
        id: format!("{name}-{no}"),
        kind: "counted".to_owned(),
        payload: no.to_string().into(),
        headers: Headers::new(),
    };
    Append { owner: owner(), stream: stream(name), expected: Expected::Any, events: vec![event] }
}
