//! Faults, each on both stores, each ending with the same check.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod again;
mod dead;
mod disk;
mod kill;
mod race;
mod replay;
mod run;
mod server;
mod stop;
mod stop_http;
mod two_hosts;
mod upgrade;
mod upstream;
mod zombie;

use std::time::Duration;

use windrow_testkit::upstream::Upstream;

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

/// Waits until the upstream saw that many requests.
async fn saw(upstream: &Upstream, requests: u64) {
    let waited = tokio::time::timeout(WITHIN, upstream.saw(requests)).await;
    waited.unwrap_or_else(|_| panic!("the upstream saw {:?} of {requests}", upstream.counts()));
}
