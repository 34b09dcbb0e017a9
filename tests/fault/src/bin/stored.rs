//! `stored BINARY FOLDER`: makes, with that binary, what `tests/fault/stored` keeps of a build.
//!
//! The data folder of each store holds what was open when the build was put away: a run that was killed,
//! a job, calls and messages that nobody has run; and what must stay as it is: a finished job, an
//! answered call, events, a snapshot, a dead letter. Beside it stands what the upstream had got.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use windrow_fault::stored::{self, JOB_KEY, JOB_PATH, KEY, STRAW, STRAW_LINES, Server, Stage};
use windrow_fault::{Backend, wait};
use windrow_testkit::postgres::{Cluster, Options};
use windrow_testkit::programs;
use windrow_testkit::upstream::{ReceivedRequest, Reply, Script, Upstream};

/// Lines of the run that complete; the next is refused, those behind it fail for now, and the rest hangs.
const COMPLETED: u64 = 12;
const REFUSED: u64 = COMPLETED + 1;
const FAILING: u64 = REFUSED + 4;
/// A line that failed waits, so that it is still waiting when the run is killed; the claim is smaller
/// than the file, so that some lines are nobody's yet.
const RUN: &[(&str, &str)] = &[
    ("WINDROW_BACKOFF_MS_MIN", "60000"),
    ("WINDROW_BACKOFF_MS_MAX", "60000"),
    ("WINDROW_CLAIM_MAX", "25"),
];
const WITHIN: Duration = Duration::from_secs(90);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [binary, folder] = &words[..] else { return Err("stored BINARY FOLDER".into()) };
    for backend in [Backend::Sqlite, Backend::Postgres] {
        make(&binary.canonicalize()?, backend, &folder.join(stored::name(backend))).await?;
    }
    Ok(())
}

async fn make(binary: &Path, backend: Backend, folder: &Path) -> Result<(), Box<dyn Error>> {
    let cluster = match backend {
        Backend::Sqlite => None,
        Backend::Postgres => {
            Some(tokio::task::block_in_place(|| Cluster::start(&Options::default()))?)
        }
    };
    let stage = Stage::new(binary.to_owned(), cluster.as_ref().map(Cluster::url));
    fs::write(stage.data().join("windrow.toml"), stored::config(backend))?;
    let upstream = Upstream::start_at(stored::address(backend), Script::new(act)).await?;
    let mut told = done(&stage).await;
    open(&stage, &mut told).await;
    killed(&stage, &upstream, &mut told).await;
    stage.says(&["doctor"]).await;
    fs::create_dir_all(folder)?;
    fs::write(folder.join(stored::TOLD), serde_json::to_string_pretty(&told)? + "\n")?;
    if let Some(cluster) = &cluster {
        pack(&folder.join(stored::DUMP), &dump(cluster)?)?;
    }
    copy(&stage.data(), &folder.join("data"))?;
    Ok(())
}

/// What the upstream does while these files are made.
fn act(seen: &ReceivedRequest) -> Reply {
    match stored::hay(seen) {
        Some(..=COMPLETED) => Reply::Echo,
        Some(REFUSED) => Reply::error(400, "no such parameter"),
        Some(..=FAILING) => Reply::error(500, "out of order"),
        Some(_) => Reply::Hang,
        None if seen.header("windrow-kind") == "order.bad" => Reply::error(400, "no such order"),
        None => stored::receive(seen),
    }
}

async fn post(server: &Server, path: &str, name: Option<&str>, body: Value) -> Value {
    let answer = server.ask(("POST", path), name, &body).await;
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer.json()
}

/// Things that came to their end.
async fn done(stage: &Stage) -> Value {
    let server = stage.serve("works", &[], &[("WINDROW_ADMIN_KEY", KEY)]).await;
    let job = post(&server, "/api/jobs", None, stored::requests(STRAW, STRAW_LINES).into()).await;
    let job = job["jobId"].as_str().expect("a job has an id").to_owned();
    server.until(&format!("/api/jobs/{job}"), |job| job["status"] == "completed").await;
    post(&server, "/v1/objects/wallet/7/deposit", Some("first"), json!({ "cents": 5 })).await;
    let note = json!({ "expected": 0, "events": [{ "kind": "noted", "id": "n-1", "payload": 1 }] });
    post(&server, "/v1/streams/notes/events", None, note).await;
    let sent = json!({ "messages": [
        { "stream": "orders/1", "kind": "order.placed", "id": "o-0", "payload": { "no": 0 } },
        { "stream": "orders/2", "kind": "order.bad", "id": "bad", "payload": { "no": 9 } },
    ] });
    post(&server, "/v1/messages", None, sent).await;
    let dead = server.until("/v1/dead-letters", |dead| dead["data"][0].is_object()).await;
    server.until("/v1/messages", |waits| waits["data"] == json!([])).await;
    server.stop().await;
    json!({ "done": job, "letter": dead["data"][0]["id"] })
}

