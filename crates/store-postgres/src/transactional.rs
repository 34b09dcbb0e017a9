//! Own transactions: a connection of the pool is the script's for as long as it runs.
//!
//! Holds throughout: a connection whose transaction has not ended for sure is closed, and never given
//! back; the server itself ends a transaction whose script fell silent.

use std::error::Error as StdError;
use std::pin::pin;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, Kind as TypeKind, ToSql, Type, to_sql_checked};
use uuid::Uuid;
use windrow_domain::InstanceId;
use windrow_domain::millis;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::message::Committed;
use windrow_store::partition::Fence;
use windrow_store::transactional::{
    Script, ScriptError, ScriptRun, SqlSession, StatementResult, Transactions, Value,
};

use crate::PostgresBackend;
use crate::db::{Sql, Statement, TransactionClient};
use crate::error::{from_driver, is_aborted};
use crate::partition::Fences;
/// How much longer than its script the server lets a statement run, or a transaction be silent:
/// this process cuts off a script that is late, and the server does so only when the process is
/// gone.
const SERVER_MS_MORE: u64 = 1_000;

#[async_trait]
impl Transactions for PostgresBackend {
    async fn commit_with(
        &self,
        instance: InstanceId,
        fences: &[Fence],
        ms_max: u64,
        script: Box<dyn Script>,
    ) -> Result<Committed> {
        let run = ScriptRun { instance, fences, ms_max };
        let client = TransactionClient::of(self.db.client().await?);
        let proof = Fences::of(fences);
        let params = proof.params(&instance.0);
        let fence = Statement { sql: Sql::value("partition/fence"), params: &params };
        let lock_ms = ms_max.min(millis(self.db.options.lock_timeout));
        let longest = ms_max + SERVER_MS_MORE;
        let begun = self.db.enter(&client, [lock_ms, longest, longest], &fence);
        let begun = self.db.in_time(begun).await?;
        begun.map_err(from_driver)?;
        let mut session = PostgresSession { client: &client };
        match run.script(script, &mut session).await {
            Ok(commit) => {
                let written = self.write_inside(client, &commit).await;
                written.map_err(|error| match is_aborted(&error) {
                    true => ScriptError::Failed("a statement of it failed".into()).into_error(),
                    false => error,
                })
            }
            Err(error) => {
                let is_quiet = !matches!(error.script_error(), None | Some(ScriptError::Late(_)));
                if is_quiet {
                    self.db.undo(client).await;
                }
                Err(error)
            }
        }
    }
}

/// A script's way to the server. Statements are not prepared: their parameters have the types of their
/// values, and a pooler may be in between.
struct PostgresSession<'a> {
    client: &'a TransactionClient,
}

#[async_trait]
impl SqlSession for PostgresSession<'_> {
    async fn run(&mut self, sql: &str, params: &[Value]) -> Result<StatementResult> {
        let params: Vec<_> =
            params.iter().map(|value| (BoundValue(value), type_of(value))).collect();
        let rows = self.client.query_typed_raw(sql, params).await.map_err(statement_failed)?;
        let mut rows = pin!(rows);
        let mut answer = StatementResult::default();
        while let Some(row) = rows.try_next().await.map_err(statement_failed)? {
            let cells = (0..row.len()).map(|column| cell(&row, column)).collect::<Result<_>>()?;
            answer.push(cells)?;
        }
        answer.changed = rows.rows_affected().unwrap_or_default();
        Ok(answer)
    }
}

/// An error of a script's statement.
fn statement_failed(cause: tokio_postgres::Error) -> Error {
    // Fewer parameters than the statement has: the connection is sound.
    let is_short = cause.code() == Some(&SqlState::PROTOCOL_VIOLATION);
    let mut error = from_driver(cause);
    if is_short {
        error.kind = Kind::Invalid;
    }
    error
}

fn type_of(value: &Value) -> Type {
    match value {
        // The server finds out by itself.
        Value::Null => Type::UNKNOWN,
        Value::Bool(_) => Type::BOOL,
        Value::Int(_) => Type::INT8,
        Value::Real(_) => Type::FLOAT8,
        Value::Text(_) => Type::TEXT,
        Value::Bytes(_) => Type::BYTEA,
    }
}

#[derive(Debug)]
struct BoundValue<'a>(&'a Value);

type Converted<T> = std::result::Result<T, Box<dyn StdError + Sync + Send>>;

impl ToSql for BoundValue<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Converted<IsNull> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Bool(is) => is.to_sql(ty, out),
            Value::Int(number) => number.to_sql(ty, out),
            Value::Real(number) => number.to_sql(ty, out),
            Value::Text(text) => text.to_sql(ty, out),
            Value::Bytes(bytes) => (&bytes[..]).to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// What a column holds.
struct Cell(Value);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Converted<Self> {
        Ok(Cell(match *ty {
            Type::BOOL => Value::Bool(bool::from_sql(ty, raw)?),
            Type::INT2 => Value::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            Type::FLOAT4 => Value::Real(f32::from_sql(ty, raw)?.into()),
            Type::FLOAT8 => Value::Real(f64::from_sql(ty, raw)?),
            Type::BYTEA => Value::Bytes(Bytes::copy_from_slice(raw)),
            Type::UUID => Value::Text(Uuid::from_sql(ty, raw)?.to_string()),
            Type::TIMESTAMPTZ => Value::Text(Timestamp::from_sql(ty, raw)?.to_string()),
            Type::VOID => Value::Null,
            // Its first byte is the version of the format, which is text.
            Type::JSONB => {
                Value::Text(std::str::from_utf8(raw.get(1..).unwrap_or(raw))?.to_owned())
            }
            _ => Value::Text(std::str::from_utf8(raw)?.to_owned()),
        }))
    }

    fn from_sql_null(_: &Type) -> Converted<Self> {
        Ok(Cell(Value::Null))
    }

    fn accepts(ty: &Type) -> bool {
        let known = [
            Type::BOOL,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::FLOAT4,
            Type::FLOAT8,
            Type::BYTEA,
            Type::UUID,
            Type::TIMESTAMPTZ,
            Type::VOID,
            Type::JSON,
            Type::JSONB,
        ];
        known.contains(ty)
            || <&str as FromSql>::accepts(ty)
            || matches!(ty.kind(), TypeKind::Enum(_))
    }
}

fn cell(row: &Row, column: usize) -> Result<Value> {
    let read = row.try_get(column).map(|Cell(value)| value);
    read.map_err(|cause| {
        let name = row.columns().get(column).map_or("column", |column| column.name());
        let because = format!("column {name:?} is read with a cast to text: {cause}");
        Error::of(Kind::Invalid).because(because)
    })
}
