//! Inspecting: lists of files and batches, a line's history, cursors, and the page of finished lines.

use jiff::Timestamp;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, State};
use windrow_store::batch::NewBatch;
use windrow_store::error::{Kind, Result};
use windrow_store::ingest::File;
use windrow_store::inspect::{
    BatchesQuery, FilesQuery, FinishedLine, FinishedQuery, PAGE_MAX, Page, PendingQuery,
};
use windrow_store::record::{Finished, Outcomes};
use windrow_store::{Batches, Ingest, Inspect, Scope, Store};

use crate::World;
use crate::fixture::*;

async fn batch_ids(store: &impl Store, scope: &Scope, query: BatchesQuery) -> Vec<BatchId> {
    let (mut ids, mut query) = (Vec::new(), query);
    loop {
        let page = store.batches(scope, query.clone()).await.expect("a page comes");
        assert!(page.rows.len() <= query.limit as usize);
        ids.extend(page.rows.iter().map(|batch| batch.id));
        match page.next {
            Some(next) => query.after = Some(next),
            None => return ids,
        }
    }
}

async fn all_files(store: &impl Store, scope: &Scope, query: FilesQuery) -> Vec<File> {
    let (mut files, mut query) = (Vec::new(), query);
    loop {
        let page = store.files(scope, query.clone()).await.expect("a page comes");
        assert!(page.rows.len() <= query.limit as usize);
        files.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return files,
        }
    }
}

fn batches(limit: u32) -> BatchesQuery {
    BatchesQuery { limit, ..BatchesQuery::default() }
}

/// Batches are listed newest first, page by page, each once, also those made at the same moment.
pub async fn batches_are_listed_newest_first(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let mut made = Vec::new();
    for no in 0..7 {
        made.push(store.create_batch(run_over(file, "ada")).await.unwrap());
        pass(world, if no % 3 == 0 { 0 } else { 1000 });
    }
    let whole = batch_ids(store, &scope("ada"), batches(PAGE_MAX)).await;
    let mut expected = made.clone();
    expected.sort_by_key(|batch| std::cmp::Reverse(batch.created_at));
    let times = |ids: &[BatchId]| -> Vec<Timestamp> {
        let at = |id: &BatchId| made.iter().find(|batch| batch.id == *id).unwrap().created_at;
        ids.iter().map(at).collect()
    };
    let newest_first: Vec<_> = expected.iter().map(|batch| batch.created_at).collect();
    assert_eq!(times(&whole), newest_first);
    for limit in [1, 2, 3, 7] {
        assert_eq!(batch_ids(store, &scope("ada"), batches(limit)).await, whole);
    }
    let page = store.batches(&scope("ada"), batches(1)).await.unwrap();
    let row = &page.rows[0];
    assert_eq!(row, made.iter().find(|batch| batch.id == row.id).unwrap(), "a whole batch");
}

/// A batch made while somebody pages does not shift the pages.
pub async fn new_batches_do_not_shift_the_pages(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(store.create_batch(run_over(file, "ada")).await.unwrap().id);
        pass(world, 1000);
    }
    made.reverse();
    let first = store.batches(&scope("ada"), batches(2)).await.unwrap();
    store.create_batch(run_over(file, "ada")).await.unwrap();
    let rest = BatchesQuery { after: first.next, ..batches(2) };
    let mut ids: Vec<_> = first.rows.iter().map(|batch| batch.id).collect();
    ids.extend(batch_ids(store, &scope("ada"), rest).await);
    assert_eq!(ids, made);
}

