//! Faults of the message plane: instances, servers and brokers go away while messages are written and
//! handled, and the recorded history is checked.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod broker;
mod chaos;
mod dead;
mod history;
mod instances;
mod locked_stream;
mod open_transaction;
mod poison;
mod server;
mod takeover;
mod versions;
mod wallet;
mod writers;

use std::time::Duration;

use windrow::domain::{Owner, Queue, Stream};
use windrow::store::message::NewMessage;

/// Longest any single state may take to be reached, on a machine that is busy.
const WITHIN: Duration = Duration::from_secs(90);

/// Makes a test of each function for each store.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(windrow_fault::Backend::Sqlite).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(windrow_fault::Backend::Postgres).await;
            })*
        }
    };
}
use on_both_stores;

fn owner() -> Owner {
    Owner::new("acme").unwrap()
}

fn stream(name: &str) -> Stream {
    Stream::new(name).unwrap()
}

/// Message number `no` of a stream; it says its own number.
fn numbered(queue: Queue, name: &str, no: u64) -> NewMessage {
    NewMessage {
        kind: "counted".to_owned(),
        payload: no.to_string().into(),
        ..NewMessage::new(queue, owner(), stream(name), format!("{name}-{no}"))
    }
}

/// The number that a message or an event says.
fn number(payload: &[u8]) -> u64 {
    std::str::from_utf8(payload).unwrap().parse().expect("payloads are numbers")
}
