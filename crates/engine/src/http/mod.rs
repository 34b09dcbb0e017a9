//! HTTP, below everything that sends it: the executor, webhooks and handlers that are somewhere else.
//!
//! Holds throughout: every exchange is bounded in time and in bytes; redirects are not followed, no proxy is
//! taken from the environment; what failures say holds the host, never the path, a header or a key.
//! Absent on purpose: retries. One call is one attempt; the caller decides about the next.

pub(crate) mod client;
pub(crate) mod connect_gate;
pub(crate) mod endpoint;
pub(crate) mod exchange;
pub(crate) mod explain;
pub(crate) mod options;
pub(crate) mod retry_after;
pub(crate) mod secret;
pub(crate) mod sent_body;
pub mod signature;
pub(crate) mod streams;
pub(crate) mod tls;
