//! Ingest: a chunk's lines come by binary `COPY`, and a function accounts for them in the same transaction.
//!
//! Holds throughout: a chunk is written whole or not at all, and its counters with it; behind a
//! transaction pooler, one insert of arrays stands in for `COPY`.

use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use deadpool_postgres::Object;
use futures_util::SinkExt;
use futures_util::future::join;
use jiff::Timestamp;
use tokio_postgres::types::Type;
use windrow_domain::FileId;
use windrow_store::Scope;
use windrow_store::error::{Error, Kind, Result};
use windrow_store::ingest::{
    Chunk, File, FileDescription, FileState, FileVerdict, Ingest, NewFile, Span,
};

use crate::db::{Param, Sql, Statement, TransactionClient, sql};
use crate::error::from_driver;
use crate::{PostgresBackend, rows};

/// The lane of bytes that are no request.
pub(crate) const NO_LANE: i16 = -1;
/// How much of a chunk is handed to the connection at a time.
const COPY_BYTES: usize = 256 << 10;

#[async_trait]
impl Ingest for PostgresBackend {
    async fn open_file(&self, file: NewFile) -> Result<()> {
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&file.id.0 as _, Type::UUID),
            (&file.owner.as_str() as _, Type::TEXT),
            (&file.name as _, Type::TEXT),
            (&file.purpose as _, Type::TEXT),
            (&file.expires_at as _, Type::TIMESTAMPTZ),
        ];
        let found = self.db.rows(sql!("ingest/open_file"), &params).await?;
        // Two openings at the same moment: the one that made nothing may not see the other's row.
        let Some(row) = found.first() else {
            return Err(Error::of(Kind::Busy));
        };
        let owner: &str = row.get("owner");
        if owner != file.owner.as_str() || rows::read::<FileState>(row, "state")? != FileState::Open
        {
            return Err(Error::of(Kind::Conflict).because("the id is in use"));
        }
        Ok(())
    }

    async fn add_lines(&self, file: FileId, chunk: Chunk) -> Result<()> {
        let spans = chunk.check().map_err(|because| Error::of(Kind::Invalid).because(because))?;
        match self.copy_chunk(file, &chunk, &spans).await {
            Err(error) if error.kind == Kind::Conflict => {
                self.repeated_chunk(file, chunk.no, error).await
            }
            other => other,
        }
    }

    async fn expire_file(&self, file: FileId, expires_at: Timestamp) -> Result<()> {
        let params = [(&file.0 as _, Type::UUID), (&expires_at as _, Type::TIMESTAMPTZ)];
        let found = self.db.rows(sql!("ingest/expire_file"), &params).await?;
        found.first().map(|_| ()).ok_or_else(|| Error::of(Kind::Missing))
    }

    async fn describe_file(&self, file: FileId, description: FileDescription) -> Result<()> {
        let original = description.original.as_ref();
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&file.0 as _, Type::UUID),
            (&description.head as _, Type::TEXT),
            (&original.map(|original| &original.place) as _, Type::TEXT),
            (&original.map(|original| original.bytes.cast_signed()) as _, Type::INT8),
        ];
        let found = self.db.rows(sql!("ingest/describe_file"), &params).await?;
        match found.first() {
            Some(row) if row.get("fits") => Ok(()),
            Some(_) => Err(Error::of(Kind::Conflict).because("its original is somewhere else")),
            None => Err(Error::of(Kind::Missing).because("it is not open")),
        }
    }

    async fn seal_file(&self, file: FileId, verdict: FileVerdict) -> Result<File> {
        let (state, errors, endpoint) = verdict.columns();
        let params = [
            (&self.db.now() as _, Type::TIMESTAMPTZ),
            (&file.0 as _, Type::UUID),
            (&state.as_str() as _, Type::TEXT),
            (&errors as _, Type::TEXT),
            (&endpoint as _, Type::TEXT),
        ];
        let found = self.db.rows(Sql::rows("ingest/seal_file"), &params).await?;
        let row = found.first().ok_or_else(|| Error::of(Kind::Missing))?;
        rows::file(row)
    }

    async fn drop_file(&self, scope: &Scope, file: FileId) -> Result<()> {
        let params = [(&scope.owner() as _, Type::TEXT), (&file.0 as _, Type::UUID)];
        let found = self.db.rows(Sql::value("ingest/drop_file"), &params).await?;
        if found[0].get("answer") { Ok(()) } else { Err(Error::of(Kind::Missing)) }
    }
}

impl PostgresBackend {
    /// Copies a chunk and accounts for it, in one transaction.
    async fn copy_chunk(&self, file: FileId, chunk: &Chunk, spans: &[Span]) -> Result<()> {
        let account = Account::of(chunk, spans);
        let number = i32::try_from(chunk.no).unwrap_or(i32::MAX);
        let bytes = chunk.bytes().cast_signed();

        let params: [Param<'_>; 10] = [
            (&self.db.now(), Type::TIMESTAMPTZ),
            (&file.0, Type::UUID),
            (&number, Type::INT4),
            (&bytes, Type::INT8),
            (&account.spans, Type::TEXT),
            (&account.new_lanes, Type::INT2_ARRAY),
            (&account.new_targets, Type::TEXT_ARRAY),
            (&account.lanes, Type::INT2_ARRAY),
            (&account.firsts, Type::INT8_ARRAY),
            (&account.counts, Type::INT8_ARRAY),
        ];
        if self.db.options.transaction_pooler {
            let lines = Columns::of(chunk);
            let insert = lines.params(&file);
            let calls = [
                Statement { sql: sql!("ingest/insert_lines"), params: &insert },
                Statement { sql: Sql::value("ingest/finish_chunk"), params: &params },
            ];
            return self.db.call(&calls).await.map(drop);
        }
        let client = TransactionClient::of(self.db.client().await?);
        let work = async {
            self.copy_lines(&client, file, chunk).await?;
            let finish = Sql::value("ingest/finish_chunk").text(params.len());
            let (finished, committed) =
                join(client.query_typed(&finish, &params), client.batch_execute("COMMIT")).await;
            finished?;
            committed
        };
        self.db.in_time(work).await?.map_err(from_driver)?;
        client.leave();
        Ok(())
    }

