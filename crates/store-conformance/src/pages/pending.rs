//! The page of pending lines: implicit ones included, in the order they moved, none skipped.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use windrow_domain::attempt::Status;
use windrow_domain::{BatchId, LaneNo, LineSet};
use windrow_store::batch::NewBatch;
use windrow_store::inspect::{PAGE_MAX, PendingLine, PendingQuery, Place, SUMMARY_PREFIX_BYTES};
use windrow_store::record::Outcomes;
use windrow_store::{Batches, Claim, Inspect, Scope, Sweep};

use crate::World;
use crate::fixture::*;

type Key = (Timestamp, BatchId, LaneNo, u64);

fn key(row: &PendingLine) -> Key {
    (row.updated_at, row.batch, row.lane, row.seq)
}

fn any(limit: u32) -> PendingQuery {
    PendingQuery { limit, ..PendingQuery::default() }
}

/// A batch with lines in every place: 0-1 finished, 2-3 leased, 4-5 returned, the rest untouched.
async fn spread(
    world: &impl World,
    owner_name: &str,
    job_type: &str,
) -> (BatchId, Worker<impl windrow_store::Store + Clone>) {
    let store = world.store();
    let file = Sheet::of(owner_name).lines(MODEL, 9).lines("model-b", 2).seal(store).await;
    let new = NewBatch { job_type: Some(job_type.to_owned()), ..run_over(file, owner_name) };
    let id = store.create_batch(new).await.unwrap().id;
    let worker = Worker::on(store);
    pass(world, 1000);
    let done = worker.claim_only(id, &[MODEL], 2).await.unwrap();
    worker.complete(&done).await;
    pass(world, 1000);
    worker.claim_only(id, &[MODEL], 2).await.unwrap();
    pass(world, 1000);
    let back = worker.claim_only(id, &[MODEL], 2).await.unwrap();
    pass(world, 1000);
    worker.record(again(&back, later(world, 60_000))).await;
    pass(world, 1000);
    (id, worker)
}

/// Every unfinished line is listed with where it is, since when, and who holds it.
pub async fn pending_lines_say_where_they_are(world: &impl World) {
    let store = world.store();
    let start = now(world);
    let (id, worker) = spread(world, "ada", "sizes").await;
    let after = |secs: i64| start.checked_add(jiff::SignedDuration::from_secs(secs)).unwrap();
    let rows = all_pending(store, &scope("ada"), any(100)).await;
    let told: Vec<_> =
        rows.iter().map(|row| (row.updated_at, row.lane, row.seq, row.line, row.place)).collect();
    let mut expected = Vec::new();
    expected.extend((6..9).map(|seq| (start, 0, seq, seq + 1, Place::Untouched)));
    expected.extend((0..2).map(|seq| (start, 1, seq, seq + 10, Place::Untouched)));
    expected.extend((2..4).map(|seq| (after(2), 0, seq, seq + 1, Place::Leased)));
    expected.extend((4..6).map(|seq| (after(4), 0, seq, seq + 1, Place::Returned)));
    assert_eq!(told, expected);

    for row in &rows {
        assert_eq!((row.batch, &row.owner), (id, &owner("ada")));
        assert_eq!(row.job_type.as_deref(), Some("sizes"));
        assert_eq!(row.target, target(if row.lane == 0 { MODEL } else { "model-b" }));
        let returned = row.place == Place::Returned;
        assert_eq!((row.attempts, row.crashes), (u32::from(returned), 0));
        assert_eq!(row.not_before.is_some(), returned);
        assert!(row.not_before.is_none_or(|at| at >= after(64)));
        let leased = row.place == Place::Leased;
        assert_eq!(row.held_by, leased.then_some(worker.instance));
        assert_eq!(row.held_since, leased.then_some(after(2)));
        assert_eq!(row.summary.custom_id, Some(format!("r-{}", row.line)));
        // Without a method it is no request: its first scalars are shown.
        let shown = [("custom_id", format!("r-{}", row.line)), ("url", "/v1/do".to_owned())];
        assert_eq!(row.summary.fields, shown.map(|(name, value)| (name.to_owned(), value)));
    }
}

