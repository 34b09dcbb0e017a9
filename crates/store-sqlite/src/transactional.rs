//! Own transactions: the writer's thread runs a script's statements as they come, and then its commit.
//!
//! Holds throughout: a script is alone in its transaction, and waits its turn like every other
//! call; the calls behind it wait for it, at most as long as it may take; a script that falls
//! silent, or is given up on, is undone by the thread itself, and a statement of it that still runs
//! is cut off.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{InterruptHandle, Row, Statement, ToSql};
use tokio::sync::oneshot;
use windrow_domain::InstanceId;
use windrow_store::message::{Commit, Committed};
use windrow_store::partition::Fence;
use windrow_store::transactional::{
    Script, ScriptError, ScriptRun, SqlSession, StatementResult, Transactions, Value,
};
use windrow_store::{Error, Kind, Result};

use crate::tx::{Tx, invalid};
use crate::{SqliteBackend, message, partition};

#[async_trait]
impl Transactions for SqliteBackend {
    async fn commit_with(
        &self,
        instance: InstanceId,
        fences: &[Fence],
        ms_max: u64,
        script: Box<dyn Script>,
    ) -> Result<Committed> {
        let run = ScriptRun { instance, fences, ms_max };
        let (commands, inbox) = channel();
        let (begin, begun) = oneshot::channel();
        let running = RunningStatement::default();
        let mut remote = ScriptClient { commands, running: running.clone(), has_ended: false };
        let server = ScriptServer { instance, fences: fences.to_vec(), inbox, running, ms_max };
        let server = self.writer.call_alone(move |tx| {
            partition::check_fences(tx, server.instance, &server.fences)?;
            // A script that is gone is noticed at once: its end of the channel is closed.
            let _ = begin.send(());
            server.serve(tx)
        });
        let script = async move {
            if begun.await.is_err() {
                // It did not come to that, and the other side says why.
                return Ok(());
            }
            let commit = run.script(script, &mut remote).await?;
            remote.has_ended = true;
            // When the writer's thread has ended it already, its own answer says why.
            let _ = remote.commands.send(Command::Finish(Box::new(commit)));
            Ok(())
        };
        let (committed, ran) = tokio::join!(server, script);
        ran.and(committed)
    }
}

/// What a script asks of the thread.
enum Command {
    Statement { sql: String, params: Vec<Value>, reply: oneshot::Sender<Result<StatementResult>> },
    Finish(Box<Commit>),
}

/// The statement of a script that runs right now, so that it can be cut off. Nothing else of the
/// connection can be: the thread takes the handle away before it goes on.
#[derive(Clone, Default)]
struct RunningStatement(Arc<Mutex<Option<InterruptHandle>>>);

impl RunningStatement {
    fn lock(&self) -> MutexGuard<'_, Option<InterruptHandle>> {
        self.0.lock()
    }
}

/// The script's side: sends statements to the writer's thread and waits for their rows.
struct ScriptClient {
    commands: Sender<Command>,
    running: RunningStatement,
    has_ended: bool,
}

#[async_trait]
impl SqlSession for ScriptClient {
    async fn run(&mut self, sql: &str, params: &[Value]) -> Result<StatementResult> {
        let (reply, answer) = oneshot::channel();
        let run = Command::Statement { sql: sql.to_owned(), params: params.to_vec(), reply };
        let gone = || Error::of(Kind::Unavailable).because("the store let go");
        self.commands.send(run).map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for ScriptClient {
    fn drop(&mut self) {
        if let Some(handle) = self.running.lock().as_ref().filter(|_| !self.has_ended) {
            handle.interrupt();
        }
    }
}

/// The side of the writer's thread: runs the statements of a script and then its commit.
struct ScriptServer {
    instance: InstanceId,
    fences: Vec<Fence>,
    inbox: Receiver<Command>,
    running: RunningStatement,
    ms_max: u64,
}

impl ScriptServer {
    fn serve(&self, tx: &Tx<'_>) -> Result<Committed> {
        let mut has_failed = false;
        loop {
            match self.inbox.recv_timeout(Duration::from_millis(self.ms_max)) {
                Ok(Command::Statement { sql, params, reply }) => {
                    *self.running.lock() = Some(tx.interrupt());
                    let answer = statement(tx, &sql, &params);
                    *self.running.lock() = None;
                    has_failed |= answer.is_err();
                    // A script that left does not need its answer.
                    let _ = reply.send(answer);
                }
                Ok(Command::Finish(commit)) if !has_failed => {
                    return message::write_commit(tx, &commit);
                }
                Ok(Command::Finish(_)) => {
                    let because = "a statement of it failed".into();
                    return Err(ScriptError::Failed(because).into_error());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::of(Kind::Invalid).because("its script was given up on"));
                }
                // The whole process may have been stopped, the script's own clock with it.
                Err(RecvTimeoutError::Timeout) => {
                    return Err(ScriptError::Late(self.ms_max).into_error());
                }
            }
            if !tx.is_open() {
                let because = "a failure of the disk took the transaction with it";
                return Err(Error::of(Kind::Unavailable).because(because));
            }
        }
    }
}

/// Runs one statement to its end.
fn statement(tx: &Tx<'_>, sql: &str, params: &[Value]) -> Result<StatementResult> {
    let mut prepared = tx.prepare_once(sql)?;
    bind(tx, &mut prepared, params)?;
    let (columns, is_read) = (prepared.column_count(), prepared.readonly());
    let mut answer = StatementResult::default();
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next().map_err(|cause| tx.failed(cause))? {
        let row = (0..columns).map(|column| cell(tx, row, column)).collect::<Result<_>>()?;
        answer.push(row)?;
    }
    drop(rows);
    answer.changed = if is_read { 0 } else { tx.changes() };
    Ok(answer)
}

/// Gives each parameter the value that its number names, whether it is written `$1` or `?1`.
fn bind(tx: &Tx<'_>, prepared: &mut Statement<'_>, params: &[Value]) -> Result<()> {
    for place in 1..=prepared.parameter_count() {
        let name = prepared.parameter_name(place).and_then(|name| name.get(1..));
        let number = name.map_or(Some(place), |name| name.parse().ok());
        let value = number.and_then(|number: usize| params.get(number.checked_sub(1)?));
        let value = value.ok_or_else(|| {
            Error::invalid(
                "parameters",
                format!("there are {} for parameter {place}", params.len()),
            )
        })?;
        let bound = prepared.raw_bind_parameter(place, BoundValue(value));
        bound.map_err(|cause| tx.failed(cause))?;
    }
    Ok(())
}

struct BoundValue<'a>(&'a Value);

impl ToSql for BoundValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Bool(is) => ValueRef::Integer((*is).into()),
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn cell(tx: &Tx<'_>, row: &Row<'_>, column: usize) -> Result<Value> {
    Ok(match row.get_ref(column).map_err(|cause| tx.failed(cause))? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text);
            Value::Text(text.map_err(invalid)?.to_owned())
        }
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec().into()),
    })
}
