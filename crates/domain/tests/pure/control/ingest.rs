//! Chunks grow to what the store takes in good time, and no further.

use proptest::prelude::*;
use windrow_domain::control::ingest::{Bounds, Rows};

use super::wild;

/// Stores chunks that take `fixed_ms` and `row_ms` for each row; the limit after each.
fn run(rows: &mut Rows, chunks: u32, fixed_ms: f64, row_ms: f64) -> Vec<u32> {
    let one = |_| {
        let limit = rows.limit();
        rows.observe(limit, fixed_ms + f64::from(limit) * row_ms, false);
        rows.limit()
    };
    (0..chunks).map(one).collect()
}

#[test]
fn a_quick_store_gets_the_most_after_eight_chunks() {
    let limits = run(&mut Rows::new(Bounds::default()), 9, 1.0, 0.001);
    assert_eq!(limits, [128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 16_384]);
}

#[test]
fn a_store_that_slows_down_gets_fewer_rows_and_more_again_later() {
    let mut rows = Rows::new(Bounds::default());
    run(&mut rows, 20, 1.0, 0.001);
    let slow = run(&mut rows, 20, 1.0, 0.1);
    assert_eq!(slow[19], 2_048, "about 200 ms, within the longer bound: {slow:?}");
    assert_eq!(run(&mut rows, 20, 1.0, 0.001)[19], 16_384);
}

#[test]
fn a_far_database_gets_large_chunks_all_the_same() {
    for fixed_ms in [60.0, 300.0, 2_000.0] {
        let mut rows = Rows::new(Bounds::default());
        let limits = run(&mut rows, 40, fixed_ms, 0.005);
        assert!(limits[39] >= 8_192, "{fixed_ms}: {limits:?}");
    }
    // It was near, and a slow disk came between.
    let mut rows = Rows::new(Bounds::default());
    run(&mut rows, 20, 1.0, 0.001);
    let slow = run(&mut rows, 40, 400.0, 0.001);
    assert!(slow[39] >= 8_192, "{slow:?}");
}

#[test]
fn a_wait_for_a_connection_halves_and_an_error_quarters() {
    let mut rows = Rows::new(Bounds::default());
    run(&mut rows, 20, 1.0, 0.001);
    rows.observe(16_384, 10.0, true);
    assert_eq!(rows.limit(), 8_192);
    rows.failed();
    assert_eq!(rows.limit(), 2_048);
    rows.observe(16_384, 9_000.0, true);
    assert_eq!(rows.limit(), 2_048, "cut before the limit shrank");
    (0..10).for_each(|_| rows.failed());
    assert_eq!(rows.limit(), 64);
}

#[test]
fn chunks_that_bytes_cut_short_do_not_raise_the_limit_for_ever() {
    let mut rows = Rows::new(Bounds::default());
    for _ in 0..50 {
        rows.observe(rows.limit().min(400), 5.0, false);
    }
    assert_eq!(rows.limit(), 1_024);
}

#[test]
fn chunks_that_bytes_cut_short_shrink_when_the_store_slows_down() {
    let mut rows = Rows::new(Bounds::default());
    (0..50).for_each(|_| rows.observe(rows.limit().min(400), 5.0, false));
    (0..50).for_each(|_| {
        let count = rows.limit().min(400);
        rows.observe(count, f64::from(count) * 2.0, false);
    });
    assert_eq!(rows.limit(), 100, "200 ms");
}

/// Two chunks are always on their way under the limits before.
#[test]
fn late_chunks_neither_raise_the_limit_nor_keep_it_down() {
    let mut settled = Vec::new();
    for (fixed_ms, row_ms) in [(0.0, 1.0), (300.0, 0.001), (1.0, 0.001)] {
        let (mut rows, mut queue) =
            (Rows::new(Bounds::default()), std::collections::VecDeque::new());
        for _ in 0..80 {
            queue.push_back(rows.limit());
            if queue.len() > 2 {
                let count = queue.pop_front().unwrap();
                rows.observe(count, fixed_ms + f64::from(count) * row_ms, false);
            }
        }
        settled.push(rows.limit());
    }
    assert_eq!(settled, [128, 16_384, 16_384]);
}

proptest! {
    #[test]
    fn the_limit_stays_in_bounds(
        (rows_min, rows_max) in any::<(u32, u32)>(),
        (p50_ms, p95_ms) in (wild(), wild()),
        samples in prop::collection::vec(prop::option::of((any::<u32>(), wild(), any::<bool>())), 0..80),
    ) {
        let mut rows = Rows::new(Bounds { rows_min, rows_max, p50_ms, p95_ms });
        let most = rows_max.max(1);
        for sample in samples {
            match sample {
                Some((count, latency_ms, waited)) => rows.observe(count, latency_ms, waited),
                None => rows.failed(),
            }
            prop_assert!(rows.limit() >= rows_min.clamp(1, most) && rows.limit() <= most);
        }
    }

    #[test]
    fn the_limit_settles_where_chunks_are_quick_enough(fixed_ms in 0.0_f64..40.0, row_ms in 0.0005_f64..1.0) {
        let mut rows = Rows::new(Bounds::default());
        let limits = run(&mut rows, 60, fixed_ms, row_ms);
        prop_assert!(limits[30..].iter().all(|limit| *limit == limits[30]), "{:?}", limits);
        let (limit, took_ms) = (limits[59], fixed_ms + f64::from(limits[59]) * row_ms);
        prop_assert!(took_ms <= 250.0 || limit == 64, "{took_ms}");
        prop_assert!(took_ms > 49.9 || limit == 16_384, "no smaller than needed: {took_ms}");
    }
}
