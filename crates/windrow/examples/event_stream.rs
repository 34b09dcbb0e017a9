//! Event streams: appended under an expected version, read, and summed up by a projection.
//!
//! The projection reads the events of all streams and remembers where it is, so that it can go on from
//! there. Run it with `cargo run -p windrow --example event_stream`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use windrow::prelude::*;
use windrow::sqlite::{Options, SqliteStore};
use windrow::store::event::{Append, NewEvent};

/// How much each account has, as far as it has read.
#[derive(Default)]
struct Balances {
    cents: BTreeMap<String, i64>,
    cursor: Option<String>,
}

impl Balances {
    async fn catch_up(&mut self, store: &SqliteStore) -> Result<()> {
        loop {
            let page = store.read_all(&Scope::All, self.cursor.as_deref(), 100).await?;
            for event in &page.rows {
                let cents: i64 = serde_json::from_slice(&event.payload)?;
                *self.cents.entry(event.stream.to_string()).or_default() += cents;
            }
            // A real one stores the cursor together with what it made of the page.
            self.cursor = page.next;
            if page.rows.is_empty() {
                return Ok(());
            }
        }
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let store = SqliteStore::open(Options::default()).await?; // in memory
    let client = Client::new(store.clone());
    let ann = Owner::new("ann")?;
    let append = |account: &str, version: u64, cents: i64| -> Result<Append> {
        Ok(Append {
            owner: ann.clone(),
            stream: Stream::new(account)?,
            expected: Expected::Version(version),
            events: vec![NewEvent::new(format!("{account}-{version}"), "moved").json(&cents)?],
        })
    };

    let both = vec![append("account/1", 0, 500)?, append("account/2", 0, 70)?];
    client.append(both).await?; // all or none
    let mut balances = Balances::default();
    balances.catch_up(&store).await?;
    assert_eq!(balances.cents["account/1"], 500);

    let appended = client.append(vec![append("account/1", 1, -200)?]).await?;
    assert_eq!(appended[0].last, 2);
    balances.catch_up(&store).await?; // only what is new
    println!("{:?}", balances.cents);
    assert_eq!((balances.cents["account/1"], balances.cents["account/2"]), (300, 70));

    // A writer that saw an older version is told so, instead of writing over what it did not see.
    let late =
        Append { events: vec![NewEvent::new("late", "moved")], ..append("account/1", 1, 0)? };
    let refused = client.append(vec![late]).await.expect_err("the stream is at version 2");
    assert_eq!(refused.version_conflict().context("another refusal")?.actual, 2);

    let events = store.read_stream(&ann, &Stream::new("account/1")?, 1, 10).await?;
    assert_eq!(events.iter().map(|event| event.version).collect::<Vec<_>>(), [1, 2]);
    Ok(())
}
