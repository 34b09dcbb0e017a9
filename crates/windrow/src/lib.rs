//! Windrow runs millions of requests from a file, and every line ends in exactly one place.
//!
//! A **file** is an immutable list of lines, each a request to make. A **batch** is one run over a
//! file. The **engine** leases lines in tranches, runs them with an executor, records each line's
//! outcome, and closes the batch when the last line has one. A process that dies loses its leases,
//! and its lines go back.
//!
//! This crate is a thin facade: [`domain`] says what the words mean, [`store`] is the contract that
//! a database keeps, [`engine`] holds the stages. Backends are features: `sqlite` (embedded) and
//! `postgres` (shared by many machines); both are on unless default features are turned off.
//!
//! # An engine with an executor of your own
//!
//! The executor is an async function, or a type that implements [`engine::execute::Executor`] when it
//! has limits to declare. It never touches the store. What it returns is data: an answer, a failure
//! with its class (which decides whether the line is tried again), or a line to be skipped.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use windrow::domain::attempt::{Class, Failure};
//! use windrow::prelude::*;
//! use windrow::sqlite::{Options, SqliteStore};
//!
//! let store = Arc::new(SqliteStore::open(Options::default()).await?); // in memory
//! let owner = Owner::new("ann")?;
//!
//! // A file comes in: read, validated and stored in bounded memory.
//! let jsonl = r#"
//! {"custom_id": "a", "method": "POST", "url": "/v1/shout", "body": {"model": "m", "text": "hay"}}
//! {"custom_id": "b", "method": "POST", "url": "/v1/shout", "body": {"model": "m", "text": "row"}}
//! "#;
//! let file = NewFile {
//!     id: FileId::new(),
//!     owner: owner.clone(),
//!     name: "two.jsonl".to_owned(),
//!     purpose: "batch".to_owned(),
//!     expires_at: None,
//! };
//! let ingested = ingest(&*store, jsonl.as_bytes(), file, IngestOptions::default()).await?;
//! assert!(ingested.errors.is_empty());
//!
//! // A batch over it costs the same for two lines as for two million.
//! let batch = NewBatch {
//!     window_secs: Some(3600),
//!     ..NewBatch::over(ingested.file.id, owner.clone(), "/v1/shout")
//! };
//! let batch = store.create_batch(batch).await?;
//!
//! // The first try of line 3 fails, as the world does. It is tried again, and every line ends once.
//! let shout = async |attempt: Attempt| {
//!     if attempt.line == 3 && attempt.number == 1 {
//!         return Outcome::failed(Failure::retryable("hoarse", "Lost its voice for a moment."));
//!     }
//!     Outcome::completed(attempt.raw.to_ascii_uppercase())
//! };
//! Engine::builder(store.clone())
//!     .executor(shout)
//!     .only(batch.id)
//!     .until(Until::Closed(batch.id)) // without it: until it is stopped
//!     .run()
//!     .await?;
//!
//! let batch = store.batch(&Scope::Owner(owner), batch.id).await?;
//! assert_eq!((batch.state, batch.counts.completed), (State::Completed, 2));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! `engine::execute::http` is the executor that sends lines over HTTP. `engine::storage` is where
//! outputs are written when the builder is given one.

#![warn(missing_docs)]

pub use windrow_domain as domain;
pub use windrow_engine as engine;
pub use windrow_store as store;
#[cfg(feature = "postgres")]
pub use windrow_store_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use windrow_store_sqlite as sqlite;

/// What most programs need: the identifiers, the traits of the stages, and what their verbs take.
pub mod prelude {
    pub use windrow_domain::{
        BatchId, Counts, FileId, InstanceId, KeyId, LeaseId, LineSet, OutputKind, Owner, Role,
        State, Target,
    };
    pub use windrow_engine::execute::{Attempt, Executor, Outcome};
    pub use windrow_engine::ingest::{Options as IngestOptions, ingest};
    pub use windrow_engine::{Engine, Until};
    pub use windrow_store::batch::{Batch, NewBatch};
    pub use windrow_store::claim::{Request, Tranche};
    pub use windrow_store::ingest::NewFile;
    pub use windrow_store::record::{Again, Finished, Outcomes, Turn};
    pub use windrow_store::{
        Batches, Claim, Finalise, Ingest, Inspect, Keys, Members, Record, Scope, Store, Sweep,
    };
}
