//! Own transactions: a script's SQL and what comes of its message, in one transaction.
//!
//! Holds throughout: the fence is proved before the script begins, and held until its transaction ends;
//! what the script writes and the commit that it returns happen together or not at all; a script that
//! fails, panics or is late leaves nothing. After a statement that failed, no other one is run and
//! nothing is committed, whatever the script makes of it.
//! Absent on purpose: a list of the tables that a script may write. It must leave Windrow's own
//! tables alone, which change by verbs only, and must not wait for another call of the store, which
//! may itself wait for the script.

use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::timeout;
use windrow_domain::InstanceId;

use crate::error::{self, Cause};
use crate::message::{Commit, Committed};
use crate::partition::Fence;
use crate::{Error, Kind, Result};

/// Longest run of a script. Less than others wait for a lock: they wait for the script, too.
pub const SCRIPT_MS_MAX: u64 = 4_000;
/// Most rows that one query gives.
pub const QUERY_ROWS_MAX: usize = 10_000;
/// Most bytes of them.
pub const QUERY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a script's statement is called when it fails.
const RUN: &str = "run statement";

/// How a statement may begin. Whatever ends a transaction, or changes a connection that others use
/// afterwards, is not among it.
const STATEMENTS: [&str; 11] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "VALUES", "MERGE", "REPLACE", "CREATE",
    "ALTER", "DROP",
];

/// A value in a statement or a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL's `NULL`.
    Null,
    /// Yes or no. SQLite gives it back as a number.
    Bool(bool),
    /// A whole number; `bigint`.
    Int(i64),
    /// A number; `double precision`.
    Real(f64),
    /// A text; `text`. What a database has no better type for here (`uuid`, `jsonb`, `timestamptz`) is
    /// read as text.
    Text(String),
    /// Bytes; `bytea`.
    Bytes(Bytes),
}

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Real(_) => size_of::<Self>(),
            Value::Text(text) => size_of::<Self>() + text.len(),
            Value::Bytes(bytes) => size_of::<Self>() + bytes.len(),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

/// The transaction as a script sees it. One statement at a time: one that reads or changes rows, or a
/// table's definition. Its parameters are `$1`, `$2`, …; a parameter has the type of its value, and is
/// cast where the database wants another one (`$1::uuid`).
#[async_trait]
pub trait Sql: Send {
    /// Runs a statement; gives how many rows it inserted, updated or deleted.
    async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64>;

    /// Runs a statement and gives its rows. `Invalid` past [`QUERY_ROWS_MAX`] or [`QUERY_BYTES_MAX`].
    async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<Vec<Value>>>;
}

/// What runs inside a transaction.
#[async_trait]
pub trait Script: Send {
    /// Does its own work and says what is to be committed with it. An error undoes all of it, and
    /// comes back inside of [`ScriptError::Failed`].
    async fn run(self: Box<Self>, sql: &mut dyn Sql) -> Result<Commit, Cause>;
}

/// `Invalid` when a script would get no time, or too much.
pub fn check_script_ms(ms_max: u64) -> Result<()> {
    error::within("ms_max", ms_max, SCRIPT_MS_MAX)
}

/// Commits whose SQL the program writes itself.
#[async_trait]
pub trait Transactions {
    /// One transaction: proves the fences, runs the script, writes the commit that it returns. That
    /// commit is the same instance's, under no other fences. `LeaseLost` before the script has begun
    /// when the fences are not the instance's; else as [`crate::Messages::commit`]. When the script
    /// itself is why nothing happened, [`Error::script_error`] says so. `ms_max`, up to [`SCRIPT_MS_MAX`],
    /// bounds the script, not the commit behind it.
    async fn commit_with(
        &self,
        instance: InstanceId,
        fences: &[Fence],
        ms_max: u64,
        script: Box<dyn Script>,
    ) -> Result<Committed>;
}

/// A script that did not come to its end. Nothing happened.
#[derive(Debug)]
pub enum ScriptError {
    /// Its own error; or it went on after a statement that failed.
    Failed(Cause),
    /// It panicked, with this word.
    Panicked(String),
    /// It took longer than it may, in milliseconds.
    Late(u64),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptError::Failed(cause) => write!(f, "the script failed: {cause}"),
            ScriptError::Panicked(text) => write!(f, "the script panicked: {text}"),
            ScriptError::Late(ms_max) => write!(f, "the script did not end within {ms_max} ms"),
        }
    }
}

impl StdError for ScriptError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            ScriptError::Failed(cause) => cause.source(),
            ScriptError::Panicked(_) | ScriptError::Late(_) => None,
        }
    }
}

impl ScriptError {
    /// The store's error for it.
    pub fn into_error(self) -> Error {
        let kind = match self {
            ScriptError::Failed(_) | ScriptError::Panicked(_) => Kind::Invalid,
            ScriptError::Late(_) => Kind::Busy,
        };
        Error::of(kind).because(self)
    }
}

impl Error {
    /// How a script broke off, when that is why nothing happened.
    pub fn script_error(&self) -> Option<&ScriptError> {
        StdError::source(self)?.downcast_ref()
    }
}

