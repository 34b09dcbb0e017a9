//! The rows of a batch in the order of its file: every line once, whatever its place, both ways.

use std::collections::BTreeMap;

use bytes::Bytes;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, LineSet};
use windrow_store::batch::{Reprocess, Select};
use windrow_store::error::Kind;
use windrow_store::ingest::FileVerdict;
use windrow_store::inspect::{BatchRow, FinishedQuery, PAGE_MAX, PendingQuery, Place, RowsQuery};
use windrow_store::record::{Finished, Outcomes};
use windrow_store::{Batches, Ingest, Inspect, Scope, Store, Sweep};

use crate::World;
use crate::fixture::*;

/// More than any batch here has: pages that begin anew again and again would never end.
const ROWS_MAX: usize = 20_000;
const MODELS: [&str; 3] = [MODEL, "model-b", "model-c"];

/// Every page of rows, from the query's own start.
async fn all_rows(store: &impl Store, query: RowsQuery) -> Vec<BatchRow> {
    let (mut rows, mut query) = (Vec::new(), query);
    loop {
        let page = store.rows(&Scope::All, query.clone()).await.expect("a page comes");
        assert!(page.rows.len() <= query.limit as usize, "a page is no longer than asked");
        assert!(!(page.rows.is_empty() && page.next.is_some()), "a page that goes on has a row");
        rows.extend(page.rows);
        assert!(rows.len() <= ROWS_MAX, "pages end");
        match page.next {
            Some(next) => query = RowsQuery { after: Some(next), from: None, ..query },
            None => return rows,
        }
    }
}

fn lines(rows: &[BatchRow]) -> Vec<u64> {
    rows.iter().map(|row| row.line).collect()
}

/// What is known of a row's standing: its place, or the status of its result.
fn standing(row: &BatchRow) -> Result<Place, Status> {
    let result = row.result.as_ref().filter(|result| !result.earlier);
    match (row.place, result) {
        (Some(place), None) => Ok(place),
        (None, Some(result)) => Err(result.result.status),
        other => panic!("line {} is in one place: {other:?}", row.line),
    }
}

/// Claims up to `n` lines of a batch and leaves each at what `fate` says of its place in the tranche: finished,
/// returned, or leased still.
async fn spread(
    world: &impl World,
    worker: &Worker<impl Store + Clone>,
    batch: BatchId,
    model: &str,
    n: u32,
) {
    let Some(tranche) = worker.claim_only(batch, &[model], n).await else { return };
    let mut outcomes = Outcomes::of(tranche.lease.held.clone());
    for line in &tranche.lines {
        let one = |seq| seq == line.seq;
        match line.seq % 7 {
            0 => {}
            1 => outcomes.again.extend(again_some(&tranche, later(world, 60_000), one).again),
            2 => drop(outcomes.released.insert(line.seq)),
            other => {
                let status = Status::ALL[usize::try_from(other).expect("small") % 4];
                let done = finished_some(&tranche, status, one).finished;
                outcomes.finished.extend(done);
            }
        }
    }
    worker.record(outcomes).await;
}

/// A batch of three lanes whose lines alternate in runs, with blank lines between, and lines in every place.
async fn mixed(world: &impl World, rounds: u64) -> (BatchId, u64) {
    let store = world.store();
    let mut sheet = Sheet::of("ada").in_chunks_of(1000);
    for round in 0..rounds {
        sheet = sheet.lines(MODEL, 1 + round % 5).raw(None, "\n").lines("model-b", round % 3);
        sheet = if round % 4 == 0 { sheet.lines("model-c", 1) } else { sheet };
    }
    let file = sheet.sealed(store).await;
    let id = store.create_batch(run_over(file.id, "ada")).await.unwrap().id;
    let worker = Worker::on(store);
    for model in MODELS {
        // Some of each lane stays untouched.
        let tranches = (file.lines / 3 / 500).max(1);
        for _ in 0..tranches {
            spread(world, &worker, id, model, 400.min(u32::try_from(rounds).unwrap())).await;
        }
    }
    check(store, id).await;
    (id, file.lines)
}

