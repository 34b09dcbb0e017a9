//! The one way to the database: a pool, and calls that are one pipelined write each.
//!
//! Holds throughout: `BEGIN`, the timeouts, the statements and `COMMIT` leave together, so a process
//! that is stopped in between holds no lock for longer than the idle timeout.

use std::borrow::Cow;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use futures_util::future::{join, join_all};
use jiff::Timestamp;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Connection, NoTls, Row, Socket};
use windrow_domain::millis;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::{Gauges, pool_wait};

use crate::error::{from_driver, from_pool};
use crate::migrate::functions_schema;
use crate::{Options, function};

/// The text of a statement: a file's, or a call of a function of this build.
#[derive(Clone, Copy)]
pub(crate) enum Sql {
    /// The text of a file.
    Text(&'static str),
    /// A call of the function in `sql/<name>.sql`, for its one value.
    Value(&'static str),
    /// A call of the function in `sql/<name>.sql`, for its rows.
    Rows(&'static str),
}

/// The statement in `sql/<name>.sql`.
macro_rules! sql {
    ($name:literal) => {
        $crate::db::Sql::Text(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/sql/",
            $name,
            ".sql"
        )))
    };
}
pub(crate) use sql;

impl Sql {
    /// Calls the function of that file, `stage/name`; its value is the column `answer`.
    pub(crate) const fn value(name: &'static str) -> Self {
        Self::Value(name)
    }

    /// Calls the function of that file, `stage/name`; its rows have the columns that it names.
    pub(crate) const fn rows(name: &'static str) -> Self {
        Self::Rows(name)
    }

    /// The text for so many parameters, with the schema of this build's functions in it.
    pub(crate) fn text(self, params: usize) -> Cow<'static, str> {
        match self {
            Self::Text(source) => with_functions(source),
            Self::Value(name) => Cow::Owned(function::value_call(name, params)),
            Self::Rows(name) => Cow::Owned(function::rows_call(name, params)),
        }
    }
}

pub(crate) fn with_functions(source: &'static str) -> Cow<'static, str> {
    if source.contains("{fn}") {
        Cow::Owned(source.replace("{fn}", functions_schema()))
    } else {
        Cow::Borrowed(source)
    }
}

/// A parameter with its type, so that a statement can also be run without preparing it.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement with its parameters.
pub(crate) struct Statement<'a> {
    pub(crate) sql: Sql,
    pub(crate) params: &'a [Param<'a>],
}

/// Whether the statements that were sent behind the transaction's end succeeded.
type Afterwards = Result<(), tokio_postgres::Error>;

/// What a URL with `sslmode=require` is refused with.
const NO_TLS: &str = "sslmode=require cannot be met: Windrow has no TLS to PostgreSQL yet; leave it out \
                      on a network that you trust, or connect through a tunnel or a pooler beside this \
                      process that speaks TLS";

/// The pool and what bounds a call.
#[derive(Clone)]
pub(crate) struct Db {
    pool: Pool,
    config: Config,
    pub(crate) options: Options,
    begin: String,
    begin_early: String,
    begin_snapshot: String,
    /// How a transaction of several steps ends and is undone: what it set for the session is set back.
    end: String,
    undo: String,
    bounds: String,
    waits: Arc<Waits>,
}

/// How calls waited for the pool.
#[derive(Default)]
struct Waits {
    count: AtomicU64,
    micros: AtomicU64,
}

