//! A count that fades: it halves with each half-life, and gives the rate of a steady flow.

use proptest::prelude::*;
use windrow_domain::control::Fading;

use super::wild;

#[test]
fn what_happened_counts_half_after_a_half_life() {
    let mut fading = Fading::default();
    fading.add(8.0, 1_000);
    assert_eq!(fading.amount(1_000), 8.0);
    assert_eq!(fading.amount(1_000 + Fading::HALF_LIFE_MS), 4.0);
    assert_eq!(fading.amount(1_000 + 3 * Fading::HALF_LIFE_MS), 1.0);
}

#[test]
fn a_steady_flow_is_shown_as_its_rate() {
    let mut fading = Fading::default();
    for second in 0..600 {
        fading.add(50.0, second * 1_000);
    }
    let rate = fading.per_sec(599_000);
    assert!((49.0..52.0).contains(&rate), "{rate}");
    assert!(fading.per_sec(599_000 + 20 * Fading::HALF_LIFE_MS) < 0.001);
}

proptest! {
    #[test]
    fn it_bears_any_sample(samples in prop::collection::vec((wild(), any::<u32>()), 0..50)) {
        let mut fading = Fading::default();
        for (amount, at) in samples {
            // The sum of a few of the largest numbers is no number any more.
            fading.add(amount.min(1e12), at.into());
        }
        prop_assert!(fading.amount(u64::from(u32::MAX)) >= 0.0);
    }
}
