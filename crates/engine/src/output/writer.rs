//! Writing a batch's outputs: its results, page by page, and in a stopped batch what never ran.
//!
//! Holds throughout: two pages are in memory, one being written while the next is read.

use jiff::Timestamp;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, Ending};
use windrow_store::finalise::Rows;
use windrow_store::inspect::{FinishedLine, FinishedQuery, PAGE_MAX, Page};
use windrow_store::{Scope, Store};

use super::line::{self, Names};
use super::requests::Requests;
use super::{Error, Sink, StoreRetry, Usage};

/// Lines are gathered up to this size before they go to a sink.
const GATHER_BYTES: usize = 256 << 10;

/// Which results to write.
pub struct Source<'a> {
    /// The store that has the results.
    pub store: &'a dyn Store,
    /// The scope that the results are read in.
    pub scope: &'a Scope,
    /// The batch that the results are of.
    pub batch: BatchId,
    /// How it ended. When it was cancelled or expired, lines without a result are written, too; while
    /// it runs (none), only what is finished is.
    pub ending: Option<Ending>,
    /// Most bytes of results in memory.
    pub bytes_max: u64,
    /// How long to bear with the store.
    pub store_retry: StoreRetry,
}

/// What one of the two files holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// How many lines it has.
    pub lines: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What was written of a batch's two outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Results, by their outcome.
    pub rows: Rows,
    /// Lines without a result whose earlier one was written in its place.
    pub earlier: u64,
    /// Lines without any result, of a stopped batch.
    pub never_run: u64,
    /// The output.
    pub output: FileTotals,
    /// The errors.
    pub errors: FileTotals,
    /// What the answers say they cost.
    pub usage: Usage,
    /// When the last of these results was recorded.
    pub finished_at: Option<Timestamp>,
}

/// Writes both outputs of a batch, in input order.
pub async fn write(
    source: &Source<'_>,
    output: &mut dyn Sink,
    errors: &mut dyn Sink,
) -> Result<Written, Error> {
    let mut lines = Lines {
        source,
        names: Names::of(source.batch),
        requests: Requests::new(source),
        output: Gathered::to(output),
        errors: Gathered::to(errors),
        written: Written::default(),
    };
    let mut page = next_page(source, None).await?;
    while let Some(after) = page.next.take() {
        let (next, put) =
            futures_util::join!(next_page(source, Some(after)), lines.put_page(&page.rows));
        put?;
        page = next?;
    }
    lines.put_page(&page.rows).await?;
    lines.finish().await
}

async fn next_page(
    source: &Source<'_>,
    after: Option<String>,
) -> windrow_store::Result<Page<FinishedLine>> {
    let query = FinishedQuery {
        batch: Some(source.batch),
        bodies: true,
        earlier: true,
        after,
        limit: PAGE_MAX,
        // Half: another page is being written.
        bytes_max: Some(source.bytes_max / 2),
        ..FinishedQuery::default()
    };
    source.store_retry.ask(|| source.store.finished(source.scope, query.clone())).await
}

struct Lines<'a> {
    source: &'a Source<'a>,
    names: Names,
    requests: Requests<'a>,
    output: Gathered<'a>,
    errors: Gathered<'a>,
    written: Written,
}

impl Lines<'_> {
    async fn put_page(&mut self, rows: &[FinishedLine]) -> Result<(), Error> {
        for row in rows {
            self.put_result(row).await?;
        }
        Ok(())
    }

    async fn put_result(&mut self, row: &FinishedLine) -> Result<(), Error> {
        let result = &row.result;
        self.put_never_run(result.line).await?;
        // The process that recorded it may not have known its id, as when a line took its worker down.
        let found = match (&result.custom_id, self.stopped()) {
            (Some(_), None) => None,
            (None, _) | (_, Some(_)) => self.requests.find(result.line).await?,
        };
        let found = found.as_ref().and_then(|request| request.custom_id());
        let custom_id = result.custom_id.as_deref().or(found.as_deref());
        let (rows, errors) = (&mut self.written.rows, &mut self.errors);
        let (count, into) = match result.status {
            Status::Completed => (&mut rows.completed, &mut self.output),
            Status::Failed => (&mut rows.failed, errors),
            Status::NotFound => (&mut rows.not_found, errors),
            Status::Skipped => (&mut rows.skipped, errors),
        };
        // Counts are those of the current generation, which the closing compares.
        *(if row.earlier { &mut self.written.earlier } else { count }) += 1;
        line::put_result(&mut into.bytes, &self.names, row, custom_id, &mut self.written.usage);
        self.written.finished_at = self.written.finished_at.max(Some(row.finished_at));
        into.added().await
    }

    /// Writes the lines before that one which have no result, when the batch was stopped.
    async fn put_never_run(&mut self, before: u64) -> Result<(), Error> {
        let Some(ending) = self.stopped() else { return Ok(()) };
        while let Some(request) = self.requests.next_before(before).await? {
            let custom_id = request.custom_id();
            let bytes = &mut self.errors.bytes;
            line::put_never_run(bytes, &self.names, request.line, custom_id.as_deref(), ending);
            self.written.never_run += 1;
            self.errors.added().await?;
        }
        Ok(())
    }

    fn stopped(&self) -> Option<Ending> {
        match self.source.ending {
            Some(ending @ (Ending::Cancelled | Ending::Expired)) => Some(ending),
            Some(Ending::Completed) | None => None,
        }
    }

    async fn finish(mut self) -> Result<Written, Error> {
        self.put_never_run(u64::MAX).await?;
        self.output.flush().await?;
        self.errors.flush().await?;
        (self.written.output, self.written.errors) = (self.output.totals, self.errors.totals);
        Ok(self.written)
    }
}

/// Lines on their way to a sink.
struct Gathered<'a> {
    sink: &'a mut dyn Sink,
    bytes: Vec<u8>,
    totals: FileTotals,
}

impl<'a> Gathered<'a> {
    fn to(sink: &'a mut dyn Sink) -> Self {
        Self { sink, bytes: Vec::new(), totals: FileTotals::default() }
    }

    /// One more line was put into `bytes`.
    async fn added(&mut self) -> Result<(), Error> {
        self.totals.lines += 1;
        if self.bytes.len() >= GATHER_BYTES { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.totals.bytes += self.bytes.len() as u64;
        self.sink.write(&self.bytes).await?;
        self.bytes.clear();
        // One large line is no reason to hold its room for all that follow.
        self.bytes.shrink_to(2 * GATHER_BYTES);
        Ok(())
    }
}
