//! Ingest: chunks of judged lines become templates; sealing fixes the file.
//!
//! Holds throughout: a chunk's lines, its span row and the counters are written by one call, so a
//! crash leaves whole chunks only, and the counters of a lane are always exact.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Row, params};
use uuid::Uuid;
use windrow_domain::{BatchId, FileId, Target};
use windrow_store::ingest::{
    Chunk, File, FileDescription, FileState, FileVerdict, Ingest, NewFile, NewLane, Original,
    Output, Span,
};
use windrow_store::{Error, Kind, Result, Scope};

use crate::SqliteBackend;
use crate::rows::{self, NO_LANE, lane_int};
use crate::tx::{Tx, invalid, sql};

#[async_trait]
impl Ingest for SqliteBackend {
    async fn open_file(&self, file: NewFile) -> Result<()> {
        self.write(move |tx| open(tx, &file)).await
    }

    async fn add_lines(&self, file: FileId, chunk: Chunk) -> Result<()> {
        // Here and not on the one thread that writes: it looks at every line.
        let spans = chunk.check().map_err(|because| Error::of(Kind::Invalid).because(because))?;
        self.write(move |tx| add_lines(tx, file, &chunk, &spans)).await
    }

    async fn expire_file(&self, file: FileId, expires_at: Timestamp) -> Result<()> {
        self.write(move |tx| expire(tx, file, expires_at)).await
    }

    async fn describe_file(&self, file: FileId, description: FileDescription) -> Result<()> {
        self.write(move |tx| describe(tx, file, &description)).await
    }

    async fn seal_file(&self, file: FileId, verdict: FileVerdict) -> Result<File> {
        self.write(move |tx| seal(tx, file, verdict)).await
    }

    async fn drop_file(&self, scope: &Scope, file: FileId) -> Result<()> {
        let scope = scope.clone();
        self.write(move |tx| drop_file(tx, &scope, file)).await
    }
}

/// Reads the columns of `ingest/find_file`.
pub(crate) fn read_file(row: &Row<'_>) -> rusqlite::Result<File> {
    Ok(File {
        id: FileId(rows::uuid(row, 0)?),
        owner: rows::name(row, 1)?,
        name: row.get(2)?,
        purpose: row.get(3)?,
        state: rows::parsed(row, 4)?,
        lines: rows::count(row, 5)?,
        bytes: rows::count(row, 6)?,
        chunks: row.get(7)?,
        created_at: rows::time(row, 8)?,
        sealed_at: rows::time_opt(row, 9)?,
        expires_at: rows::time_opt(row, 10)?,
        output: read_output(row)?,
        endpoint: row.get(13)?,
        head: row.get(14)?,
        original: read_original(row)?,
    })
}

/// What an upload was cut from; its bytes are in a storage, as those of an output are.
fn read_original(row: &Row<'_>) -> rusqlite::Result<Option<Original>> {
    let (place, bytes): (Option<String>, Option<i64>) = (row.get(11)?, row.get(15)?);
    let original = |(place, bytes): (_, i64)| Original { place, bytes: bytes.cast_unsigned() };
    Ok(place.zip(bytes).map(original))
}

/// A batch's output, whose bytes are in a storage.
fn read_output(row: &Row<'_>) -> rusqlite::Result<Option<Output>> {
    let (place, batch): (Option<String>, Option<[u8; 16]>) = (row.get(11)?, row.get(12)?);
    let Some((place, batch)) = place.zip(batch) else { return Ok(None) };
    let batch = BatchId(Uuid::from_bytes(batch));
    Ok(Some(Output::of(FileId(rows::uuid(row, 0)?), batch, place)))
}

/// A file in any state but dropped; `Missing` otherwise.
pub(crate) fn find(tx: &Tx<'_>, file: FileId) -> Result<File> {
    let found = tx.one(sql!("ingest/find_file"), [file.0.into_bytes()], read_file)?;
    let found = found.filter(|file| file.state != FileState::Dropped);
    found.ok_or_else(|| Error::of(Kind::Missing))
}

