//! An inbox: messages from outside are taken in once, and a consumer handles them in order.
//!
//! The sender repeats a message because an acknowledgement was lost; the inbox knows it by its id. Run it
//! with `cargo run -p windrow --example inbox_consumer`.

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};
use windrow::store::message::MessagesQuery;

/// Tells the warehouse, which here is a channel.
struct Orders(mpsc::UnboundedSender<(String, u64)>);

#[async_trait]
impl Consumer for Orders {
    async fn consume(&self, context: Context, payload: Bytes) -> Result<Effects, HandlerError> {
        // `?` on JSON that cannot be read makes a dead letter; on most other errors, a retry.
        let no: u64 = serde_json::from_slice(&payload)?;
        if context.kind == "order.cancelled" && context.attempt == 1 {
            return Err(HandlerError::retry("the warehouse does not answer"));
        }
        self.0.send((context.kind.clone(), no)).retry()?;
        // What it returns is committed with the end of the message, exactly once.
        Ok(Effects::none().send(context.message("order.seen", payload)))
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let store = SqliteStore::open(Options::default()).await?; // in memory
    let orders = Patterns { kinds: vec!["order.*".into()], ..Patterns::default() };
    let runner = Runner::builder(store, "shop").consumer("orders", orders, Orders(tell));
    let runner = runner.start().await?;
    let client = runner.client();

    let (ann, stream) = (Owner::new("ann")?, Stream::new("order/7")?);
    let message = |id: &str| NewMessage::inbox(ann.clone(), stream.clone(), id);
    let placed = message("m-1").kind("order.placed").json(&7)?;
    let first = client.send(vec![placed.clone()]).await?;
    let again = client.send(vec![placed]).await?;
    assert!(!first[0].is_duplicate && again[0].is_duplicate);

    let bad = message("m-2").kind("order.changed").payload("no JSON");
    let cancelled = message("m-3").kind("order.cancelled").json(&7)?;
    client.send(vec![bad, cancelled]).await?;

    for wanted in ["order.placed", "order.cancelled"] {
        let (kind, no) = told.recv().await.context("the consumer ended")?;
        println!("{kind} {no}");
        assert_eq!((kind.as_str(), no), (wanted, 7), "once each, in the order of the stream");
    }
    let query = MessagesQuery { limit: 10, ..MessagesQuery::default() };
    let dead = client.store().dead_letters(&Scope::All, query).await?.rows;
    assert_eq!(dead.iter().map(|dead| dead.message.id.as_str()).collect::<Vec<_>>(), ["m-2"]);
    runner.stop().await;
    assert!(told.try_recv().is_err(), "the repeat was not handled");
    Ok(())
}
