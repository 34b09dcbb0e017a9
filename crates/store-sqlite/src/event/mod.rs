//! Events: appended in dense versions, and a feed of all of them.
//!
//! Holds throughout: one writer gives versions and places in the feed, so that the feed's order is the
//! order of the commits and no place appears behind one that was read.

mod prune;

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Row, params};
use windrow_domain::event::VersionConflict;
use windrow_domain::{Expected, Owner, Stream};
use windrow_store::event::{Append, Appended, Event, Events, NewEvent, PrunedStream, Snapshot};
use windrow_store::inspect::{Binding, Cursor, Page};
use windrow_store::{Error, Kind, Result, Scope};

use crate::tx::{Tx, sql};
use crate::{SqliteBackend, rows};

pub(crate) use prune::prune;

#[async_trait]
impl Events for SqliteBackend {
    async fn append(&self, appends: Vec<Append>) -> Result<Vec<Appended>> {
        if appends.is_empty() {
            return Ok(Vec::new());
        }
        self.write(move |tx| append_all(tx, &appends)).await
    }

    async fn read_stream(
        &self,
        owner: &Owner,
        stream: &Stream,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>> {
        let (owner, of) = (owner.clone(), stream.clone());
        self.read(move |tx| {
            let asked = params![owner.as_str(), of.as_str(), rows::int(from), limit];
            let events: Vec<Event> =
                tx.all(sql!("event/read_stream"), asked, |row| Ok(read_event(row)?.1))?;
            match events.first() {
                Some(event) if event.version <= from.max(1) => {}
                _ => check_kept(tx, &owner, &of, from.max(1))?,
            }
            Ok(events)
        })
        .await
    }

    async fn stream_version(&self, owner: &Owner, stream: &Stream) -> Result<u64> {
        let (owner, of) = (owner.clone(), stream.clone());
        self.read(move |tx| version(tx, &owner, &of)).await
    }

    async fn read_all(
        &self,
        scope: &Scope,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Event>> {
        let binding = Binding::new("events", scope, &());
        let after: i64 = Cursor::open(&binding, after)?.unwrap_or(0);
        let scope = scope.clone();
        self.read(move |tx| {
            let rows = match scope.owner() {
                None => tx.all(sql!("event/read_all"), params![after, limit], read_event)?,
                Some(owner) => {
                    let asked = params![after, limit, owner];
                    tx.all(sql!("event/read_all_of_owner"), asked, read_event)?
                }
            };
            let last = rows.last().map_or(after, |(seq, _)| *seq);
            let rows = rows.into_iter().map(|(_, event)| event).collect();
            Ok(Page { rows, next: Some(Cursor::seal(&binding, &last)) })
        })
        .await
    }

    async fn put_snapshot(&self, snapshot: Snapshot) -> Result<()> {
        self.write(move |tx| put_snapshot(tx, &snapshot)).await
    }

    async fn snapshot(&self, owner: &Owner, stream: &Stream) -> Result<Option<Snapshot>> {
        let (owner, of) = (owner.clone(), stream.clone());
        self.read(move |tx| {
            let found = tx.one(sql!("event/snapshot"), [owner.as_str(), of.as_str()], |row| {
                Ok((rows::count(row, 0)?, row.get::<_, Vec<u8>>(1)?))
            })?;
            Ok(found.map(|(version, state)| Snapshot {
                owner,
                stream: of,
                version,
                state: Bytes::from(state),
            }))
        })
        .await
    }
}

/// `Missing` when a version was pruned.
fn check_kept(tx: &Tx<'_>, owner: &Owner, stream: &Stream, from: u64) -> Result<()> {
    let of = [owner.as_str(), stream.as_str()];
    let kept = tx
        .one(sql!("event/kept_from"), of, |row| Ok((rows::count(row, 0)?, rows::count(row, 1)?)))?;
    match kept {
        Some((first, snapshot)) if first > from => {
            let stream = stream.as_str().to_owned();
            Err(Error::of(Kind::Missing).because(PrunedStream { stream, first, snapshot }))
        }
        _ => Ok(()),
    }
}

/// The columns of `event/read_all`: the place in the feed, then the event.
fn read_event(row: &Row<'_>) -> rusqlite::Result<(i64, Event)> {
    let event = Event {
        owner: rows::name(row, 1)?,
        stream: rows::name(row, 2)?,
        version: rows::count(row, 3)?,
        id: row.get(4)?,
        kind: row.get(5)?,
        payload: row.get::<_, Vec<u8>>(6)?.into(),
        headers: rows::json_or_default(row, 7)?,
        at: rows::time(row, 8)?,
    };
    Ok((row.get(0)?, event))
}

pub(crate) fn version(tx: &Tx<'_>, owner: &Owner, stream: &Stream) -> Result<u64> {
    let of = [owner.as_str(), stream.as_str()];
    let found = tx.one(sql!("event/stream_version"), of, |row| rows::count(row, 0))?;
    Ok(found.unwrap_or(0))
}

/// Appends one after another; the caller's transaction makes it all or none.
pub(crate) fn append_all(tx: &Tx<'_>, appends: &[Append]) -> Result<Vec<Appended>> {
    appends.iter().map(|append| append_one(tx, append)).collect()
}

fn append_one(tx: &Tx<'_>, append: &Append) -> Result<Appended> {
    let actual = version(tx, &append.owner, &append.stream)?;
    if let Expected::Version(expected) = append.expected
        && expected != actual
    {
        if is_repeat(tx, append, expected, actual)? {
            return Ok(span(expected, &append.events));
        }
        let stream = append.stream.as_str().to_owned();
        let conflict = VersionConflict { stream, expected, actual };
        return Err(Error::of(Kind::Conflict).because(conflict));
    }
    let appended = span(actual, &append.events);
    let (owner, stream) = (append.owner.as_str(), append.stream.as_str());
    for (version, event) in (appended.first..).zip(&append.events) {
        let new = params![
            owner,
            stream,
            rows::int(version),
            event.id,
            event.kind,
            event.payload.as_ref(),
            rows::headers_text(&event.headers),
            tx.now
        ];
        tx.run(sql!("event/append"), new)?;
    }
    tx.run(sql!("event/put_version"), params![owner, stream, rows::int(appended.last)])?;
    Ok(appended)
}

/// The versions of events behind a version.
fn span(behind: u64, events: &[NewEvent]) -> Appended {
    Appended { first: behind + 1, last: behind + events.len() as u64 }
}

/// Whether these very events are there already, right behind the version they expect.
fn is_repeat(tx: &Tx<'_>, append: &Append, expected: u64, actual: u64) -> Result<bool> {
    let there = span(expected.min(actual), &append.events);
    if expected > actual || there.last > actual {
        return Ok(false);
    }
    let (owner, stream) = (append.owner.as_str(), append.stream.as_str());
    let asked = params![owner, stream, rows::int(there.first), rows::int(there.last)];
    let ids: Vec<String> = tx.all(sql!("event/ids"), asked, |row| row.get(0))?;
    Ok(ids.iter().eq(append.events.iter().map(|event| &event.id)))
}

pub(crate) fn put_snapshot(tx: &Tx<'_>, snapshot: &Snapshot) -> Result<()> {
    let Snapshot { owner, stream, version: at, state } = snapshot;
    let last = version(tx, owner, stream)?;
    if !(1..=last).contains(at) {
        let because = format!("the stream has versions 1 to {last}, not {at}");
        return Err(Error::invalid("version", because));
    }
    let put = params![owner.as_str(), stream.as_str(), rows::int(*at), state.as_ref()];
    tx.run(sql!("event/put_snapshot"), put).map(|_| ())
}