/// What a statement gave.
#[derive(Debug, Default)]
pub struct StatementResult {
    /// Rows that it changed.
    pub changed: u64,
    /// Rows that it gave.
    pub rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl StatementResult {
    /// Takes a row in, within the bounds of a query.
    pub fn push(&mut self, row: Vec<Value>) -> Result<()> {
        self.bytes += row.iter().map(Value::bytes).sum::<usize>();
        self.rows.push(row);
        error::within("rows", self.rows.len() as u64, QUERY_ROWS_MAX as u64)?;
        error::at_most("bytes", self.bytes, QUERY_BYTES_MAX)
    }
}

/// A backend's way to run statements inside the transaction.
#[async_trait]
pub trait SqlSession: Send {
    /// Runs one statement that may be run.
    async fn run(&mut self, sql: &str, params: &[Value]) -> Result<StatementResult>;
}

/// For backends: which instance runs a script, under which fences, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct ScriptRun<'a> {
    /// The instance that commits.
    pub instance: InstanceId,
    /// What was proved before.
    pub fences: &'a [Fence],
    /// How long the script may take.
    pub ms_max: u64,
}

impl ScriptRun<'_> {
    /// Runs a script until it ends or its time is over; gives what is to be committed. When it gives an
    /// error, the backend undoes the transaction.
    pub async fn script(
        &self,
        script: Box<dyn Script>,
        session: &mut dyn SqlSession,
    ) -> Result<Commit> {
        let mut guarded = Guarded { session, failed: None };
        let running = AssertUnwindSafe(script.run(&mut guarded)).catch_unwind();
        let ran = match timeout(Duration::from_millis(self.ms_max), running).await {
            Ok(Ok(ran)) => ran.map_err(ScriptError::Failed),
            Ok(Err(panic)) => Err(ScriptError::Panicked(error::panic_text(&*panic).to_owned())),
            Err(_) => Err(ScriptError::Late(self.ms_max)),
        };
        let script_error = match (ran, guarded.failed) {
            // The database went away; what the script made of that says nothing about the script.
            (_, Some((Kind::Unavailable, told))) => {
                return Err(Error::of(Kind::Unavailable).because(told));
            }
            (Ok(commit), None) => return self.checked(commit),
            (Ok(_), Some((_, told))) => ScriptError::Failed(told.into()),
            (Err(script_error), _) => script_error,
        };
        Err(script_error.into_error())
    }

    fn checked(&self, commit: Commit) -> Result<Commit> {
        commit.check()?;
        let is_fenced = commit.fences.iter().all(|fence| self.fences.contains(fence));
        if commit.instance != self.instance || !is_fenced {
            let because = "a script commits for its own instance, under the fences it was given";
            return Err(Error::invalid("fences", because));
        }
        Ok(commit)
    }
}

/// The way to the database with what a script may not do taken out.
struct Guarded<'a> {
    session: &'a mut dyn SqlSession,
    /// The first statement that failed.
    failed: Option<(Kind, String)>,
}

impl Guarded<'_> {
    async fn run(&mut self, sql: &str, params: &[Value]) -> Result<StatementResult> {
        if let Some((kind, told)) = &self.failed {
            let because = format!("a statement before it failed: {told}");
            return Err(Error::new(*kind, RUN, "").because(because));
        }
        let ran = match check_statement(sql) {
            Ok(()) => self.session.run(sql, params).await,
            Err(refused) => Err(refused),
        };
        ran.map_err(|error| {
            let mut error = error.named(RUN, "");
            // A statement that the database does not understand says nothing about what is stored.
            if error.kind == Kind::Corrupt {
                error.kind = Kind::Invalid;
            }
            self.failed = Some((error.kind, error::chain(&error)));
            error
        })
    }
}

#[async_trait]
impl Sql for Guarded<'_> {
    async fn execute(&mut self, sql: &str, params: &[Value]) -> Result<u64> {
        self.run(sql, params).await.map(|answer| answer.changed)
    }

    async fn query(&mut self, sql: &str, params: &[Value]) -> Result<Vec<Vec<Value>>> {
        self.run(sql, params).await.map(|answer| answer.rows)
    }
}

/// `Invalid` when a statement is none that a script may run.
fn check_statement(sql: &str) -> Result<()> {
    let word = first_word(sql).unwrap_or_default();
    if STATEMENTS.iter().any(|known| known.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    let because = format!("a statement of a script begins with one of {STATEMENTS:?}");
    Err(Error::invalid("statement", because))
}

/// The first word behind blanks, comments and brackets.
fn first_word(sql: &str) -> Option<&str> {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n')?.1;
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let (inside, behind) = comment.split_once("*/")?;
            // Databases do not agree on where a comment inside of a comment ends.
            if inside.contains("/*") {
                return None;
            }
            rest = behind;
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            return Some(&rest[..end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_transaction_is_no_statement_of_a_script() {
        let good = [
            "SELECT 1",
            " insert into t values ($1)",
            "-- note\n/* more */ (select 1)",
            "with a as (select 1) select * from a",
            "create table t (a int)",
        ];
        for sql in good {
            check_statement(sql).unwrap();
        }
        let bad = [
            "",
            "COMMIT",
            "rollback",
            "/* a */ BEGIN",
            "--\nEND",
            "SET jit = off",
            "PRAGMA user_version",
            "/* /* */ SELECT 1 */ COMMIT",
            "-- SELECT",
            "ROLLBACK TO call",
            "selector",
        ];
        for sql in bad {
            assert_eq!(check_statement(sql).unwrap_err().kind, Kind::Invalid, "{sql}");
        }
    }
}