/// Batches are chosen by owner, state, kind of work and date.
pub async fn batches_are_filtered(world: &impl World) {
    let store = world.store();
    let file = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    let typed = |job_type: Option<&str>| NewBatch {
        job_type: job_type.map(str::to_owned),
        ..run_over(file, "ada")
    };
    let sizes = store.create_batch(typed(Some("sizes"))).await.unwrap().id;
    pass(world, 1000);
    let at = now(world);
    let names = store.create_batch(typed(Some("names"))).await.unwrap().id;
    pass(world, 1000);
    let plain = store.create_batch(typed(None)).await.unwrap().id;
    let bobs = batch_of(store, "bob", 1).await;
    store.pause_batch(&Scope::All, names, None).await.unwrap();

    let ada = scope("ada");
    let ask = async |query| batch_ids(store, &ada, query).await;
    assert_eq!(ask(batches(10)).await, [plain, names, sizes]);
    assert_eq!(batch_ids(store, &scope("bob"), batches(10)).await, [bobs]);
    assert_eq!(batch_ids(store, &Scope::All, batches(10)).await.len(), 4);
    assert_eq!(batch_ids(store, &scope("eve"), batches(10)).await, []);
    let paused = BatchesQuery { states: vec![State::Paused], ..batches(10) };
    assert_eq!(ask(paused).await, [names]);
    let both = BatchesQuery { states: vec![State::Paused, State::InProgress], ..batches(10) };
    assert_eq!(ask(both).await, [plain, names, sizes]);
    let kind_of = BatchesQuery { job_type: Some("sizes".to_owned()), ..batches(10) };
    assert_eq!(ask(kind_of).await, [sizes]);
    let from = BatchesQuery { from: Some(at), ..batches(10) };
    assert_eq!(ask(from).await, [plain, names], "at or after");
    let to = BatchesQuery { to: Some(at), ..batches(10) };
    assert_eq!(ask(to).await, [sizes], "before");
    let none = BatchesQuery { from: Some(at), to: Some(at), ..batches(10) };
    assert_eq!(ask(none).await, []);
}

/// Complete files are listed newest first, the invalid ones too; open and dropped ones are not.
pub async fn files_are_listed_newest_first(world: &impl World) {
    let store = world.store();
    let mut made = Vec::new();
    for no in 0..6_u64 {
        let mut sheet = Sheet::of("ada").lines(MODEL, no + 1);
        sheet.purpose = if no % 2 == 0 { "batch" } else { "batch_output" }.to_owned();
        made.push(if no == 3 {
            sheet.seal_invalid(store, vec![line_error(1)]).await
        } else {
            sheet.sealed(store).await
        });
        pass(world, 1000);
    }
    Sheet::of("ada").lines(MODEL, 1).write(store).await;
    let gone = Sheet::of("ada").lines(MODEL, 1).seal(store).await;
    store.drop_file(&Scope::All, gone).await.unwrap();
    Sheet::of("bob").lines(MODEL, 1).seal(store).await;
    made.reverse();
    for limit in [1, 4, 6, PAGE_MAX] {
        let query = FilesQuery { limit, ..FilesQuery::default() };
        assert_eq!(all_files(store, &scope("ada"), query).await, made);
    }
    let purpose = Some("batch_output".to_owned());
    let query = FilesQuery { purpose, limit: 2, ..FilesQuery::default() };
    let outputs = all_files(store, &scope("ada"), query).await;
    assert_eq!(outputs, [made[0].clone(), made[2].clone(), made[4].clone()]);
    let everybody = FilesQuery { limit: 10, ..FilesQuery::default() };
    assert_eq!(all_files(store, &Scope::All, everybody).await.len(), 7);
}

/// A page has between one row and the bound.
pub async fn a_page_out_of_bounds_is_invalid(world: &impl World) {
    let store = world.store();
    for limit in [0, PAGE_MAX + 1, u32::MAX] {
        let all = Scope::All;
        assert_eq!(kind(store.batches(&all, batches(limit)).await), Kind::Invalid);
        let files = FilesQuery { limit, ..FilesQuery::default() };
        assert_eq!(kind(store.files(&all, files).await), Kind::Invalid);
        let pending = PendingQuery { limit, ..PendingQuery::default() };
        assert_eq!(kind(store.pending(&all, pending).await), Kind::Invalid);
        let finished = FinishedQuery { limit, ..FinishedQuery::default() };
        assert_eq!(kind(store.finished(&all, finished).await), Kind::Invalid);
    }
}

