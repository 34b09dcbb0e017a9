//! Brokers that are started come up, keep their port when they are started again, and go away.

use std::net::TcpStream;

use windrow_testkit::broker::{self, Broker};
use windrow_testkit::{Failure, required};

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
    if required("nats-server", broker::nats_server()).is_some() {
        comes_and_goes(Broker::nats);
    }
}

#[test]
fn redis_comes_and_goes() {
    if required("redis-server", broker::redis_server()).is_some() {
        comes_and_goes(Broker::redis);
    }
}
