//! Rows become the contract's types here.

use std::str::FromStr;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;
use windrow_domain::{
    BatchId, Counts, FileId, InstanceId, KeyId, LaneNo, Lease, LeaseId, LeaseProof, LineSet, Owner,
    State, Target, UpstreamId,
};
use windrow_store::batch::Batch;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::ingest::{File, Original, Output};
use windrow_store::inspect::Holder;
use windrow_store::key::Key;
use windrow_store::member::{Member, ProcessLock};

/// What is stored in a column cannot be read.
pub(crate) fn corrupt(column: &str, cause: impl std::fmt::Display) -> Error {
    Error::of(Kind::Corrupt).because(format!("column {column}: {cause}"))
}

/// Reads a stored word or set; `Corrupt` names the column.
pub(crate) fn read<T: FromStr>(row: &Row, column: &'static str) -> Result<T>
where
    T::Err: std::fmt::Display,
{
    let text: &str = row.get(column);
    text.parse().map_err(|cause: T::Err| corrupt(column, cause))
}

/// The same, or nothing.
pub(crate) fn read_opt<T: FromStr>(row: &Row, column: &'static str) -> Result<Option<T>>
where
    T::Err: std::fmt::Display,
{
    let text: Option<&str> = row.get(column);
    text.map(|text| text.parse().map_err(|cause: T::Err| corrupt(column, cause))).transpose()
}

pub(crate) fn name<T: TryFrom<String>>(row: &Row, column: &'static str) -> Result<T>
where
    T::Error: std::fmt::Display,
{
    T::try_from(row.get(column)).map_err(|cause| corrupt(column, cause))
}

/// A count that is never negative.
pub(crate) fn count(row: &Row, column: &str) -> u64 {
    row.get::<_, i64>(column).cast_unsigned()
}

/// A small count that is never negative.
pub(crate) fn small(row: &Row, column: &str) -> u32 {
    row.get::<_, i32>(column).cast_unsigned()
}

/// A lane's number, of a lane that holds requests.
pub(crate) fn lane(row: &Row) -> LaneNo {
    row.get::<_, i16>("lane").cast_unsigned()
}

pub(crate) fn owner(row: &Row) -> Result<Owner> {
    name(row, "owner")
}

pub(crate) fn target(row: &Row) -> Result<Target> {
    name(row, "target")
}

pub(crate) fn upstream(row: &Row) -> Result<UpstreamId> {
    name(row, "upstream")
}

/// The upstreams of a batch's lanes, in the order of their names whatever the database's locale.
fn upstreams(row: &Row) -> Result<Vec<UpstreamId>> {
    let texts: Vec<String> = row.get("upstreams");
    let read = texts.into_iter().map(UpstreamId::new).collect::<Result<Vec<_>, _>>();
    let mut upstreams = read.map_err(|cause| corrupt("upstreams", cause))?;
    upstreams.sort_unstable();
    Ok(upstreams)
}

pub(crate) fn file(row: &Row) -> Result<File> {
    Ok(File {
        id: FileId(row.get("id")),
        owner: owner(row)?,
        name: row.get("name"),
        purpose: row.get("purpose"),
        state: read(row, "state")?,
        lines: count(row, "lines"),
        bytes: count(row, "bytes"),
        chunks: small(row, "chunks"),
        created_at: row.get("created_at"),
        sealed_at: row.get("sealed_at"),
        endpoint: row.get("endpoint"),
        expires_at: row.get("expires_at"),
        output: output(row),
        head: row.get("head"),
        original: original(row),
    })
}

/// What an upload was cut from; its bytes are in a storage, as those of an output are.
fn original(row: &Row) -> Option<Original> {
    let (place, bytes): (Option<String>, Option<i64>) =
        (row.get("place"), row.get("original_bytes"));
    Some(Original { place: place?, bytes: bytes?.cast_unsigned() })
}

/// A batch's output, whose bytes are in a storage.
fn output(row: &Row) -> Option<Output> {
    let (place, batch): (Option<String>, Option<Uuid>) = (row.get("place"), row.get("batch_id"));
    Some(Output::of(FileId(row.get("id")), BatchId(batch?), place?))
}

/// Counts of a lane, or summed; `cursor` is how many lines were ever claimed.
pub(crate) fn counts(row: &Row) -> Counts {
    let total = count(row, "total");
    Counts {
        total,
        untouched: total - count(row, "cursor"),
        returned: count(row, "returned"),
        leased: count(row, "leased"),
        completed: count(row, "completed"),
        failed: count(row, "failed"),
        not_found: count(row, "not_found"),
        skipped: count(row, "skipped"),
    }
}

pub(crate) fn batch(row: &Row) -> Result<Batch> {
    let errors: Option<&str> = row.get("errors");
    let state: State = read(row, "state")?;
    Ok(Batch {
        id: BatchId(row.get("id")),
        file: FileId(row.get("file_id")),
        owner: owner(row)?,
        endpoint: row.get("endpoint"),
        upstreams: upstreams(row)?,
        state,
        generation: small(row, "generation"),
        priority: row.get("priority"),
        job_type: row.get("job_type"),
        source_address: row.get("source_address"),
        metadata: serde_json::from_str(row.get("metadata")).map_err(|e| corrupt("metadata", e))?,
        created_at: row.get("created_at"),
        deadline: row.get("deadline"),
        window_secs: row.get::<_, Option<i64>>("window_secs").map(i64::cast_unsigned),
        cancelling_at: row.get("cancelling_at"),
        finalizing_at: row.get("finalizing_at"),
        closed_at: row.get("closed_at"),
        last_error: row.get("last_error"),
        summary: row.get("summary"),
        errors: match errors.filter(|_| state == State::Failed) {
            Some(text) => serde_json::from_str(text).map_err(|e| corrupt("errors", e))?,
            None => Vec::new(),
        },
        output_secs: row.get::<_, Option<i64>>("output_secs").map(i64::cast_unsigned),
        counts: counts(row),
        recipe_hash: recipe_hash(row)?,
    })
}

/// The hash of the recipe that a batch was made with.
pub(crate) fn recipe_hash(row: &Row) -> Result<Option<[u8; 32]>> {
    let hash: Option<&[u8]> = row.get("recipe_hash");
    hash.map(TryFrom::try_from).transpose().map_err(|cause| corrupt("recipe_hash", cause))
}

pub(crate) fn lease(row: &Row) -> Result<Lease> {
    let (id, outstanding): (Uuid, LineSet) = (row.get("id"), read(row, "lines")?);
    Ok(Lease {
        held: LeaseProof {
            id: LeaseId(id),
            token: count(row, "token"),
            version: small(row, "version"),
            outstanding,
        },
        instance: InstanceId(row.get("instance_id")),
        batch: BatchId(row.get("batch_id")),
        file: FileId(row.get("file_id")),
        lane: lane(row),
        upstream: upstream(row)?,
        target: target(row)?,
        attempts: small(row, "attempts"),
        crashes: small(row, "crashes"),
        generation: small(row, "generation"),
        granted_at: row.get("granted_at"),
        expires_at: row.get("expires_at"),
        deadline: row.get("deadline"),
    })
}

pub(crate) fn member(row: &Row) -> Member {
    let tombstoned_at: Option<Timestamp> = row.get("tombstoned_at");
    Member {
        instance: InstanceId(row.get("instance_id")),
        service: row.get("service"),
        host: row.get("host"),
        pid: u32::try_from(row.get::<_, i64>("pid")).unwrap_or(u32::MAX),
        metadata: row.get("metadata"),
        joined_at: row.get("joined_at"),
        heartbeat_at: row.get("heartbeat_at"),
        silent_ms: millis_between(row.get("heartbeat_at"), row.get("now")),
        tombstoned_at,
        lock: process_lock(row),
    }
}

pub(crate) fn holder(row: &Row) -> Holder {
    let (now, expires_at): (Timestamp, Timestamp) = (row.get("now"), row.get("expires_at"));
    let heard_at: Option<Timestamp> = row.get("heartbeat_at");
    let (host, pid): (Option<String>, Option<i64>) = (row.get("host"), row.get("pid"));
    let pid = pid.map(|pid| u32::try_from(pid).unwrap_or(u32::MAX));
    Holder {
        instance: InstanceId(row.get("instance_id")),
        process: host.zip(pid),
        lines: count(row, "lines"),
        lost_in_ms: millis_between(now, expires_at),
        silent_ms: heard_at.map(|heard_at| millis_between(heard_at, now)),
    }
}

/// Nothing when the second one is earlier.
fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

fn process_lock(row: &Row) -> Option<ProcessLock> {
    let number = |name: &str| row.get::<_, Option<i64>>(name).map(i64::cast_unsigned);
    Some(ProcessLock {
        boot_id: row.get::<_, Option<String>>("boot_id")?,
        device: number("lock_device")?,
        inode: number("lock_inode")?,
        path: row.get::<_, Option<String>>("lock_path")?,
    })
}

pub(crate) fn key(row: &Row) -> Result<Key> {
    Ok(Key {
        id: KeyId(row.get("id")),
        owner: owner(row)?,
        role: read(row, "role")?,
        name: row.get("name"),
        hint: row.get("hint"),
        created_at: row.get("created_at"),
        expires_at: row.get("expires_at"),
        last_used_at: row.get("last_used_at"),
        revoked_at: row.get("revoked_at"),
    })
}
