//! What a build leaves behind, kept as files in `tests/fault/stored`: the program `stored` makes them
//! with a binary that it is given, and the test `upgrade` goes on with them.
//!
//! Holds throughout: what both must agree on is here; only commands and requests reach the database,
//! so that it is the given binary's alone; addresses are fixed, since a run is known by where it sends.

mod stage;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde_json::{Value, json};
use windrow_testkit::upstream::{ReceivedRequest, Reply};

use crate::{Backend, input};

pub use stage::{Server, Stage};

/// The admin's key. The database has its hash.
pub const KEY: &str = "admin-of-the-stored-database";
/// The model of the run's lines, which no server is configured for.
pub const HAY: &str = "hay";
/// How many lines the run has.
pub const HAY_LINES: u64 = 100;
/// The model of the jobs' lines.
pub const STRAW: &str = "straw";
/// How many lines each job has.
pub const STRAW_LINES: u64 = 5;
/// The name under which the open job was made, and how.
pub const JOB_KEY: &str = "stored-job";
/// Where it was posted to.
pub const JOB_PATH: &str = "/api/jobs?jobType=stored&window=30d";
/// What was said of the database, beside it.
pub const TOLD: &str = "told.json";
/// The dump of PostgreSQL.
pub const DUMP: &str = "database.sql";

/// Below the ports that systems give away.
const PORT: u16 = 18_319;

/// Where everything is sent: lines, calls and messages. Each store has its own, so that both may be
/// tested at the same time.
pub fn address(backend: Backend) -> SocketAddr {
    let last = match backend {
        Backend::Sqlite => 1,
        Backend::Postgres => 2,
    };
    (Ipv4Addr::new(127, 83, 0, last), PORT).into()
}

/// The folder that holds what was stored, one folder for each build.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("stored")
}

/// What a store's part of it is called.
pub fn name(backend: Backend) -> &'static str {
    match backend {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
    }
}

/// The configuration in the data folder. What could be forgotten with time is kept.
pub fn config(backend: Backend) -> String {
    let url = format!("http://{}", address(backend));
    format!(
        "file_secs = 3000000000\n\n\
         [upstreams.straw]\nbase_url = \"{url}\"\ntargets = [\"{STRAW}\"]\n\n\
         [messages]\npartitions = 8\nretention_dedupe_secs = 3000000000\n\n\
         [objects.wallet]\nurl = \"{url}/wallet\"\n\n\
         [inbox.orders]\nkinds = [\"order.*\"]\nurl = \"{url}/orders\"\n\n\
         [publish.hook]\ntype = \"webhook\"\nkinds = [\"batch.*\", \"order.*\"]\nurl = \"{url}/hook\"\n"
    )
}

/// That many requests for that model.
pub fn requests(model: &str, lines: u64) -> String {
    input::text(lines).replace(r#""echo""#, &format!("\"{model}\""))
}

/// The line, if it is one of the run.
pub fn hay(seen: &ReceivedRequest) -> Option<u64> {
    let body: Value = serde_json::from_slice(&seen.body).ok()?;
    (body["model"] == HAY).then(|| input::line_of(&seen.body))
}

/// A wallet that keeps its money in its state and tells of it, and receivers that take everything.
pub fn receive(seen: &ReceivedRequest) -> Reply {
    if seen.path != "/wallet" {
        return if seen.path == input::ENDPOINT { Reply::Echo } else { Reply::json(200, "{}") };
    }
    let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    let cents = |part: &str| body[part]["cents"].as_i64().unwrap_or(0);
    let now = json!({ "cents": cents("state") + cents("args") });
    let event = json!({ "kind": "money.deposited", "payload": body["args"] });
    Reply::json(200, json!({ "reply": now, "state": now, "events": [event] }).to_string())
}
