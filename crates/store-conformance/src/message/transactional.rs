//! Own transactions: a script's rows and what comes of its message, together or not at all.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use windrow_domain::Expected;
use windrow_store::error::{Cause, Kind};
use windrow_store::message::{Commit, Committed, MessageRef};
use windrow_store::partition::Fence;
use windrow_store::transactional::{
    QUERY_ROWS_MAX, SCRIPT_MS_MAX, Script, ScriptError, Sql, Value,
};
use windrow_store::{Error, Events, Members, MessageStore, Messages, Objects, Partitions, Result};

use super::MessageWorld;
use super::fixture::*;
use crate::cancellation::CancelAfter;

/// Time enough for a script that is to end.
const LONG_MS: u64 = SCRIPT_MS_MAX;
/// Too little for one that never does.
const SHORT_MS: u64 = 100;
/// A statement that never ends.
const ENDLESS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                       SELECT count(*) FROM n";
const PUT: &str = "INSERT INTO notes (id, note) VALUES ($1, $2)";

type Rows = Arc<Mutex<Vec<Vec<Value>>>>;

/// Runs statements, keeps the rows of the last one, and ends.
struct Steps {
    statements: Vec<(String, Vec<Value>)>,
    end: End,
    rows: Rows,
}

enum End {
    Commit(Box<Commit>),
    /// As if no statement had failed.
    CommitAnyway(Box<Commit>),
    /// The same, and it leaves its last statement half way.
    Leave(Box<Commit>),
    Fail,
    Panic,
    Hang,
}

#[derive(Debug, PartialEq)]
struct OwnError(u8);

impl std::fmt::Display for OwnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("its own reason")
    }
}

impl std::error::Error for OwnError {}

#[async_trait]
impl Script for Steps {
    async fn run(self: Box<Self>, sql: &mut dyn Sql) -> Result<Commit, Cause> {
        for (no, (statement, params)) in self.statements.iter().enumerate() {
            if matches!(self.end, End::Leave(_)) && no + 1 == self.statements.len() {
                CancelAfter::Polls(1).run(sql.query(statement, params)).await;
                break;
            }
            match (sql.query(statement, params).await, &self.end) {
                (Ok(rows), _) => *self.rows.lock().unwrap() = rows,
                (Err(_), End::CommitAnyway(_)) => {}
                (Err(error), _) => return Err(error.into()),
            }
        }
        match self.end {
            End::Commit(commit) | End::CommitAnyway(commit) | End::Leave(commit) => Ok(*commit),
            End::Fail => Err(OwnError(7).into()),
            End::Panic => panic!("broken on purpose"),
            End::Hang => std::future::pending().await,
        }
    }
}

fn script(statements: &[(&str, &[Value])], end: End) -> Box<Steps> {
    let owned = |(sql, params): &(&str, &[Value])| ((*sql).to_owned(), params.to_vec());
    let statements = statements.iter().map(owned).collect();
    Box::new(Steps { statements, end, rows: Rows::default() })
}

/// Writes a note, and ends.
fn noting(id: &str, end: End) -> Box<Steps> {
    script(&[(PUT, &[id.into(), "note".into()])], end)
}

impl<S: MessageStore + Clone> Runner<S> {
    async fn inside(&self, ms_max: u64, script: Box<Steps>) -> Result<Committed> {
        self.store.commit_with(self.instance, &self.fences, ms_max, script).await
    }

    /// A table for the scripts.
    async fn table(&self) {
        let create = "CREATE TABLE notes (id TEXT PRIMARY KEY, note TEXT)";
        let end = End::Commit(Box::new(self.effects()));
        self.inside(LONG_MS, script(&[(create, &[])], end)).await.unwrap();
    }

    async fn query(&self, sql: &str, params: &[Value]) -> Result<Vec<Vec<Value>>> {
        let script = script(&[(sql, params)], End::Commit(Box::new(self.effects())));
        let rows = script.rows.clone();
        self.inside(LONG_MS, script).await?;
        let rows = rows.lock().unwrap().clone();
        Ok(rows)
    }

