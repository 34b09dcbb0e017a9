//! Brokers that are started come up, keep their port when they are started again, and go away.

use std::net::TcpStream;

use windrow_testkit::Failure;
use windrow_testkit::broker::{self, Broker};

fn comes_and_goes(start: impl Fn() -> Result<Broker, Failure>) {
    let mut broker = start().expect("it is installed");
    let url = broker.url();
    let address = url.split_once("://").expect("a URL has a scheme").1.to_owned();
    let answers = || TcpStream::connect(&address).is_ok();
    assert!(answers(), "{url}");
    broker.kill();
    assert!(!answers());
    broker.start_again().expect("its data is whole");
    assert!(answers() && broker.url() == url);
    drop(broker);
    assert!(!answers());
}

#[test]
fn nats_comes_and_goes() {
    match broker::nats_server() {
        Some(_) => comes_and_goes(Broker::nats),
        None => println!("skipped: nats-server is not installed"),
    }
}

#[test]
fn redis_comes_and_goes() {
    match broker::redis_server() {
        Some(_) => comes_and_goes(Broker::redis),
        None => println!("skipped: redis-server is not installed"),
    }
}
