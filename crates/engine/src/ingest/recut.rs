//! Cutting again: a file that was cut wrongly becomes a new one, out of its own bytes.
//!
//! Holds throughout: the old file stays as it is, since jobs may use it; what is read is what came in, by its
//! original where one is kept.

use std::io;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio_util::io::StreamReader;
use windrow_store::ingest::{File, NewFile};
use windrow_store::{Ingest, Inspect, Scope};

use super::{Error, Ingested, Options, ingest_input};
use crate::rows::InputOptions;
use crate::storage::Storage;

/// Cuts a file again as it is told, into a new file with the same name, owner and purpose.
pub async fn recut<S>(
    store: &S,
    storage: &Storage,
    file: &File,
    told: &InputOptions,
    options: Options,
) -> Result<Ingested, Error>
where
    S: Ingest + Inspect + Sync + ?Sized,
{
    let new = NewFile {
        purpose: file.purpose.clone(),
        expires_at: file.expires_at,
        ..NewFile::new(file.owner.clone(), file.name.clone())
    };
    let bytes = match &file.original {
        Some(original) => storage.read(&original.place).await?.map_err(io::Error::other).boxed(),
        None => chunks(store, file),
    };
    ingest_input(store, storage, StreamReader::new(bytes), new, told, options).await
}

/// The bytes of a file that the store has, chunk by chunk.
fn chunks<'s, S>(store: &'s S, file: &File) -> BoxStream<'s, io::Result<Bytes>>
where
    S: Inspect + Sync + ?Sized,
{
    let (scope, id, chunks) = (Scope::Owner(file.owner.clone()), file.id, file.chunks);
    let read = move |chunk: u32| {
        let scope = scope.clone();
        async move { store.read_chunk(&scope, id, chunk).await.map_err(io::Error::other) }
    };
    stream::iter(0..chunks).then(read).boxed()
}