/// Ten thousand rows of several lanes with every status and in every place: pages of every size, both ways, from
/// everywhere, give every row once and in the order of the file.
pub async fn pages_of_every_size_give_every_row_once(world: &impl World) {
    let store = world.store();
    let (id, total) = mixed(world, 2400).await;
    assert!(total >= 10_000, "{total}");
    let all = all_rows(store, RowsQuery::of(id, PAGE_MAX)).await;
    assert_eq!(all.len() as u64, total);
    assert!(all.is_sorted_by(|a, b| a.line < b.line), "in the order of the file");
    let mut seen = BTreeMap::<String, u64>::new();
    for row in &all {
        *seen.entry(format!("{:?}", standing(row))).or_default() += 1;
        let raw = row.raw.as_ref().expect("its file is there");
        assert!(raw.starts_with(b"{") && raw.ends_with(b"\n"), "line {}", row.line);
    }
    assert_eq!(seen.len(), 7, "every place and every status: {seen:?}");
    let counts = counts(store, id).await;
    assert_eq!(seen["Ok(Untouched)"], counts.untouched);
    assert_eq!(seen["Ok(Returned)"], counts.returned);
    assert_eq!(seen["Ok(Leased)"], counts.leased);
    assert_eq!(seen["Err(NotFound)"], counts.not_found);

    let mut turned = all.clone();
    turned.reverse();
    for limit in [997, 250, 61] {
        let forward = RowsQuery::of(id, limit);
        assert!(all_rows(store, forward.clone()).await == all, "pages of {limit}");
        let backward = RowsQuery { backward: true, ..forward };
        assert!(all_rows(store, backward).await == turned, "pages of {limit}, backward");
    }
    let mut dice = Dice::seeded(13);
    let last = all[all.len() - 1].line;
    for _ in 0..40 {
        let (from, limit) = (dice.below(last + 3), 1 + dice.below(30));
        let query = RowsQuery {
            from: Some(from),
            ..RowsQuery::of(id, u32::try_from(limit).expect("small"))
        };
        let n = usize::try_from(limit).expect("small");
        let page = store.rows(&Scope::All, query.clone()).await.unwrap();
        let wanted: Vec<_> = all.iter().filter(|row| row.line >= from).take(n).cloned().collect();
        assert!(page.rows == wanted, "{limit} from {from}: {:?}", lines(&page.rows));
        let query = RowsQuery { backward: true, ..query };
        let page = store.rows(&Scope::All, query).await.unwrap();
        let wanted: Vec<_> =
            turned.iter().filter(|row| row.line <= from).take(n).cloned().collect();
        assert!(page.rows == wanted, "{limit} back from {from}: {:?}", lines(&page.rows));
    }
}

/// The same for every size there is, over fewer rows.
pub async fn a_page_of_any_size_continues_where_the_last_ended(world: &impl World) {
    let store = world.store();
    let (id, total) = mixed(world, 12).await;
    let all = all_rows(store, RowsQuery::of(id, PAGE_MAX)).await;
    assert_eq!(all.len() as u64, total);
    let mut turned = all.clone();
    turned.reverse();
    for limit in 1..=u32::try_from(total).unwrap() + 1 {
        let forward = RowsQuery::of(id, limit);
        assert_eq!(all_rows(store, forward.clone()).await, all, "pages of {limit}");
        let backward = RowsQuery { backward: true, ..forward };
        assert_eq!(all_rows(store, backward).await, turned, "pages of {limit}, backward");
    }
}

/// A row without a result says where it is as the page of pending lines does, and what went wrong with it last; one
/// with a result is what the page of finished lines says.
pub async fn a_row_says_what_the_other_pages_say(world: &impl World) {
    let store = world.store();
    let (id, _) = mixed(world, 40).await;
    let query = RowsQuery { bodies: true, ..RowsQuery::of(id, 50) };
    let rows = all_rows(store, query).await;
    let pending = PendingQuery { batch: Some(id), limit: 100, ..PendingQuery::default() };
    let pending = all_pending(store, &Scope::All, pending).await;
    let pending: BTreeMap<u64, _> = pending.into_iter().map(|line| (line.line, line)).collect();
    let results = results(store, id).await;
    let finished: BTreeMap<u64, _> =
        results.into_iter().map(|line| (line.result.line, line)).collect();
    assert_eq!(rows.len(), pending.len() + finished.len());
    for row in &rows {
        if let Some(line) = pending.get(&row.line) {
            assert_eq!((row.lane, row.seq, row.place), (line.lane, line.seq, Some(line.place)));
            assert_eq!((row.attempts, row.not_before), (line.attempts, line.not_before));
            assert_eq!((row.held_by, row.held_since), (line.held_by, line.held_since));
            assert_eq!(row.result, None);
            let failed = line.attempts > 0;
            assert_eq!(row.last_error_code.as_deref(), failed.then_some("http_503"));
            assert_eq!(row.last_error.as_deref(), failed.then_some("the target is resting"));
        } else {
            let line = &finished[&row.line];
            assert_eq!((row.lane, row.seq), (line.lane, line.result.seq));
            assert_eq!((row.attempts, row.place), (line.result.attempts, None));
            assert_eq!(row.result.as_ref(), Some(line));
            assert_eq!((row.held_by, row.not_before, &row.last_error), (None, None, &None));
        }
    }
}

