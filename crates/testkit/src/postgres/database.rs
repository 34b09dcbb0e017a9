//! One database per test, cloned from a template that was migrated once.
//!
//! Holds throughout: two test processes never build the same template at once (an advisory lock),
//! and a template is only cloned when its migration ran to the end (it is marked as one last).

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fmt, fs, thread};

use tokio::time::sleep;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use super::{DATABASE_URL, POOLER_URL};

/// Serialises the making of templates on one server; any number that nobody else uses will do.
const TEMPLATE_LOCK: i64 = 0x77_69_6e_64_72_6f_77;
/// A clone that a killed process left behind is removed when it is older than this.
const LEFTOVER_SECS_MIN: u64 = 24 * 60 * 60;
const CLONE_ATTEMPTS_MAX: u32 = 50;
const POLL_MS: u64 = 50;

/// A database of one test's own; dropped with the value.
#[derive(Debug)]
pub struct Database {
    name: String,
    server: String,
    pooler: Option<String>,
    dropped: bool,
}

impl Database {
    /// A migrated database that nobody else uses.
    ///
    /// `migrate` gets the address of an empty database; it runs once per test program and server.
    ///
    /// # Panics
    /// When there is no server to make it on, or the migration fails: a test cannot go on.
    pub async fn fresh<M, F, E>(migrate: M) -> Self
    where
        M: FnOnce(String) -> F + Send,
        F: Future<Output = Result<(), E>> + Send,
        E: fmt::Debug,
    {
        let server = server_url();
        let admin = connect(&server).await;
        let template = template(&admin, &server, migrate).await;
        Self::clone_of(&admin, server, &template).await
    }

    /// A database with nothing in it, for tests of the migration itself.
    ///
    /// # Panics
    /// When there is no server to make it on.
    pub async fn empty() -> Self {
        let server = server_url();
        let admin = connect(&server).await;
        Self::clone_of(&admin, server, "template0").await
    }

    async fn clone_of(admin: &Client, server: String, template: &str) -> Self {
        let name = clone_name();
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
        let mut attempts = 1;
        // Somebody may be looking at the template for a moment, an autovacuum worker for one.
        while let Err(error) = admin.batch_execute(&statement).await {
            let busy = error.code() == Some(&SqlState::OBJECT_IN_USE);
            assert!(busy && attempts < CLONE_ATTEMPTS_MAX, "could not clone {template}: {error:?}");
            attempts += 1;
            sleep(Duration::from_millis(POLL_MS)).await;
        }
        let pooler = env::var(POOLER_URL).ok().filter(|url| !url.is_empty());
        Self { name, server, pooler, dropped: false }
    }

    /// Its name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// Its address through the transaction pooler, where there is one.
    pub fn pooler_url(&self) -> Option<String> {
        self.pooler.as_deref().map(|pooler| with_database(pooler, &self.name))
    }

    /// How many deadlocks the server has broken in this database.
    ///
    /// Ends the database's other sessions first, since a session adds to the count only when it
    /// has been quiet for a while or ends. So ask last.
    ///
    /// # Panics
    /// When the server cannot be asked.
    pub async fn deadlocks(&self) -> u64 {
        let admin = connect(&self.server).await;
        end_sessions(&admin, &self.name).await;
        let statement = "SELECT deadlocks FROM pg_stat_database WHERE datname = $1";
        let row = admin.query_one(statement, &[&self.name]).await;
        let count: i64 = row.expect("the server keeps statistics for its databases").get(0);
        u64::try_from(count).expect("a count is not negative")
    }

    /// Drops it now, and says so when that fails.
    ///
    /// # Panics
    /// When it cannot be dropped.
    pub async fn close(mut self) {
        self.dropped = true;
        let admin = connect(&self.server).await;
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        admin.batch_execute(&statement).await.expect("a test's own database can be dropped");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.dropped {
            return;
        }
        let server = self.server.clone();
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A runtime of its own: the test's may be shutting down around us.
        let worker = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let admin = try_connect(&server).await.ok()?;
                admin.batch_execute(&statement).await.ok()
            })
        });
        // Best effort: the server is thrown away anyway, or `leftovers` finds the database later.
        let _ = worker.join();
    }
}

fn server_url() -> String {
    match env::var(DATABASE_URL) {
        Ok(url) if !url.is_empty() => url,
        _ => panic!("no PostgreSQL to test on: run `cargo xtask test`, or set {DATABASE_URL}"),
    }
}

async fn connect(url: &str) -> Client {
    try_connect(url)
        .await
        .unwrap_or_else(|error| panic!("could not reach {DATABASE_URL}: {error:?}"))
}

async fn try_connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let config: Config = url.parse()?;
    let (client, connection) = config.connect(NoTls).await?;
    // Ends when the client is dropped.
    tokio::spawn(connection);
    Ok(client)
}

