//! The front door: calls and messages as a program writes them, and the life of a runner.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use windrow_domain::attempt::Failure;
use windrow_engine::deliver::{OutgoingMessage, Patterns, Publisher};
use windrow_engine::messages::{
    AskError, CallOutcome, Consumer, Context, Effects, HandlerError, TypedTransactional,
};
use windrow_store::Kind;
use windrow_store::message::NewMessage;
use windrow_store::transactional::{Sql, Value};

use crate::support::*;

#[tokio::test]
async fn an_object_is_called_by_its_name_and_a_repeat_gets_the_same_answer() {
    let running = runner(store(Backend::Sqlite).await).typed(Wallet).start().await.unwrap();
    let client = running.client().owned_by(owner());
    let args = json!({ "cents": 5 });
    for _ in 0..2 {
        let wallet = client.object("wallet", "7");
        assert_eq!(wallet.call("deposit", &args).id("r1").await.unwrap(), reply("5"));
    }
    let raw = client.object("wallet", "7").call_raw("balance", "");
    assert_eq!(raw.timeout(LONG).await.unwrap(), reply("5"), "without an id each call is new");
    let nameless = running.client().object("wallet", "7").call("balance", &()).await;
    let refused = nameless.unwrap_err().to_string();
    assert!(refused.contains("owner"), "{refused}");
    running.stop().await;
}

#[tokio::test]
async fn a_typed_object_is_asked_with_its_own_types() {
    let running = runner(store(Backend::Sqlite).await).typed(Wallet).start().await.unwrap();
    let client = running.client().owned_by(owner());
    let asked = client.ask::<Wallet>("7", &Ask::Deposit { cents: 5 }).id("r1");
    assert_eq!(asked.caller("test").await.unwrap(), 5);
    assert_eq!(client.ask::<Wallet>("7", &Ask::Balance).await.unwrap(), 5);
    let refused = client.ask::<Wallet>("7", &Ask::Withdraw { cents: 9 }).id("r2").await;
    assert!(matches!(refused, Err(AskError::Failed(error)) if error == "not enough money"));
    let other = client.ask::<Wallet>("7", &Ask::Withdraw { cents: 1 }).id("r2").await;
    let Err(AskError::Client(refused)) = other else { panic!("another call under a used id") };
    let windrow_engine::messages::ClientError::Store(refused) = refused else { panic!() };
    assert_eq!(refused.kind, Kind::Conflict);
    let untyped = client.ask::<Wallet>("7", &Ask::Balance).owner(owner()).untyped();
    assert_eq!(untyped.await.unwrap(), CallOutcome::Reply(Bytes::from_static(b"5")));
}

/// Pieces by key in a table of its own, and how often they were changed as its state.
struct Shelf;

#[derive(Serialize, Deserialize)]
enum Change {
    Put(i64),
}

#[async_trait]
impl TypedTransactional for Shelf {
    type State = u32;
    type Call = Change;
    type Reply = (i64, u32);
    const TYPE: &'static str = "shelf";

    async fn run(
        &self,
        context: &Context,
        sql: &mut dyn Sql,
        changes: &mut u32,
        Change::Put(pieces): Change,
        _: &mut Effects,
    ) -> Result<(i64, u32), HandlerError> {
        sql.execute("CREATE TABLE IF NOT EXISTS shelf (item TEXT PRIMARY KEY, n BIGINT)", &[])
            .await?;
        let add = "INSERT INTO shelf VALUES ($1, $2) \
            ON CONFLICT (item) DO UPDATE SET n = shelf.n + excluded.n RETURNING n";
        let rows = sql.query(add, &[context.key().into(), pieces.into()]).await?;
        let [Value::Int(left)] = rows[0][..] else { Err(HandlerError::permanent("no number"))? };
        if left < 0 {
            return Err(HandlerError::permanent("there are not so many"));
        }
        *changes += 1;
        Ok((left, *changes))
    }
}

