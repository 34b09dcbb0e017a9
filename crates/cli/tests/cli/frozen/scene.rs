//! A small run of everything on SQLite: the fields that commands print, the words that the database keeps,
//! what upstreams and handlers are sent, and the metrics of a server.
//!
//! Holds throughout: only names are kept. Values are left out, or stand with their ids and numbers taken
//! away; objects whose names are their owner's count as one.

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use super::hold;
use crate::support::{CommandOutput, Workdir, ended, signal};

/// Looks that are taken for something to happen. Each starts a process.
const LOOKS_MAX: u32 = 500;
const ADMIN_KEY: (&str, &str) = ("WINDROW_ADMIN_KEY", "wr_frozen_admin_key");

/// The desk with everything on it, and what was seen.
struct Scene {
    workdir: Workdir,
    upstream: Upstream,
    fields: BTreeSet<String>,
}

/// Lines that go well, fail and are not found; a wallet; an inbox; a hook that fails.
fn script() -> Script {
    Script::new(|seen| {
        let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        match (seen.path.as_str(), body["model"].as_str()) {
            ("/wallet", _) => {
                let events = json!([{ "kind": "money.moved", "payload": 1 }]);
                Reply::json(200, json!({ "reply": 1, "state": 2, "events": events }).to_string())
            }
            ("/hook", _) => Reply::error(500, "no"),
            (_, Some("bad")) => Reply::error(500, "no"),
            (_, Some("gone")) => Reply::error(404, "no"),
            _ => Reply::json(200, json!({ "usage": { "input_tokens": 1 } }).to_string()),
        }
    })
}

impl Scene {
    async fn new() -> Self {
        let (workdir, upstream) = (Workdir::new(), Upstream::start(script()).await.unwrap());
        let url = upstream.url();
        let config = format!(
            "max_attempts_error = 2\nbackoff_ms_min = 1\nbackoff_ms_max = 1\nsweep_ms_min = 10\n\
             sweep_ms_max = 100\n[upstreams.default]\nbase_url = \"{url}\"\nnot_found_statuses = [404]\n[messages]\n\
             partitions = 4\npoll_ms = 50\nupkeep_ms = 1000\nheartbeat_ms = 200\nstale_ms = 2000\nbackoff_ms_max = 1\nattempts_max = 2\n\
             [objects.wallet]\nurl = \"{url}/wallet\"\n[inbox.orders]\nurl = \"{url}/orders\"\n\
             secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n\
             [publish.hook]\ntype = \"webhook\"\nurl = \"{url}/hook\"\n"
        );
        workdir.write("windrow.toml", &config);
        let line = |(number, model): (usize, &&str)| {
            let body = format!("{{\"model\":\"{model}\",\"name\":\"mug\"}}");
            format!(
                "{{\"custom_id\":\"r-{number}\",\"method\":\"POST\",\"url\":\"/v1/x\",\"body\":{body}}}\n"
            )
        };
        let lines: String = ["good", "bad", "gone"].iter().enumerate().map(line).collect();
        workdir.write("a.jsonl", &lines);
        workdir.write("wrong.jsonl", &format!("{lines}oops\n{lines}"));
        Self { workdir, upstream, fields: BTreeSet::new() }
    }