/// Rows are filtered by the status of their result or by their place: what fits either is listed.
pub async fn rows_are_filtered_by_status_or_place(world: &impl World) {
    let store = world.store();
    let (id, _) = mixed(world, 60).await;
    let all = all_rows(store, RowsQuery::of(id, PAGE_MAX)).await;
    let mut statuses: Vec<Vec<Status>> = Status::ALL.map(|status| vec![status]).to_vec();
    statuses.extend([vec![], vec![Status::Failed, Status::NotFound, Status::Failed]]);
    statuses.push(vec![Status::Skipped, Status::Completed]);
    let mut places = vec![vec![], vec![Place::Untouched], vec![Place::Returned]];
    places.extend([vec![Place::Leased], vec![Place::Returned, Place::Leased]]);
    for (statuses, places) in
        statuses.iter().flat_map(|some| places.iter().map(move |more| (some, more)))
    {
        let every = statuses.is_empty() && places.is_empty();
        let fits = |row: &&BatchRow| match standing(row) {
            Ok(place) => every || places.contains(&place),
            Err(status) => every || statuses.contains(&status),
        };
        let wanted: Vec<_> = all.iter().filter(fits).cloned().collect();
        let (statuses, places) = (statuses.clone(), places.clone());
        let query = RowsQuery { statuses, places, ..RowsQuery::of(id, 13) };
        assert_eq!(all_rows(store, query.clone()).await, wanted, "{query:?}");
        let back = RowsQuery { backward: true, ..query };
        let mut turned = all_rows(store, back.clone()).await;
        turned.reverse();
        assert_eq!(turned, wanted, "{back:?}");
    }
}

/// A batch of ada's with five lines: 1 and 2 completed and put back, 2 then failed; 3 not found; 4 returned; 5 untouched.
async fn put_back(world: &impl World) -> (BatchId, windrow_domain::FileId) {
    let store = world.store();
    let sheet = Sheet::of("ada").lines(MODEL, 5);
    sheet.write(store).await;
    store.seal_file(sheet.id, FileVerdict::Valid).await.unwrap();
    let id = store.create_batch(run_over(sheet.id, "ada")).await.unwrap().id;
    let worker = Worker::on(store);
    let done = worker.take(2).await;
    worker.complete(&done).await;
    let none = worker.take(1).await;
    worker.finish(&none, Status::NotFound).await;
    let back = worker.take(1).await;
    worker.record(again(&back, later(world, 60_000))).await;
    let step = Reprocess::first(id, Select::Lines(LineSet::range(1, 2)));
    assert_eq!(store.reprocess(&Scope::All, step).await.unwrap().moved, 2);
    let first = worker.take(2).await;
    let failed = finished_some(&first, Status::Failed, |seq| seq == 1);
    worker.record(failed).await;
    (id, sheet.id)
}

/// A row that runs again comes with its newest earlier result, and is listed for its status, when that is asked for.
pub async fn an_earlier_result_stands_in_for_a_row_that_runs_again(world: &impl World) {
    let store = world.store();
    let (id, _) = put_back(world).await;
    let plain = all_rows(store, RowsQuery::of(id, 2)).await;
    assert_eq!(lines(&plain), [1, 2, 3, 4, 5]);
    assert_eq!((plain[0].place, &plain[0].result), (Some(Place::Leased), &None));
    assert_eq!(plain[0].last_error_code.as_deref(), Some("completed"), "it was put back");

    let earlier = RowsQuery { earlier: true, ..RowsQuery::of(id, 2) };
    let rows = all_rows(store, earlier.clone()).await;
    assert_eq!(lines(&rows), [1, 2, 3, 4, 5]);
    let query =
        FinishedQuery { batch: Some(id), earlier: true, limit: 10, ..FinishedQuery::default() };
    let finished = all_finished(store, &Scope::All, query).await;
    let results: Vec<_> = rows.iter().filter_map(|row| row.result.clone()).collect();
    assert_eq!(results, finished);
    let first = rows[0].result.as_ref().expect("it stands in");
    assert!(first.earlier && first.result.status == Status::Completed && first.generation == 0);
    assert_eq!((rows[0].place, rows[0].attempts), (Some(Place::Leased), 0));
    let second = rows[1].result.as_ref().expect("it has a new one");
    assert_eq!((second.earlier, second.result.status), (false, Status::Failed));

    let of = |statuses: &[Status], places: &[Place]| RowsQuery {
        statuses: statuses.to_vec(),
        places: places.to_vec(),
        ..earlier.clone()
    };
    let cases = [
        (of(&[Status::Completed], &[]), vec![1]),
        (of(&[Status::Failed, Status::NotFound], &[]), vec![2, 3]),
        (of(&[Status::Completed], &[Place::Leased]), vec![1]),
        (of(&[Status::Completed, Status::NotFound], &[Place::Untouched]), vec![1, 3, 5]),
        (of(&[], &[Place::Leased, Place::Returned]), vec![1, 4]),
        (RowsQuery { earlier: false, ..of(&[Status::Completed], &[]) }, vec![]),
    ];
    for (query, wanted) in cases {
        assert_eq!(lines(&all_rows(store, query.clone()).await), wanted, "{query:?}");
        let back = RowsQuery { backward: true, ..query };
        let turned: Vec<u64> = wanted.into_iter().rev().collect();
        assert_eq!(lines(&all_rows(store, back.clone()).await), turned, "{back:?}");
    }
}

