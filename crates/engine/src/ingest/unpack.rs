//! Packed inputs: gzip and zstd are unpacked on the way in, whatever the input is called.

use std::io::{self, Cursor};
use std::pin::Pin;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};

/// Read at a time of a packed input.
const BLOCK_BYTES: usize = 1 << 18;

/// A reader of any input.
pub type Reader<'a> = Pin<Box<dyn AsyncRead + Send + 'a>>;

/// How an input is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// By gzip.
    Gzip,
    /// By zstd.
    Zstd,
}

impl Packing {
    /// How an input is packed that begins so; none when it is not.
    pub fn of(beginning: &[u8]) -> Option<Self> {
        match beginning {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            _ => None,
        }
    }

    /// Unpacks an input. What `cat a.gz b.gz` makes is one input, too.
    pub fn unpack<'a>(self, reader: impl AsyncRead + Send + 'a) -> Reader<'a> {
        let reader = BufReader::with_capacity(BLOCK_BYTES, reader);
        match self {
            Packing::Gzip => {
                let mut decoder = GzipDecoder::new(reader);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
            Packing::Zstd => {
                let mut decoder = ZstdDecoder::new(reader);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
        }
    }

    /// The beginning of what is packed, as far as `beginning` shows it.
    pub(crate) async fn sample(self, beginning: &[u8], bytes_max: usize) -> Vec<u8> {
        let mut reader = self.unpack(Cursor::new(beginning)).take(bytes_max as u64);
        let (mut sample, mut block) = (Vec::new(), vec![0; 4096]);
        // It ends in the middle: what came out before is the sample.
        while let Ok(read @ 1..) = reader.read(&mut block).await {
            sample.extend_from_slice(&block[..read]);
        }
        sample
    }
}

/// The beginning of an input, and a reader that begins with it.
pub async fn peek<'a>(
    reader: impl AsyncRead + Send + 'a,
    bytes: usize,
) -> io::Result<(Vec<u8>, Reader<'a>)> {
    let mut reader = Box::pin(reader);
    let mut head = Vec::new();
    (&mut reader).take(bytes as u64).read_to_end(&mut head).await?;
    Ok((head.clone(), Box::pin(Cursor::new(head).chain(reader))))
}
