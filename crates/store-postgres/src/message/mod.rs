//! Messages: sent, read by the owner of their partition, and committed with their effects.
//!
//! Holds throughout: streams are locked in sorted order and give positions until the commit; a read is
//! one statement that writes nothing.

mod commit;
mod insert;
mod list;
mod read;
mod stream_cache;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;
use windrow_domain::{DeadLetterId, PartitionNo, Queue};
use windrow_store::Scope;
use windrow_store::error::Result;
use windrow_store::inspect::Page;
use windrow_store::message::{
    BACKLOG_MAX, Backlog, Commit, Committed, DeadLetter, Exchange, Exchanged, Headers, Message,
    MessageRef, MessageRetention, Messages, MessagesQuery, NewMessage, PrunedMessages, Read, Sent,
    Work,
};

use crate::db::{Sql, sql};
use crate::error::is_mistaken;
use crate::partition::number;
use crate::sweep::SECS_MAX;
use crate::{PostgresBackend, rows};

pub(crate) use commit::Refs;
pub(crate) use stream_cache::StreamCache;

#[async_trait]
impl Messages for PostgresBackend {
    async fn send(&self, messages: Vec<NewMessage>) -> Result<Vec<Sent>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let mut puts = insert::MessageArrays::of(&messages)?;
        puts.recall(&self.streams);
        let now = self.db.now();
        loop {
            let params = puts.params(&now);
            // Many senders meet in a stream: its lock must not wait for the disk.
            let answer = match self.db.options.transaction_pooler {
                true => self.db.rows(sql!("message/send"), &params).await,
                false => {
                    let sql = sql!("message/send_early");
                    self.db.lone_early(sql, &params).await
                }
            };
            match answer {
                Ok(answer) => return Ok(puts.sent(&answer, &self.streams)),
                Err(error) if is_mistaken(&error) && puts.mistook(&self.streams) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn read_owned(&self, read: Read) -> Result<Work> {
        let reads = read::Reads::of(&read);
        let now = self.db.now();
        let sql = Sql::rows("message/read_owned");
        let found = self.db.lone(sql, &reads.params(&now)).await?;
        read::work(&found)
    }

    async fn commit(&self, commit: Commit) -> Result<Committed> {
        let exchange = Exchange { commit, heartbeat: false, read: None };
        Ok(self.write(&exchange).await?.committed)
    }

    async fn exchange(&self, exchange: Exchange) -> Result<Exchanged> {
        self.write(&exchange).await
    }

    async fn messages(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<Message>> {
        list::messages(self, scope, query).await
    }

    async fn dead_letters(&self, scope: &Scope, query: MessagesQuery) -> Result<Page<DeadLetter>> {
        list::dead_letters(self, scope, query).await
    }

    async fn replay_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<Vec<Sent>> {
        let mut each: Vec<Uuid> = Vec::with_capacity(ids.len());
        let mut places = Vec::with_capacity(ids.len());
        for id in ids {
            let found = each.iter().position(|one| *one == id.0);
            places.push(found.unwrap_or(each.len()));
            each.extend(found.is_none().then_some(id.0));
        }
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&scope.owner() as _, Type::TEXT),
            (&each as _, Type::UUID_ARRAY),
        ];
        let sql = Sql::rows("message/replay_dead");
        let mut found = self.db.rows(sql, &params).await?;
        found.sort_unstable_by_key(|row| row.get::<_, i64>("i"));
        let sent = |place: usize| Sent { at: message_ref(&found[place]), is_duplicate: false };
        Ok(places.into_iter().map(sent).collect())
    }

    async fn discard_dead(&self, scope: &Scope, ids: &[DeadLetterId]) -> Result<u64> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let params = [(&scope.owner() as _, Type::TEXT), (&ids as _, Type::UUID_ARRAY)];
        let sql = sql!("message/discard_dead");
        let gone = self.db.rows(sql, &params).await?;
        Ok(gone.len() as u64)
    }

    async fn backlog(&self) -> Result<Vec<Backlog>> {
        let params = [(&BACKLOG_MAX.cast_signed() as _, Type::INT8)];
        let found = self.db.rows(sql!("message/backlog"), &params).await?;
        let backlog = |row: &Row| {
            Ok(Backlog {
                queue: queue(row)?,
                messages: rows::count(row, "messages"),
                oldest_sent_at: row.get("oldest"),
                dead: rows::count(row, "dead"),
            })
        };
        found.iter().map(backlog).collect()
    }

    async fn prune_messages(
        &self,
        retention: MessageRetention,
        limit: u32,
    ) -> Result<PrunedMessages> {
        let bounded = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX).min(SECS_MAX * 1000);
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&bounded(retention.dedupe_ms) as _, Type::INT8),
            (&bounded(retention.archive_ms) as _, Type::INT8),
            (&bounded(retention.tombstone_ms) as _, Type::INT8),
            (&retention.dead_ms.map(bounded) as _, Type::INT8),
            (&bounded(retention.stream_ms) as _, Type::INT8),
            (&i64::from(limit) as _, Type::INT8),
            (&retention.event_ms.map(bounded) as _, Type::INT8),
            (&retention.archived_ms.map(bounded) as _, Type::INT8),
        ];
        let sql = sql!("message/prune");
        let found = self.db.rows(sql, &params).await?;
        let tidied = |column| rows::count(&found[0], column);
        Ok(PrunedMessages {
            ids: tidied("ids"),
            archived: tidied("archived"),
            expired: tidied("expired"),
            tombstones: tidied("tombstones"),
            dead: tidied("dead"),
            streams: tidied("streams"),
            events: tidied("events"),
        })
    }
}

/// Headers as JSON; none when there are none.
pub(crate) fn json(headers: &Headers) -> Option<String> {
    (!headers.is_empty()).then(|| serde_json::to_string(headers).expect("headers are text"))
}

/// The headers of a message or an event.
pub(crate) fn read_headers(row: &Row) -> Result<Headers> {
    let Some(text) = row.get::<_, Option<&str>>("headers") else { return Ok(Headers::new()) };
    serde_json::from_str(text).map_err(|cause| rows::corrupt("headers", cause))
}

/// A place from its numbers.
pub(crate) fn place(partition: i32, stream_no: i64, position: i64) -> MessageRef {
    MessageRef {
        partition: PartitionNo::try_from(partition).expect("a partition has a small number"),
        stream_no: stream_no.cast_unsigned(),
        position: position.cast_unsigned(),
    }
}

fn message_ref(row: &Row) -> MessageRef {
    MessageRef {
        partition: number(row, "partition"),
        stream_no: rows::count(row, "stream_no"),
        position: rows::count(row, "position"),
    }
}

fn queue(row: &Row) -> Result<Queue> {
    Queue::from_code(row.get("queue")).ok_or_else(|| rows::corrupt("queue", "no such queue"))
}

fn message(row: &Row) -> Result<Message> {
    let waiting: Option<Vec<String>> = row.get("waiting");
    let started: Option<i64> = row.get("started");
    Ok(Message {
        at: message_ref(row),
        queue: queue(row)?,
        owner: rows::owner(row)?,
        stream: rows::name(row, "stream")?,
        id: row.get("id"),
        kind: row.get("kind"),
        payload: Bytes::copy_from_slice(row.get("payload")),
        headers: read_headers(row)?,
        sent_at: row.get("sent_at"),
        not_before: row.get("not_before"),
        attempts: rows::small(row, "attempts"),
        started: started.map(i64::cast_unsigned),
        waiting: waiting.unwrap_or_default(),
        error: row.get("error"),
    })
}