/// Whether a batch that is not closed uses the file.
pub(crate) fn is_needed(tx: &Tx<'_>, file: FileId) -> Result<bool> {
    tx.sure(sql!("ingest/is_needed"), [file.0.into_bytes()], |row| row.get(0))
}

fn open(tx: &Tx<'_>, file: &NewFile) -> Result<()> {
    let id = file.id.0.into_bytes();
    if let Some(found) = tx.one(sql!("ingest/find_file"), [id], read_file)? {
        return if found.state == FileState::Open && found.owner == file.owner {
            Ok(())
        } else {
            Err(Error::of(Kind::Conflict).because("a file with this id exists already"))
        };
    }
    let expires_at = file.expires_at.map(|at| at.as_microsecond());
    let owner = file.owner.as_str();
    let new = params![id, owner, file.name, file.purpose, tx.now, expires_at];
    tx.run(sql!("ingest/insert_file"), new).map(|_| ())
}

/// A lane while its file is written.
struct Growing {
    target: Option<Target>,
    lines: u64,
    changed: bool,
}

type Lanes = BTreeMap<i64, Growing>;

fn add_lines(tx: &Tx<'_>, file: FileId, chunk: &Chunk, spans: &[Span]) -> Result<()> {
    let id = file.0.into_bytes();
    let found = find(tx, file)?;
    if tx.sure(sql!("ingest/has_chunk"), params![id, chunk.no], |row| row.get(0))? {
        return Ok(());
    }
    if found.state != FileState::Open {
        return Err(Error::of(Kind::Conflict).because("the file is sealed"));
    }
    if chunk.no != found.chunks {
        let because = format!("chunk {} came, chunk {} is next", chunk.no, found.chunks);
        return Err(Error::of(Kind::Conflict).because(because));
    }
    let mut lanes = growing(tx, file)?;
    add_lanes(&mut lanes, &chunk.lanes)?;
    let requests = grow(&mut lanes, spans)?;
    insert_templates(tx, file, chunk)?;
    for (lane, growing) in lanes.iter().filter(|(_, growing)| growing.changed) {
        let target = growing.target.as_ref().map(Target::as_str);
        tx.run(sql!("ingest/put_lane"), params![id, lane, target, rows::int(growing.lines)])?;
    }
    let bytes = rows::int(chunk.bytes());
    tx.run(sql!("ingest/insert_chunk"), params![id, chunk.no, bytes, spans_text(spans)])?;
    let counted = params![id, chunk.no, rows::int(requests), bytes, tx.now];
    match tx.run(sql!("ingest/grow_file"), counted)? {
        1 => Ok(()),
        _ => Err(tx.corrupt("a file changed while its writer held the database")),
    }
}

fn growing(tx: &Tx<'_>, file: FileId) -> Result<Lanes> {
    let lanes = tx.all(sql!("ingest/file_lanes"), [file.0.into_bytes()], |row| {
        let target = match row.get_ref(1)? {
            rusqlite::types::ValueRef::Null => None,
            _ => Some(rows::name(row, 1)?),
        };
        Ok((row.get(0)?, Growing { target, lines: rows::count(row, 2)?, changed: false }))
    })?;
    Ok(lanes.into_iter().collect())
}

fn add_lanes(lanes: &mut Lanes, new: &[NewLane]) -> Result<()> {
    for lane in new {
        let next = lanes.keys().filter(|no| **no != NO_LANE).count();
        if usize::from(lane.lane) != next {
            return Err(Error::invalid(
                "lanes",
                format!("lane {} came, {next} is next", lane.lane),
            ));
        }
        let target = Some(lane.target.clone());
        lanes.insert(lane.lane.into(), Growing { target, lines: 0, changed: true });
    }
    Ok(())
}

