//! Answers for clients in processes without a runner: heard where the database can tell, looked for
//! soon where it cannot.

use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use windrow_engine::clock::Clock;
use windrow_engine::messages::{
    CallOutcome, Client, ClientError, Context, Effects, HandlerError, Object,
};
use windrow_store::Kind;
use windrow_testkit::pgbouncer::Upstream;
use windrow_testkit::proxy::{Mode, Proxy};

use crate::support::*;
use crate::watched::{Fate, Watched};

crate::on_both_stores! {
    all_waits_of_a_client_share_one_ear_that_closes_with_it,
}

/// A clock that stands still: whoever goes by it never looks, and never gives up.
fn still() -> Clock {
    Clock::manual(Timestamp::UNIX_EPOCH)
}

/// Asks by a client whose clock may stand still, and bounds it by the machine's.
async fn heard(client: &Client, id: &str) -> CallOutcome {
    let call = client.call(deposit("a", id, 1), LONG);
    timeout(LONG, call).await.expect("its answer is heard").unwrap()
}

/// Half of the calls were answered within this time.
async fn median(client: &Client, calls: u32) -> Duration {
    let (clock, mut times) = (Clock::machine(), Vec::new());
    for no in 0..calls {
        let before = clock.elapsed();
        heard(client, &format!("m{no}")).await;
        times.push(clock.elapsed() - before);
    }
    times.sort_unstable();
    println!("half of the answers came within {:?}", times[times.len() / 2]);
    times[times.len() / 2]
}

#[tokio::test]
async fn an_answer_is_heard_and_not_looked_for() {
    let store = store(Backend::Postgres).await;
    let _runner = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let client = Client::with_clock(store, still());
    assert_eq!(heard(&client, "r1").await, reply("1"));
    // Asked and waited for one after the other, as a server does.
    let call = deposit("a", "r2", 1);
    let key = call.key.clone();
    client.submit(call).await.unwrap();
    let outcome = timeout(LONG, client.wait(&key, LONG)).await.expect("its answer is heard");
    assert_eq!(outcome.unwrap(), reply("2"));
    // The runner is awake by now, so that its own looks do not count, either.
    let median = median(&client, 30).await;
    assert!(median < Duration::from_millis(100), "{median:?}");
}

#[tokio::test]
async fn a_client_that_waits_for_the_first_time_hears_of_a_call_that_names_it() {
    let (store, gate) = (store(Backend::Postgres).await, Arc::new(Semaphore::new(0)));
    let _runner = runner(store.clone()).object(Gated(gate.clone())).start().await.unwrap();
    let client = Client::with_clock(store.clone(), still());
    let mut call = deposit("a", "r1", 1);
    call.waiter = Some(client.waiter());
    let key = call.key.clone();
    client.submit(call).await.unwrap();
    let wait = timeout(LONG, client.wait(&key, LONG));
    let answer = async {
        // Long after it listens; the look that follows on that is over.
        Clock::machine().sleep(Duration::from_millis(500)).await;
        gate.add_permits(1);
    };
    let (outcome, ()) = tokio::join!(wait, answer);
    assert_eq!(outcome.expect("its answer is heard").unwrap(), reply("done"));
}

#[tokio::test]
async fn a_client_whose_connection_is_lost_hears_again_after_a_while() {
    let database = database().await;
    let near = connect(database.url()).await;
    let server = Upstream::parse(&database.url()).unwrap();
    let address = (server.host, server.port).to_socket_addrs().unwrap().next().unwrap();
    let proxy = Proxy::start(address).await.unwrap();
    let far = connect(proxy.url(&database.url())).await;
    let far = Watched::new(far, |verb, no| match (verb, no) {
        ("listen", 1 | 2) => Fate::Lost,
        _ => Fate::Passes,
    });
    let runner = runner(near).typed(Wallet).start().await.unwrap();
    let (clock, listens) = (still(), || far.layer().counts().get("listen").copied().unwrap_or(0));
    let client = Client::with_clock(far.clone(), clock.clone());
    assert_eq!(heard(&client, "r1").await, reply("1"));
    proxy.set(Mode::Reset);
    Clock::machine().sleep(Duration::from_millis(100)).await;
    assert_eq!(listens(), 1, "not all the time");
    proxy.set(Mode::Pass);
    until("it listens again", || async {
        clock.advance(Duration::from_millis(50));
        listens() == 4
    })
    .await;
    assert!(clock.elapsed() >= Duration::from_millis(100 + 200 + 400), "ever more seldom");
    // From here on time stands still again.
    for no in 0..3 {
        let id = format!("again{no}");
        loop {
            match timeout(LONG, client.call(deposit("b", &id, 1), LONG)).await {
                Ok(Err(ClientError::Store(error))) if error.kind == Kind::Unavailable => {}
                heard => break assert_eq!(heard.unwrap().unwrap(), reply(&(no + 1).to_string())),
            }
        }
    }
    drop(client);
    runner.stop().await;
}

/// Answers when it may.
struct Gated(Arc<Semaphore>);

#[async_trait]
impl Object for Gated {
    const TYPE: &'static str = "wallet";

    async fn call(&self, _: Context, _: &str, _: Bytes) -> Result<Effects, HandlerError> {
        self.0.acquire().await?.forget();
        Ok(Effects::reply("done"))
    }
}

async fn all_waits_of_a_client_share_one_ear_that_closes_with_it(backend: Backend) {
    let inner = store(backend).await;
    let store = Watched::new(inner.clone(), |_, _| Fate::Passes);
    let gate = Arc::new(Semaphore::new(0));
    let _runner = runner(inner).object(Gated(gate.clone())).start().await.unwrap();
    let client = Client::new(store.clone());
    client.submit(deposit("w", "alone", 1)).await.unwrap();
    assert_eq!(store.layer().counts().get("listen"), None, "nobody waits");
    let calls = (0..40).map(|no| deposit(&format!("w{no}"), &format!("r{no}"), 1));
    let asked = join_all(calls.map(|call| client.call(call, LONG)));
    let answer = async {
        Clock::machine().sleep(Duration::from_millis(100)).await;
        gate.add_permits(41);
    };
    let (outcomes, ()) = tokio::join!(asked, answer);
    assert!(outcomes.into_iter().all(|outcome| outcome.unwrap() == reply("done")));
    assert_eq!(store.layer().counts()["listen"], 1);
    drop(client);
    until("nothing of it is left", || async { Arc::strong_count(&store) == 1 }).await;
}

#[tokio::test]
async fn where_nobody_can_tell_a_quick_answer_is_found_soon() {
    let store = store(Backend::Sqlite).await;
    let _runner = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let median = median(&Client::new(store), 15).await;
    assert!(median < Duration::from_millis(150), "{median:?}");
}