/// However it is cut into pages, the list is the same: in order, each line once.
pub async fn pending_pages_join_to_one_list(world: &impl World) {
    let store = world.store();
    for (owner_name, job_type) in [("ada", "sizes"), ("ada", "names"), ("bob", "sizes")] {
        spread(world, owner_name, job_type).await;
    }
    // Two batches of one moment, so that the order must come from the rest of the key.
    let file = Sheet::of("ada").rounds(&[MODEL, "model-b"], 5).seal(store).await;
    for _ in 0..2 {
        store.create_batch(run_over(file, "ada")).await.unwrap();
    }
    for scope in [Scope::All, scope("ada"), scope("bob"), scope("eve")] {
        let whole = all_pending(store, &scope, any(PAGE_MAX)).await;
        let sorted: BTreeSet<_> = whole.iter().map(key).collect();
        assert!(whole.iter().map(key).eq(sorted.iter().copied()), "in order, each once");
        for limit in [1, 2, 3, 7] {
            assert_eq!(all_pending(store, &scope, any(limit)).await, whole, "pages of {limit}");
        }
        let expected = match scope.owner() {
            None => 3 * 9 + 20,
            Some("ada") => 2 * 9 + 20,
            Some("bob") => 9,
            Some(_) => 0,
        };
        assert_eq!(whole.len(), expected);
    }
}

/// Pending lines are chosen by batch, place, kind of work, and when they moved.
pub async fn pending_lines_are_filtered(world: &impl World) {
    let store = world.store();
    let (one, _) = spread(world, "ada", "sizes").await;
    let (two, _) = spread(world, "ada", "names").await;
    let whole = all_pending(store, &scope("ada"), any(100)).await;
    let ask = async |query: PendingQuery, keep: &dyn Fn(&PendingLine) -> bool| -> usize {
        let expected: Vec<_> = whole.iter().filter(|row| keep(row)).cloned().collect();
        for limit in [1, 2, 100] {
            let query = PendingQuery { limit, ..query.clone() };
            assert_eq!(
                all_pending(store, &scope("ada"), query.clone()).await,
                expected,
                "{query:?}"
            );
        }
        expected.len()
    };
    let all = || any(1);
    for id in [one, two] {
        let query = PendingQuery { batch: Some(id), ..all() };
        assert_eq!(ask(query, &|row| row.batch == id).await, 9);
    }
    let unknown = PendingQuery { batch: Some(BatchId::new()), ..all() };
    assert_eq!(ask(unknown, &|_| false).await, 0);
    let places = [Place::Untouched, Place::Returned, Place::Leased];
    for (place, count) in places.into_iter().zip([10, 4, 4]) {
        let query = PendingQuery { places: vec![place], ..all() };
        assert_eq!(ask(query, &|row| row.place == place).await, count);
        let query = PendingQuery { places: vec![place], batch: Some(two), ..all() };
        assert_eq!(ask(query, &|row| row.place == place && row.batch == two).await, count / 2);
    }
    let two_places = PendingQuery { places: places[1..].to_vec(), ..all() };
    ask(two_places, &|row| row.place != Place::Untouched).await;
    let query = PendingQuery { job_type: Some("names".to_owned()), ..all() };
    assert_eq!(ask(query, &|row| row.batch == two).await, 9);
    let times: BTreeSet<_> = whole.iter().map(|row| row.updated_at).collect();
    for at in times {
        let query = PendingQuery { from: Some(at), ..all() };
        ask(query, &|row| row.updated_at >= at).await;
        let query = PendingQuery { to: Some(at), ..all() };
        ask(query, &|row| row.updated_at < at).await;
        let query =
            PendingQuery { from: Some(at), to: Some(later(world, 1)), batch: Some(one), ..all() };
        ask(query, &|row| row.updated_at >= at && row.batch == one).await;
    }
    let theirs = PendingQuery { batch: Some(one), ..any(10) };
    assert!(all_pending(store, &scope("bob"), theirs).await.is_empty());
}

