//! Events: appended in dense versions by a function that locks streams in sorted order, and a feed of all
//! of them.
//!
//! Holds throughout: the feed goes by transaction and by number within it, and stops before the oldest
//! transaction that is still open, so that no event appears behind one that was read.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windrow_domain::{Expected, Owner, Stream};
use windrow_store::Scope;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::event::{Append, Appended, Event, Events, PrunedStream, Snapshot};
use windrow_store::inspect::{Binding, Cursor, Page};

use crate::db::{Param, sql};
use crate::error::with_versions;
use crate::message::{json, read_headers};
use crate::{PostgresBackend, rows};

/// Rows of the feed that a read for one owner looks at: it leads on also where few are the owner's.
const WINDOW_ROWS: i64 = 10_000;

#[async_trait]
impl Events for PostgresBackend {
    async fn append(&self, appends: Vec<Append>) -> Result<Vec<Appended>> {
        if appends.is_empty() {
            return Ok(Vec::new());
        }
        let arrays = Appends::of(&appends);
        let now = self.db.now();
        let params = arrays.params(&now);
        let found = self.db.rows(sql!("event/append"), &params).await;
        let found = found.map_err(with_versions)?;
        Ok(arrays.appended(&found))
    }

    async fn read_stream(
        &self,
        owner: &Owner,
        stream: &Stream,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>> {
        let limit = i64::from(limit);
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let params = [
            (&owner.as_str() as _, Type::TEXT),
            (&stream.as_str() as _, Type::TEXT),
            (&from as _, Type::INT8),
            (&limit as _, Type::INT8),
        ];
        let found = self.db.lone(sql!("event/read_stream"), &params).await?;
        let (owned, from) = (&params[..2], from.max(1).cast_unsigned());
        match found.first().map(|row| rows::count(row, "version")) {
            Some(version) if version <= from => {}
            _ => {
                let kept = self.db.lone(sql!("event/kept_from"), owned).await?;
                check_kept(stream, from, kept.first())?;
            }
        }
        found.iter().map(event).collect()
    }

    async fn stream_version(&self, owner: &Owner, stream: &Stream) -> Result<u64> {
        let params = [(&owner.as_str() as _, Type::TEXT), (&stream.as_str() as _, Type::TEXT)];
        let sql = sql!("event/stream_version");
        let found = self.db.lone(sql, &params).await?;
        Ok(found.first().map_or(0, |row| rows::count(row, "version")))
    }

    async fn read_all(
        &self,
        scope: &Scope,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Event>> {
        let limit = i64::from(limit);
        let binding = Binding::new("events", scope, &());
        let key: Option<FeedKey> = Cursor::open(&binding, after)?;
        let (xid, seq) = key.unwrap_or_else(|| ("0".to_owned(), 0));
        let window = scope.owner().map_or(limit, |_| limit.max(WINDOW_ROWS));
        let params = [
            (&scope.owner() as _, Type::TEXT),
            (&xid as _, Type::TEXT),
            (&seq as _, Type::INT8),
            (&window as _, Type::INT8),
            (&limit as _, Type::INT8),
        ];
        let found = self.db.lone(sql!("event/read_all"), &params).await?;
        let given = || found.iter().filter(|row| row.get::<_, Option<&str>>("feed_xid").is_some());
        let is_full = given().count() as u64 == limit.cast_unsigned();
        let key: FeedKey = match found.last() {
            None => (xid, seq),
            Some(row) if is_full => (row.get("feed_xid"), row.get("feed_seq")),
            Some(row) => (row.get("last_xid"), row.get("last_seq")),
        };
        let rows = given().map(event).collect::<Result<_>>()?;
        Ok(Page { rows, next: Some(Cursor::seal(&binding, &key)) })
    }

    async fn put_snapshot(&self, snapshot: Snapshot) -> Result<()> {
        let version = i64::try_from(snapshot.version).unwrap_or(i64::MAX);
        let params = [
            (&snapshot.owner.as_str() as _, Type::TEXT),
            (&snapshot.stream.as_str() as _, Type::TEXT),
            (&version as _, Type::INT8),
            (&snapshot.state.as_ref() as _, Type::BYTEA),
        ];
        let sql = sql!("event/put_snapshot");
        let found = self.db.rows(sql, &params).await?;
        if found[0].get("found") {
            return Ok(());
        }
        let because = format!("the stream has no version {}", snapshot.version);
        Err(Error::invalid("version", because))
    }

    async fn snapshot(&self, owner: &Owner, stream: &Stream) -> Result<Option<Snapshot>> {
        let params = [(&owner.as_str() as _, Type::TEXT), (&stream.as_str() as _, Type::TEXT)];
        let found = self.db.lone(sql!("event/snapshot"), &params).await?;
        Ok(found.first().map(|row| Snapshot {
            owner: owner.clone(),
            stream: stream.clone(),
            version: rows::count(row, "version"),
            state: Bytes::copy_from_slice(row.get("state")),
        }))
    }
}

/// `Missing` when a version was pruned.
fn check_kept(stream: &Stream, from: u64, kept: Option<&Row>) -> Result<()> {
    let kept = kept.map(|row| (rows::count(row, "first"), rows::count(row, "version")));
    match kept {
        Some((first, snapshot)) if first > from => {
            let pruned = PrunedStream { stream: stream.as_str().to_owned(), first, snapshot };
            Err(Error::of(Kind::Missing).because(pruned))
        }
        _ => Ok(()),
    }
}

/// A place in the feed: the transaction, and the number within it.
type FeedKey = (String, i64);

fn event(row: &Row) -> Result<Event> {
    Ok(Event {
        owner: rows::owner(row)?,
        stream: rows::name(row, "stream")?,
        version: rows::count(row, "version"),
        id: row.get("id"),
        kind: row.get("kind"),
        payload: Bytes::copy_from_slice(row.get("payload")),
        headers: read_headers(row)?,
        at: row.get("at"),
    })
}

/// Appends as parallel arrays: streams (sorted by bytes), appends, events.
pub(crate) struct Appends<'a> {
    owners: Vec<&'a str>,
    names: Vec<&'a str>,
    counts: Vec<i32>,
    streams: Vec<i32>,
    befores: Vec<i32>,
    sizes: Vec<i32>,
    expecteds: Vec<Option<i64>>,
    appends: Vec<i32>,
    places: Vec<i32>,
    ids: Vec<&'a str>,
    kinds: Vec<&'a str>,
    payloads: Vec<&'a [u8]>,
    headers: Vec<Option<String>>,
}

impl<'a> Appends<'a> {
    pub(crate) fn of(appends: &'a [Append]) -> Self {
        let key = |append: &'a Append| (append.owner.as_str(), append.stream.as_str());
        let mut numbers: BTreeMap<_, _> = appends.iter().map(|one| (key(one), 0)).collect();
        (1..).zip(numbers.values_mut()).for_each(|(no, number)| *number = no);
        let mut arrays = Self {
            owners: numbers.keys().map(|key| key.0).collect(),
            names: numbers.keys().map(|key| key.1).collect(),
            counts: vec![0; numbers.len()],
            streams: Vec::new(),
            befores: Vec::new(),
            sizes: Vec::new(),
            expecteds: Vec::new(),
            appends: Vec::new(),
            places: Vec::new(),
            ids: Vec::new(),
            kinds: Vec::new(),
            payloads: Vec::new(),
            headers: Vec::new(),
        };
        for (no, append) in (1..).zip(appends) {
            let stream: i32 = numbers[&key(append)];
            let size = i32::try_from(append.events.len()).expect("bounded by SEND_MAX");
            let count = &mut arrays.counts[usize::try_from(stream - 1).expect("from one")];
            arrays.streams.push(stream);
            arrays.befores.push(*count);
            *count += size;
            arrays.sizes.push(size);
            arrays.expecteds.push(match append.expected {
                Expected::Any => None,
                Expected::Version(version) => Some(i64::try_from(version).unwrap_or(i64::MAX)),
            });
            for (place, event) in (1..).zip(&append.events) {
                arrays.appends.push(no);
                arrays.places.push(place);
                arrays.ids.push(&event.id);
                arrays.kinds.push(&event.kind);
                arrays.payloads.push(&event.payload);
                arrays.headers.push(json(&event.headers));
            }
        }
        arrays
    }