/// What is told about connections adds up, and whoever looks while nobody works finds nobody waiting.
pub async fn gauges_add_up(world: &impl World) {
    let store = world.store();
    let before = store.gauges();
    batch_of(store, "ada", 2).await;
    let gauges = store.gauges();
    assert!(gauges.connections_open <= gauges.connections_max, "{gauges:?}");
    assert!(gauges.connections_idle <= gauges.connections_open, "{gauges:?}");
    assert!(gauges.connections_open > 0, "{gauges:?}");
    assert_eq!(gauges.waiting, 0, "{gauges:?}");
    assert!(gauges.pool_waits + gauges.calls > before.pool_waits + before.calls, "{gauges:?}");
    assert!(gauges.commits <= gauges.calls, "{gauges:?}");
}

/// The four lists, each asked for one row after a cursor.
async fn ask_all(
    store: &impl Store,
    scope: &Scope,
    after: &str,
) -> [(&'static str, Option<Kind>); 4] {
    fn kind_of<T>(result: Result<Page<T>>) -> Option<Kind> {
        result.err().map(|error| error.kind)
    }
    let after = || Some(after.to_owned());
    let files = FilesQuery { after: after(), limit: 1, ..FilesQuery::default() };
    let pending = PendingQuery { after: after(), limit: 1, ..PendingQuery::default() };
    let finished = FinishedQuery { after: after(), limit: 1, ..FinishedQuery::default() };
    let list = BatchesQuery { after: after(), limit: 1, ..BatchesQuery::default() };
    [
        ("batches", kind_of(store.batches(scope, list).await)),
        ("files", kind_of(store.files(scope, files).await)),
        ("pending", kind_of(store.pending(scope, pending).await)),
        ("finished", kind_of(store.finished(scope, finished).await)),
    ]
}

/// One cursor of each list, from a store that has two rows for each.
async fn four_cursors(world: &impl World) -> [(&'static str, String); 4] {
    let (store, ada) = (world.store(), scope("ada"));
    for _ in 0..2 {
        batch_of(store, "ada", 4).await;
        let worker = Worker::on(store);
        worker.complete(&worker.take(2).await).await;
    }
    let files = FilesQuery { limit: 1, ..FilesQuery::default() };
    let pending = PendingQuery { limit: 1, ..PendingQuery::default() };
    let finished = FinishedQuery { limit: 1, ..FinishedQuery::default() };
    [
        ("batches", store.batches(&ada, batches(1)).await.unwrap().next.expect("more")),
        ("files", store.files(&ada, files).await.unwrap().next.expect("more")),
        ("pending", store.pending(&ada, pending).await.unwrap().next.expect("more")),
        ("finished", store.finished(&ada, finished).await.unwrap().next.expect("more")),
    ]
}

/// A cursor that was changed anywhere, cut, or made up is refused by every list.
pub async fn a_tampered_cursor_is_invalid(world: &impl World) {
    let (store, ada) = (world.store(), scope("ada"));
    for (list, cursor) in four_cursors(world).await {
        let mut bad = vec![
            String::new(),
            "!!!".to_owned(),
            "AAAA".to_owned(),
            cursor[..cursor.len() - 4].to_owned(),
            format!("{cursor}AAAA"),
            "A".repeat(100_000),
        ];
        for at in 0..cursor.len() {
            let mut bytes = cursor.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            bad.push(String::from_utf8(bytes).unwrap());
        }
        for text in bad {
            let mut answers = ask_all(store, &ada, &text).await.into_iter();
            let (_, kind) = answers.find(|(name, _)| *name == list).unwrap();
            // The last character of base64 may hold bits that mean nothing.
            let same_bytes =
                text.len() == cursor.len() && text[..text.len() - 1] == cursor[..cursor.len() - 1];
            assert!(kind == Some(Kind::Invalid) || same_bytes, "{list} took {text:?}: {kind:?}");
        }
    }
}

/// A cursor fits only its own list, its own owner and its own filters.
pub async fn a_cursor_fits_only_its_own_query(world: &impl World) {
    let (store, ada) = (world.store(), scope("ada"));
    let cursors = four_cursors(world).await;
    for (list, cursor) in &cursors {
        for (asked, kind) in ask_all(store, &ada, cursor).await {
            let expected = (asked != *list).then_some(Kind::Invalid);
            assert_eq!(kind, expected, "{list}'s cursor for {asked}");
        }
        for scope in [scope("bob"), Scope::All] {
            let all = ask_all(store, &scope, cursor).await;
            assert!(all.iter().all(|(_, kind)| *kind == Some(Kind::Invalid)), "{list} {all:?}");
        }
    }
    let after = |at: usize| Some(cursors[at].1.clone());
    let other = Some("other".to_owned());
    let query = BatchesQuery { job_type: other.clone(), after: after(0), ..batches(1) };
    assert_eq!(kind(store.batches(&ada, query).await), Kind::Invalid);
    let one = FilesQuery { after: after(1), limit: 1, ..FilesQuery::default() };
    let query = FilesQuery { purpose: other.clone(), ..one.clone() };
    assert_eq!(kind(store.files(&ada, query).await), Kind::Invalid);
    let query = FilesQuery { ascending: true, ..one };
    assert_eq!(kind(store.files(&ada, query).await), Kind::Invalid, "the other way round");
    let query = PendingQuery {
        batch: Some(BatchId::new()),
        after: after(2),
        limit: 1,
        ..PendingQuery::default()
    };
    assert_eq!(kind(store.pending(&ada, query).await), Kind::Invalid);
    let query = FinishedQuery {
        statuses: vec![Status::Failed],
        after: after(3),
        limit: 1,
        ..FinishedQuery::default()
    };
    assert_eq!(kind(store.finished(&ada, query).await), Kind::Invalid);
}

/// The size of a page is no part of the query: the next page may be larger.
pub async fn a_cursor_does_not_bind_the_page_size(world: &impl World) {
    let (store, ada) = (world.store(), scope("ada"));
    let [_, _, (_, pending), (_, finished)] = four_cursors(world).await;
    let query = PendingQuery { after: Some(pending), limit: 100, ..PendingQuery::default() };
    assert_eq!(store.pending(&ada, query).await.unwrap().rows.len(), 3);
    let query = FinishedQuery { after: Some(finished), limit: 100, ..FinishedQuery::default() };
    assert_eq!(store.finished(&ada, query).await.unwrap().rows.len(), 3);
}

/// A line without failed tries has an empty history.
pub async fn a_line_without_failed_tries_has_no_history(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 2).await;
    assert!(store.attempts(&scope("ada"), batch, 1).await.unwrap().is_empty());
    assert_eq!(kind(store.attempts(&scope("ada"), batch, 99).await), Kind::Missing);
    assert_eq!(kind(store.attempts(&scope("bob"), batch, 1).await), Kind::Missing);
}

/// Two batches of three lines each, every line with another status and time.
async fn finished_world(world: &impl World) -> [BatchId; 2] {
    let store = world.store();
    let worker = Worker::on(store);
    let mut ids = Vec::new();
    for job_type in ["sizes", "names"] {
        let file = Sheet::of("ada").lines("model-b", 1).lines(MODEL, 3).seal(store).await;
        let new = NewBatch { job_type: Some(job_type.to_owned()), ..run_over(file, "ada") };
        let id = store.create_batch(new).await.unwrap().id;
        // Finished in another order than the file's.
        let (a, b) =
            (worker.claim_only(id, &[MODEL], 2).await, worker.claim_only(id, &[MODEL], 1).await);
        worker.finish(&b.unwrap(), Status::Failed).await;
        pass(world, 1000);
        worker.finish(&a.unwrap(), Status::Completed).await;
        pass(world, 1000);
        let c = worker.claim_only(id, &["model-b"], 1).await;
        worker.finish(&c.unwrap(), Status::Skipped).await;
        pass(world, 1000);
        ids.push(id);
    }
    ids.sort();
    ids.try_into().expect("two batches")
}

/// Finished lines are paged by batch and line, each once, whatever the order they finished in.
pub async fn finished_lines_are_paged_by_line(world: &impl World) {
    let store = world.store();
    let ids = finished_world(world).await;
    let expected: Vec<_> = ids.iter().flat_map(|id| (1..=4).map(|line| (*id, line))).collect();
    for limit in [1, 2, 3, 8, PAGE_MAX] {
        let query = FinishedQuery { limit, ..FinishedQuery::default() };
        let rows = all_finished(store, &scope("ada"), query).await;
        let keys: Vec<_> = rows.iter().map(|row| (row.batch, row.result.line)).collect();
        assert_eq!(keys, expected);
        assert!(rows.iter().all(|row| (row.lane == 0) == (row.result.line == 1)));
    }
    let query = FinishedQuery { limit: 10, ..FinishedQuery::default() };
    assert!(all_finished(store, &scope("bob"), query.clone()).await.is_empty());
    assert_eq!(all_finished(store, &Scope::All, query).await.len(), 8);
}

/// Finished lines are chosen by batch, status, kind of work and date, page after page.
pub async fn finished_lines_are_filtered(world: &impl World) {
    let store = world.store();
    let ids = finished_world(world).await;
    let ask = async |query: FinishedQuery| -> Vec<(BatchId, u64)> {
        let mut found = Vec::new();
        for limit in [1, 100] {
            let query = FinishedQuery { limit, ..query.clone() };
            let rows = all_finished(store, &scope("ada"), query).await;
            found.push(rows.iter().map(|row| (row.batch, row.result.line)).collect::<Vec<_>>());
        }
        assert_eq!(found[0], found[1], "however it is cut into pages");
        found.remove(0)
    };
    let any = FinishedQuery::default;
    let one = ids[0];
    assert_eq!(ask(FinishedQuery { batch: Some(one), ..any() }).await.len(), 4);
    assert_eq!(ask(FinishedQuery { batch: Some(BatchId::new()), ..any() }).await, []);
    let of = |statuses: &[Status]| FinishedQuery {
        batch: Some(one),
        statuses: statuses.to_vec(),
        ..any()
    };
    assert_eq!(ask(of(&[Status::Failed])).await, [(one, 4)]);
    assert_eq!(ask(of(&[Status::Completed])).await, [(one, 2), (one, 3)]);
    assert_eq!(ask(of(&[Status::Failed, Status::Skipped])).await, [(one, 1), (one, 4)]);
    assert_eq!(ask(of(&[Status::Completed, Status::Skipped])).await.len(), 3);
    assert_eq!(ask(of(&[Status::NotFound])).await, []);
    assert_eq!(ask(of(&Status::ALL)).await.len(), 4);
    let failed = FinishedQuery { statuses: vec![Status::Failed], ..any() };
    assert_eq!(ask(failed).await, [(ids[0], 4), (ids[1], 4)], "over batches");
    let sizes = FinishedQuery { job_type: Some("sizes".to_owned()), ..any() };
    assert_eq!(ask(sizes).await.len(), 4);

    let rows = results(store, one).await;
    let at = rows.iter().find(|row| row.result.line == 2).unwrap().finished_at;
    let dated = |from, to| FinishedQuery { batch: Some(one), from, to, ..any() };
    assert_eq!(ask(dated(Some(at), None)).await, [(one, 1), (one, 2), (one, 3)], "at or after");
    assert_eq!(ask(dated(None, Some(at))).await, [(one, 4)], "before");
    let second = at.checked_add(std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(ask(dated(Some(at), Some(second))).await, [(one, 2), (one, 3)]);
}

/// Results can be read while the batch runs; what finishes behind the cursor is not missed by the
/// next reader, and nothing comes twice.
pub async fn finished_pages_hold_while_lines_finish(world: &impl World) {
    let store = world.store();
    let batch = batch_of(store, "ada", 9).await;
    let worker = Worker::on(store);
    let (a, b, c) = (worker.take(3).await, worker.take(3).await, worker.take(3).await);
    worker.complete(&b).await;
    let query = FinishedQuery { batch: Some(batch), limit: 2, ..FinishedQuery::default() };
    let first = store.finished(&scope("ada"), query.clone()).await.unwrap();
    worker.complete(&a).await;
    worker.complete(&c).await;
    let rest = FinishedQuery { after: first.next.clone(), ..query };
    let rest = all_finished(store, &scope("ada"), rest).await;
    let lines: Vec<_> = first.rows.iter().chain(&rest).map(|row| row.result.line).collect();
    assert_eq!(lines, [4, 5, 6, 7, 8, 9]);
    has_one_result_per_line(store, batch, 9).await;
}

/// Two batches whose lines have bodies of these sizes; every third line failed or was skipped.
async fn bodies_world(world: &impl World, sizes: &[usize]) {
    let store = world.store();
    let worker = Worker::on(store);
    for _ in 0..2 {
        batch_of(store, "ada", sizes.len() as u64).await;
        let tranche = worker.take(1000).await;
        let results = tranche.lines.iter().zip(sizes).map(|(line, size)| {
            let status = match line.seq % 6 {
                2 => Status::Failed,
                5 => Status::Skipped,
                _ => Status::Completed,
            };
            Finished {
                response: Some(vec![7; size - size / 2].into()),
                shaped: Some("ü".repeat(size / 8)),
                error: (status != Status::Completed).then(|| "e".repeat(size / 8)),
                normalised: Some("n".repeat(size / 8)),
                ..Finished::bare(line.seq, line.line, status, 1)
            }
        });
        let finished = results.collect();
        worker.record(Outcomes { finished, ..Outcomes::of(tranche.lease.held.clone()) }).await;
    }
}

/// The sizes of the pages that rows come in: as many as fit, at least one.
fn page_sizes(rows: &[FinishedLine], limit: usize, bytes_max: u64) -> Vec<usize> {
    let (mut sizes, mut sum) = (Vec::new(), 0);
    for row in rows {
        let bytes = row.body_bytes();
        match sizes.last_mut() {
            Some(last) if *last < limit && sum + bytes <= bytes_max => {
                *last += 1;
                sum += bytes;
            }
            _ => {
                sizes.push(1);
                sum = bytes;
            }
        }
    }
    sizes
}

/// A page ends before its bodies are more than asked for, holds at least one row, and goes on.
pub async fn a_page_of_finished_lines_is_bounded_in_bytes(world: &impl World) {
    let store = world.store();
    bodies_world(world, &[40, 0, 800, 80, 80, 8000, 16, 24, 0, 0, 800, 64]).await;
    let kinds = [vec![], vec![Status::Failed], vec![Status::Failed, Status::Skipped]];
    for (statuses, bodies) in
        kinds.into_iter().flat_map(|kind| [(kind.clone(), true), (kind, false)])
    {
        let query = FinishedQuery { statuses, bodies, limit: 1000, ..FinishedQuery::default() };
        let whole = all_finished(store, &scope("ada"), query.clone()).await;
        assert!(whole.len() >= 4 && whole.iter().any(|row| row.body_bytes() > 0));
        for (limit, bytes_max) in
            [(1000, 0), (1000, 1), (1000, 100), (3, 1000), (1000, 1000), (5, 9000), (1000, 1 << 40)]
        {
            let mut ask = FinishedQuery { limit, bytes_max: Some(bytes_max), ..query.clone() };
            let (mut rows, mut sizes) = (Vec::new(), Vec::new());
            loop {
                let page = store.finished(&scope("ada"), ask.clone()).await.unwrap();
                sizes.push(page.rows.len());
                rows.extend(page.rows);
                ask.after = page.next;
                if ask.after.is_none() {
                    break;
                }
            }
            assert_eq!(rows, whole, "within {bytes_max} bytes");
            assert_eq!(sizes, page_sizes(&whole, limit as usize, bytes_max), "{bytes_max} bytes");
        }
    }
}

/// The bound in bytes, the size and the bodies of a page may change from page to page.
pub async fn a_cursor_does_not_bind_the_bytes_of_a_page(world: &impl World) {
    let store = world.store();
    bodies_world(world, &[100; 4]).await;
    let query = FinishedQuery { bodies: true, limit: 10, ..FinishedQuery::default() };
    let first = FinishedQuery { bytes_max: Some(1), ..query.clone() };
    let page = store.finished(&scope("ada"), first).await.unwrap();
    assert_eq!(page.rows.len(), 1);
    for (bodies, bytes_max) in [(true, None), (false, None), (false, Some(1 << 20))] {
        let next = FinishedQuery { bodies, bytes_max, after: page.next.clone(), ..query.clone() };
        assert_eq!(store.finished(&scope("ada"), next).await.unwrap().rows.len(), 7);
    }
}