/// A paused batch's lines are pending; of a stopping one only the leased; of a settled one none.
pub async fn only_lines_that_may_still_run_are_pending(world: &impl World) {
    let store = world.store();
    let (id, worker) = spread(world, "ada", "sizes").await;
    let ask = async || all_pending(store, &scope("ada"), any(3)).await;
    store.pause_batch(&Scope::All, id, None).await.unwrap();
    assert_eq!(ask().await.len(), 9);
    store.cancel_batch(&Scope::All, id).await.unwrap();
    let rows = ask().await;
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [2, 3]);
    assert!(rows.iter().all(|row| row.place == Place::Leased));
    store.extend_leases(worker.instance, Vec::new(), LEASE_MS).await.unwrap();
    assert!(ask().await.is_empty(), "finalizing");
    worker.close(id).await;
    assert!(ask().await.is_empty(), "closed");
}

/// While lines move between two pages, a line that stays is seen exactly once and a line that
/// moves is never missed; no row comes twice.
pub async fn pages_skip_and_double_nothing_while_lines_move(world: &impl World) {
    let store = world.store();
    let id = Sheet::of("ada").lines(MODEL, 40).lines("model-b", 10).run(store).await;
    let worker = Worker::on(store);
    pass(world, 1000);
    let stays_leased = worker.take(5).await;
    pass(world, 1000);
    let finishes = worker.take(5).await;
    let mut seen = BTreeMap::<(LaneNo, u64), u32>::new();
    let mut keys = Vec::new();
    let mut moved = BTreeSet::new();
    let mut query = PendingQuery { batch: Some(id), ..any(7) };
    for step in 0.. {
        let page = store.pending(&scope("ada"), query.clone()).await.unwrap();
        for row in &page.rows {
            *seen.entry((row.lane, row.seq)).or_default() += 1;
            keys.push(key(row));
        }
        let Some(next) = page.next else { break };
        query.after = Some(next);
        pass(world, 100);
        match step {
            0 => {
                let outcomes = finished_some(&finishes, Status::Completed, |seq| seq % 2 == 0);
                worker.record(outcomes).await;
                moved.extend(finishes.lines.iter().map(|line| (0, line.seq)));
            }
            1 | 3 => {
                let tranche = worker.take(4).await;
                moved.extend(tranche.lines.iter().map(|line| (0, line.seq)));
                worker
                    .record(released(&tranche, LineSet::span(seqs(&tranche).first().unwrap(), 2)))
                    .await;
            }
            2 => {
                let tranche = worker.ask(request(&["model-b"], 3)).await.unwrap();
                moved.extend(tranche.lines.iter().map(|line| (1, line.seq)));
                worker.record(again(&tranche, later(world, 1000))).await;
            }
            _ => assert!(step < 50, "the pages end"),
        }
        check(store, id).await;
    }
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "in order, no row twice");
    for (lane, total) in [(0, 40), (1, 10)] {
        for seq in 0..total {
            let times = seen.get(&(lane, seq)).copied().unwrap_or(0);
            let finished = finishes.lines.iter().any(|line| lane == 0 && line.seq == seq);
            match moved.contains(&(lane, seq)) {
                false => assert_eq!(times, 1, "lane {lane} line {seq} stayed"),
                true if finished => {}
                true => assert!(times >= 1, "lane {lane} line {seq} moved and was missed"),
            }
        }
    }
    assert!(seqs(&stays_leased).iter().all(|seq| seen[&(0, seq)] == 1));
}

