//! Windrow is a durable work engine on a database that you have: SQLite inside of your process, or
//! PostgreSQL that many machines share. It does two things, and both survive crashes.
//!
//! - **Batches.** A *file* is an immutable list of lines, each a request to make. A *batch* is one run over
//!   a file. The [`Engine`](engine::Engine) leases lines, runs them with an executor, records one result for
//!   each line, and closes the batch. A process that dies loses its leases, and its lines are run by others.
//! - **Messages.** Objects are called, messages are consumed and published, events are appended. A
//!   [`Runner`](engine::messages::Runner) gives them to handlers, in order within each stream. What a handler
//!   returns is committed together with the end of its message: its effect happens once, however often it
//!   is tried. A [`Client`](engine::messages::Client) sends, calls and waits for answers.
//!
//! [`prelude`] has what programs use all the time. The rest has its place: [`domain`] (identifiers, states,
//! policies), [`store`] (what a database promises), [`engine`] (executors, handlers, publishers, storage),
//! and a module for each database, behind the features `sqlite` and `postgres` (both are on by default).
//!
//! # A batch, with an executor of your own
//!
//! The executor is an async function, or a type that implements [`Executor`](engine::execute::Executor). It
//! never touches the store: it returns an answer, or a failure that says whether the line is tried again.
//! [`HttpExecutor`](engine::execute::http::HttpExecutor) is the one that sends lines to an HTTP API.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use windrow::prelude::*;
//! use windrow::sqlite::{Options, SqliteStore};
//!
//! let store = SqliteStore::open(Options::default()).await?; // in memory; `Options::file(path)` for a file
//! let ann = Owner::new("ann")?;
//!
//! // A file comes in: read, validated and stored in bounded memory.
//! let jsonl = r#"
//! {"custom_id": "a", "method": "POST", "url": "/v1/shout", "body": {"model": "m", "text": "hay"}}
//! {"custom_id": "b", "method": "POST", "url": "/v1/shout", "body": {"model": "m", "text": "row"}}
//! "#;
//! let file = NewFile::new(ann.clone(), "two.jsonl");
//! let ingested = ingest(&store, jsonl.as_bytes(), file, IngestOptions::default()).await?;
//! assert!(ingested.errors.is_empty());
//!
//! // A batch over it costs the same for two lines as for two million.
//! let batch = NewBatch::over(ingested.file.id, ann.clone(), "/v1/shout");
//! let batch = store.create_batch(batch).await?;
//!
//! // The first attempt of line 3 fails. It is tried again, and every line has one result.
//! let shout = async |attempt: Attempt| {
//!     if attempt.line == 3 && attempt.number == 1 {
//!         return Outcome::failed(Failure::retryable("hoarse", "Lost its voice for a moment."));
//!     }
//!     Outcome::completed(attempt.raw.to_ascii_uppercase())
//! };
//! Engine::builder(store.clone())
//!     .executor(shout)
//!     .until(Until::Closed(batch.id)) // without it: until it is stopped
//!     .run()
//!     .await?;
//!
//! let batch = store.batch(&Scope::Owner(ann), batch.id).await?;
//! assert_eq!((batch.counts.completed, batch.counts.failed), (2, 0));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # An object, called exactly once
//!
//! An object has a type, an id and a state. Calls of one object run one after another, those of others
//! beside them. A [`Typed`](engine::messages::Typed) object has types of its own for state, calls and
//! replies; an [`Object`](engine::messages::Object) has bytes. In a handler, `?` means *try again*, except
//! for errors that another attempt cannot mend (bad JSON, bad names);
//! [`OrPermanent`](engine::messages::OrPermanent) says it for any other error.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use serde::{Deserialize, Serialize};
//! use windrow::prelude::*;
//! use windrow::sqlite::{Options, SqliteStore};
//!
//! #[derive(Serialize, Deserialize)]
//! enum Ask {
//!     Deposit { cents: u64 },
//! }
//!
//! struct Wallet;
//!
//! #[async_trait]
//! impl Typed for Wallet {
//!     type State = u64;
//!     type Call = Ask;
//!     type Reply = u64;
//!     const TYPE: &'static str = "wallet";
//!
//!     async fn run(
//!         &self,
//!         context: &Context,
//!         balance: &mut u64,
//!         Ask::Deposit { cents }: Ask,
//!         effects: &mut Effects,
//!     ) -> Result<u64, HandlerError> {
//!         *balance += cents;
//!         // Sent if the new balance is stored, and only then.
//!         effects.messages.push(context.message("wallet.deposited", cents.to_string()));
//!         Ok(*balance)
//!     }
//! }
//!
//! let store = SqliteStore::open(Options::default()).await?;
//! let runner = Runner::builder(store.clone(), "bank").typed(Wallet).start().await?;
//! let client = Client::new(store).owned_by(Owner::new("ann")?);
//!
//! let deposit = Ask::Deposit { cents: 5 };
//! assert_eq!(client.ask::<Wallet>("7", &deposit).id("r1").await?, 5);
//! // The same id again gives the same answer and runs nothing.
//! assert_eq!(client.ask::<Wallet>("7", &deposit).id("r1").await?, 5);
//! runner.stop().await;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Messages in and out
//!
//! A message of the *inbox* goes to a consumer, one of the *outbox* to publishers such as a webhook. Both
//! wait in a stream, whose messages are handled in the order in which they were sent.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tokio::sync::mpsc;
//! use windrow::prelude::*;
//! use windrow::sqlite::{Options, SqliteStore};
//!
//! struct Orders(mpsc::UnboundedSender<Bytes>);
//!
//! #[async_trait]
//! impl Consumer for Orders {
//!     async fn consume(&self, _: Context, payload: Bytes) -> Result<Effects, HandlerError> {
//!         self.0.send(payload).permanent()?;
//!         Ok(Effects::none())
//!     }
//! }
//!
//! let (orders, mut seen) = mpsc::unbounded_channel();
//! let store = SqliteStore::open(Options::default()).await?;
//! let runner = Runner::builder(store, "shop")
//!     .consumer("orders", Patterns::default(), Orders(orders))
//!     .start()
//!     .await?;
//!
//! let message = NewMessage::inbox(Owner::new("ann")?, Stream::new("order/7")?, "m-1");
//! let message = message.kind("order.placed").json(&7)?;
//! runner.client().send(vec![message]).await?;
//! assert_eq!(seen.recv().await.as_deref(), Some(&b"7"[..]));
//! runner.stop().await;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Examples
//!
//! Each is one short file in `crates/windrow/examples` that ends by itself, and is run by the tests:
//!
//! | example | shows |
//! |---|---|
//! | `run_a_file` | a file of requests against an HTTP API, with results in a folder |
//! | `own_executor` | an executor that is no HTTP, in a background engine |
//! | `object` | a typed object, asked with and without its types |
//! | `outbox_webhook` | messages to a webhook: signed, retried, in order |
//! | `inbox_consumer` | messages from outside: repeats, retries and dead letters |
//! | `transactional_handler` | a handler with SQL of its own, in one transaction with its effects |
//! | `event_stream` | events under expected versions, and a projection of them |
//! | `embedded_server` | the HTTP server inside of a program of your own |
//! | `wallet` | a whole service, with a mode that kills its instances and counts the money |