    /// Begins a transaction and copies the lines of a chunk into it.
    async fn copy_lines(
        &self,
        client: &Object,
        file: FileId,
        chunk: &Chunk,
    ) -> Result<(), tokio_postgres::Error> {
        let copy = sql!("ingest/copy_lines").text(0);
        let (begun, sink) =
            join(client.batch_execute(self.db.begin()), client.copy_in::<_, Bytes>(&*copy)).await;
        begun?;
        let mut sink = std::pin::pin!(sink?);
        for block in CopyBlocks::new(file, chunk) {
            sink.as_mut().feed(block).await?;
        }
        sink.finish().await.map(drop)
    }

    /// A chunk that could not be written may have been written before.
    async fn repeated_chunk(&self, file: FileId, no: u32, error: Error) -> Result<()> {
        let number = i32::try_from(no).unwrap_or(i32::MAX);
        let params = [(&file.0 as _, Type::UUID), (&number as _, Type::INT4)];
        let found = self.db.rows(sql!("ingest/find_chunk"), &params).await?;
        match found.first() {
            Some(row) if row.get("written") => Ok(()),
            Some(_) => Err(error),
            None => Err(Error::of(Kind::Missing)),
        }
    }
}

/// What a chunk adds to the file's lanes, as parallel arrays.
struct Account<'a> {
    spans: String,
    new_lanes: Vec<i16>,
    new_targets: Vec<&'a str>,
    lanes: Vec<i16>,
    firsts: Vec<i64>,
    counts: Vec<i64>,
}

impl<'a> Account<'a> {
    fn of(chunk: &'a Chunk, spans: &[Span]) -> Self {
        let number = |span: &Span| span.lane.map_or(NO_LANE, u16::cast_signed);
        let text = |span: &Span| format!("{}:{}+{}", number(span), span.first, span.count);
        Self {
            spans: spans.iter().map(text).collect::<Vec<_>>().join(";"),
            new_lanes: chunk.lanes.iter().map(|new| new.lane.cast_signed()).collect(),
            new_targets: chunk.lanes.iter().map(|new| new.target.as_str()).collect(),
            lanes: spans.iter().map(number).collect(),
            firsts: spans.iter().map(|span| span.first.cast_signed()).collect(),
            counts: spans.iter().map(|span| span.count.cast_signed()).collect(),
        }
    }
}

/// The rows of a chunk as parallel arrays.
struct Columns<'a> {
    lanes: Vec<i16>,
    seqs: Vec<i64>,
    lines: Vec<i64>,
    raws: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(chunk: &'a Chunk) -> Self {
        let lines = chunk.lines.iter();
        Self {
            lanes: lines.clone().map(|line| line.lane.map_or(NO_LANE, u16::cast_signed)).collect(),
            seqs: lines.clone().map(|line| line.seq.cast_signed()).collect(),
            lines: lines.clone().map(|line| line.line.cast_signed()).collect(),
            raws: lines.map(|line| &line.raw[..]).collect(),
        }
    }

    fn params<'b>(&'b self, file: &'b FileId) -> [Param<'b>; 5] {
        [
            (&file.0, Type::UUID),
            (&self.lanes, Type::INT2_ARRAY),
            (&self.seqs, Type::INT8_ARRAY),
            (&self.lines, Type::INT8_ARRAY),
            (&self.raws, Type::BYTEA_ARRAY),
        ]
    }
}

/// The rows of a chunk in PostgreSQL's binary copy format, in blocks.
struct CopyBlocks<'a> {
    file: FileId,
    lines: std::slice::Iter<'a, windrow_store::ingest::NewLine>,
    begun: bool,
    ended: bool,
}

impl<'a> CopyBlocks<'a> {
    fn new(file: FileId, chunk: &'a Chunk) -> Self {
        Self { file, lines: chunk.lines.iter(), begun: false, ended: false }
    }
}

impl Iterator for CopyBlocks<'_> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut block = BytesMut::with_capacity(COPY_BYTES + (16 << 10));
        if !self.begun {
            self.begun = true;
            block.put_slice(b"PGCOPY\n\xff\r\n\0");
            block.put_i32(0);
            block.put_i32(0);
        }
        while block.len() < COPY_BYTES {
            let Some(line) = self.lines.next() else {
                self.ended = true;
                block.put_i16(-1);
                break;
            };
            block.put_i16(5);
            block.put_i32(16);
            block.put_slice(self.file.0.as_bytes());
            block.put_i32(2);
            block.put_i16(line.lane.map_or(NO_LANE, u16::cast_signed));
            block.put_i32(8);
            block.put_u64(line.seq);
            block.put_i32(8);
            block.put_u64(line.line);
            block.put_u32(u32::try_from(line.raw.len()).expect("a piece is smaller than 1 GiB"));
            block.put_slice(&line.raw);
        }
        Some(block.freeze())
    }
}
