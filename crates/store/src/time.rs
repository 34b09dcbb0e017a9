//! Time: the database's own clock in production, a given one in tests and simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

/// Which clock decides when a lease ends.
#[derive(Clone, Debug, Default)]
pub enum Time {
    /// The database's clock, read when it is needed and not when the transaction began.
    #[default]
    Database,
    /// A clock that the program moves, in microseconds since the epoch.
    Given(Arc<AtomicI64>),
}

impl Time {
    /// A clock that stands still until it is advanced.
    pub fn given(start: Timestamp) -> Self {
        Time::Given(Arc::new(AtomicI64::new(start.as_microsecond())))
    }

    /// The given time; none when the database's clock decides.
    pub fn now(&self) -> Option<Timestamp> {
        match self {
            Time::Database => None,
            Time::Given(micros) => Timestamp::from_microsecond(micros.load(Ordering::SeqCst)).ok(),
        }
    }

    /// Moves a given clock on.
    ///
    /// # Panics
    /// When the database's clock decides: no program can move that.
    pub fn advance(&self, by: Duration) {
        match self {
            Time::Database => panic!("the database's own clock cannot be advanced"),
            Time::Given(micros) => {
                let by = i64::try_from(by.as_micros()).expect("a test advances by less than ages");
                micros.fetch_add(by, Ordering::SeqCst);
            }
        }
    }
}
