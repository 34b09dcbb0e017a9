//! Calls that run for long are seen: among those that are processed, of an instance, or stuck.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;
use windrow_domain::{CallState, InstanceId};
use windrow_engine::messages::{Context, Effects, HandlerError, Object, Options};
use windrow_store::call::CallsQuery;
use windrow_store::message::MessagesQuery;
use windrow_store::{Calls, Scope};

use crate::support::*;

crate::on_both_stores! {
    a_call_that_runs_for_long_is_listed_until_it_answers,
    another_try_that_runs_for_long_is_listed_too,
}

/// Answers when it may, once for each permit; the first try fails where it is told to.
struct Slow {
    may: Arc<Semaphore>,
    fails_first: bool,
}

#[async_trait]
impl Object for Slow {
    const TYPE: &'static str = "wallet";

    async fn call(&self, context: Context, _: &str, _: Bytes) -> Result<Effects, HandlerError> {
        if context.id == "quick" {
            return Ok(Effects::reply("quick"));
        }
        self.may.acquire().await.unwrap().forget();
        match self.fails_first && context.attempt == 1 {
            true => Err(HandlerError::retry("not yet")),
            false => Ok(Effects::reply("slow")),
        }
    }
}

fn soon() -> Options {
    options().processing_after(Duration::from_millis(50)).handler_timeout(MINUTE)
}

async fn listed(store: &dyn Calls, query: CallsQuery) -> Vec<String> {
    let query = CallsQuery { limit: 10, ..query };
    let page = store.calls(&Scope::All, query).await.unwrap();
    page.rows.iter().map(|call| call.key.request_id.to_string()).collect()
}

fn states(state: CallState) -> CallsQuery {
    CallsQuery { states: vec![state], ..CallsQuery::default() }
}

async fn a_call_that_runs_for_long_is_listed_until_it_answers(backend: Backend) {
    let store = store(backend).await;
    let may = Arc::new(Semaphore::new(0));
    let slow = Slow { may: may.clone(), fails_first: false };
    let runner = runner(store.clone()).options(soon()).object(slow).start().await.unwrap();
    let client = runner.client();
    client.submit(deposit("a", "slow", 1)).await.unwrap();
    client.submit(deposit("a", "behind", 1)).await.unwrap();
    client.call(deposit("b", "quick", 1), LONG).await.unwrap();
    until("it is processed", || async {
        listed(&*store, states(CallState::Processing)).await == ["slow"]
    })
    .await;
    let call = store.call(&key("slow")).await.unwrap();
    let instance: InstanceId = call.instance.expect("somebody runs it");
    let of = CallsQuery { instance: Some(instance), ..states(CallState::Processing) };
    assert_eq!(listed(&*store, of).await, ["slow"]);
    until("it is stuck", || async {
        let stuck = CallsQuery { stuck_ms: Some(100), ..CallsQuery::default() };
        listed(&*store, stuck).await == ["slow"]
    })
    .await;
    assert_eq!(listed(&*store, states(CallState::Pending)).await, ["behind"]);
    let everything = MessagesQuery { limit: 10, ..MessagesQuery::default() };
    let waiting = store.messages(&Scope::All, everything).await.unwrap().rows;
    assert!(waiting.iter().all(|one| (one.attempts, one.started) == (0, None)), "no try counts");
    may.add_permits(2);
    assert_eq!(client.wait(&key("slow"), LONG).await.unwrap(), reply("slow"));
    assert_eq!(client.wait(&key("behind"), LONG).await.unwrap(), reply("slow"));
    assert!(listed(&*store, states(CallState::Processing)).await.is_empty());
    let call = store.call(&key("slow")).await.unwrap();
    assert_eq!(Some(call.updated_at), call.processed_at, "nothing came behind its answer");
}

async fn another_try_that_runs_for_long_is_listed_too(backend: Backend) {
    let store = store(backend).await;
    let may = Arc::new(Semaphore::new(0));
    let slow = Slow { may: may.clone(), fails_first: true };
    let runner = runner(store.clone()).options(soon()).object(slow).start().await.unwrap();
    let client = runner.client();
    client.submit(deposit("a", "slow", 1)).await.unwrap();
    let is_processed = async |attempts: u32| {
        let all = MessagesQuery { limit: 10, ..MessagesQuery::default() };
        let waiting = store.messages(&Scope::All, all).await.unwrap().rows;
        let processing = listed(&*store, states(CallState::Processing)).await;
        processing == ["slow"] && waiting[0].attempts == attempts
    };
    until("its first try is processed", || is_processed(0)).await;
    may.add_permits(1);
    until("its second try is processed", || is_processed(1)).await;
    may.add_permits(1);
    assert_eq!(client.wait(&key("slow"), LONG).await.unwrap(), reply("slow"));
}