    /// Notes the fields of each line of JSON.
    fn note(&mut self, what: &str, text: &str) {
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {text}"));
            self.fields.extend(paths(&value).into_iter().map(|path| format!("{what}: {path}")));
        }
    }

    /// Runs a command with `--json`, and notes what it says.
    async fn say(&mut self, code: i32, args: &[&str]) -> CommandOutput {
        let said = self.workdir.windrow(&[args, &["--json"]].concat()).await;
        assert_eq!(said.code, code, "{args:?}: {said:?}");
        let is_name =
            |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        let two = ["keys", "calls", "messages", "events", "dead-letters"].contains(&args[0]);
        let names = args.iter().take(if two { 2 } else { 1 }).take_while(is_name);
        let what = names.copied().collect::<Vec<_>>().join(" ");
        self.note(&what, &said.out);
        // Progress comes with time; an error comes always.
        if code == 1 {
            self.note(&format!("{what} (standard error)"), &said.err);
        }
        said
    }

    /// Runs it until there is something in its list.
    async fn say_rows(&mut self, args: &[&str]) -> Vec<Value> {
        let mut rows = Vec::new();
        for _ in 0..LOOKS_MAX {
            rows = self.say(0, args).await.json()["rows"].as_array().unwrap().clone();
            if !rows.is_empty() {
                break;
            }
        }
        assert!(!rows.is_empty(), "{args:?} lists nothing");
        rows
    }

    async fn batches(&mut self) {
        self.say(0, &["config"]).await;
        self.say(3, &["ingest", "wrong.jsonl"]).await;
        let url = self.upstream.url();
        self.say(5, &["run", "a.jsonl", "--to", &url]).await;
        self.say(0, &["attempts", "last", "2"]).await;
        self.say(0, &["results", "last"]).await;
        self.say(0, &["results", "last", "--errors"]).await;
        self.say(0, &["results", "last", "--out", "out.jsonl"]).await;
        self.say(0, &["export", "last", "--format", "jsonl"]).await;
        self.say(0, &["doctor", "-v"]).await;
        self.say(0, &["retry", "last"]).await;
        // It was begun for a URL; the server has a table of that name.
        self.say(0, &["batches", "move", "last", "--upstream", "default"]).await;
        self.say(0, &["ingest", "a.jsonl", "--batch"]).await;
        self.say(0, &["pause", "last", "--reason", "lunch"]).await;
        self.say(0, &["resume", "last"]).await;
        self.say(0, &["batches", "--limit", "1"]).await;
        self.say(0, &["status", "last"]).await;
        self.say(0, &["cancel", "last"]).await;
        self.say(1, &["status", "ffffff"]).await;
        self.say(0, &["demo", "--lines", "40"]).await;
        let database = ["grants", "--database", "postgres://127.0.0.1:1/d"];
        self.say(0, &[&database[..], &["--app", "a", "--monitor", "m", "--admin", "o"]].concat())
            .await;
        let key = self.say(0, &["keys", "create", "--name", "laptop", "--days", "9"]).await.json();
        self.say(0, &["keys", "list"]).await;
        self.say(0, &["keys", "revoke", key["key"]["id"].as_str().unwrap()]).await;
    }

    async fn messages(&mut self) {
        let ask = ["call", "wallet", "7", "deposit", "1", "--id", "r1"];
        self.say(0, &ask).await;
        self.say(0, &ask).await;
        self.say_rows(&["calls", "list"]).await;
        self.say(0, &["calls", "get", "r1"]).await;
        self.say(0, &["calls", "stats"]).await;
        self.say(0, &["events", "append", "note/1", "note.made", "1", "--header", "a=b"]).await;
        self.say(0, &["events", "read", "note/1"]).await;
        self.say(0, &["events", "feed", "--limit", "1"]).await;
        let inbox =
            ["messages", "send", "o", "order.placed", "1", "--to", "inbox", "--header", "a=b"];
        self.say(0, &inbox).await;
        self.say(0, &["messages", "send", "s", "shop.opened", "1", "--header", "a=b"]).await;
        self.say(0, &["messages", "send", "u", "shop.opened", "1", "--header", "a=b"]).await;
        let later = ["--not-before", "2100-01-01T00:00:00Z", "--header", "a=b"];
        self.say(0, &[&["messages", "send", "t", "shop.opened", "1"][..], &later].concat()).await;
        self.say_rows(&["messages", "list", "--stream", "t"]).await;
        self.say_rows(&["dead-letters", "list", "--stream", "s"]).await;
        self.say(0, &["dead-letters", "replay", "--every", "--stream", "s"]).await;
        let letters = self.say_rows(&["dead-letters", "list", "--stream", "s"]).await;
        self.say(0, &["dead-letters", "discard", letters[0]["id"].as_str().unwrap()]).await;
        self.say(0, &["instances"]).await;
        self.say_rows(&["partitions"]).await;
    }

    /// A server at work, and where it listens.
    async fn serve(&mut self) -> (Child, String) {
        let args = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let mut child = self.workdir.command(&args, &[ADMIN_KEY]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("it says where it listens");
        self.note("serve", &line);
        let said: Value = serde_json::from_str(&line).unwrap();
        let address =
            said["listening"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        (child, address)
    }

    /// A worker that takes part in both, batches and messages.
    async fn work(&self) -> Child {
        let child = self.workdir.spawn(&["work", "--json"]);
        let pid = child.id().unwrap();
        self.until(&format!("SELECT count(*) FROM members WHERE pid = {pid}"), "2").await;
        self.until("SELECT service FROM message_setup", "windrow").await;
        child
    }

    async fn stop(&mut self, what: &str, child: Child) {
        signal(&child, "TERM").await;
        let said = ended(child).await;
        assert_eq!(said.code, 0, "{said:?}");
        self.note(what, &said.out);
    }

    fn database(&self) -> Connection {
        Connection::open(self.workdir.path("home/.local/share/windrow/windrow.db")).unwrap()
    }

    /// Looks until a query of the database gives this.
    async fn until(&self, query: &str, wanted: &str) {
        for _ in 0..LOOKS_MAX {
            if texts(&self.database(), query).join(" ") == wanted {
                return;
            }
            self.workdir.windrow(&["migrate"]).await;
        }
        panic!("{query} gives {:?}", texts(&self.database(), query));
    }
}

/// The names in a value, from its top. Names that are somebody's own count as one.
fn paths(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, at: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                let is_own = ["values", "headers", "failures"].iter().any(|of| at.ends_with(of));
                let name = if is_own { "*" } else { name };
                let below = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
                found.insert(below.clone());
                walk(value, &below, found);
            }),
            Value::Array(items) => items.iter().for_each(|item| {
                let below = format!("{at}[]");
                walk(item, &below, found);
                if item.is_array() || at.ends_with("[]") {
                    found.insert(below);
                }
            }),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    walk(value, "", &mut found);
    found
}