    async fn notes(&self) -> Vec<String> {
        let rows = self.query("SELECT id FROM notes ORDER BY id", &[]).await.unwrap();
        let id = |row: Vec<Value>| match &row[0] {
            Value::Text(id) => id.clone(),
            other => panic!("{other:?}"),
        };
        rows.into_iter().map(id).collect()
    }
}

/// One effect of every kind beside ending a message.
fn everything<S: MessageStore + Clone>(runner: &Runner<S>, ended: MessageRef) -> Commit {
    Commit {
        states: vec![put("wallet/1", "state")],
        events: vec![append("wallet/1", Expected::Any, &["e1"])],
        messages: vec![outbox("news", "n1")],
        submits: vec![call("2", "r2")],
        ..runner.ending(&[ended])
    }
}

fn commit(commit: Commit) -> End {
    End::Commit(Box::new(commit))
}

/// No note, no effect, and the message still waits.
async fn assert_nothing<S: MessageStore + Clone>(runner: &Runner<S>) {
    let store = &runner.store;
    assert_eq!(runner.notes().await, Vec::<String>::new());
    assert_eq!(store.states(&[key("wallet/1")]).await.unwrap(), [None]);
    assert_eq!(version(store, "wallet/1").await, 0);
    assert_eq!(ids(&waiting(store).await), ["1"]);
}

fn is_broken(result: Result<Committed>, how: impl FnOnce(&ScriptError) -> bool) -> Error {
    let error = result.expect_err("the script does not come to its end");
    assert!(error.script_error().is_some_and(how), "{error:?}");
    error
}

/// What a script writes and what it returns are there together, and what it wrote it can read.
pub async fn own_rows_and_effects_come_together(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    let at = send(world.store(), inbox("a", "1")).await;
    let steps = script(
        &[
            (PUT, &["x".into(), "first".into()]),
            ("UPDATE notes SET note = $2 WHERE id = $1", &["x".into(), "second".into()]),
            ("SELECT note FROM notes WHERE id = $1", &["x".into()]),
        ],
        commit(everything(&runner, at)),
    );
    let rows = steps.rows.clone();
    let committed = runner.inside(LONG_MS, steps).await.unwrap();
    assert_eq!(*rows.lock().unwrap(), [["second".into()]]);
    assert_eq!((committed.sent.len(), committed.submitted.len()), (1, 1));
    assert_eq!(committed.appended.len(), 1);
    assert_eq!(runner.notes().await, ["x"]);
    let state = Some(Bytes::from_static(b"state"));
    assert_eq!(world.store().states(&[key("wallet/1")]).await.unwrap(), [state]);
    assert_eq!(version(world.store(), "wallet/1").await, 1);
    assert_eq!(sorted(ids(&runner.messages().await)), ["n1", "r2"]);
    assert_eq!(seen_call(world.store(), "r2").await.retry_count, 0);
}

/// A script that fails or panics leaves nothing, and its own error comes back.
pub async fn a_script_that_fails_leaves_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    let at = send(world.store(), inbox("a", "1")).await;
    let failed = runner.inside(LONG_MS, noting("x", End::Fail)).await;
    is_broken(
        failed,
        |script_error| matches!(script_error, ScriptError::Failed(cause) if cause.downcast_ref() == Some(&OwnError(7))),
    );
    let panicked = runner.inside(LONG_MS, noting("x", End::Panic)).await;
    is_broken(
        panicked,
        |script_error| matches!(script_error, ScriptError::Panicked(word) if word == "broken on purpose"),
    );
    assert_nothing(&runner).await;
    runner.inside(LONG_MS, noting("x", commit(everything(&runner, at)))).await.unwrap();
    assert_eq!(runner.notes().await, ["x"]);
}

