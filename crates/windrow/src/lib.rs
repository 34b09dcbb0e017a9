//! Windrow runs millions of requests from a file, and every line ends in exactly one place.
//!
//! A **file** is an immutable list of lines, each a request to make. A **batch** is one run over a
//! file. Workers lease **tranches** of lines, run them, and record each line's outcome, all in one
//! transaction a turn. A worker that dies loses its lease, and its lines go back.
//!
//! This crate is a thin facade: [`domain`] says what the words mean, [`store`] is the contract that
//! a database keeps, [`engine`] holds the stages. Backends are features: `sqlite` (embedded) and
//! `postgres` (shared by many machines); both are on unless default features are turned off.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use windrow::domain::attempt::Status;
//! use windrow::prelude::*;
//! use windrow::sqlite::{Options, SqliteStore};
//!
//! let store = SqliteStore::open(Options::default()).await?; // in memory
//! let owner = Owner::new("ann")?;
//!
//! // A file comes in: read, validated and stored in bounded memory.
//! let jsonl = r#"
//! {"custom_id": "a", "method": "POST", "url": "/v1/echo", "body": {"model": "echo", "input": 1}}
//! {"custom_id": "b", "method": "POST", "url": "/v1/echo", "body": {"model": "echo", "input": 2}}
//! "#;
//! let file = NewFile {
//!     id: FileId::new(),
//!     owner: owner.clone(),
//!     name: "two.jsonl".to_owned(),
//!     purpose: "batch".to_owned(),
//!     expires_at: None,
//! };
//! let ingested = ingest(&store, jsonl.as_bytes(), file, IngestOptions::default()).await?;
//! assert!(ingested.errors.is_empty());
//!
//! // A batch over it costs the same for two lines as for two million.
//! let batch = NewBatch {
//!     id: BatchId::new(),
//!     file: ingested.file.id,
//!     owner: owner.clone(),
//!     endpoint: "/v1/echo".to_owned(),
//!     window_secs: Some(3600),
//!     priority: 0,
//!     job_type: None,
//!     source_address: None,
//!     metadata: Default::default(),
//!     idempotency_key: None,
//! };
//! let batch = store.create_batch(batch).await?;
//!
//! // A worker's turn: record what finished, claim what is next, in one commit.
//! let instance = InstanceId::new();
//! let mut outcomes = Vec::new();
//! loop {
//!     let claim = Some(Request {
//!         lease: LeaseId::new(),
//!         targets: vec![Target::new("echo")?],
//!         only: Some(batch.id),
//!         lines_max: 100,
//!         lease_ms: 30_000,
//!     });
//!     let reply = store.turn(Turn { instance, outcomes, claim }).await?;
//!     let Some(tranche) = reply.claimed else { break };
//!     let mut done = Outcomes::of(tranche.lease.held);
//!     for line in tranche.lines {
//!         // Here the request would be made. What came back is the line's outcome.
//!         let mut result = Finished::bare(line.seq, line.line, Status::Completed, 1);
//!         result.response = Some(line.raw);
//!         done.finished.push(result);
//!     }
//!     outcomes = vec![done];
//! }
//!
//! let counts = store.batch(&Scope::Owner(owner), batch.id).await?.counts;
//! println!("{} of {} lines completed", counts.completed, counts.total);
//! assert_eq!((counts.completed, counts.total), (2, 2));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```

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
        BatchId, Counts, FileId, InstanceId, LeaseId, LineSet, Owner, State, Target,
    };
    pub use windrow_engine::ingest::{Options as IngestOptions, ingest};
    pub use windrow_store::batch::{Batch, NewBatch};
    pub use windrow_store::claim::{Request, Tranche};
    pub use windrow_store::ingest::NewFile;
    pub use windrow_store::record::{Again, Finished, Outcomes, Turn};
    pub use windrow_store::{
        Batches, Claim, Finalise, Ingest, Inspect, Members, Record, Scope, Store, Sweep,
    };
}
