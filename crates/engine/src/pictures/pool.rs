//! The pool that reads, decodes and scales pictures.
//!
//! Holds throughout: a place of the pool is taken before a picture's bytes are read, so that memory is bounded
//! by the places and not by the rows that run; a place is held until the thread has ended, also when its
//! caller does not wait any more. A small copy is made once, while the picture is decoded anyway, and kept.

use std::io::Read as _;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::scale::{Made, make};
use super::{Kind, PICTURE_BYTES_MAX, Picture, PictureFault};
use crate::storage::{self, Storage};

/// A picture as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Its media type.
    pub mime: &'static str,
    /// The encoded picture.
    pub bytes: Bytes,
}

/// Makes what is sent and shown of pictures. Cheap to clone; clones share the pool.
#[derive(Clone, Debug)]
pub struct Pictures {
    storage: Storage,
    places: Arc<Semaphore>,
}

/// Why a picture was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be used, however often it is tried.
    #[error(transparent)]
    Fault(#[from] PictureFault),
    /// The storage did not give it; it may later.
    #[error("could not read the picture from the storage")]
    Storage(#[from] storage::Error),
}

impl Pictures {
    /// A pool over a storage: a place for each core but one.
    pub fn new(storage: Storage) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { storage, places: Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))) }
    }

    /// The picture of a row, within `side_max` if one is given. `original` is the place of the file's archive,
    /// `line` the number of the row. Makes its small copy if there is none.
    pub async fn scaled(
        &self,
        original: &str,
        line: u64,
        picture: &Picture,
        side_max: Option<u32>,
    ) -> Result<Scaled, Error> {
        let name = thumbnail_name(original, line);
        let missing = self.storage.size(&name).await.is_err();
        let made = self.make(original, picture, side_max, missing).await?;
        if let Some(small) = made.thumbnail
            && let Err(error) = self.keep(&name, &small).await
        {
            tracing::debug!(%error, "a small copy was not kept; the next look makes it");
        }
        Ok(made.scaled)
    }

    /// The small copy of a picture; made and kept when there is none.
    pub async fn thumbnail(
        &self,
        original: &str,
        line: u64,
        picture: &Picture,
    ) -> Result<Bytes, Error> {
        let name = thumbnail_name(original, line);
        match self.read(&name, None).await {
            Ok(found) => return Ok(found),
            Err(error) if error.kind == storage::Kind::Missing => {}
            Err(error) => return Err(error.into()),
        }
        let made = self.make(original, picture, None, true).await?;
        let small = made.thumbnail.unwrap_or_default();
        self.keep(&name, &small).await?;
        Ok(small)
    }

    async fn make(
        &self,
        original: &str,
        picture: &Picture,
        side_max: Option<u32>,
        thumbnail: bool,
    ) -> Result<Made, Error> {
        let place = self.places.clone().acquire_owned().await.expect("the pool is never closed");
        let kind = Kind::of_mime(&picture.mime).ok_or_else(|| {
            PictureFault::new("not_a_picture", "Its kind was not known when it came in.")
        })?;
        let packed = self
            .read(original, Some(picture.at..picture.at.saturating_add(picture.packed_bytes)))
            .await?;
        let (deflated, bytes) = (picture.deflated, picture.bytes);
        let work = move |_: OwnedSemaphorePermit| {
            let whole = if deflated { inflate(&packed, bytes)? } else { packed };
            make(kind, whole, side_max, thumbnail)
        };
        let made = tokio::task::spawn_blocking(move || work(place)).await;
        // A decoder that panics is a picture that cannot be decoded.
        let broken = |_| PictureFault::new("picture_invalid", "It cannot be decoded.");
        Ok(made.map_err(broken)??)
    }

    async fn read(
        &self,
        name: &str,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<Bytes, storage::Error> {
        let mut pieces = match range {
            Some(range) => self.storage.read_range(name, range).await?,
            None => self.storage.read(name).await?,
        };
        let mut bytes = BytesMut::new();
        while let Some(piece) = pieces.try_next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes.freeze())
    }

    async fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), storage::Error> {
        let mut writer = self.storage.create(name)?;
        writer.write(bytes).await?;
        writer.finish().await.map(drop)
    }
}

/// Where the small copy of a row's picture is: beside the original of its file.
pub fn thumbnail_name(original: &str, line: u64) -> String {
    let folder = original.rsplit_once('/').map_or(original, |(folder, _)| folder);
    format!("{folder}/thumbnails/{line}.jpg")
}

/// The bytes of a deflated picture, at most as many as its row says.
fn inflate(packed: &[u8], bytes: u64) -> Result<Bytes, PictureFault> {
    let mut whole = Vec::new();
    let most = bytes.min(PICTURE_BYTES_MAX);
    let read = flate2::read::DeflateDecoder::new(packed).take(most + 1).read_to_end(&mut whole);
    match read {
        Ok(read) if read as u64 <= most => Ok(whole.into()),
        Ok(_) => Err(PictureFault::new("picture_too_large", "It is larger than its archive says.")),
        Err(_) => Err(PictureFault::new("picture_invalid", "It cannot be unpacked.")),
    }
}