/// Of a batch whose file is gone, results are known, and earlier ones; nothing tells of other lines any more.
pub async fn rows_of_a_dropped_file_are_those_with_a_result(world: &impl World) {
    let store = world.store();
    let (id, file) = put_back(world).await;
    store.cancel_batch(&scope("ada"), id).await.unwrap();
    let retention = LEASE_MS + 1;
    pass(world, retention);
    store.return_lost(100, 3).await.unwrap();
    let stopped = all_rows(store, RowsQuery::of(id, 3)).await;
    assert_eq!(lines(&stopped), [1, 2, 3, 4, 5], "what never ran is listed, too");
    assert_eq!(stopped[4].place, Some(Place::Untouched));
    Worker::on(store).close(id).await;
    store.drop_file(&scope("ada"), file).await.unwrap();
    for reaped in [false, true] {
        if reaped {
            reap_all(store, 100).await;
        }
        let rows = all_rows(store, RowsQuery::of(id, 1)).await;
        assert_eq!(lines(&rows), [2, 3]);
        let earlier = RowsQuery { earlier: true, ..RowsQuery::of(id, 1) };
        let rows = all_rows(store, earlier.clone()).await;
        assert_eq!(lines(&rows), [1, 2, 3]);
        assert!(rows[0].result.as_ref().is_some_and(|result| result.earlier));
        assert!(!reaped || rows.iter().all(|row| row.raw.is_none()));
        let back = RowsQuery { backward: true, ..earlier.clone() };
        assert_eq!(lines(&all_rows(store, back).await), [3, 2, 1]);
        let placed = RowsQuery { places: vec![Place::Returned], ..earlier };
        assert!(all_rows(store, placed).await.is_empty());
    }
}

/// A page ends before its bytes (input, bodies, texts) exceed the bound, holds one row whatever its size, and the
/// pages still give every row once.
pub async fn a_page_of_rows_is_bounded_in_bytes(world: &impl World) {
    let store = world.store();
    let mut sheet = Sheet::of("ada");
    for line in 0..12_usize {
        let raw = format!("{{\"custom_id\":\"r\",\"pad\":\"{}\"}}\n", "x".repeat(line * 40));
        sheet = sheet.raw(Some(MODEL), raw);
    }
    let id = sheet.run(store).await;
    let worker = Worker::on(store);
    let tranche = worker.take(8).await;
    let mut outcomes = finished_some(&tranche, Status::Completed, |seq| seq < 6);
    for (at, finished) in outcomes.finished.iter_mut().enumerate() {
        *finished = Finished {
            response: Some(Bytes::from(vec![b'r'; at * 100])),
            shaped: Some("s".repeat(at * 30)),
            normalised: Some("n".repeat(70)),
            ..finished.clone()
        };
    }
    outcomes.again = again_some(&tranche, later(world, 1000), |seq| seq >= 6).again;
    worker.record(outcomes).await;
    for bodies in [false, true] {
        for backward in [false, true] {
            let every = RowsQuery { bodies, backward, ..RowsQuery::of(id, 100) };
            let all = all_rows(store, every.clone()).await;
            assert_eq!(all.len(), 12);
            let whole: u64 = all.iter().map(BatchRow::bytes).sum();
            for bytes_max in [0, 1, 300, 700, 1500, whole - 1, whole, u64::MAX] {
                let query = RowsQuery { bytes_max: Some(bytes_max), ..every.clone() };
                assert_eq!(all_rows(store, query.clone()).await, all, "{bytes_max} bytes");
                let page = store.rows(&Scope::All, query).await.unwrap();
                let bytes: u64 = page.rows.iter().map(BatchRow::bytes).sum();
                assert!(bytes <= bytes_max || page.rows.len() == 1, "{bytes} of {bytes_max}");
                let next = all.get(page.rows.len()).map_or(0, BatchRow::bytes);
                assert!(page.next.is_none() || bytes + next > bytes_max, "it takes what fits");
                assert_eq!(page.next.is_none(), page.rows.len() == 12);
            }
        }
    }
}