/// The first column of a query.
fn texts(database: &Connection, query: &str) -> Vec<String> {
    let mut statement = database.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    let text = |value| match value {
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Blob(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        rusqlite::types::Value::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    rows.map(|row| text(row.unwrap())).collect()
}

/// The same text without what is other each time: ids, hashes, times and numbers.
fn plain(text: &str) -> String {
    let mut made = String::new();
    for part in text.split_inclusive(|mark: char| !mark.is_ascii_alphanumeric() && mark != '-') {
        let word = part.trim_end_matches(|mark: char| !mark.is_ascii_alphanumeric() && mark != '-');
        let end = &part[word.len()..];
        let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let (shown, rest) = match word.len() {
            // The id, and what follows it with a dash.
            36.. if word.as_bytes()[8] == b'-' => ("<id>", &word[36..]),
            32 | 64 if is_hex => ("<id>", ""),
            _ => match word.find(|mark: char| !mark.is_ascii_digit()) {
                None if !word.is_empty() => ("<n>", ""),
                Some(at @ 1..) if word.as_bytes()[at] == b'-' => ("<n>", &word[at..]),
                _ => ("", word),
            },
        };
        made.push_str(&format!("{shown}{rest}{end}"));
    }
    made
}

/// Columns that hold words.
const WORDS: [&str; 19] = [
    "acts.action",
    "acts.actor",
    "attempts.class",
    "attempts.error_code",
    "batch_lanes.phase",
    "batches.job_type",
    "batches.state",
    "calls.policy",
    "duties.name",
    "events.id",
    "events.kind",
    "file_chunks.spans",
    "files.place",
    "files.purpose",
    "files.state",
    "keys.role",
    "members.service",
    "message_setup.object_types",
    "results.error_code",
];
/// Columns that hold numbers which stand for words.
const NUMBERS: [&str; 3] = ["calls.state", "results.status", "streams.queue"];
/// Columns that hold JSON.
const JSON: [&str; 9] = [
    "batches.metadata",
    "batches.summary",
    "files.errors",
    "members.metadata",
    "messages.headers",
    "dead_letters.history",
    "dead_letters.headers",
    "events.headers",
    "snapshots.state",
];

/// What the database keeps: words, numbers that stand for words, and the names in what is JSON.
fn stored(database: &Connection) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut add = |place: &str, shown: &dyn Fn(&str) -> Vec<String>| {
        let (table, column) = place.split_once('.').unwrap();
        let query = format!("SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL");
        for text in texts(database, &query) {
            found.extend(shown(&text).iter().map(|shown| format!("{place} {shown}")));
        }
    };
    WORDS.iter().for_each(|place| add(place, &|text| vec![plain(text)]));
    NUMBERS.iter().for_each(|place| add(place, &|text| vec![text.to_owned()]));
    JSON.iter().for_each(|place| {
        let names = |text: &str| paths(&serde_json::from_str(text).unwrap_or_default());
        add(place, &|text| names(text).into_iter().collect());
    });
    found
}

/// Headers that every HTTP client sends.
const USUAL: [&str; 4] = ["accept", "accept-encoding", "content-length", "host"];

/// What upstreams, handlers and receivers are sent: headers, the forms of those that tell repeats, and the
/// names in a body that is ours.
fn sent(upstream: &Upstream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for seen in upstream.seen() {
        let path = seen.path.as_str();
        for name in seen.headers.keys().filter(|name| !USUAL.contains(&name.as_str())) {
            let is_form = ["idempotency-key", "webhook-id"].contains(&name.as_str());
            let form = if is_form { plain(seen.header(name.as_str())) } else { String::new() };
            found.insert(format!("{path} {name} {form}").trim_end().to_owned());
        }
        if ["/wallet", "/orders"].contains(&path) {
            let body: Value = serde_json::from_slice(&seen.body).unwrap();
            found.extend(paths(&body).into_iter().map(|name| format!("{path} body {name}")));
        }
    }
    found
}

/// Asks a server with the admin's key, and gives its whole answer.
async fn ask(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         accept: application/openmetrics-text\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n{body}",
        ADMIN_KEY.1,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Labels whose values are few and fixed.
const FIXED: [&str; 7] = ["outcome", "quantile", "queue", "state", "status", "table", "what"];

/// The metrics of an answer with their types, and the names of their labels, or their values.
fn metrics(answer: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in answer.lines() {
        found.extend(line.strip_prefix("# TYPE ").map(str::to_owned));
        let Some((name, labels)) = line.split_once('{').filter(|_| line.starts_with("windrow"))
        else {
            continue;
        };
        let (labels, _) = labels.rsplit_once('}').unwrap();
        for label in labels.split("\",") {
            let (label, value) = label.split_once("=\"").unwrap();
            let value = value.trim_end_matches('"');
            match FIXED.contains(&label) && value.parse::<u16>().is_err() {
                true => found.insert(format!("{name} {label}={value}")),
                false => found.insert(format!("{name} {label}")),
            };
        }
    }
    found
}

/// One run for all four, since it takes a while.
#[tokio::test]
async fn what_is_printed_stored_sent_and_measured_keeps_its_names() {
    let mut scene = Scene::new().await;
    scene.say(0, &["migrate"]).await;
    let dead = scene.work().await;
    signal(&dead, "KILL").await;
    scene.batches().await;
    let (server, address) = scene.serve().await;
    scene.messages().await;
    let line = scene.workdir.read("a.jsonl").lines().next().unwrap().to_owned();
    let job = ask(&address, "POST /api/jobs?name=a.jsonl", &line).await;
    assert!(job.starts_with("HTTP/1.1 201"), "{job}");
    ask(&address, "GET /v1/batches/batch_00000000000000000000000000000000", "").await;
    scene.until("SELECT count(*) FROM batches WHERE closed_at IS NULL", "0").await;
    scene.until("SELECT count(*) FROM messages WHERE not_before IS NULL", "0").await;
    // The worker that was killed is known to be dead: its silence is not waited for.
    let duties = "messages.upkeep retention sweep";
    scene.until("SELECT name FROM duties ORDER BY 1", duties).await;
    scene.say(0, &["watch", "last"]).await;
    let measured = metrics(&ask(&address, "GET /metrics", "").await);
    let worker = scene.work().await;
    scene.stop("work", worker).await;
    scene.stop("serve", server).await;
    hold("json.txt", scene.fields.clone());
    hold("stored.txt", stored(&scene.database()));
    hold("sent.txt", sent(&scene.upstream));
    hold("metrics.txt", measured);
}