/// Counts the spans; gives how many of their pieces are requests.
fn grow(lanes: &mut Lanes, spans: &[Span]) -> Result<u64> {
    let mut requests = 0;
    for span in spans {
        let no = lane_int(span.lane);
        if no == NO_LANE {
            lanes.entry(no).or_insert(Growing { target: None, lines: 0, changed: true });
        }
        let Some(lane) = lanes.get_mut(&no) else {
            return Err(invalid(format!("lane {no} has no target")));
        };
        if lane.lines != span.first {
            let because = format!("lane {no} has {} lines, {} came", lane.lines, span.first);
            return Err(Error::of(Kind::Conflict).because(because));
        }
        lane.lines += span.count;
        lane.changed = true;
        requests += if no == NO_LANE { 0 } else { span.count };
    }
    Ok(requests)
}

fn insert_templates(tx: &Tx<'_>, file: FileId, chunk: &Chunk) -> Result<()> {
    let mut statement = tx.prepare(sql!("ingest/insert_template"))?;
    let id = file.0.into_bytes();
    for line in &chunk.lines {
        let lane = lane_int(line.lane);
        let new = params![id, lane, rows::int(line.seq), rows::int(line.line), &line.raw[..]];
        statement.execute(new).map_err(|cause| tx.failed(cause))?;
    }
    Ok(())
}

/// `lane:first-last;…`, with -1 for no lane.
fn spans_text(spans: &[Span]) -> String {
    let mut text = String::new();
    for span in spans {
        let semicolon = if text.is_empty() { "" } else { ";" };
        let (lane, last) = (lane_int(span.lane), span.first + span.count - 1);
        // Writing to a string cannot fail.
        let _ = write!(text, "{semicolon}{lane}:{}-{last}", span.first);
    }
    text
}

fn expire(tx: &Tx<'_>, file: FileId, expires_at: Timestamp) -> Result<()> {
    let expiry = params![file.0.into_bytes(), expires_at.as_microsecond()];
    match tx.run(sql!("ingest/expire_file"), expiry)? {
        0 => Err(Error::of(Kind::Missing)),
        _ => Ok(()),
    }
}

fn describe(tx: &Tx<'_>, file: FileId, description: &FileDescription) -> Result<()> {
    let open = find(tx, file)?;
    if open.state != FileState::Open {
        return Err(Error::of(Kind::Missing).because("it is not open"));
    }
    let original = description.original.as_ref();
    let said = open.original.zip(original);
    if said.is_some_and(|(before, now)| before.place != now.place) {
        return Err(Error::of(Kind::Conflict).because("its original is somewhere else"));
    }
    let described = params![
        file.0.into_bytes(),
        description.head,
        original.map(|original| &original.place),
        original.map(|original| rows::int(original.bytes)),
        tx.now
    ];
    tx.run(sql!("ingest/describe_file"), described).map(|_| ())
}

/// Fixes an open file; a repeat finds it fixed already.
pub(crate) fn seal(tx: &Tx<'_>, file: FileId, verdict: FileVerdict) -> Result<File> {
    let found = find(tx, file)?;
    let (state, errors, endpoint) = verdict.columns();
    if found.state != FileState::Open {
        return if found.state == state {
            Ok(found)
        } else {
            Err(Error::of(Kind::Conflict).because("it was sealed with another verdict"))
        };
    }
    if state == FileState::Sealed && found.lines == 0 {
        return Err(invalid("a file without a request cannot be valid"));
    }
    let sealed = params![file.0.into_bytes(), state.as_str(), errors, tx.now, endpoint];
    tx.run(sql!("ingest/seal_file"), sealed)?;
    find(tx, file)
}

fn drop_file(tx: &Tx<'_>, scope: &Scope, file: FileId) -> Result<()> {
    let found = find(tx, file)?;
    if scope.owner().is_some_and(|owner| owner != found.owner.as_str()) {
        return Err(Error::of(Kind::Missing));
    }
    if is_needed(tx, file)? {
        return Err(Error::of(Kind::Conflict).because("a batch that is not closed needs it"));
    }
    tx.run(sql!("ingest/drop_file"), params![file.0.into_bytes(), tx.now]).map(|_| ())
}