#[tokio::test]
async fn a_typed_object_with_a_transaction_commits_its_rows_and_its_state_together() {
    let running = runner(store(Backend::Sqlite).await).typed_tx(Shelf).start().await.unwrap();
    let client = running.client().owned_by(owner());
    let put = async |pieces, id| client.ask_tx::<Shelf>("a", &Change::Put(pieces)).id(id).await;
    assert_eq!(put(5, "r1").await.unwrap(), (5, 1));
    assert_eq!(put(5, "r1").await.unwrap(), (5, 1), "the same id runs nothing");
    assert!(matches!(put(-9, "r2").await, Err(AskError::Failed(_))));
    assert_eq!(put(-2, "r3").await.unwrap(), (3, 2), "what failed left neither row nor state");
    running.stop().await;
}

/// A publisher that takes everything.
struct Takes(&'static str, mpsc::UnboundedSender<String>);

#[async_trait]
impl Publisher for Takes {
    fn name(&self) -> &str {
        self.0
    }

    async fn publish(&self, message: &OutgoingMessage) -> Result<(), Failure> {
        self.1.send(message.kind.clone()).expect("the test listens");
        Ok(())
    }
}

#[tokio::test]
async fn publishers_are_registered_one_by_one_and_have_different_names() {
    let (taken, mut seen) = mpsc::unbounded_channel();
    let orders = Patterns { kinds: vec!["order.*".into()], ..Patterns::default() };
    let others = Patterns { kinds: vec!["bill".into()], ..Patterns::default() };
    let built = runner(store(Backend::Sqlite).await).publisher(orders, Takes("a", taken.clone()));
    let running = built.publisher(others, Takes("b", taken.clone())).start().await.unwrap();
    let message = |id: &str| NewMessage::outbox(owner(), stream("s"), id);
    let messages = vec![message("1").kind("order.paid"), message("2").kind("bill")];
    running.client().send(messages).await.unwrap();
    assert_eq!(seen.recv().await.as_deref(), Some("order.paid"));
    assert_eq!(seen.recv().await.as_deref(), Some("bill"));
    running.stop().await;

    let twice = runner(store(Backend::Sqlite).await).publisher(all(), Takes("a", taken.clone()));
    let refused = twice.publisher(all(), Takes("a", taken)).start().await.err().unwrap();
    assert_eq!(refused.kind, Kind::Invalid);
}

/// Reads its payload as a number, and fails with `?` when it is none.
struct Numbers;

#[async_trait]
impl Consumer for Numbers {
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError> {
        let number: u64 = serde_json::from_slice(&payload)?;
        if context.attempt < 3 {
            Err(std::io::Error::other("lost"))?;
        }
        let message = context.message("number", number.to_string());
        Ok(Effects::none().send(message.to("nowhere").not_before(jiff::Timestamp::MAX)))
    }
}

#[tokio::test]
async fn a_question_mark_retries_and_json_that_cannot_be_read_is_given_up_on_at_once() {
    let store = store(Backend::Sqlite).await;
    let running = runner(store.clone()).consumer("numbers", all(), Numbers).start().await.unwrap();
    let message = |id: &str| NewMessage::inbox(owner(), stream("numbers"), id).kind("number");
    let messages = vec![message("good").json(&7).unwrap(), message("bad").payload("seven")];
    running.client().send(messages).await.unwrap();
    until("one was given up on", || async { running.gauges().dead == 1 }).await;
    let letters = dead(&*store).await;
    assert_eq!(letters[0].message.id, "bad");
    let gauges = running.gauges();
    assert_eq!((gauges.done, gauges.retries), (1, 2), "the good one alone was tried again");
    running.stop().await;
}

#[tokio::test]
async fn a_handle_stops_a_runner_and_outlives_it() {
    let store = store(Backend::Sqlite).await;
    let mut running = runner(store.clone()).typed(Wallet).start().await.unwrap();
    let handle = running.handle();
    until("it has partitions", || async { handle.gauges().partitions_owned > 0 }).await;
    let client = handle.client();
    assert_eq!(client.call(deposit("a", "r1", 5), LONG).await.unwrap(), reply("5"));
    let too_soon = tokio::time::timeout(Duration::from_millis(20), running.wait()).await;
    assert!(too_soon.is_err(), "it runs until it is stopped");
    handle.stop();
    running.wait().await;
    assert_eq!(handle.gauges().partitions_owned, 0);
    let members = store.members().await.unwrap();
    assert!(members.iter().all(|member| member.tombstoned_at.is_some()), "it left");
}
