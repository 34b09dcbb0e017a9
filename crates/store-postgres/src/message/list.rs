//! Lists of messages and dead letters.

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windrow_domain::DeadLetterId;
use windrow_store::Scope;
use windrow_store::error::Result;
use windrow_store::inspect::{Binding, Cursor, Page};
use windrow_store::message::{DeadLetter, Message, MessagesQuery, PastFailure};

use crate::PostgresBackend;
use crate::db::sql;
use crate::inspect::{TimeKey, page};
use crate::rows;

/// Where a message is: partition, stream, position.
type PlaceKey = (i32, i64, i64);

pub(super) async fn messages(
    store: &PostgresBackend,
    scope: &Scope,
    query: MessagesQuery,
) -> Result<Page<Message>> {
    let limit = i64::from(query.limit);
    let binding = Binding::new("messages", scope, &(query.queue, &query.stream));
    let after: Option<PlaceKey> = Cursor::open(&binding, query.after.as_deref())?;
    let (partition, stream, position) = after.unwrap_or((-1, 0, 0));
    let params = [
        (&scope.owner() as _, Type::TEXT),
        (&query.queue.map(|queue| queue.code()) as _, Type::INT2),
        (&query.stream.as_ref().map(|stream| stream.as_str()) as _, Type::TEXT),
        (&partition as _, Type::INT4),
        (&stream as _, Type::INT8),
        (&position as _, Type::INT8),
        (&(limit + 1) as _, Type::INT8),
    ];
    let sql = match scope.owner() {
        Some(_) => sql!("message/messages_of_owner"),
        None => sql!("message/messages"),
    };
    let found = store.db.rows(sql, &params).await?;
    let messages = found.iter().map(super::message).collect::<Result<Vec<_>>>()?;
    let key = |message: &Message| {
        let at = message.at;
        (i32::from(at.partition), at.stream_no.cast_signed(), at.position.cast_signed())
    };
    Ok(page(messages, limit, &binding, key))
}

pub(super) async fn dead_letters(
    store: &PostgresBackend,
    scope: &Scope,
    query: MessagesQuery,
) -> Result<Page<DeadLetter>> {
    let limit = i64::from(query.limit);
    let binding = Binding::new("dead letters", scope, &(query.queue, &query.stream));
    let after: Option<TimeKey> = Cursor::open(&binding, query.after.as_deref())?;
    let params = [
        (&scope.owner() as _, Type::TEXT),
        (&query.queue.map(|queue| queue.code()) as _, Type::INT2),
        (&query.stream.as_ref().map(|stream| stream.as_str()) as _, Type::TEXT),
        (&after.map(|key| key.0) as _, Type::TIMESTAMPTZ),
        (&after.map(|key| key.1) as _, Type::UUID),
        (&(limit + 1) as _, Type::INT8),
    ];
    let found = store.db.rows(sql!("message/dead_letters"), &params).await?;
    let letters = found.iter().map(letter).collect::<Result<Vec<_>>>()?;
    Ok(page(letters, limit, &binding, |letter| (letter.dead_at, letter.id.0)))
}

fn letter(row: &Row) -> Result<DeadLetter> {
    let history = history(row)?;
    let mut message = super::message(row)?;
    message.error = history.last().map(|last| last.error.clone());
    Ok(DeadLetter {
        id: DeadLetterId(row.get("dead")),
        message,
        history,
        error: row.get("why"),
        dead_at: row.get("dead_at"),
    })
}

fn history(row: &Row) -> Result<Vec<PastFailure>> {
    let Some(text) = row.get::<_, Option<&str>>("history") else { return Ok(Vec::new()) };
    let attempts: Vec<(i64, String)> =
        serde_json::from_str(text).map_err(|cause| rows::corrupt("history", cause))?;
    let past = |(micros, error)| {
        let at =
            Timestamp::from_microsecond(micros).map_err(|cause| rows::corrupt("history", cause))?;
        Ok(PastFailure { at, error })
    };
    attempts.into_iter().map(past).collect()
}
