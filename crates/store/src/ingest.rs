//! Ingest: bytes that were read and judged become the lines of a file.
//!
//! Holds throughout: only its writer sees a file until it is sealed; an abandoned
//! one is dropped by the sweep; a file's bytes, joined in order, read back exactly.
//! Absent on purpose: parsing and validation, which are the engine's.

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windrow_domain::lane::LANES_MAX;
use windrow_domain::{BatchId, FileId, LaneNo, OutputKind, Owner, Target};

use crate::finalise::OUTPUT_NAME_BYTES_MAX;
use crate::{Result, Scope, error};

/// Most errors kept of a file that does not validate.
pub const ERRORS_MAX: usize = 1000;
/// Longest endpoint that all requests of a file ask for.
pub const ENDPOINT_BYTES_MAX: usize = 2048;
/// Longest head of a file.
pub const FILE_HEAD_BYTES_MAX: usize = 256 << 10;
/// Most lines of one chunk.
pub const CHUNK_LINES_MAX: usize = 65_536;
/// Most bytes of one chunk, one line more or less.
pub const CHUNK_BYTES_MAX: usize = 8 << 20;

/// A file to be filled.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Made by the caller, so that the call can be repeated.
    pub id: FileId,
    /// The owner of the file.
    pub owner: Owner,
    /// What people call it.
    pub name: String,
    /// What it is for: `batch`, `batch_output`.
    pub purpose: String,
    /// When the sweep may drop it.
    pub expires_at: Option<Timestamp>,
}

impl NewFile {
    /// A file of requests with a new id, which is kept until it is deleted.
    pub fn new(owner: Owner, name: impl Into<String>) -> Self {
        Self {
            id: FileId::new(),
            owner,
            name: name.into(),
            purpose: "batch".to_owned(),
            expires_at: None,
        }
    }
}

/// A piece of a file: one request, or bytes that are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLine {
    /// The lane of a request; none for blank lines and for what could not be read as one.
    pub lane: Option<LaneNo>,
    /// Dense within its lane (or within the bytes that are no request), from 0.
    pub seq: u64,
    /// The line's number in the file, from 1, as an editor shows it.
    pub line: u64,
    /// The exact bytes, with their line ending.
    pub raw: Bytes,
}

/// A lane that a chunk is the first to use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLane {
    /// Dense within the file, from 0.
    pub lane: LaneNo,
    /// Where its lines go.
    pub target: Target,
}

/// Pieces that belong together, in file order. Written whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Dense within the file, from 0. A number that was already written is a repeat: no effect.
    pub no: u32,
    /// Lanes this chunk is the first to use.
    pub lanes: Vec<NewLane>,
    /// The pieces, in file order.
    pub lines: Vec<NewLine>,
}

impl Chunk {
    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.raw.len() as u64).sum()
    }

    /// Checks the chunk against its bounds; gives its spans. Err says what is wrong, for people.
    pub fn check(&self) -> Result<Vec<Span>, String> {
        if self.lines.len() > CHUNK_LINES_MAX {
            return Err(format!("lines: a chunk has at most {CHUNK_LINES_MAX}"));
        }
        let last = self.lines.last().map_or(0, |line| line.raw.len() as u64);
        if self.bytes() - last > CHUNK_BYTES_MAX as u64 {
            return Err(format!("raw: a chunk has at most {CHUNK_BYTES_MAX} bytes and one line"));
        }
        if self.lanes.iter().any(|new| usize::from(new.lane) >= LANES_MAX) {
            return Err(format!("lanes: a file has at most {LANES_MAX} lanes"));
        }
        if self.lanes.windows(2).any(|pair| pair[1].lane != pair[0].lane + 1) {
            return Err("lanes: new lanes are named densely and once".to_owned());
        }
        if self
            .lines
            .iter()
            .any(|line| line.lane.is_some_and(|lane| usize::from(lane) >= LANES_MAX))
        {
            return Err(format!("lane: a file has at most {LANES_MAX} lanes"));
        }
        let spans = self.spans().map_err(|lane| match lane {
            Some(lane) => format!("seq: the numbers of lane {lane} are not dense"),
            None => "seq: the numbers of pieces that are no request are not dense".to_owned(),
        })?;
        // A lane without a line would never be done, and its batch never closed.
        let used = |new: &NewLane| spans.iter().any(|span| span.lane == Some(new.lane));
        if self.lanes.iter().all(used) {
            Ok(spans)
        } else {
            Err("lanes: a new lane has a line in the chunk that names it".to_owned())
        }
    }

    /// The span of each lane within this chunk, sorted by lane: `(lane, first, count)`, with none
    /// for bytes that are no request. Err names the lane whose numbers are not dense.
    pub fn spans(&self) -> Result<Vec<Span>, Option<LaneNo>> {
        let mut spans = std::collections::BTreeMap::<Option<LaneNo>, Span>::new();
        for line in &self.lines {
            let fresh = Span { lane: line.lane, first: line.seq, count: 0 };
            let span = spans.entry(line.lane).or_insert(fresh);
            if line.seq != span.first + span.count {
                return Err(line.lane);
            }
            span.count += 1;
        }
        Ok(spans.into_values().collect())
    }
}