/// Sets of one lane that came to be at the same moment are one list in line order, however their
/// lines interleave.
pub async fn sets_of_one_moment_are_merged(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 12).await;
    let worker = Worker::on(store);
    let tranche = worker.take(12).await;
    pass(world, 1000);
    let mut outcomes = Outcomes::of(tranche.lease.held.clone());
    for at in 0..4 {
        let apart = again_some(&tranche, later(world, 60_000 * (at + 1)), |seq| seq % 4 == at);
        outcomes.again.extend(apart.again);
    }
    worker.record(outcomes).await;
    for limit in [1, 2, 3, 5, 12, 100] {
        let rows = all_pending(store, &scope("ada"), any(limit)).await;
        assert!(rows.iter().map(|row| row.seq).eq(0..12), "pages of {limit}");
        for row in &rows {
            let wait = row.not_before.expect("returned").duration_since(now(world)).as_secs();
            assert_eq!(wait / 60, i64::try_from(row.seq % 4).unwrap() + 1, "{row:?}");
        }
    }
    check(store, id).await;
}

/// A lost lease shows in the list: its lines are returned, with the crash behind them.
pub async fn lost_lines_show_their_crashes(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 4).await;
    let worker = Worker::on(store);
    worker.take(4).await;
    pass(world, LEASE_MS);
    let leased = all_pending(store, &scope("ada"), any(10)).await;
    assert!(leased.iter().all(|row| row.place == Place::Leased), "late is not lost");
    store.return_lost(10, 3).await.unwrap();
    let rows = all_pending(store, &scope("ada"), any(10)).await;
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!((row.batch, row.place), (id, Place::Returned));
        assert_eq!((row.crashes, row.attempts, row.updated_at), (1, 0, now(world)));
        assert_eq!((row.held_by, row.held_since), (None, None));
    }
}

/// The summary is read from a line's first bytes and never from its whole body.
pub async fn a_summary_reads_only_the_first_bytes(world: &impl World) {
    let store = world.store();
    let filler = "x".repeat(SUMMARY_PREFIX_BYTES);
    let long = format!(
        "{{\"custom_id\":\"early\",\"method\":\"POST\",\"url\":\"/Ü\",\"body\":{{\"text\":\"{filler}\",\"model\":\"late\"}}}}\n"
    );
    let short = "{\"custom_id\":\"two\",\"method\":\"POST\",\"url\":\"/u\",\"body\":{\"name\":\"n\",\"model\":\"m\"}}\n";
    // The cut falls into the middle of a character of two bytes.
    let cut =
        format!("{{\"custom_id\":\"three\",\"body\":{{\"text\":\"{}\"}}}}\n", "ü".repeat(3000));
    let odd = format!(" {cut}");
    let sheet = Sheet::of("ada")
        .raw(Some(MODEL), long)
        .raw(Some(MODEL), short)
        .raw(Some(MODEL), cut)
        .raw(Some(MODEL), odd);
    sheet.run(store).await;
    let rows = all_pending(store, &scope("ada"), any(10)).await;
    let [long, short, cut, odd] = rows.try_into().expect("four lines");
    assert_eq!(long.summary.custom_id.as_deref(), Some("early"));
    assert_eq!(long.summary.get("url"), Some("/Ü"));
    assert_eq!(long.summary.get("model"), None, "beyond the first bytes");
    let words = ["custom_id", "url", "model"].map(|name| short.summary.get(name));
    assert_eq!(words, ["two", "/u", "m"].map(Some));
    assert_eq!(cut.summary.custom_id.as_deref(), Some("three"));
    assert_eq!(odd.summary.custom_id.as_deref(), Some("three"));
}

/// A large untouched lane is paged without ever being written out: the first page comes from the
/// middle of nowhere as quickly as from the start.
pub async fn a_large_lane_is_paged_from_its_cursor(world: &impl World) {
    let store = world.store();
    let id = batch_of(store, "ada", 3000).await;
    let worker = Worker::on(store);
    worker.take(500).await;
    let query = PendingQuery { batch: Some(id), places: vec![Place::Untouched], ..any(PAGE_MAX) };
    let rows = all_pending(store, &scope("ada"), query).await;
    assert!(rows.iter().map(|row| row.seq).eq(500..3000));
}
