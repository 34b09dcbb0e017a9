//! Reading an output, or a part of it, a piece at a time.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::{GetOptions, GetRange, ObjectStore as _};

use super::{Error, Location, Result, Storage, blocking, path};

/// A piece of a file. Each costs a change of threads, so that small ones would cost most of the time.
const PIECE_BYTES: u64 = 1 << 20;

/// The bytes of an output, in order.
pub type Pieces = BoxStream<'static, Result<Bytes>>;

impl Storage {
    /// The bytes of an output.
    pub async fn read(&self, name: &str) -> Result<Pieces> {
        self.read_part(name, None).await
    }

    /// The bytes of a part of an output, as far as it has them.
    pub async fn read_range(&self, name: &str, range: Range<u64>) -> Result<Pieces> {
        self.read_part(name, Some(range)).await
    }

    async fn read_part(&self, name: &str, range: Option<Range<u64>>) -> Result<Pieces> {
        let path = path("read", name)?;
        if let Location::Folder(root) = &self.location {
            return read_file(root.join(path.as_ref()), name, range).await;
        }
        let owned = name.to_owned();
        let wrong = move |source| Error::of_object("read", &owned, source);
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let found = self.objects.get_opts(&path, options).await.map_err(wrong.clone())?;
        Ok(found.into_stream().map_err(wrong).boxed())
    }
}

async fn read_file(path: PathBuf, name: &str, range: Option<Range<u64>>) -> Result<Pieces> {
    let owned = name.to_owned();
    let wrong = move |source| Error::of_io("read", &owned, source);
    let Range { start, end } = range.unwrap_or(0..u64::MAX);
    let opened = blocking(move || {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(file)
    });
    let file = opened.await.map_err(wrong.clone())?;
    let pieces = stream::try_unfold((file, end.saturating_sub(start)), async |(file, left)| {
        let (piece, file) = blocking(move || next_piece(file, left)).await?;
        let left = left.saturating_sub(piece.len() as u64);
        Ok::<_, io::Error>((!piece.is_empty()).then_some((piece, (file, left))))
    });
    Ok(pieces.map_err(wrong).boxed())
}

fn next_piece(mut file: File, left: u64) -> io::Result<(Bytes, File)> {
    let mut piece = Vec::new();
    (&mut file).take(left.min(PIECE_BYTES)).read_to_end(&mut piece)?;
    Ok((piece.into(), file))
}