/// The pieces of one lane within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The lane; none for bytes that are no request.
    pub lane: Option<LaneNo>,
    /// The `seq` of its first piece.
    pub first: u64,
    /// How many pieces it has.
    pub count: u64,
}

/// What is wrong with a line, or with the whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineError {
    /// A stable word: `invalid_json_line`, `duplicate_custom_id`, `empty_file`.
    pub code: String,
    /// Which line; none when it is the file.
    pub line: Option<u64>,
    /// A sentence for people.
    pub message: String,
    /// Which field, when it is one.
    pub param: Option<String>,
}

/// What reading the file to its end showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    /// It may be run. A file without a single request cannot be sealed so.
    Valid,
    /// It may be run, and every request asks for this endpoint, up to [`ENDPOINT_BYTES_MAX`].
    ValidFor(String),
    /// It is kept with its errors (the first [`ERRORS_MAX`]) and can be read, never run.
    Invalid(Vec<LineError>),
}

impl FileVerdict {
    /// `Invalid` when the endpoint is too long, or holds what no database keeps.
    pub fn check(&self) -> Result<()> {
        match self {
            FileVerdict::ValidFor(endpoint) => {
                error::text("endpoint", endpoint, ENDPOINT_BYTES_MAX)
            }
            FileVerdict::Valid | FileVerdict::Invalid(_) => Ok(()),
        }
    }

    /// What is stored of it: the state, the errors as JSON, and the endpoint.
    pub fn columns(self) -> (FileState, Option<String>, Option<String>) {
        match self {
            FileVerdict::Valid => (FileState::Sealed, None, None),
            FileVerdict::ValidFor(endpoint) => (FileState::Sealed, None, Some(endpoint)),
            FileVerdict::Invalid(errors) => (FileState::Invalid, Some(errors_json(errors)), None),
        }
    }
}

/// Errors as databases keep them: the first [`ERRORS_MAX`], as JSON.
pub fn errors_json(mut errors: Vec<LineError>) -> String {
    errors.truncate(ERRORS_MAX);
    serde_json::to_string(&errors).expect("errors are plain values")
}

/// Where a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Being written; only its writer knows it.
    Open,
    /// Complete and valid.
    Sealed,
    /// Complete, and does not validate.
    Invalid,
    /// Gone for every caller; its rows are being reaped.
    Dropped,
}

impl FileState {
    /// Every state there is.
    pub const ALL: [FileState; 4] =
        [FileState::Open, FileState::Sealed, FileState::Invalid, FileState::Dropped];

    /// The word that databases store.
    pub fn as_str(self) -> &'static str {
        match self {
            FileState::Open => "open",
            FileState::Sealed => "sealed",
            FileState::Invalid => "invalid",
            FileState::Dropped => "dropped",
        }
    }
}

impl std::str::FromStr for FileState {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = FileState::ALL.into_iter().find(|state| state.as_str() == word);
        found.ok_or_else(|| format!("{word:?} is not a file state"))
    }
}

/// What a file is that closing a batch made. Its bytes are in a storage, not in the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The batch.
    pub batch: BatchId,
    /// Which of its outputs.
    pub kind: OutputKind,
    /// Its name in the storage.
    pub place: String,
}

