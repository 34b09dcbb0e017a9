//! The input of a run: a file, or what can be read only once (standard input, a pipe) copied to a
//! temporary one.
//!
//! Holds throughout: the hash is of the very bytes that were read, not of what the file holds a
//! moment later.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll};

use anyhow::Context as _;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};

use crate::database::make_folder;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::input_format;

/// Read at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// How far the first request is looked for, to see what it asks for.
const PEEK_BYTES_MAX: u64 = 1 << 20;

/// How the source begins that is known by its content, having no path.
pub(crate) const CONTENT_SOURCE: &str = "content:";

/// The bytes that a run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) hash: String,
    pub(crate) bytes: u64,
}

/// Something that can be read, more than once if need be.
#[derive(Debug)]
pub(crate) struct Input {
    /// Where its bytes are.
    pub(crate) path: PathBuf,
    /// What people call it.
    pub(crate) name: String,
    /// What it is known by: the canonical path, or the content of what was copied.
    pub(crate) source: String,
    /// Its content, if it was read already.
    pub(crate) content: Option<Content>,
    /// Removes the copy.
    spool: Option<tempfile::TempPath>,
}

impl Input {
    /// A file, by its path.
    pub(crate) fn file(path: &Path) -> anyhow::Result<Self> {
        let found = path.canonicalize().and_then(|path| {
            std::fs::File::open(&path)?;
            if path.is_dir() { Err(io::Error::from(io::ErrorKind::IsADirectory)) } else { Ok(path) }
        });
        let found = found.with_context(|| could_not_open(path))?;
        let name = found.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = found.display().to_string();
        Ok(Self { path: found, name, source, content: None, spool: None })
    }

    /// Whether a path can be read only once: `-`, a pipe, a device.
    pub(crate) fn is_stream(path: &Path) -> bool {
        let is_other = |found: std::fs::Metadata| !found.is_file() && !found.is_dir();
        path.as_os_str() == "-" || path.metadata().is_ok_and(is_other)
    }

    /// What can be read only once, kept in a file of the data folder until the run has ended.
    pub(crate) async fn stream(path: &Path, data: &Path) -> anyhow::Result<Self> {
        make_folder(Some(data))?;
        let (name, reader): (_, Pin<Box<dyn AsyncRead + Send>>) = match path.as_os_str() == "-" {
            true => ("standard input".to_owned(), Box::pin(tokio::io::stdin())),
            false => {
                let file = tokio::fs::File::open(path).await;
                let file = file.with_context(|| could_not_open(path))?;
                (path.display().to_string(), Box::pin(file))
            }
        };
        let spool = tempfile::Builder::new().prefix("stdin-").suffix(".jsonl").tempfile_in(data);
        let spool = spool.with_context(|| format!("could not write in {}", data.display()))?;
        let (file, path) = spool.into_parts();
        let mut tee = Hashing::new(reader);
        let mut file = tokio::fs::File::from_std(file);
        let copied = tokio::io::copy(&mut tee, &mut file).await;
        copied.with_context(|| format!("could not read {name}"))?;
        file.flush().await.with_context(|| format!("could not store {name}"))?;
        let content = tee.content();
        Ok(Self {
            path: path.to_path_buf(),
            name,
            source: format!("{CONTENT_SOURCE}{}", content.hash),
            content: Some(content),
            spool: Some(path),
        })
    }

    /// The path of a file that is there for longer than the run; none for a copy.
    pub(crate) fn lasting_path(&self) -> Option<String> {
        self.spool.is_none().then(|| self.path.display().to_string())
    }

    /// The bytes as they are now.
    pub(crate) async fn content(&self) -> anyhow::Result<Content> {
        if let Some(content) = &self.content {
            return Ok(content.clone());
        }
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || hash(&path)).await;
        let read = read.context("reading the file panicked")?;
        read.with_context(|| format!("could not read {}", self.path.display()))
    }

    /// Reads it, hashing on the way.
    pub(crate) async fn open(&self) -> anyhow::Result<Hashing<tokio::fs::File>> {
        let file = tokio::fs::File::open(&self.path).await;
        let file = file.with_context(|| format!("could not open {}", self.path.display()))?;
        Ok(Hashing::new(file))
    }

    /// The path that the first request asks for. What is wrong with it is for the ingest to say.
    pub(crate) async fn endpoint(&self) -> String {
        #[derive(Deserialize)]
        struct First {
            url: String,
        }
        let first = async {
            let file = tokio::fs::File::open(&self.path).await.ok()?;
            let text = input_format::lines(&self.name, file).await.ok()?;
            let mut lines = tokio::io::BufReader::new(text.take(PEEK_BYTES_MAX)).lines();
            while let Some(line) = lines.next_line().await.ok()? {
                let line = line.trim_start_matches('\u{feff}').trim();
                if !line.is_empty() {
                    return serde_json::from_str::<First>(line).ok();
                }
            }
            None
        };
        first.await.map_or_else(|| "/".to_owned(), |first| first.url)
    }
}

/// The error of a path that cannot be opened, with what can be done.
fn could_not_open(path: &Path) -> CliError {
    let what = format!("could not open {}", path.display());
    CliError::new(Exit::Failed, what, "check the path; `-` reads standard input.")
}

fn hash(path: &Path) -> io::Result<Content> {
    let mut file = std::fs::File::open(path)?;
    let (mut hasher, mut block, mut bytes) = (blake3::Hasher::new(), vec![0; BLOCK_BYTES], 0);
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            return Ok(Content { hash: hasher.finalize().to_hex().to_string(), bytes });
        }
        hasher.update(&block[..read]);
        bytes += read as u64;
    }
}

/// A reader that hashes what goes through it.
pub(crate) struct Hashing<R> {
    reader: R,
    hasher: blake3::Hasher,
    bytes: Counter,
}

/// Bytes that went through a reader, for the progress display.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl<R> Hashing<R> {
    fn new(reader: R) -> Self {
        Self { reader, hasher: blake3::Hasher::new(), bytes: Counter::default() }
    }

    pub(crate) fn counter(&self) -> Counter {
        self.bytes.clone()
    }

    /// Size and hash of what was read.
    pub(crate) fn content(&self) -> Content {
        Content { hash: self.hasher.finalize().to_hex().to_string(), bytes: self.bytes.get() }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Hashing<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.reader).poll_read(task, buffer);
        let read = &buffer.filled()[before..];
        self.bytes.add(read.len());
        self.hasher.update(read);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_through_has_the_hash_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        std::fs::write(&path, "\n{\"url\":\"/v1/x\"}\n").unwrap();
        let input = Input::file(&path).unwrap();
        let mut reader = input.open().await.unwrap();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.unwrap();
        assert_eq!(reader.content(), input.content().await.unwrap());
        assert_eq!(reader.content().bytes, read.len() as u64);
        assert_eq!(input.endpoint().await, "/v1/x");
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Input::file(folder.path()).is_err());
    }
}
