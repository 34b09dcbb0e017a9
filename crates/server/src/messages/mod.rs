//! The messages API under `/v1`: calls of objects, the inbox and the outbox, events, dead letters.
//!
//! Fields are snake_case, times RFC 3339, lists go by opaque cursors. Names in paths may contain slashes:
//! those of streams as they are, all others as `%2F`.
//!
//! | file | calls |
//! |---|---|
//! | `objects`, `submit_calls` | call a method of an object; submit many calls at once |
//! | `calls`, `call_retries`, `cancel_call` | the state of a call, lists and statistics of calls; end one |
//! | `messages`, `dead_letters` | send to outbox and inbox; list, replay, discard what was given up on |
//! | `streams`, `snapshots`, `follow` | read, append and follow events; put and read the snapshot of a stream |
//! | `members` | instances and partitions, for admins |
//! | `state`, `version_cache`, `gauges` | what the calls share; numbers for Prometheus |
//! | `body`, `pages`, `params`, `path_segments` | payloads, pages, names and paths of this API |

mod body;
mod call_retries;
mod calls;
mod cancel_call;
mod dead_letters;
mod follow;
pub(crate) mod gauges;
mod members;
#[expect(clippy::module_inception, reason = "it is `/v1/messages`")]
mod messages;
mod objects;
mod pages;
mod params;
mod path_segments;
mod snapshots;
mod state;
mod streams;
mod submit_calls;
mod version_cache;

use axum::extract::DefaultBodyLimit;
use utoipa::openapi::{Components, OpenApiBuilder};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;
use windrow_domain::message::PAYLOAD_BYTES_MAX;

pub(crate) use snapshots::methods_of_stream;
pub use state::Messages;

use crate::app::App;
use crate::options::Options;

/// Largest body with messages or events: one of the largest payloads as Base64 fits with others.
const BODY_BYTES_MAX: usize = 4 << 20;

/// Everything of `/v1` that is about messages.
pub(crate) fn routes(options: &Options) -> OpenApiRouter<App> {
    let calls = whatever_follows("/objects/{*names}", routes!(objects::call))
        .layer(DefaultBodyLimit::max(PAYLOAD_BYTES_MAX));
    let payloads = OpenApiRouter::default()
        .routes(routes!(messages::messages, messages::list))
        .routes(routes!(messages::inbox))
        .routes(routes!(submit_calls::submit, calls::list))
        .merge(whatever_follows("/streams/{*names}", routes!(streams::read, streams::append)))
        .merge(whatever_follows("/streams/{*names}", snapshots()))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    OpenApiRouter::default()
        .routes(routes!(calls::stats))
        .routes(routes!(call_retries::retries))
        .routes(routes!(calls::retrieve))
        .routes(routes!(cancel_call::cancel))
        .routes(routes!(streams::feed))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::replay))
        .routes(routes!(dead_letters::discard))
        .routes(routes!(dead_letters::replay_one))
        .routes(routes!(dead_letters::discard_one))
        .routes(routes!(members::instances))
        .routes(routes!(members::partitions))
        .layer(DefaultBodyLimit::max(options.body_bytes_max))
        .merge(calls)
        .merge(payloads)
}

/// The calls of snapshots. [`streams::read`] passes a GET on, since both have the same path for axum.
fn snapshots() -> UtoipaMethodRouter<App> {
    let (schemas, paths, _) = routes!(snapshots::read, snapshots::put);
    (schemas, paths, axum::routing::put(snapshots::put))
}

/// Calls that are described by what their names mean, and that read the names themselves.
fn whatever_follows(path: &str, routes: UtoipaMethodRouter<App>) -> OpenApiRouter<App> {
    let (schemas, paths, methods) = routes;
    let mut components = Components::new();
    components.schemas.extend(schemas);
    let described = OpenApiBuilder::new().paths(paths).components(Some(components)).build();
    OpenApiRouter::with_openapi(described).route(path, methods)
}