/// After a statement that failed nothing is committed, also when the script does not mind.
pub async fn a_statement_that_fails_undoes_its_script(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    let at = send(world.store(), inbox("a", "1")).await;
    let x: &[Value] = &["x".into(), "note".into()];
    for (bad, params) in [(PUT, x), ("SELECT nonsense FROM notes", &[]), ("SELEC", &[])] {
        let anyway = || End::CommitAnyway(Box::new(everything(&runner, at)));
        let ended = runner.inside(LONG_MS, script(&[(PUT, x), (bad, params)], anyway())).await;
        is_broken(ended, |script_error| matches!(script_error, ScriptError::Failed(_)));
        let y: &[Value] = &["y".into(), "note".into()];
        let steps = script(&[(PUT, x), (bad, params), (PUT, y)], anyway());
        is_broken(runner.inside(LONG_MS, steps).await, |script_error| {
            matches!(script_error, ScriptError::Failed(_))
        });
        let left = End::Leave(Box::new(everything(&runner, at)));
        let ended = runner.inside(LONG_MS, script(&[(PUT, x), (bad, params)], left)).await;
        assert_eq!(kind(ended), Kind::Invalid, "{bad}");
    }
    assert_nothing(&runner).await;
}

/// A script cannot end its transaction, nor what it was begun with.
pub async fn a_script_cannot_end_its_transaction(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    send(world.store(), inbox("a", "1")).await;
    let words = ["COMMIT", "rollback", "/* */ END", "BEGIN", "SAVEPOINT a", "SELECT 1; COMMIT"];
    for word in words {
        let steps = script(&[(PUT, &["x".into(), "note".into()]), (word, &[])], End::Fail);
        is_broken(
            runner.inside(LONG_MS, steps).await,
            |script_error| matches!(script_error, ScriptError::Failed(cause) if !cause.is::<OwnError>()),
        );
    }
    assert_nothing(&runner).await;
}

/// Whose fences have passed runs nothing at all.
pub async fn a_stale_epoch_runs_no_script(world: &impl MessageWorld) {
    let mut runner = ready(world).await;
    runner.table().await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let stale = runner.clone();
    store.release_partitions(runner.instance, &runner.fences).await.unwrap();
    let steps = noting("x", commit(everything(&stale, at)));
    assert_eq!(kind(stale.inside(LONG_MS, steps).await), Kind::LeaseLost);
    runner.take(&all()).await;
    // It would be told of its panic if it had begun.
    assert_eq!(kind(stale.inside(LONG_MS, noting("x", End::Panic)).await), Kind::LeaseLost);
    let other = Runner { instance: join(store).await, ..runner.clone() };
    assert_eq!(kind(other.inside(LONG_MS, noting("x", End::Panic)).await), Kind::LeaseLost);
    assert_nothing(&runner).await;
    store.tombstone(runner.instance).await.unwrap();
    assert_eq!(kind(runner.inside(LONG_MS, noting("x", End::Panic)).await), Kind::LeaseLost);
}

/// A script that is late is cut, wherever it is, and leaves nothing.
pub async fn a_late_script_is_cut(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    send(world.store(), inbox("a", "1")).await;
    let late = |script_error: &ScriptError| matches!(script_error, ScriptError::Late(SHORT_MS));
    is_broken(runner.inside(SHORT_MS, noting("x", End::Hang)).await, late);
    let x: &[Value] = &["x".into(), "note".into()];
    let endless = script(&[(PUT, x), (ENDLESS, &[])], End::Fail);
    is_broken(runner.inside(SHORT_MS, endless).await, late);
    assert_nothing(&runner).await;
}

/// One that nobody waits for any more leaves nothing.
pub async fn a_script_given_up_on_leaves_nothing(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    send(world.store(), inbox("a", "1")).await;
    for ms in [0, 1, 3, 8, 25, 50] {
        CancelAfter::Millis(ms).run(runner.inside(LONG_MS, noting("x", End::Hang))).await;
    }
    assert_nothing(&runner).await;
}

