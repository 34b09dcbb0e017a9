//! Stress: runners come, go and die while the database loses calls and replies. Every call takes
//! effect once, and every stream keeps its order.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use windrow_domain::Queue;
use windrow_engine::clock::Clock;
use windrow_engine::messages::{CallOutcome, Client, Context, Effects, Running};
use windrow_store::layer::LayeredStore;

use crate::support::*;
use crate::watched::{Fate, Watched};

crate::on_both_stores! {
    every_call_takes_effect_once_and_in_order,
}

const WALLETS: usize = 12;
const CALLS: usize = 300;
const ROUNDS: usize = 12;

/// One call in twelve of these is lost, or its reply.
fn weather(seed: u64) -> impl Fn(&'static str, u64) -> Fate + Send + Sync + 'static {
    let rng = Mutex::new(fastrand::Rng::with_seed(seed));
    move |verb, _| {
        let roll = rng.lock().unwrap().u32(0..24);
        match verb {
            "commit" | "read_owned" | "states" | "take_partitions" | "heartbeat" | "members"
            | "clear_suspects" | "release_partitions" | "take_duty" => match roll {
                0 => Fate::Lost,
                1 => Fate::ReplyLost,
                _ => Fate::Passes,
            },
            _ => Fate::Passes,
        }
    }
}

/// Applies each message of a stream to its ledger: a line for each, in order.
fn ledger() -> Does<impl Fn(Context, bytes::Bytes) -> Boxed + Send + Sync + 'static> {
    Does(|context: Context, _| {
        Box::pin(async move {
            let event = context.event("line", context.id.clone());
            let append = context.append(windrow_domain::Expected::Any, vec![event]);
            Ok(Effects::none().append(append))
        }) as Boxed
    })
}

type Boxed = std::pin::Pin<
    Box<dyn Future<Output = Result<Effects, windrow_engine::messages::HandlerError>> + Send>,
>;

async fn join(store: &Arc<LayeredStore<Watched>>) -> Running {
    // Joining may meet the weather, too.
    loop {
        let builder = runner(store.clone()).typed(Wallet).consumer("ledger", all(), ledger());
        if let Ok(runner) = builder.start().await {
            return runner;
        }
    }
}

async fn send(client: Client) {
    for no in 0..CALLS {
        let wallet = format!("w{}", no % WALLETS);
        client.submit(deposit(&wallet, &format!("r{no}"), 1)).await.unwrap();
        let name = format!("s{}", no % WALLETS);
        client.send(vec![sent(Queue::Inbox, &name, &format!("m{no}"))]).await.unwrap();
        Clock::machine().sleep(Duration::from_millis(4)).await;
    }
}

async fn stress(backend: Backend, seed: u64) {
    let inner = store(backend).await;
    let store = Watched::new(inner.clone(), weather(seed));
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut runners = vec![join(&store).await];
    let sending = send(Client::new(inner.clone()));
    let churning = async {
        for _ in 0..ROUNDS {
            Clock::machine().sleep(Duration::from_millis(rng.u64(20..200))).await;
            match rng.u32(0..4) {
                0 if runners.len() > 1 => runners.remove(rng.usize(0..runners.len())).stop().await,
                1 if runners.len() > 1 => drop(runners.remove(rng.usize(0..runners.len()))),
                2 => {
                    let instance = runners[rng.usize(0..runners.len())].instance();
                    let _ = inner.tombstone(instance).await;
                }
                _ if runners.len() < 4 => runners.push(join(&store).await),
                _ => {}
            }
        }
    };
    tokio::join!(sending, churning);
    settle(&*inner).await;
    let client = Client::new(inner.clone());
    for no in 0..CALLS {
        let wanted = reply(&(no / WALLETS + 1).to_string());
        let outcome: CallOutcome = client.wait(&key(&format!("r{no}")), LONG).await.unwrap();
        assert_eq!(outcome, wanted, "r{no} with seed {seed}");
    }
    for stream_no in 0..WALLETS {
        let name = stream(&format!("s{stream_no}"));
        let lines = inner.read_stream(&owner(), &name, 1, 1000).await.unwrap();
        let lines: Vec<String> =
            lines.iter().map(|line| String::from_utf8_lossy(&line.payload).into_owned()).collect();
        let wanted: Vec<String> =
            (0..CALLS).filter(|no| no % WALLETS == stream_no).map(|no| format!("m{no}")).collect();
        assert_eq!(lines, wanted, "s{stream_no} with seed {seed}");
    }
    assert_eq!(dead(&*inner).await, [], "with seed {seed}");
}

async fn every_call_takes_effect_once_and_in_order(backend: Backend) {
    // One story of each kind by default; WINDROW_STORM_SEEDS=7..40 tells more.
    let seeds = std::env::var("WINDROW_STORM_SEEDS").unwrap_or_else(|_| "1..3".to_owned());
    let (from, to) = seeds.split_once("..").unwrap();
    for seed in from.parse::<u64>().unwrap()..to.parse().unwrap() {
        stress(backend, seed).await;
    }
}
