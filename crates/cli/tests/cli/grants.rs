//! The roles that `windrow grants` makes: what each of them can do with this program.

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};
use windrow_testkit::postgres::Database;
use windrow_testkit::upstream::{Reply, Script, Upstream};

use crate::support::{CommandOutput, Workdir, ended, signal};

/// Looks that are taken for something to happen. Each starts a process.
const LOOKS_MAX: u32 = 300;

/// A database and its four roles: who owns the schema, and those who are granted their rights.
struct Ground {
    workdir: Workdir,
    database: Database,
    superuser: Client,
    _connection: JoinSet<()>,
}

const ROLES: [&str; 4] = ["own", "app", "mon", "adm"];

impl Ground {
    async fn new() -> Self {
        let (workdir, database) = (Workdir::new(), Database::empty().await);
        let (superuser, connection) =
            tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        let mut driving = JoinSet::new();
        driving.spawn(async move { drop(connection.await) });
        let ground = Self { workdir, database, superuser, _connection: driving };
        for role in ROLES {
            let role = ground.role(role);
            ground.superuser.batch_execute(&format!("CREATE ROLE {role}")).await.unwrap();
        }
        let (name, owner) = (ground.database.name(), ground.role("own"));
        let rights = format!(
            "GRANT CREATE ON DATABASE {name} TO {owner}; GRANT CREATE ON SCHEMA public TO {owner}"
        );
        ground.superuser.batch_execute(&rights).await.unwrap();
        ground
    }

    fn role(&self, kind: &str) -> String {
        format!("{}_{kind}", self.database.name())
    }

    /// The database as a role reaches it.
    fn url(&self, kind: &str) -> String {
        format!("{}?options=-c%20role%3D{}", self.database.url(), self.role(kind))
    }

    async fn windrow(&self, kind: &str, args: &[&str]) -> CommandOutput {
        let url = self.url(kind);
        self.workdir.windrow_with(args, &[("WINDROW_DATABASE_URL", &url)]).await
    }

    /// It must go well.
    async fn good(&self, kind: &str, args: &[&str]) -> CommandOutput {
        let output = self.windrow(kind, args).await;
        assert_eq!(output.code, 0, "{kind}: {args:?}: {output:?}");
        output
    }

    /// It must be refused.
    async fn refused(&self, kind: &str, args: &[&str], words: &str) {
        let output = self.windrow(kind, args).await;
        assert_eq!(output.code, 1, "{kind}: {args:?}: {output:?}");
        assert!(output.err.contains(words), "{kind}: {args:?}: {output:?}");
    }

    async fn until(&self, kind: &str, args: &[&str], is_it: impl Fn(&CommandOutput) -> bool) {
        for _ in 0..LOOKS_MAX {
            if is_it(&self.good(kind, args).await) {
                return;
            }
        }
        panic!("{args:?} still says {:?}", self.windrow(kind, args).await);
    }

    fn spawn(&self, kind: &str, args: &[&str]) -> Child {
        let url = self.url(kind);
        self.workdir.command(args, &[("WINDROW_DATABASE_URL", &url)]).spawn().unwrap()
    }

    /// Gives the rights, through the program.
    async fn grant(&self) -> CommandOutput {
        let [app, monitor, admin] = ["app", "mon", "adm"].map(|kind| self.role(kind));
        let roles = ["--app", &app, "--monitor", &monitor, "--admin", &admin, "--apply"];
        self.windrow("own", &[&["grants"][..], &roles].concat()).await
    }

    async fn count(&self, table: &str) -> i64 {
        let statement = format!("SELECT count(*) FROM windrow.{table}");
        self.superuser.query_one(&statement, &[]).await.unwrap().get(0)
    }

    /// Roles outlive their database.
    async fn clear(self) {
        for role in ROLES {
            let role = self.role(role);
            let clear = format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}");
            self.superuser.batch_execute(&clear).await.unwrap();
        }
    }
}

async fn stop(child: Child) {
    signal(&child, "TERM").await;
    let output = ended(child).await;
    assert_eq!(output.code, 0, "{output:?}");
}

const MIGRATE: &str = "run `windrow migrate`, then `windrow grants";

#[tokio::test]
async fn a_role_without_rights_is_told_who_has_them() {
    let ground = Ground::new().await;
    // What reads creates nothing; what would create must be allowed to.
    ground.refused("adm", &["messages"], "has no Windrow schema yet").await;
    ground.refused("adm", &["keys", "create"], MIGRATE).await;
    ground.good("own", &["migrate"]).await;
    ground.refused("adm", &["messages"], MIGRATE).await;
    let output = ground.grant().await;
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.starts_with("Granted: "), "{output:?}");
    assert_eq!(ground.grant().await.code, 0, "a repeat");
    ground.good("adm", &["messages"]).await;
    ground.refused("app", &["messages"], MIGRATE).await;
    let output = ground.windrow("adm", &["migrate"]).await;
    assert_eq!(output.code, 0, "nothing to do needs no right: {output:?}");
    ground.clear().await;
}