    /// In the order of `sql/event/append_events.sql`.
    pub(crate) fn params<'b>(&'b self, now: &'b Option<Timestamp>) -> [Param<'b>; 14] {
        [
            (now, Type::TIMESTAMPTZ),
            (&self.owners, Type::TEXT_ARRAY),
            (&self.names, Type::TEXT_ARRAY),
            (&self.counts, Type::INT4_ARRAY),
            (&self.streams, Type::INT4_ARRAY),
            (&self.befores, Type::INT4_ARRAY),
            (&self.sizes, Type::INT4_ARRAY),
            (&self.expecteds, Type::INT8_ARRAY),
            (&self.appends, Type::INT4_ARRAY),
            (&self.places, Type::INT4_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.kinds, Type::TEXT_ARRAY),
            (&self.payloads, Type::BYTEA_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
        ]
    }

    /// What the answer says of each append.
    pub(crate) fn appended(&self, answer: &[Row]) -> Vec<Appended> {
        let firsts: Vec<i64> = answer.first().map(|row| row.get("o_first")).unwrap_or_default();
        let appended = |(before, size): (i64, &i32)| Appended {
            first: (before + 1).cast_unsigned(),
            last: (before + i64::from(*size)).cast_unsigned(),
        };
        firsts.into_iter().zip(&self.sizes).map(appended).collect()
    }
}
