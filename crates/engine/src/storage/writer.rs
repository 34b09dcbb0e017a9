//! Writing one output: in parts when it is large, in one go when it is small.
//!
//! Holds throughout: at most two parts are in memory, one being filled and one on its way;
//! a writer that is dropped leaves nothing behind: a staged file is removed, and a bucket is asked in the
//! background to forget the parts it has.

use std::fmt;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt as _};
use tokio::task::JoinSet;

use super::{Error, Result};

/// Size of a part of an output in a bucket, which takes 10,000 parts of at least 5 MiB: this allows
/// about 80 GiB.
pub const PART_BYTES: usize = 8 << 20;
/// Size of a part of a file, which takes any number of them.
pub(super) const FILE_PART_BYTES: usize = 1 << 20;

/// An output that is being written.
pub struct Writer {
    objects: Arc<dyn ObjectStore>,
    path: Path,
    part: Vec<u8>,
    part_bytes: usize,
    /// None until a part is full: a small output is one request.
    upload: Option<Box<dyn MultipartUpload>>,
    sent: JoinSet<object_store::Result<()>>,
    bytes: u64,
}

impl Writer {
    pub(super) fn new(objects: Arc<dyn ObjectStore>, path: Path, part_bytes: usize) -> Self {
        let (part, sent) = (Vec::new(), JoinSet::new());
        Self { objects, path, part, part_bytes, upload: None, sent, bytes: 0 }
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes. After an error nothing more can be done with it but [`Writer::abort`].
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        while self.part.len() + bytes.len() > self.part_bytes {
            let (fits, rest) = bytes.split_at(self.part_bytes - self.part.len());
            self.part.extend_from_slice(fits);
            self.send_part().await.map_err(|source| self.wrong(source))?;
            bytes = rest;
        }
        self.part.extend_from_slice(bytes);
        Ok(())
    }

    /// Makes the output visible, whole and durable. Returns its size.
    pub async fn finish(mut self) -> Result<u64> {
        match self.publish().await {
            Ok(()) => Ok(self.bytes),
            Err(source) => {
                let error = self.wrong(source);
                self.abort().await;
                Err(error)
            }
        }
    }

    /// Removes what was written so far, as well as it can.
    pub async fn abort(mut self) {
        self.sent.shutdown().await;
        if let Some(mut upload) = self.upload.take() {
            // What cannot be removed now is invisible; a bucket's own rule ends it.
            let _ = upload.abort().await;
        }
    }

    async fn publish(&mut self) -> object_store::Result<()> {
        if self.upload.is_none() {
            let whole = std::mem::take(&mut self.part);
            self.objects.put(&self.path, whole.into()).await?;
            return Ok(());
        }
        if !self.part.is_empty() {
            self.send_part().await?;
        }
        self.wait_for_sent().await?;
        if let Some(upload) = &mut self.upload {
            upload.complete().await?;
        }
        self.upload = None;
        Ok(())
    }

    async fn send_part(&mut self) -> object_store::Result<()> {
        self.wait_for_sent().await?;
        let part = std::mem::take(&mut self.part);
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => none.insert(self.objects.put_multipart(&self.path).await?),
        };
        self.sent.spawn(upload.put_part(part.into()));
        Ok(())
    }

    async fn wait_for_sent(&mut self) -> object_store::Result<()> {
        while let Some(sent) = self.sent.join_next().await {
            sent??;
        }
        Ok(())
    }

    fn wrong(&self, source: object_store::Error) -> Error {
        Error::of_object("write", &self.path, source)
    }
}

impl Drop for Writer {
    /// Whoever loses the right to write an output drops its writer in the middle.
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        let mut sent = std::mem::take(&mut self.sent);
        // Without a runtime the process ends; a staged file goes with the upload all the same.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            sent.shutdown().await;
            if let Err(error) = upload.abort().await {
                tracing::debug!(%error, "parts of an output that is not wanted were left");
            }
        });
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, bytes) = (self.path.as_ref(), self.bytes);
        f.debug_struct("Writer").field("name", &name).field("bytes", &bytes).finish()
    }
}