impl Db {
    pub(crate) fn open(options: Options) -> Result<Self> {
        let refused = |cause: tokio_postgres::Error| {
            Error::new(Kind::Invalid, "read database address", "url").because(cause)
        };
        let mut config = Config::from_str(&options.url).map_err(refused)?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(Error::new(Kind::Invalid, "read database address", "url").because(NO_TLS));
        }
        config.connect_timeout(options.acquire_timeout);
        config.tcp_user_timeout(Duration::from_secs(30));
        config.keepalives_idle(Duration::from_secs(15));
        if config.get_application_name().is_none() {
            config.application_name("windrow");
        }
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let wait = Some(options.acquire_timeout);
        let bounded = [options.lock_timeout, options.statement_timeout, options.idle_timeout];
        let bounded = bounded.map(millis);
        // Statements that are their own transaction have no BEGIN that would say so.
        let isolation = "SET default_transaction_isolation = 'read committed'";
        let session = format!("{}; {isolation}", bounds("SET", bounded));
        let pool = Pool::builder(Manager::from_config(config.clone(), NoTls, recycling))
            .post_create(set_once(options.transaction_pooler, &session))
            .max_size(options.pool_max)
            .runtime(Runtime::Tokio1)
            .wait_timeout(wait)
            .create_timeout(wait)
            .recycle_timeout(wait)
            .build()
            .map_err(|cause| Error::new(Kind::Invalid, "open pool", "pool").because(cause))?;
        let bounds = bounds("SET LOCAL", bounded);
        // A pooler's connection is not ours for longer than a transaction.
        let (begin, and) = match options.transaction_pooler {
            true => (format!("{BEGIN}; {bounds}"), format!("; {RESET}")),
            false => (BEGIN.to_owned(), format!("; {RESET}; {session}")),
        };
        let bounds = format!("{bounds}; {DURABLE}");
        let begin_snapshot = begin.replace(BEGIN, BEGIN_SNAPSHOT);
        let begin_early = format!("{begin}; SET LOCAL synchronous_commit = off");
        let (end, undo) = (format!("{COMMIT}{and}"), format!("ROLLBACK{and}"));
        let waits = Arc::default();
        Ok(Self {
            pool,
            config,
            options,
            begin,
            begin_early,
            begin_snapshot,
            end,
            undo,
            bounds,
            waits,
        })
    }

    /// The given time, or none for the database's own.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.options.time.now()
    }

    /// How a transaction begins.
    pub(crate) fn begin(&self) -> &str {
        &self.begin
    }

    #[expect(clippy::disallowed_methods, reason = "a gauge measures; nothing is decided by it")]
    pub(crate) async fn client(&self) -> Result<Object> {
        // A connection that has to be made first is no sign of a pool that is too busy.
        let pool = self.pool.status();
        let is_taken = pool.available == 0 && pool.size >= pool.max_size;
        let began = Instant::now();
        let client = self.pool.get().await;
        let waited = began.elapsed();
        if is_taken {
            pool_wait::note(waited);
        }
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waits.count.fetch_add(1, Ordering::Relaxed);
        self.waits.micros.fetch_add(micros, Ordering::Relaxed);
        client.map_err(from_pool)
    }

    /// A connection outside the pool, for a listener that keeps it as long as it lives.
    pub(crate) async fn connection(&self) -> Result<(Client, Connection<Socket, NoTlsStream>)> {
        let connected = self.config.connect(NoTls).await;
        connected.map_err(from_driver)
    }

    /// How busy the pool is.
    pub(crate) fn gauges(&self) -> Gauges {
        let pool = self.pool.status();
        Gauges {
            connections_max: pool.max_size,
            connections_open: pool.size,
            connections_idle: pool.available.min(pool.size),
            waiting: pool.waiting,
            pool_waits: self.waits.count.load(Ordering::Relaxed),
            pool_wait_micros: self.waits.micros.load(Ordering::Relaxed),
            ..Gauges::default()
        }
    }

    /// Runs one statement in its own transaction.
    pub(crate) async fn rows(&self, sql: Sql, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let mut answers = self.call(&[Statement { sql, params }]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Runs one statement that is its own transaction: nothing is sent before or after it, so it
    /// costs the server one statement. For short ones that lock at most one row, because
    /// behind a pooler the server's timeouts are not set; the wait here is bounded all the same.
    pub(crate) async fn lone(&self, sql: Sql, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let alone = [Statement { sql, params }];
        let mut answers = self.call_within(None, &alone, &[]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Whether a sweep has something to do, asked in one statement that locks nothing: most sweeps
    /// find nothing, and the others pay one look more.
    pub(crate) async fn found(&self, sql: Sql, params: &[Param<'_>]) -> Result<bool> {
        let answer = self.lone(sql, params).await?;
        Ok(answer.first().is_some_and(|row| row.get("found")))
    }

    /// Runs statements in one transaction, sent in one write.
    pub(crate) async fn call(&self, calls: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        self.call_within(Some(&self.begin), calls, &[]).await
    }

    /// Runs statements in one transaction whose locks end before its write to disk does: the commit
    /// does not wait for the disk, a second one right behind it does, and only then is there an
    /// answer. Many such calls share one write to disk, also when they waited for the same row.
    pub(crate) async fn call_early(&self, calls: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        // A pooler may take the first commit for the end, and give the connection to another caller.
        if self.options.transaction_pooler {
            return self.call(calls).await;
        }
        self.call_within(Some(&self.begin_early), calls, &[FLUSH]).await
    }

    /// The same for one statement that is its own transaction, and says itself that its commit does not
    /// wait for the disk. Not behind a pooler.
    pub(crate) async fn lone_early(&self, sql: Sql, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let alone = [Statement { sql, params }];
        let mut answers = self.call_within(None, &alone, &[FLUSH]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Runs reads that see the same moment.
    pub(crate) async fn snapshot(&self, calls: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        // An audit reads everything; the wait here is its bound.
        let begin =
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0";
        self.call_within(Some(begin), calls, &[]).await
    }

    /// Begins a read of several steps that all see the same moment, with its first statements.
    pub(crate) async fn begin_snapshot(
        &self,
        calls: &[Statement<'_>],
    ) -> Result<(Snapshot<'_>, Vec<Vec<Row>>)> {
        let snapshot = Snapshot { db: self, client: TransactionClient::of(self.client().await?) };
        let answers = snapshot.step((Some(&self.begin_snapshot), None), calls).await?;
        Ok((snapshot, answers))
    }

    /// Without a beginning, the statement is its own transaction.
    async fn call_within(
        &self,
        begin: Option<&str>,
        calls: &[Statement<'_>],
        after: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let client = TransactionClient::of(self.client().await?);
        let answers = self
            .in_time(self.pipeline(&client, (begin, begin.map(|_| COMMIT)), calls, after))
            .await?;
        // Answered, well or badly: its transaction has ended.
        client.leave();
        let (answers, afterwards) = answers.map_err(from_driver)?;
        afterwards.map_err(unknown)?;
        Ok(answers)
    }

    /// Begins a transaction of several steps with these bounds, see [`bounds`], and its first statement.
    pub(crate) async fn enter(
        &self,
        client: &TransactionClient,
        bounded: [u64; 3],
        first: &Statement<'_>,
    ) -> Result<(), tokio_postgres::Error> {
        let begin = format!("{BEGIN}; {}", bounds("SET LOCAL", bounded));
        let ready = self.ready(client, first).await?;
        let (begun, answer) =
            join(client.batch_execute(&begin), run(client, (first, &ready))).await;
        begun?;
        answer.map(drop)
    }

    /// Ends such a transaction with these statements, under the usual bounds.
    pub(crate) async fn end(
        &self,
        client: TransactionClient,
        calls: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let frame = (Some(self.bounds.as_str()), Some(self.end.as_str()));
        let answers = self.pipeline(&client, frame, calls, &[]);
        match self.in_time(answers).await? {
            Ok((answers, _)) => {
                client.leave();
                Ok(answers)
            }
            Err(cause) => {
                self.undo(client).await;
                Err(from_driver(cause))
            }
        }
    }

    /// Undoes such a transaction, if it has not ended, and gives its connection back. One that does not
    /// answer is closed.
    pub(crate) async fn undo(&self, client: TransactionClient) {
        let undone = self.in_time(client.batch_execute(&self.undo)).await;
        if matches!(undone, Ok(Ok(()))) {
            client.leave();
        }
    }

    /// Waits no longer than the server itself may take: a network that swallows everything must not
    /// hold the caller for ever. The connection of a call that is late is not used again.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let Options { acquire_timeout, lock_timeout, statement_timeout, idle_timeout, .. } =
            self.options;
        let longest = acquire_timeout + lock_timeout + statement_timeout + idle_timeout;
        let done = tokio::time::timeout(longest, work).await;
        done.map_err(|late| Error::of(Kind::Unavailable).because(late))
    }

    /// Sends everything in one write. What comes `after` runs once the transaction has ended, and says by
    /// itself how that went.
    async fn pipeline(
        &self,
        client: &Object,
        (begin, end): (Option<&str>, Option<&str>),
        calls: &[Statement<'_>],
        after: &[Statement<'_>],
    ) -> Result<(Vec<Vec<Row>>, Afterwards), tokio_postgres::Error> {
        let mut ready = Vec::with_capacity(calls.len() + after.len());
        for call in calls.iter().chain(after) {
            ready.push(self.ready(client, call).await?);
        }
        let (inside, outside) = ready.split_at(calls.len());
        let run = |calls, ready| join_all(std::iter::zip(calls, ready).map(|it| run(client, it)));
        let say = async |text: Option<&str>| match text {
            Some(text) => client.batch_execute(text).await,
            None => Ok(()),
        };
        let ended = join(say(end), run(after, outside));
        let (begun, (answers, (committed, afterwards))) =
            join(say(begin), join(run(calls, inside), ended)).await;
        begun?;
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        committed?;
        let afterwards = afterwards.into_iter().try_for_each(|answer| answer.map(drop));
        Ok((answers, afterwards))
    }

    /// Prepares a statement once for each connection, or not at all behind a transaction pooler.
    async fn ready(
        &self,
        client: &Object,
        call: &Statement<'_>,
    ) -> Result<Ready, tokio_postgres::Error> {
        let text = call.sql.text(call.params.len());
        if self.options.transaction_pooler {
            return Ok(Ready::Typed(text));
        }
        let types: Vec<_> = call.params.iter().map(|param| param.1.clone()).collect();
        client.prepare_typed_cached(&text, &types).await.map(Ready::Prepared)
    }
}

/// The error of a call that was committed while it is unknown whether it reached the disk. Its kind
/// does not promise that nothing happened.
fn unknown(cause: tokio_postgres::Error) -> Error {
    Error::of(Kind::Unavailable).because(cause)
}

/// Waits for the disk, behind a commit that did not.
const FLUSH: Statement<'static> = Statement { sql: sql!("record/flush"), params: &[] };

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const COMMIT: &str = "COMMIT";
/// Undoes whatever a script may have done to its session. What is prepared stays.
const RESET: &str = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; UNLISTEN *; CLOSE ALL; \
                     SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES";
/// Before a script's effects are written: what it may have set must not decide when they are durable.
const DURABLE: &str = "SET LOCAL synchronous_commit TO DEFAULT";

/// Sets the bounds of a new connection, once: a transaction then need not set them again.
fn set_once(transaction_pooler: bool, session: &str) -> Hook {
    let text = session.to_owned();
    Hook::async_fn(move |client, _| {
        let text = text.clone();
        Box::pin(async move {
            if transaction_pooler {
                Ok(())
            } else {
                client.batch_execute(&text).await.map_err(HookError::Backend)
            }
        })
    })
}

/// How long, in milliseconds, the server waits for a lock, a statement and its client.
fn bounds(set: &str, [lock_ms, statement_ms, idle_ms]: [u64; 3]) -> String {
    format!(
        "{set} jit = off; {set} lock_timeout = {lock_ms}; {set} statement_timeout = {statement_ms}; \
         {set} idle_in_transaction_session_timeout = {idle_ms}"
    )
}

/// A read of several steps that see the same moment. It holds a connection and no lock.
pub(crate) struct Snapshot<'d> {
    db: &'d Db,
    client: TransactionClient,
}

impl Snapshot<'_> {
    /// The next step.
    pub(crate) async fn rows(&self, sql: Sql, params: &[Param<'_>]) -> Result<Vec<Row>> {
        let mut answers = self.step((None, None), &[Statement { sql, params }]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// The last step.
    pub(crate) async fn last(self, calls: &[Statement<'_>]) -> Result<Vec<Vec<Row>>> {
        let answers = self.step((None, Some(COMMIT)), calls).await?;
        self.client.leave();
        Ok(answers)
    }

    async fn step(
        &self,
        frame: (Option<&str>, Option<&str>),
        calls: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let answers = self.db.pipeline(&self.client, frame, calls, &[]);
        let (answers, _) = self.db.in_time(answers).await?.map_err(from_driver)?;
        Ok(answers)
    }
}

/// A connection inside a transaction that takes several steps. When the steps are given up half way,
/// the connection is closed: in the pool, its transaction would become the next caller's.
pub(crate) struct TransactionClient(Option<Object>);

impl TransactionClient {
    pub(crate) fn of(client: Object) -> Self {
        Self(Some(client))
    }

    /// The transaction has ended: the connection may serve others.
    pub(crate) fn leave(mut self) {
        drop(self.0.take());
    }
}

impl Deref for TransactionClient {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0.as_ref().expect("it is there until the transaction has ended")
    }
}

impl Drop for TransactionClient {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

async fn run(
    client: &Object,
    (call, ready): (&Statement<'_>, &Ready),
) -> Result<Vec<Row>, tokio_postgres::Error> {
    match ready {
        Ready::Prepared(statement) => {
            let params: Vec<_> = call.params.iter().map(|param| param.0).collect();
            client.query(statement, &params).await
        }
        Ready::Typed(text) => client.query_typed(text, call.params).await,
    }
}

enum Ready {
    Prepared(tokio_postgres::Statement),
    Typed(Cow<'static, str>),
}
