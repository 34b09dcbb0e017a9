//! The factor stays between a tenth and one.

use proptest::prelude::*;
use windrow_domain::control::pressure::{Bounds, Pressure};

use super::wild;

const MIB: u64 = 1 << 20;

fn after(cpu: f64, memory_bytes: u64) -> Pressure {
    let mut pressure = Pressure::new(Bounds { memory_bytes_max: 100 * MIB, ..Bounds::default() });
    (0..50).for_each(|_| pressure.observe(cpu, memory_bytes));
    pressure
}

#[test]
fn nothing_shrinks_up_to_the_bounds_and_the_worse_of_the_two_decides() {
    let factor = |cpu, mib: u64| (after(cpu, mib * MIB).factor() * 100.0).round() / 100.0;
    assert_eq!([factor(0.0, 0), factor(0.9, 100), factor(0.5, 99)], [1.0, 1.0, 1.0]);
    assert_eq!([factor(1.0, 0), factor(0.5, 110), factor(1.0, 110)], [0.6, 0.64, 0.6]);
    assert_eq!([factor(2.0, 0), factor(0.5, 125), factor(0.0, 9_000)], [0.1, 0.1, 0.1]);
}

#[test]
fn a_short_peak_shrinks_little_and_passes() {
    let mut pressure = after(0.5, 0);
    pressure.observe(1.0, 0);
    assert!((pressure.factor() - 1.0).abs() < f64::EPSILON);
    (0..20).for_each(|_| pressure.observe(1.1, 0));
    assert!(pressure.factor() < 0.3);
    (0..20).for_each(|_| pressure.observe(0.5, 0));
    assert!((pressure.factor() - 1.0).abs() < f64::EPSILON);
}

#[test]
fn memory_far_above_stops_at_once_and_no_longer_than_it_lasts() {
    let mut pressure = after(0.0, 0);
    pressure.observe(0.0, 126 * MIB);
    assert!(pressure.stop());
    pressure.observe(0.0, 125 * MIB);
    assert!(!pressure.stop());
    let mut unbounded = Pressure::new(Bounds { memory_bytes_max: 0, ..Bounds::default() });
    unbounded.observe(0.0, u64::MAX);
    assert!(!unbounded.stop() && unbounded.factor() > 0.99);
}

proptest! {
    #[test]
    fn the_factor_stays_in_bounds(
        cpu_max in wild(),
        memory_bytes_max: u64,
        samples in prop::collection::vec((wild(), any::<u64>()), 0..50),
    ) {
        let mut pressure = Pressure::new(Bounds { cpu_max, memory_bytes_max });
        for (cpu, memory_bytes) in samples {
            pressure.observe(cpu, memory_bytes);
            prop_assert!((0.1..=1.0).contains(&pressure.factor()), "{}", pressure.factor());
        }
    }
}
