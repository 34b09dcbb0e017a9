//! How fast the parse side is by itself, and how much memory it takes: ingest into a store that
//! keeps nothing. `cargo bench -p windrow-engine [-- MIB]` for requests, `-- csv MIB` for the same rows as CSV,
//! `-- make FILE` and then `-- xlsx FILE` for a sheet of 1,000,000 cells in 10 columns.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::io::{AsyncRead, ReadBuf};
use windrow_domain::{FileId, Owner};
use windrow_engine::ingest::{Ingested, Options, ingest, ingest_input};
use windrow_engine::rows::InputOptions;
use windrow_engine::storage::Storage;
use windrow_store::ingest::{Chunk, File, FileDescription, FileState, FileVerdict, NewFile};
use windrow_store::{Ingest, Result, Scope};

const LINE_BYTES: usize = 300;

/// Counts and forgets.
#[derive(Default)]
struct Nowhere {
    lines: AtomicU64,
    bytes: AtomicU64,
}

#[async_trait]
impl Ingest for Nowhere {
    async fn open_file(&self, _: NewFile) -> Result<()> {
        Ok(())
    }

    async fn add_lines(&self, _: FileId, chunk: Chunk) -> Result<()> {
        self.lines.fetch_add(chunk.lines.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(chunk.bytes(), Ordering::Relaxed);
        Ok(())
    }

    async fn expire_file(&self, _: FileId, _: Timestamp) -> Result<()> {
        Ok(())
    }

    async fn describe_file(&self, _: FileId, _: FileDescription) -> Result<()> {
        Ok(())
    }

    async fn seal_file(&self, id: FileId, verdict: FileVerdict) -> Result<File> {
        let (state, _, endpoint) = verdict.columns();
        assert_eq!(state, FileState::Sealed);
        Ok(File {
            id,
            owner: Owner::new("bench").expect("a good name"),
            name: String::new(),
            purpose: String::new(),
            state,
            lines: self.lines.load(Ordering::Relaxed),
            endpoint,
            bytes: self.bytes.load(Ordering::Relaxed),
            chunks: 0,
            created_at: Timestamp::UNIX_EPOCH,
            sealed_at: None,
            expires_at: None,
            output: None,
            head: None,
            original: None,
        })
    }

    async fn drop_file(&self, _: &Scope, _: FileId) -> Result<()> {
        Ok(())
    }
}

/// Makes lines as they are read, each with its own id, so that the file is never in memory.
struct Lines {
    template: Vec<u8>,
    digits_at: usize,
    next: u64,
    lines: u64,
    at: usize,
}

impl Lines {
    fn new(lines: u64) -> Self {
        let head = r#"{"custom_id":"request-"#;
        let mut line = format!(
            r#"{head}0000000000","method":"POST","url":"/v1/chat/completions","body":{{"model":"gpt-4o-mini","messages":[{{"role":"user","content":""#
        );
        let tail = "\"}],\"max_tokens\":100}}\n";
        while line.len() + tail.len() < LINE_BYTES {
            line.push(
                "the quick brown fox jumps over the lazy dog ".as_bytes()[line.len() % 44] as char,
            );
        }
        let template = (line + tail).into_bytes();
        Self { template, digits_at: head.len(), next: 0, lines, at: 0 }
    }

    /// The same rows as records of ten cells, one of them quoted. The first one is the header.
    fn records(lines: u64) -> Self {
        let mut line = "0000000000,a title of some length,brand,\"a cell, quoted\",12.50,EUR,7,yes,2024-02-29,".to_owned();
        while line.len() + 1 < LINE_BYTES {
            line.push('x');
        }
        line.push('\n');
        Self { template: line.into_bytes(), digits_at: 0, next: 0, lines: lines + 1, at: 0 }
    }
}

impl AsyncRead for Lines {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buffer.remaining() > 0 && self.next < self.lines {
            if self.at == 0 {
                let digits = format!("{:010}", self.next);
                let at = self.digits_at;
                self.template[at..at + 10].copy_from_slice(digits.as_bytes());
            }
            let rest = &self.template[self.at..];
            let taken = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..taken]);
            self.at += taken;
            if self.at == self.template.len() {
                (self.at, self.next) = (0, self.next + 1);
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

fn new_file(name: &str) -> NewFile {
    NewFile {
        id: FileId::new(),
        owner: Owner::new("bench").expect("a good name"),
        name: name.to_owned(),
        purpose: "batch".to_owned(),
        expires_at: None,
    }
}

/// A workbook of 100,000 rows of ten cells: texts that repeat, texts that do not, numbers.
fn make(path: &str) {
    let mut workbook = rust_xlsxwriter::Workbook::new();
    let sheet = workbook.add_worksheet();
    for row in 0..=100_000_u32 {
        for column in 0..10_u16 {
            let done = match column {
                0..=3 => sheet.write(row, column, format!("text {row} of column {column}")),
                4..=6 => {
                    sheet.write(row, column, format!("kind {}", (row + u32::from(column)) % 50))
                }
                _ => sheet.write(row, column, f64::from(row) * 1.5 + f64::from(column)),
            };
            done.expect("a cell is written");
        }
    }
    workbook.save(path).expect("the workbook is saved");
}

/// Takes in rows: a workbook when there is a path, records otherwise.
async fn take_rows(store: &Nowhere, path: Option<&String>, lines: u64) -> Ingested {
    let (storage, told, options) = (Storage::memory(), InputOptions::default(), Options::default());
    let done = match path {
        Some(path) => {
            let file = std::fs::read(path).expect("the workbook is there");
            ingest_input(store, &storage, &file[..], new_file("a.xlsx"), &told, options).await
        }
        None => {
            let records = Lines::records(lines);
            ingest_input(store, &storage, records, new_file("a.csv"), &told, options).await
        }
    };
    done.expect("nothing fails")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let behind =
        |word: &str| words.iter().position(|found| found == word).and_then(|at| words.get(at + 1));
    if let Some(path) = behind("make") {
        return make(path);
    }
    let is_rows = behind("csv").is_some() || behind("xlsx").is_some();
    let mib = words.iter().find_map(|word| word.parse::<u64>().ok()).unwrap_or(256);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .expect("a runtime starts");
    for _ in 0..5 {
        let lines = (mib << 20) / LINE_BYTES as u64;
        #[expect(clippy::disallowed_methods, reason = "a bench measures time")]
        let started = Instant::now();
        let store = Nowhere::default();
        let done = if is_rows {
            runtime.block_on(take_rows(&store, behind("xlsx"), lines))
        } else {
            let work = ingest(&store, Lines::new(lines), new_file("a.jsonl"), Options::default());
            runtime.block_on(work).expect("nothing fails")
        };
        let secs = started.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let (bytes, lines) = (done.file.bytes as f64, done.file.lines as f64);
        println!(
            "{lines} lines: {:.0} MB/s, {:.0} lines/s, peak {:.0} MiB",
            bytes / 1e6 / secs,
            lines / secs,
            peak_mib()
        );
    }
}
