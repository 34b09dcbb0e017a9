//! An `Ingest` in memory, for the pipeline's own tests. What the contract means is the business of
//! the conformance suite; this one keeps lines, checks that they are dense, and fails on command.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use windrow_domain::{FileId, Owner};
use windrow_engine::clock::Clock;
use windrow_store::ingest::{Chunk, File, FileDescription, FileVerdict, NewFile, NewLine};
use windrow_store::{Error, Ingest, Kind, Result, Scope, pool_wait};

type When = fn(u32) -> bool;

#[derive(Default)]
pub(crate) struct Fake {
    inner: Mutex<Inner>,
    /// Calls that fail before, or after, they did their work.
    fails: Option<(Kind, When)>,
    loses: Option<(Kind, When)>,
    /// A clock that each chunk moves on: so long for a row.
    takes: Option<(Clock, Duration)>,
    /// Chunks for which no connection is free at once, by their number; they are stored all the same.
    waits: Option<When>,
}

#[derive(Default)]
struct Inner {
    calls: u32,
    file: Option<NewFile>,
    description: FileDescription,
    targets: Vec<String>,
    chunks: Vec<Vec<NewLine>>,
    seqs: BTreeMap<Option<u16>, u64>,
    dropped: bool,
}

pub(crate) fn new_file() -> NewFile {
    NewFile {
        id: FileId::new(),
        owner: Owner::new("ann").unwrap(),
        name: "in.jsonl".to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    }
}

impl Fake {
    pub(crate) fn failing(self, kind: Kind, when: When) -> Self {
        Self { fails: Some((kind, when)), ..self }
    }

    pub(crate) fn losing_replies(self, kind: Kind, when: When) -> Self {
        Self { loses: Some((kind, when)), ..self }
    }

    pub(crate) fn taking(self, clock: Clock, row: Duration) -> Self {
        Self { takes: Some((clock, row)), ..self }
    }

    pub(crate) fn waiting(self, when: When) -> Self {
        Self { waits: Some(when), ..self }
    }

    /// Rows of each chunk.
    pub(crate) fn rows(&self) -> Vec<usize> {
        self.inner.lock().unwrap().chunks.iter().map(Vec::len).collect()
    }

    /// The file as a reader would get it: each chunk ordered by line and seq, chunks joined.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let inner = self.inner.lock().unwrap();
        let mut bytes = Vec::new();
        for chunk in &inner.chunks {
            let mut lines: Vec<&NewLine> = chunk.iter().collect();
            lines.sort_by_key(|line| (line.line, line.seq));
            lines.iter().for_each(|line| bytes.extend_from_slice(&line.raw));
        }
        bytes
    }

    /// All lines, in the order of the file.
    #[allow(dead_code, reason = "not every test looks at lines")]
    pub(crate) fn lines(&self) -> Vec<NewLine> {
        let mut lines: Vec<_> =
            self.inner.lock().unwrap().chunks.iter().flatten().cloned().collect();
        lines.sort_by_key(|line| (line.line, line.seq));
        lines
    }

    pub(crate) fn targets(&self) -> Vec<String> {
        self.inner.lock().unwrap().targets.clone()
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.inner.lock().unwrap().dropped
    }

    fn call<T>(&self, verb: &'static str, work: impl FnOnce(&mut Inner) -> T) -> Result<T> {
        let mut inner = self.inner.lock().unwrap();
        let call = inner.calls;
        inner.calls += 1;
        let failed = |rule: Option<(Kind, When)>| {
            rule.filter(|(_, when)| when(call)).map(|(kind, _)| Error::new(kind, verb, call))
        };
        if let Some(error) = failed(self.fails) {
            return Err(error);
        }
        let done = work(&mut inner);
        failed(self.loses).map_or(Ok(done), Err)
    }
}

#[async_trait]
impl Ingest for Fake {
    async fn open_file(&self, file: NewFile) -> Result<()> {
        self.call("open file", |inner| inner.file = Some(file))
    }

    async fn add_lines(&self, _: FileId, chunk: Chunk) -> Result<()> {
        if let Some((clock, row)) = &self.takes {
            clock.advance(*row * u32::try_from(chunk.lines.len()).unwrap());
        }
        if self.waits.is_some_and(|when| when(chunk.no)) {
            pool_wait::note(Duration::from_millis(5));
        }
        self.call("add lines", |inner| {
            let no = chunk.no as usize;
            assert!(no <= inner.chunks.len(), "a gap before chunk {no}");
            if no < inner.chunks.len() {
                return;
            }
            for lane in &chunk.lanes {
                assert_eq!(usize::from(lane.lane), inner.targets.len());
                inner.targets.push(lane.target.to_string());
            }
            for span in chunk.spans().unwrap() {
                let next = inner.seqs.entry(span.lane).or_default();
                assert_eq!(*next, span.first, "lane {:?} is not dense", span.lane);
                *next += span.count;
            }
            inner.chunks.push(chunk.lines);
        })
    }

    async fn expire_file(&self, _: FileId, expires_at: Timestamp) -> Result<()> {
        self.call("expire file", |inner| {
            inner.file.as_mut().unwrap().expires_at = Some(expires_at);
        })
    }

    async fn describe_file(&self, _: FileId, description: FileDescription) -> Result<()> {
        self.call("describe file", |inner| inner.description.add(description))
    }

    async fn seal_file(&self, _: FileId, verdict: FileVerdict) -> Result<File> {
        self.call("seal file", |inner| {
            let file = inner.file.clone().unwrap();
            let requests = inner.seqs.iter().filter(|(lane, _)| lane.is_some());
            File {
                id: file.id,
                owner: file.owner,
                name: file.name,
                purpose: file.purpose,
                state: verdict.columns().0,
                lines: requests.map(|(_, count)| count).sum(),
                bytes: inner.chunks.iter().flatten().map(|line| line.raw.len() as u64).sum(),
                chunks: u32::try_from(inner.chunks.len()).unwrap(),
                created_at: Timestamp::UNIX_EPOCH,
                sealed_at: Some(Timestamp::UNIX_EPOCH),
                endpoint: None,
                expires_at: None,
                output: None,
                head: inner.description.head.clone(),
                original: inner.description.original.clone(),
            }
        })
    }

    async fn drop_file(&self, _: &Scope, _: FileId) -> Result<()> {
        self.inner.lock().unwrap().dropped = true;
        Ok(())
    }
}