/// Rows move while somebody pages through them; each is shown once, in order.
pub async fn rows_that_move_are_shown_once(world: &impl World) {
    let store = world.store();
    let (id, total) = mixed(world, 40).await;
    let worker = Worker::on(store);
    for backward in [false, true] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let query = RowsQuery { after, backward, ..RowsQuery::of(id, 7) };
            let page = store.rows(&Scope::All, query).await.unwrap();
            found.extend(lines(&page.rows));
            assert!(found.len() <= ROWS_MAX, "pages end");
            let Some(next) = page.next else { break };
            after = Some(next);
            for model in MODELS {
                spread(world, &worker, id, model, 3).await;
            }
            let step = Reprocess {
                lines_max: 2,
                ..Reprocess::first(id, Select::Statuses(vec![Status::Failed]))
            };
            store.reprocess(&Scope::All, step).await.unwrap();
            pass(world, 30_000);
        }
        assert_eq!(found.len() as u64, total);
        assert!(found.is_sorted_by(|a, b| if backward { a > b } else { a < b }));
    }
    check(store, id).await;
}

/// A page out of bounds, one that begins in two places, a cursor of another query, and a batch of another owner are refused.
pub async fn a_page_of_rows_is_checked(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 5).await;
    for limit in [0, PAGE_MAX + 1] {
        let page = store.rows(&scope("ada"), RowsQuery::of(id, limit)).await;
        assert_eq!(kind(page), Kind::Invalid);
    }
    let query = RowsQuery::of(id, 2);
    let page = store.rows(&scope("ada"), query.clone()).await.unwrap();
    let after = page.next.clone();
    assert!(after.is_some());
    let twice = RowsQuery { from: Some(1), after: after.clone(), ..query.clone() };
    assert_eq!(kind(store.rows(&scope("ada"), twice).await), Kind::Invalid);
    let next = RowsQuery { after, ..query.clone() };
    let others = [
        RowsQuery { backward: true, ..next.clone() },
        RowsQuery { earlier: true, ..next.clone() },
        RowsQuery { statuses: vec![Status::Failed], ..next.clone() },
        RowsQuery { places: vec![Place::Leased], ..next.clone() },
        RowsQuery { batch: batch_of(store, "ada", 5).await, ..next.clone() },
        RowsQuery { after: Some("x".to_owned()), ..next.clone() },
    ];
    for other in others {
        assert_eq!(kind(store.rows(&scope("ada"), other).await), Kind::Invalid);
    }
    let larger = RowsQuery { limit: 9, bodies: true, bytes_max: Some(1 << 20), ..next };
    let rows = store.rows(&scope("ada"), larger).await.unwrap().rows;
    assert_eq!(lines(&rows), [3, 4, 5], "how large a page is may change");
    assert_eq!(kind(store.rows(&scope("bob"), query).await), Kind::Missing);
    assert_eq!(
        kind(store.rows(&Scope::All, RowsQuery::of(BatchId::new(), 1)).await),
        Kind::Missing
    );
    let beyond = RowsQuery { from: Some(u64::MAX), ..RowsQuery::of(id, 5) };
    assert!(store.rows(&scope("ada"), beyond.clone()).await.unwrap().rows.is_empty());
    let back = RowsQuery { backward: true, ..beyond };
    let rows = store.rows(&scope("ada"), back.clone()).await.unwrap().rows;
    assert_eq!(lines(&rows), [5, 4, 3, 2, 1]);
    let before = RowsQuery { from: Some(0), ..back };
    assert!(store.rows(&scope("ada"), before).await.unwrap().rows.is_empty());
    let file = Sheet::of("ada").lines(MODEL, 1).seal_invalid(store, vec![line_error(1)]).await;
    let failed = store.create_batch(run_over(file.id, "ada")).await.unwrap().id;
    assert!(all_rows(store, RowsQuery::of(failed, 5)).await.is_empty(), "it has no lanes");
}