/// A wallet that says yes, and an upstream that echoes.
fn script() -> Script {
    Script::new(|seen| match seen.path.as_str() {
        "/wallet" => Reply::json(200, r#"{"reply":{"ok":true}}"#),
        _ => Reply::json(200, "{}"),
    })
}

/// What messages are run with, and where lines go.
fn configure(workdir: &Workdir, upstream: &Upstream) {
    let url = upstream.url();
    let config = format!(
        "[messages]\npartitions = 8\npoll_ms = 200\n[objects.wallet]\nurl = \"{url}/wallet\"\n\
         [publish.hook]\ntype = \"webhook\"\nurl = \"{url}/hook\"\n\
         [upstreams.default]\nbase_url = \"{url}\"\n"
    );
    workdir.write("windrow.toml", &config);
}

#[tokio::test]
async fn who_administers_works_serves_and_sends() {
    let (ground, upstream) = (Ground::new().await, Upstream::start(script()).await.unwrap());
    configure(&ground.workdir, &upstream);
    ground.good("own", &["migrate"]).await;
    assert_eq!(ground.grant().await.code, 0);
    ground.workdir.requests("a.jsonl", 20);
    let output = ground.good("adm", &["ingest", "a.jsonl", "--batch", "--json"]).await;
    let batch = output.json()["batch"]["id"].as_str().unwrap().to_owned();
    let worker = ground.spawn("adm", &["work"]);
    ground.good("adm", &["watch", &batch]).await;
    let output = ground.good("adm", &["results", &batch]).await;
    assert_eq!(output.out.lines().count(), 20, "{output:?}");
    let output = ground.good("adm", &["call", "wallet", "7", "deposit", "{}", "--id", "r1"]).await;
    assert_eq!(output.out.trim(), r#"{"ok":true}"#);
    ground.good("adm", &["messages", "send", "shop", "shop.opened", "{}"]).await;
    ground.good("adm", &["events", "append", "wallet/7", "note", "{}"]).await;
    let is_empty = |output: &CommandOutput| output.json()["rows"].as_array().unwrap().is_empty();
    ground.until("adm", &["messages", "--all", "--json"], is_empty).await;
    stop(worker).await;

    let mut server = ground.spawn("adm", &["serve", "--listen", "127.0.0.1:0"]);
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut output = String::new();
    while !output.contains("http://127.0.0.1:") {
        output = lines.next_line().await.unwrap().expect("it says where it listens");
    }
    let output = ground.good("adm", &["call", "wallet", "8", "deposit", "{}", "--id", "r2"]).await;
    assert_eq!(output.out.trim(), r#"{"ok":true}"#);
    drop(lines);
    stop(server).await;
    ground.clear().await;
}

#[tokio::test]
async fn who_monitors_reads_everything_but_the_keys_and_writes_nothing() {
    let (ground, upstream) = (Ground::new().await, Upstream::start(script()).await.unwrap());
    ground.good("own", &["migrate"]).await;
    configure(&ground.workdir, &upstream);
    assert_eq!(ground.grant().await.code, 0);
    ground.workdir.requests("a.jsonl", 3);
    ground.good("adm", &["ingest", "a.jsonl", "--batch"]).await;
    let worker = ground.spawn("adm", &["work"]);
    let is_run = |output: &CommandOutput| !output.out.contains("never run");
    ground.until("mon", &["partitions"], is_run).await;
    ground.good("adm", &["call", "wallet", "7", "deposit", "{}", "--id", "r1"]).await;
    stop(worker).await;

    for args in [
        &["calls", "stats"][..],
        &["calls", "--all"],
        &["calls", "get", "r1"],
        &["messages"],
        &["messages", "--all"],
        &["dead-letters"],
        &["events", "read", "wallet/7"],
        &["instances"],
        &["partitions"],
        &["batches"],
        &["doctor"],
    ] {
        ground.good("mon", args).await;
    }
    let denied = "permission denied";
    ground.refused("mon", &["keys", "list"], denied).await;
    let tables = ["messages", "events", "calls", "batches", "members"];
    let mut before = Vec::new();
    for table in tables {
        before.push(ground.count(table).await);
    }
    ground.refused("mon", &["messages", "send", "s", "k", "{}"], denied).await;
    ground.refused("mon", &["events", "append", "s", "k", "{}"], denied).await;
    ground.refused("mon", &["call", "wallet", "7", "deposit", "{}"], denied).await;
    ground.refused("mon", &["ingest", "a.jsonl", "--batch"], denied).await;
    ground.refused("mon", &["work"], denied).await;
    for (table, before) in tables.into_iter().zip(before) {
        assert_eq!(ground.count(table).await, before, "{table}");
    }
    ground.clear().await;
}

#[tokio::test]
async fn an_application_sends_and_appends_and_has_no_use_for_the_program() {
    let (ground, upstream) = (Ground::new().await, Upstream::start(script()).await.unwrap());
    configure(&ground.workdir, &upstream);
    ground.good("own", &["migrate"]).await;
    assert_eq!(ground.grant().await.code, 0);
    let worker = ground.spawn("adm", &["work"]);
    let is_run = |output: &CommandOutput| !output.out.contains("never run");
    ground.until("mon", &["partitions"], is_run).await;
    let (app, connection) = tokio_postgres::connect(&ground.url("app"), NoTls).await.unwrap();
    let mut driving = JoinSet::new();
    driving.spawn(async move { drop(connection.await) });
    app.batch_execute("SELECT windrow.send('outbox', 'local', 's', 'k', '{}')").await.unwrap();
    app.batch_execute("SELECT windrow.append('local', 's', 'k', '{}')").await.unwrap();
    for statement in ["SELECT FROM windrow.messages", "DELETE FROM windrow.events"] {
        app.batch_execute(statement).await.unwrap_err();
    }
    for args in [&["messages"][..], &["messages", "send", "s", "k", "{}"], &["work"]] {
        ground.refused("app", args, MIGRATE).await;
    }
    let is_empty = |output: &CommandOutput| output.json()["rows"].as_array().unwrap().is_empty();
    ground.until("mon", &["messages", "--all", "--json"], is_empty).await;
    stop(worker).await;
    drop((app, driving));
    ground.clear().await;
}
