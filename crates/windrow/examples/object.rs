//! An object with state: calls of one wallet run one after another, and each happens once.
//!
//! The program asks with types of its own; a repeat under the same id gets the same answer and runs nothing.
//! Run it with `cargo run -p windrow --example object`. The bigger one is `--example wallet`.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};

/// The methods: a variant for each.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    Deposit { cents: u64 },
    Withdraw { cents: u64 },
}

struct Wallet;

#[async_trait]
impl Typed for Wallet {
    type State = u64;
    type Call = Ask;
    type Reply = u64;

    const TYPE: &'static str = "wallet";

    async fn run(
        &self,
        context: &Context,
        cents: &mut u64,
        ask: Ask,
        effects: &mut Effects,
    ) -> Result<u64, HandlerError> {
        match ask {
            Ask::Deposit { cents: more } => *cents += more,
            Ask::Withdraw { cents: less } => {
                // Not retried: the caller gets this as its answer.
                let left = cents.checked_sub(less);
                *cents = left.ok_or_else(|| HandlerError::permanent("not enough money"))?;
            }
        }
        // Committed together with the new state and the reply, or not at all.
        let event = context.event("wallet.changed", cents.to_string());
        effects.events.push(context.append(Expected::Any, vec![event]));
        Ok(*cents)
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let store = SqliteStore::open(Options::default()).await?; // in memory
    let runner = Runner::builder(store, "bank").typed(Wallet).start().await?;
    let client = runner.client().owned_by(Owner::new("ann")?);

    let deposit = Ask::Deposit { cents: 500 };
    assert_eq!(client.ask::<Wallet>("7", &deposit).id("r1").await?, 500);
    assert_eq!(client.ask::<Wallet>("7", &deposit).id("r1").await?, 500, "the same call, once");
    assert_eq!(client.ask::<Wallet>("7", &deposit).id("r2").await?, 1000);

    let refused = client.ask::<Wallet>("7", &Ask::Withdraw { cents: 5000 }).await;
    println!("{}", refused.as_ref().expect_err("there is not so much"));

    // The same object without its types, as any other program would call it.
    let args = serde_json::json!({ "cents": 250 });
    let outcome = client.object("wallet", "7").call("withdraw", &args).id("r3").await?;
    assert_eq!(outcome, CallOutcome::Reply("750".into()));
    runner.stop().await;
    Ok(())
}