impl Output {
    /// The output of a batch that has this id.
    pub fn of(file: FileId, batch: BatchId, place: String) -> Self {
        let is_output = file == FileId::output_of(batch);
        let kind = if is_output { OutputKind::Output } else { OutputKind::Errors };
        Self { batch, kind, place }
    }
}

/// The bytes that a file was cut from, where its lines are not these bytes: a sheet, pictures, an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Original {
    /// Its name in the storage.
    pub place: String,
    /// Its size in bytes, as far as it is known yet.
    pub bytes: u64,
}

/// What is said of a file while it is open. What is none here stays as it was said before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDescription {
    /// How its rows are read; see [`File::head`].
    pub head: Option<String>,
    /// What it was cut from. It is said before the first byte goes to the storage: then the sweep finds the
    /// bytes of a file that is given up.
    pub original: Option<Original>,
}

impl FileDescription {
    /// What holds once this was said, too.
    pub fn add(&mut self, later: Self) {
        self.head = later.head.or_else(|| self.head.take());
        self.original = later.original.or_else(|| self.original.take());
    }

    /// `Invalid` when the head or the place is too long, or holds what no database keeps.
    pub fn check(&self) -> Result<()> {
        if let Some(head) = &self.head {
            error::text("head", head, FILE_HEAD_BYTES_MAX)?;
        }
        match &self.original {
            Some(original) => error::text("place", &original.place, OUTPUT_NAME_BYTES_MAX),
            None => Ok(()),
        }
    }
}

/// A file as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct File {
    /// Its identity.
    pub id: FileId,
    /// The owner of the file.
    pub owner: Owner,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// Whether it is open, sealed, invalid or dropped.
    pub state: FileState,
    /// Requests in it.
    pub lines: u64,
    /// What every request of it asks for, when that was said at its sealing.
    pub endpoint: Option<String>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Chunks it was written in, each readable with [`crate::Inspect::read_chunk`]; an output has none.
    pub chunks: u32,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was sealed.
    pub sealed_at: Option<Timestamp>,
    /// When the sweep may drop it.
    pub expires_at: Option<Timestamp>,
    /// Which batch made it; none for an upload.
    pub output: Option<Output>,
    /// How its rows are read, up to [`FILE_HEAD_BYTES_MAX`]: a text that the engine writes and the store does
    /// not read. None in lists, where it would be large many times.
    #[serde(skip)]
    pub head: Option<String>,
    /// What it was cut from, when its lines are not the bytes that came.
    #[serde(skip)]
    pub original: Option<Original>,
}

/// The stage that takes lines in.
#[async_trait]
pub trait Ingest {
    /// Opens a file for writing. A repeat with the same id has no effect; the id of a file of
    /// another owner, or of one that is sealed, is a `Conflict`.
    async fn open_file(&self, file: NewFile) -> Result<()>;

    /// Writes one chunk, durable when it returns. Chunks come in order: a gap is a `Conflict`, a
    /// repeat has no effect. More than [`windrow_domain::lane::LANES_MAX`] lanes is `Invalid`.
    async fn add_lines(&self, file: FileId, chunk: Chunk) -> Result<()>;

    /// Says when the sweep may drop a file that is still open, for a caller that learns it late. A file
    /// that is not open is `Missing`: once others see it, nothing of it changes.
    async fn expire_file(&self, file: FileId, expires_at: Timestamp) -> Result<()>;

    /// Says how the rows of a file that is still open are read, and what it was cut from. Repeatable; what is
    /// said later counts. A file that is not open is `Missing`; another place for its original is a
    /// `Conflict`, since the bytes at the first would be lost.
    async fn describe_file(&self, file: FileId, description: FileDescription) -> Result<()>;

    /// Fixes the file: its lanes and totals never change again. A repeat gives the same file.
    async fn seal_file(&self, file: FileId, verdict: FileVerdict) -> Result<File>;

    /// Makes the file vanish. `Conflict` while a batch that is not closed needs it.
    async fn drop_file(&self, scope: &Scope, file: FileId) -> Result<()>;
}
