//! Claims take about a slice, fit in memory, and leave time on their lease.

use proptest::prelude::*;
use windrow_domain::control::slice::{Bounds, Slice};

use super::wild;

fn bounds() -> impl Strategy<Value = Bounds> {
    let claims = (any::<u64>(), any::<u32>(), any::<u32>(), wild());
    (claims, any::<(u64, u64, u64)>()).prop_map(
        |((slice_ms, claim_min, claim_max, safety), rest)| {
            let (lock_floor_ms, lock_cap_ms, bytes_max) = rest;
            let safety_factor = safety;
            Bounds {
                slice_ms,
                claim_min,
                claim_max,
                safety_factor,
                lock_floor_ms,
                lock_cap_ms,
                bytes_max,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_claim_stays_in_bounds_whatever_was_measured(
        bounds in bounds(),
        samples in prop::collection::vec((any::<u32>(), wild(), prop::option::of(any::<u32>())), 0..40),
        pressure in wild(),
    ) {
        let mut slice = Slice::new(bounds.clone());
        let claim_min = bounds.claim_min.max(1);
        for (items, elapsed_ms, bytes) in samples {
            slice.observe(items, elapsed_ms);
            bytes.into_iter().for_each(|bytes| slice.observe_bytes(bytes as usize));
            let limit = slice.limit(pressure);
            prop_assert!(limit >= 1 && limit <= bounds.claim_max.max(claim_min));
            prop_assert!(slice.limit(0.5) <= slice.limit(1.0));
            prop_assert!(slice.lease_ms() <= bounds.lock_cap_ms);
            prop_assert!(slice.lease_ms() >= bounds.lock_floor_ms.min(bounds.lock_cap_ms));
            prop_assert!(slice.item_ms().is_none_or(|item_ms| item_ms.is_finite() && item_ms >= 0.0));
        }
    }

    /// From any past, to seven tenths of a slice.
    #[test]
    fn a_claim_settles_at_the_slice(past_ms in 0.1_f64..100_000.0, item_ms in 5.0_f64..3_000.0) {
        let mut slice = Slice::new(Bounds::default());
        (0..20).for_each(|_| slice.observe(10, past_ms * 10.0));
        for _ in 0..80 {
            let lines = slice.limit(1.0);
            slice.observe(lines, f64::from(lines) * item_ms);
        }
        let took_ms = f64::from(slice.limit(1.0)) * item_ms;
        prop_assert!(took_ms <= 3_550.0 && took_ms > 3_450.0 - item_ms, "{took_ms}");
        prop_assert!((slice.item_ms().unwrap() - item_ms).abs() < item_ms * 0.01);
    }

    #[test]
    fn lines_of_one_size_never_exceed_the_memory(bytes in 1_usize..100_000_000, lines in 1..500) {
        let mut slice = Slice::new(Bounds { claim_min: 50, ..Bounds::default() });
        slice.observe(1_000, 1.0);
        (0..lines).for_each(|_| slice.observe_bytes(bytes));
        let limit = slice.limit(1.0);
        prop_assert!(limit == 1 || limit as usize * bytes <= 32 << 20);
        prop_assert!(limit == 1_000 || (limit as usize + 2) * bytes > 32 << 20, "no needless loss");
    }
}

#[test]
fn the_first_claim_is_small_and_within_the_bounds() {
    assert_eq!(Slice::new(Bounds::default()).limit(1.0), 64);
    assert_eq!(Slice::new(Bounds { claim_max: 10, ..Bounds::default() }).limit(1.0), 10);
    assert_eq!(Slice::new(Bounds { claim_min: 100, ..Bounds::default() }).limit(1.0), 100);
    assert_eq!(Slice::new(Bounds::default()).limit(f64::NAN), 64, "no number, no pressure");
    assert_eq!(Slice::new(Bounds::default()).limit(0.1), 6);
}

#[test]
fn a_target_that_slows_down_gets_small_claims_within_two_samples() {
    let mut slice = Slice::new(Bounds::default());
    (0..50).for_each(|_| slice.observe(1_000, 1_000.0));
    assert_eq!(slice.limit(1.0), 1_000);
    (0..2).for_each(|_| slice.observe(5, 5_000.0));
    assert!(slice.limit(1.0) <= 4, "{}", slice.limit(1.0));
}

#[test]
fn a_target_that_speeds_up_gets_large_claims_within_a_few_dozen_samples() {
    let mut slice = Slice::new(Bounds::default());
    (0..50).for_each(|_| slice.observe(5, 5_000.0));
    let turns = (1..).find(|_| {
        let lines = slice.limit(1.0);
        slice.observe(lines, f64::from(lines));
        slice.limit(1.0) == 1_000
    });
    assert!(turns.unwrap() <= 40, "{turns:?}");
}

#[test]
fn one_huge_line_does_not_keep_claims_small() {
    let mut slice = Slice::new(Bounds::default());
    slice.observe(1_000, 1_000.0);
    (0..1_000).for_each(|_| slice.observe_bytes(300));
    slice.observe_bytes(16 << 20);
    assert!(slice.limit(1.0) < 100, "{}", slice.limit(1.0));
    (0..500).for_each(|_| slice.observe_bytes(300));
    assert_eq!(slice.limit(1.0), 1_000);
}

#[test]
fn a_lease_is_twice_the_slice_or_twice_a_line() {
    let mut slice = Slice::new(Bounds { lock_floor_ms: 1_000, ..Bounds::default() });
    assert_eq!(slice.lease_ms(), 10_000);
    slice.observe(1, 20_000.0);
    assert_eq!(slice.lease_ms(), 40_000);
    (0..40).for_each(|_| slice.observe(1, 10_000_000.0));
    assert_eq!(slice.lease_ms(), 900_000);
    assert_eq!(Slice::new(Bounds::default()).lease_ms(), 30_000);
}