/// The name of the finished template, made first where there is none.
async fn template<M, F, E>(admin: &Client, server: &str, migrate: M) -> String
where
    M: FnOnce(String) -> F + Send,
    F: Future<Output = Result<(), E>> + Send,
    E: fmt::Debug,
{
    let (family, name) = template_name();
    if is_template(admin, &name).await {
        return name;
    }
    let lock = "SELECT pg_advisory_lock($1)";
    admin.execute(lock, &[&TEMPLATE_LOCK]).await.expect("an advisory lock is granted");
    if !is_template(admin, &name).await {
        remove_leftovers(admin, &family).await;
        run(admin, &format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        migrate(with_database(server, &name))
            .await
            .unwrap_or_else(|error| panic!("could not migrate the template database: {error:?}"));
        end_sessions(admin, &name).await;
        run(admin, &format!("ALTER DATABASE {name} IS_TEMPLATE true ALLOW_CONNECTIONS false"))
            .await;
    }
    let unlock = "SELECT pg_advisory_unlock($1)";
    admin.execute(unlock, &[&TEMPLATE_LOCK]).await.expect("the lock is ours to give back");
    name
}

async fn run(admin: &Client, statement: &str) {
    let done = admin.batch_execute(statement).await;
    done.unwrap_or_else(|error| panic!("could not run `{statement}`: {error:?}"));
}

async fn is_template(admin: &Client, name: &str) -> bool {
    let statement = "SELECT datname FROM pg_database WHERE datname = $1 AND datistemplate";
    let found = admin.query_opt(statement, &[&name]).await;
    found.expect("the list of databases can be read").is_some()
}

/// Half-made templates, those of earlier builds of this program, and clones of killed processes.
async fn remove_leftovers(admin: &Client, family: &str) {
    let statement =
        "SELECT datname, datistemplate FROM pg_database WHERE datname LIKE 'windrow\\_%'";
    let rows = admin.query(statement, &[]).await.expect("the list of databases can be read");
    for row in rows {
        let (name, is_template): (String, bool) = (row.get(0), row.get(1));
        if !name.starts_with(family) && !is_old_clone(&name, unix_secs()) {
            continue;
        }
        // A failure leaves it for the next time.
        if is_template {
            let _ = admin.batch_execute(&format!("ALTER DATABASE {name} IS_TEMPLATE false")).await;
        }
        let _ = admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).await;
    }
}

/// Ends every other session in a database and waits until they are gone.
async fn end_sessions(admin: &Client, name: &str) {
    let statement = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                     WHERE datname = $1 AND pid <> pg_backend_pid()";
    loop {
        let row = admin.query_one(statement, &[&name]).await;
        let left: i64 = row.expect("sessions can be ended").get(0);
        if left == 0 {
            return;
        }
        sleep(Duration::from_millis(POLL_MS)).await;
    }
}

/// One template per build of a test program: the schema is compiled in, so a program that did not
/// change has not changed its schema either.
fn template_name() -> (String, String) {
    let program = env::current_exe().expect("a test program knows its own path");
    let built = fs::metadata(&program).and_then(|meta| Ok((meta.len(), meta.modified()?)));
    let family = format!("windrow_template_{:016x}_", hash(&program));
    let name = format!("{family}{:016x}", hash(&built.expect("a program's file can be looked at")));
    (family, name)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

const CLONE_PREFIX: &str = "windrow_test_";

fn clone_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{CLONE_PREFIX}{}_{}_{number}", unix_secs(), std::process::id())
}

fn is_old_clone(name: &str, now: u64) -> bool {
    let made = name.strip_prefix(CLONE_PREFIX).and_then(|rest| rest.split('_').next());
    let made = made.and_then(|secs| secs.parse::<u64>().ok());
    made.is_some_and(|made| made + LEFTOVER_SECS_MIN < now)
}

fn unix_secs() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is past 1970").as_secs()
}

/// The same server, another database; both forms of address are understood.
fn with_database(url: &str, name: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Later keys win over earlier ones.
        return format!("{url} dbname={name}");
    };
    let (before, settings) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = before.split('/').next().unwrap_or(before);
    let question = if settings.is_empty() { "" } else { "?" };
    format!("{scheme}://{authority}/{name}{question}{settings}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_an_address_changes() {
        let cases = [
            ("postgres://me@h:1/a", "postgres://me@h:1/b"),
            ("postgres://me@h:1", "postgres://me@h:1/b"),
            ("postgres://me@h/a?connect_timeout=3", "postgres://me@h/b?connect_timeout=3"),
            ("host=h user=me dbname=a", "host=h user=me dbname=a dbname=b"),
        ];
        for (url, wanted) in cases {
            assert_eq!(with_database(url, "b"), wanted);
        }
        let config: Config = with_database("host=h dbname=a", "b").parse().unwrap();
        assert_eq!(config.get_dbname(), Some("b"));
    }

    #[test]
    fn only_old_clones_are_leftovers() {
        assert!(is_old_clone("windrow_test_1000_7_0", 1000 + LEFTOVER_SECS_MIN + 1));
        assert!(!is_old_clone("windrow_test_1000_7_0", 1000 + LEFTOVER_SECS_MIN));
        assert!(!is_old_clone("windrow_template_1000", u64::MAX));
        assert!(!is_old_clone("customers", u64::MAX));
    }
}