#![warn(missing_docs)]

pub use windrow_domain as domain;
pub use windrow_engine as engine;
pub use windrow_store as store;
#[cfg(feature = "postgres")]
pub use windrow_store_postgres as postgres;
#[cfg(feature = "sqlite")]
pub use windrow_store_sqlite as sqlite;

/// What a program that embeds Windrow uses all the time, for batches and for messages.
///
/// Absent on purpose: a database, which is chosen by its module (`windrow::sqlite`, `windrow::postgres`), and
/// the verbs of a store that only the engine calls.
pub mod prelude {
    // Both: identifiers, and what implementors of the traits need.
    pub use bytes::Bytes;
    pub use windrow_domain::{BatchId, FileId, Owner, Stream};
    pub use windrow_engine::async_trait;

    // Batches.
    pub use windrow_domain::attempt::Failure;
    pub use windrow_engine::execute::{Attempt, Executor, Outcome};
    pub use windrow_engine::ingest::{Options as IngestOptions, ingest};
    pub use windrow_engine::{Engine, Until};
    pub use windrow_store::batch::NewBatch;
    pub use windrow_store::ingest::NewFile;
    pub use windrow_store::{Batches, Inspect, Scope};

    // Messages, calls and events.
    pub use windrow_domain::Expected;
    pub use windrow_engine::deliver::Patterns;
    pub use windrow_engine::messages::{
        CallOutcome, Client, Consumer, Context, Effects, HandlerError, Object, OrPermanent, Runner,
        Typed,
    };
    pub use windrow_store::Events;
    pub use windrow_store::message::NewMessage;
}
