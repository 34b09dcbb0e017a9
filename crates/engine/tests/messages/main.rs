//! Messages, from the client through handlers to what is committed, on both stores where they could
//! make a difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod answers;
mod availability;
mod calls;
mod commits;
mod failures;
mod front_door;
mod http;
mod idle;
mod long_calls;
mod members;
mod outbox;
mod stress;
mod support;
mod suspects;
mod transactional;
mod watched;

/// Makes a test of each function for each store.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::support::Backend::Sqlite).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::support::Backend::Postgres).await;
            })*
        }
    };
}
use on_both_stores;
