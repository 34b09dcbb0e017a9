//! A broker goes away while the outbox is published to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Message};
use futures_util::StreamExt as _;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::timeout;
use windrow::domain::Queue;
use windrow::domain::retry::Policy;
use windrow::engine::deliver::{Patterns, Route, Routes};
use windrow::engine::messages::{Client, Runner};
use windrow_brokers::nats::{NatsPublisher, PublisherOptions, Server};
use windrow_fault::instance::{Bounds, SERVICE};
use windrow_fault::{Backend, Fixture, fixture, rounds, wait};
use windrow_testkit::broker::{self, Broker};
use windrow_testkit::required;

use crate::{WITHIN, history, number, numbered, on_both_stores};

const BOUNDS: Bounds = Bounds { heartbeat_ms: 300, stale_ms: 2_000, attempts_max: 5 };
const STREAMS: usize = 12;
const JETSTREAM: &str = "OUT";
/// Long enough to use up every try that there is, were they counted.
const AWAY: Duration = Duration::from_secs(22);
const A_MOMENT: Duration = Duration::from_secs(1);

on_both_stores!(a_broker_that_stops_and_dies_gets_every_message_in_order);

async fn a_broker_that_stops_and_dies_gets_every_message_in_order(backend: Backend) {
    if required("nats-server", broker::nats_server()).is_none() {
        return;
    }
    let mut broker = block_in_place(Broker::nats).unwrap();
    let fixture = Fixture::on(backend).await;
    let routes = Routes::new(vec![Route::new(Patterns::default(), Arc::new(to(&broker)))]).unwrap();
    let store = fixture::open(fixture.database()).await.unwrap();
    // As often and as long as usual.
    let options = BOUNDS.options().retry(Policy::default());
    let runner = Runner::builder(store, SERVICE).options(options).routes(routes);
    let runner = runner.start().await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut writer = JoinSet::new();
    let (client, seen) = (runner.client(), over.clone());
    writer.spawn(async move { write(&client, &seen).await });
    for (stop, away) in [Broker::stop, Broker::kill]
        .into_iter()
        .zip([AWAY, A_MOMENT])
        .cycle()
        .take(2 * rounds(1, 10))
    {
        wait::pause(A_MOMENT).await;
        block_in_place(|| stop(&mut broker));
        let failed = runner.gauges().retries;
        let fails = || async { (runner.gauges().retries > failed).then_some(()) };
        wait::until(WITHIN, fails, || async { "nobody missed it".to_owned() }).await;
        wait::pause(away).await;
        block_in_place(|| broker.start_again()).unwrap();
    }
    wait::pause(A_MOMENT).await;
    over.store(true, Ordering::SeqCst);
    let written = timeout(WITHIN, writer.join_next()).await.unwrap().unwrap().unwrap();
    history::settle(fixture.store()).await;
    let gauges = runner.gauges();
    assert_eq!(gauges.dead, 0);
    check(&stored(&broker).await, written);
    println!("{backend:?}: {} messages, {} tries failed", written * STREAMS as u64, gauges.retries);
    runner.stop().await;
}

fn to(broker: &Broker) -> NatsPublisher {
    let options = PublisherOptions::default()
        .server(Server::default().url(broker.url().into()))
        .stream(Some(JETSTREAM.to_owned()))
        .create(true)
        .ack_ms_max(2_000);
    NatsPublisher::new("nats", options).unwrap()
}

/// Writes until it is over; gives how many messages every stream has.
async fn write(client: &Client, over: &AtomicBool) -> u64 {
    let mut no = 0;
    while !over.load(Ordering::SeqCst) {
        no += 1;
        let names = (0..STREAMS).map(|at| format!("s{at}"));
        let messages = names.map(|name| numbered(Queue::Outbox, &name, no)).collect();
        client.send(messages).await.unwrap();
        wait::pause(Duration::from_millis(50)).await;
    }
    no
}

/// Everything that the broker has, in its order.
async fn stored(broker: &Broker) -> Vec<Message> {
    let client = async_nats::connect(broker.url()).await.unwrap();
    let stream = jetstream::new(client).get_stream(JETSTREAM).await.unwrap();
    let count = stream.get_info().await.unwrap().state.messages;
    let config = pull::Config { ack_policy: AckPolicy::None, ..pull::Config::default() };
    let consumer = stream.create_consumer(config).await.unwrap();
    let messages = consumer.messages().await.unwrap().take(usize::try_from(count).unwrap());
    timeout(WITHIN, messages.map(Result::unwrap).collect()).await.unwrap()
}

/// Every message is there, in its stream's order; again only under the same id.
fn check(messages: &[Message], written: u64) {
    let mut streams: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut known: HashMap<String, &[u8]> = HashMap::new();
    for message in messages {
        let header = |name| message.headers.as_ref().unwrap().get(name).unwrap().to_string();
        if let Some(payload) = known.insert(header("Windrow-Id"), &message.payload) {
            assert_eq!(payload, message.payload, "one id, two messages");
            continue;
        }
        streams.entry(header("Windrow-Stream")).or_default().push(number(&message.payload));
    }
    assert_eq!(streams.len(), STREAMS);
    for (name, numbers) in streams {
        assert_eq!(numbers, (1..=written).collect::<Vec<u64>>(), "{name}");
    }
}
