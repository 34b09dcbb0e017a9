//! The wallet: what it is, what it can be asked, and what comes of it.

use serde::{Deserialize, Serialize};
use windrow::domain::Expected;
use windrow::engine::async_trait;
use windrow::engine::messages::{Context, Effects, HandlerError, Typed};

/// What a wallet is between calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) cents: u64,
}

/// What a wallet can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Money comes in from outside.
    Deposit { cents: u64 },
    /// Money goes out.
    Withdraw { cents: u64 },
    /// Money goes to another wallet.
    Transfer { to: String, cents: u64 },
    /// Money comes from another wallet.
    Credit { cents: u64 },
    /// How much is there?
    Balance,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Balance {
    pub(crate) cents: u64,
}

/// Wallets are objects: the calls of one wallet run one after another.
pub(crate) struct Wallet;

#[async_trait]
impl Typed for Wallet {
    type State = State;
    type Call = Ask;
    type Reply = Balance;

    const TYPE: &'static str = "wallet";

    async fn run(
        &self,
        context: &Context,
        state: &mut State,
        ask: Ask,
        effects: &mut Effects,
    ) -> Result<Balance, HandlerError> {
        let what = serde_json::to_vec(&ask)?;
        match ask {
            Ask::Balance => return Ok(Balance { cents: state.cents }),
            Ask::Deposit { cents } | Ask::Credit { cents } => state.cents += cents,
            Ask::Withdraw { cents } => state.cents = less(state.cents, cents)?,
            Ask::Transfer { to, cents } => {
                state.cents = less(state.cents, cents)?;
                // Part of this call's commit: the money is never nowhere, and never twice.
                let credit = serde_json::to_vec(&serde_json::json!({ "cents": cents }))?;
                effects.calls.push(context.ask(Self::TYPE, to, "credit", credit)?);
            }
        }
        let event = context.event(format!("wallet.{}", context.kind), what);
        effects.events.push(context.append(Expected::Any, vec![event]));
        Ok(Balance { cents: state.cents })
    }
}

fn less(cents: u64, wanted: u64) -> Result<u64, HandlerError> {
    cents.checked_sub(wanted).ok_or_else(|| {
        HandlerError::permanent(format!("there are {cents} cents, and {wanted} are wanted"))
    })
}
