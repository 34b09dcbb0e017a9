//! An outbox: messages are stored first, and then posted to a webhook, in order and signed.
//!
//! The receiver is a small one on this machine that is down at first. Nothing is lost, nothing overtakes.
//! Run it with `cargo run -p windrow --example outbox_webhook`.

use anyhow::Result;
use windrow::engine::deliver::webhook::{self, Webhook};
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};
use windrow_testkit::upstream::{Reply, Script, Upstream};

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let down_once = Script::sequence([Reply::error(500, "restarting"), Reply::json(200, "{}")]);
    let receiver = Upstream::start(down_once).await?;

    let options = webhook::Options::default()
        .url(format!("{}/hooks", receiver.url()).into())
        .secrets(vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()]);
    let orders = Patterns { kinds: vec!["order.*".into()], ..Patterns::default() };
    let webhook = Webhook::new("shop-hook", &options)?;

    let store = SqliteStore::open(Options::default()).await?; // in memory
    let runner = Runner::builder(store, "shop").publisher(orders, webhook).start().await?;
    let client = runner.client();

    // All or none; on PostgreSQL, `windrow.send(…)` does it inside a transaction of your own.
    let (ann, stream) = (Owner::new("ann")?, Stream::new("order/7")?);
    let message = |id: &str| NewMessage::outbox(ann.clone(), stream.clone(), id);
    let placed = message("order-7-placed").kind("order.placed").json(&7)?;
    let paid = message("order-7-paid").kind("order.paid").json(&7)?;
    client.send(vec![placed, paid]).await?;

    receiver.saw(3).await;
    let seen = receiver.seen();
    let kinds: Vec<&str> = seen.iter().map(|post| post.header("windrow-kind")).collect();
    println!("{kinds:?}");
    assert_eq!(kinds, ["order.placed", "order.placed", "order.paid"], "in order, after a retry");

    // The receiver knows a repeat by its id, and its sender by the signature.
    assert_eq!(seen[0].header("webhook-id"), seen[1].header("webhook-id"));
    assert!(seen.iter().all(|post| post.header("webhook-signature").starts_with("v1,")));
    runner.stop().await;
    Ok(())
}
