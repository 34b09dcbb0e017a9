//! Storage: named outputs in a folder, in a bucket or in memory.
//!
//! Holds throughout: an output is there whole or not at all, and durable once [`Writer::finish`] has
//! returned; an output being written takes a bounded part of memory, whatever its size.
//! Absent on purpose: retries. A bucket's client makes its own; the rest is its caller's to decide.

mod error;
mod open;
mod read;
mod seek;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

pub use error::{Error, Kind, Result};
pub use read::Pieces;
pub(crate) use seek::SeekReader;
pub use writer::{PART_BYTES, Writer};

/// Marks a file in a folder that is still being written; lists leave such names out.
const STAGED: char = '#';

/// Where outputs are kept. Cheap to clone.
#[derive(Clone)]
pub struct Storage {
    objects: Arc<dyn ObjectStore>,
    location: Location,
}

#[derive(Clone, Debug)]
enum Location {
    Folder(PathBuf),
    Bucket(String),
    Memory,
}

/// An output as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Storage {
    /// Where it is, for people.
    pub fn describe(&self) -> String {
        match &self.location {
            Location::Folder(path) => path.display().to_string(),
            Location::Bucket(url) => url.clone(),
            Location::Memory => "memory".to_owned(),
        }
    }

    /// What tells it from another one, for processes of one database: a bucket by its address, a folder by
    /// the host that has it.
    pub(crate) fn mark(&self, host: &str) -> String {
        match &self.location {
            Location::Folder(path) => format!("{host}:{}", path.display()),
            Location::Bucket(url) => url.trim_end_matches('/').to_owned(),
            Location::Memory => format!("{host}:memory"),
        }
    }

    /// Begins an output. It is invisible before [`Writer::finish`]; then it takes the place of one
    /// with the same name.
    pub fn create(&self, name: &str) -> Result<Writer> {
        let path = path("write", name)?;
        let part_bytes = match self.location {
            Location::Folder(_) => writer::FILE_PART_BYTES,
            Location::Bucket(_) | Location::Memory => PART_BYTES,
        };
        Ok(Writer::new(self.objects.clone(), path, part_bytes))
    }

    /// The size of an output.
    pub async fn size(&self, name: &str) -> Result<u64> {
        let found = self.objects.head(&path("find", name)?).await;
        found.map(|found| found.size).map_err(|source| Error::of_object("find", name, source))
    }

    /// Removes an output. One that is not there is removed already.
    pub async fn delete(&self, name: &str) -> Result<()> {
        if let (Location::Folder(root), true) = (&self.location, name.contains(STAGED)) {
            return delete_staged(root.join(name), name).await;
        }
        match self.objects.delete(&path("delete", name)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(source) => Err(Error::of_object("delete", name, source)),
        }
    }

    /// Up to `limit` outputs whose names begin with the folders in `prefix`, in no order.
    pub async fn list(&self, prefix: &str, limit: usize) -> Result<Vec<Stored>> {
        self.walk(prefix).take(limit).try_collect().await
    }

    /// All outputs under `prefix`, in no order, as they are found.
    pub(crate) fn walk(&self, prefix: &str) -> BoxStream<'static, Result<Stored>> {
        let owned = prefix.to_owned();
        let found = self.objects.list(Some(&Path::from(prefix)));
        found
            .map_ok(|found| Stored { name: found.location.to_string(), bytes: found.size })
            .map_err(move |source| Error::of_object("list", &owned, source))
            .boxed()
    }

    /// What processes that died left half written directly under `prefix`. A bucket keeps such
    /// parts out of sight; there a lifecycle rule of the bucket removes them.
    pub(crate) async fn list_staged(&self, prefix: &str, limit: usize) -> Result<Vec<String>> {
        let Location::Folder(root) = &self.location else { return Ok(Vec::new()) };
        let (folder, prefix) = (root.join(prefix), prefix.to_owned());
        let wrong = |source| Error::of_io("list", &prefix, source);
        let names = blocking(move || {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(folder)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name.contains(STAGED) && names.len() < limit {
                    names.push(name);
                }
            }
            Ok(names)
        });
        match names.await {
            Ok(names) => Ok(names.into_iter().map(|name| format!("{prefix}/{name}")).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(wrong(error)),
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Storage").field(&self.describe()).finish()
    }
}

async fn delete_staged(path: PathBuf, name: &str) -> Result<()> {
    match blocking(move || std::fs::remove_file(path)).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::of_io("delete", name, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Work that waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
}

fn path(verb: &'static str, name: &str) -> Result<Path> {
    Path::parse(name).map_err(|cause| Error::new(verb, name, Kind::Other).because(cause))
}