/// Things that nobody runs: the server that takes them in does no work.
async fn open(stage: &Stage, told: &mut Value) {
    let server = stage.serve("takes-in", &["--no-work"], &[]).await;
    let file = stored::requests(STRAW, STRAW_LINES);
    let job = post(&server, JOB_PATH, Some(JOB_KEY), file.into()).await["jobId"].take();
    for act in ["pause", "resume"] {
        post(&server, &format!("/api/jobs/{}/{act}", job.as_str().unwrap_or("")), None, json!({}))
            .await;
    }
    told["job"] = job;
    for (wallet, name, cents) in [(7, "second", 2), (7, "third", 3), (8, "fourth", 1)] {
        let path = format!("/v1/objects/wallet/{wallet}/deposit?waitMs=0");
        post(&server, &path, Some(name), json!({ "cents": cents })).await;
    }
    let messages = |letter: &str, kind: &str| {
        let message = |no: u64| {
            let (stream, id) = ("orders/1", format!("{letter}-{no}"));
            json!({ "stream": stream, "kind": kind, "id": id, "payload": { "no": no } })
        };
        json!({ "messages": [message(1), message(2), message(3)] })
    };
    post(&server, "/v1/messages", None, messages("o", "order.placed")).await;
    post(&server, "/v1/inbox", None, messages("i", "order.taken")).await;
    server.stop().await;
}

/// A run that is killed when some of its lines are finished, some have failed for now, some are in flight
/// and some were never touched.
async fn killed(stage: &Stage, upstream: &Upstream, told: &mut Value) {
    let run = stage.run(RUN);
    let sent = || {
        let lines = upstream.seen().into_iter();
        let lines = lines.filter_map(|seen| Some((stored::hay(&seen)?, seen.key().to_owned())));
        lines.collect::<BTreeSet<_>>()
    };
    let look = || async {
        let hangs = sent().iter().any(|(line, _)| *line > FAILING);
        let counts = if hangs { stage.says(&["status", "last"]).await } else { Value::Null };
        let counts = &counts["batch"]["counts"];
        let is_so = counts["completed"] == COMPLETED
            && counts["failed"] == 1
            && counts["returned"] == FAILING - REFUSED;
        is_so.then_some(())
    };
    wait::until(WITHIN, look, || async { run.said() }).await;
    told["run"] = stage.says(&["status", "last"]).await["batch"]["id"].take();
    run.kill();
    for (name, lines) in [
        ("finished", 1..=REFUSED),
        ("failed", REFUSED + 1..=FAILING),
        ("in_flight", FAILING + 1..=u64::MAX),
    ] {
        let keys = sent().into_iter().filter(|(line, _)| lines.contains(line)).map(|(_, key)| key);
        told[name] = keys.collect();
    }
}

/// As statements that any client can run: no role and no right of this cluster, nothing for `psql` alone.
fn dump(cluster: &Cluster) -> Result<Vec<u8>, Box<dyn Error>> {
    let program = programs::postgres_folder().ok_or("PostgreSQL is not there")?.join("pg_dump");
    let mut command = Command::new(program);
    command.args(["--no-owner", "--no-privileges", "--inserts", "--dbname", &cluster.url()]);
    let output = command.output()?;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout)?;
    let own = |line: &&str| !line.starts_with('\\') && !line.starts_with("SET transaction_timeout");
    Ok(text.lines().filter(own).flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
}

/// The folder and all in it; a database is packed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.extension().and_then(|end| end.to_str()) {
            _ if path.is_dir() => copy(&path, &to)?,
            Some("db" | "db-wal") => pack(&to, &fs::read(path)?)?,
            // What processes share in memory.
            Some("db-shm") => {}
            _ => drop(fs::copy(path, to)?),
        }
    }
    Ok(())
}

fn pack(to: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    io::Write::write_all(&mut packed, bytes)?;
    fs::write(to.with_added_extension("gz"), packed.finish()?)
}
