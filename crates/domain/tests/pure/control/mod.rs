//! The controllers: they stay in their bounds, settle, and bear any sample.

mod breaker;
mod concurrency;
mod fading;
mod ingest;
mod pace;
mod pressure;
mod slice;

use proptest::prelude::*;

/// Any number there is, and some that are none.
fn wild() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..10_000.0,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.0, f64::MAX]),
    ]
}