/// What cannot be committed undoes the script's rows, too.
pub async fn a_refused_commit_leaves_no_own_rows(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    let store = world.store();
    let sent = send_all(store, several("a", 2)).await;
    runner.finish(&[sent[0].at]).await;
    let gone = noting("x", commit(everything(&runner, sent[0].at)));
    let refused = runner.inside(LONG_MS, gone).await.unwrap_err();
    assert_eq!(refused.kind, Kind::Conflict);
    assert!(refused.script_error().is_none());
    let expected = vec![append("wallet/1", Expected::Version(3), &["e1"])];
    let late = Commit { events: expected, ..runner.ending(&[sent[1].at]) };
    let refused = runner.inside(LONG_MS, noting("x", commit(late))).await.unwrap_err();
    let versions = refused.version_conflict().expect("it names both");
    assert_eq!((versions.expected, versions.actual), (3, 0));
    assert_eq!(runner.notes().await, Vec::<String>::new());
    assert_eq!(ids(&runner.messages().await), ["a-2"]);
}

/// Others come and go beside scripts that end well and badly.
pub async fn a_scripts_neighbours_are_unaffected(world: &impl MessageWorld) {
    let runner = ready(world).await;
    runner.table().await;
    let store = world.store();
    let at = send(store, inbox("a", "1")).await;
    let good = commit(runner.ending(&[at]));
    let (sent, failed, ended, late, also) = tokio::join!(
        store.send(several("b", 3)),
        runner.inside(LONG_MS, noting("x", End::Fail)),
        runner.inside(LONG_MS, noting("y", good)),
        runner.inside(SHORT_MS, noting("z", End::Hang)),
        store.append(vec![append("wallet/1", Expected::Any, &["e1"])]),
    );
    assert_eq!(sent.unwrap().len(), 3);
    is_broken(failed, |script_error| matches!(script_error, ScriptError::Failed(_)));
    ended.unwrap();
    is_broken(late, |script_error| matches!(script_error, ScriptError::Late(_)));
    assert_eq!(also.unwrap().len(), 1);
    assert_eq!(runner.notes().await, ["y"]);
    assert_eq!(ids(&runner.messages().await), ["b-1", "b-2", "b-3"]);
}

/// Values come back as they were given.
pub async fn values_come_back_as_they_were(world: &impl MessageWorld) {
    let runner = ready(world).await;
    let values = [
        Value::Null,
        Value::Int(i64::MIN),
        Value::Real(-0.5),
        Value::Text("Übung 'x' \"y\"".to_owned()),
        Value::Bytes(Bytes::from_static(b"\0\xff")),
    ];
    let rows = runner.query("SELECT $1, $2, $3, $4, $5", &values).await.unwrap();
    assert_eq!(rows, [values.to_vec()]);
    let rows = runner.query("SELECT $2, $1, $2", &[1.into(), "b".into()]).await.unwrap();
    assert_eq!(rows, [["b".into(), Value::Int(1), "b".into()]]);
    let rows = runner.query("SELECT $1", &[Value::Bool(true)]).await.unwrap();
    assert!(matches!(rows[0][0], Value::Bool(true) | Value::Int(1)), "{rows:?}");
}

/// Times, rows and fences have bounds.
pub async fn a_script_out_of_bounds_is_invalid(world: &impl MessageWorld) {
    let runner = ready(world).await;
    for ms_max in [0, SCRIPT_MS_MAX + 1] {
        let refused = runner.inside(ms_max, script(&[], End::Panic)).await;
        assert_eq!(kind(refused), Kind::Invalid);
    }
    let many = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n",
        QUERY_ROWS_MAX + 1
    );
    assert_eq!(kind(runner.query(&many, &[]).await), Kind::Invalid);
    assert_eq!(kind(runner.query("SELECT $2", &["a".into()]).await), Kind::Invalid);
    let other = Commit::new(join(world.store()).await);
    assert_eq!(kind(runner.inside(LONG_MS, script(&[], commit(other))).await), Kind::Invalid);
    let fence = Fence { epoch: runner.fences[0].epoch + 1, ..runner.fences[0] };
    let other = Commit { fences: vec![fence], ..Commit::new(runner.instance) };
    assert_eq!(kind(runner.inside(LONG_MS, script(&[], commit(other))).await), Kind::Invalid);
}
