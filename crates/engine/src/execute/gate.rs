//! The last gate before a request is sent: whether the line may still go out.
//!
//! Holds throughout: a gate that closed stays closed; it closes when the lease of the line must not go on
//! (cancelled, paused, moved, lost), and at the end of the batch's window. While its lease has lapsed by the clock
//! of this process, another process may have the line: the gate is not open, until a renewal is answered. Whoever
//! waits for a slot, a rate or a connection asks it afterwards, directly before the request is written.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::signal::Stop;

/// Says whether a line may still be sent. Cheap to clone; all lines of a lease share one.
#[derive(Clone, Default)]
pub struct Gate {
    stop: Stop,
    times: Option<Times>,
}

/// When a gate is not open, in the milliseconds of the clock that judges it.
#[derive(Clone)]
struct Times {
    clock: Clock,
    deadline_ms: Option<u64>,
    /// When the lease lapses, unless it is renewed.
    lapses_ms: Arc<AtomicU64>,
}

impl Times {
    fn is_late(&self) -> bool {
        self.deadline_ms.is_some_and(|at| self.clock.millis() >= at)
    }

    fn lapses_ms(&self) -> u64 {
        self.lapses_ms.load(Ordering::Acquire)
    }

    fn is_lapsed(&self) -> bool {
        self.clock.millis() >= self.lapses_ms()
    }

    /// Waits for the end of the window, or until the lease has lapsed.
    async fn over(&self) {
        loop {
            let lapses_ms = self.lapses_ms();
            self.clock.sleep_until(self.deadline_ms.unwrap_or(u64::MAX).min(lapses_ms)).await;
            if self.is_late() || self.is_lapsed() {
                return;
            }
        }
    }
}

impl Gate {
    /// A gate that closes by itself at that time of the clock, if it has one. Its lease does not lapse before it was
    /// [renewed](Self::renew).
    pub(crate) fn new(clock: &Clock, deadline_ms: Option<u64>) -> Self {
        let lapses_ms = Arc::new(AtomicU64::new(u64::MAX));
        let times = Times { clock: clock.clone(), deadline_ms, lapses_ms };
        Self { stop: Stop::new(), times: Some(times) }
    }

    /// Whether the line may be sent now.
    pub fn is_open(&self) -> bool {
        !self.is_closed() && !self.times.as_ref().is_some_and(Times::is_lapsed)
    }

    /// Whether the line may never be sent under this lease. One whose lease has only lapsed may be, if it is renewed
    /// in time.
    pub(crate) fn is_closed(&self) -> bool {
        self.stop.is_given() || self.times.as_ref().is_some_and(Times::is_late)
    }

    /// Waits until it is not open.
    pub async fn closed(&self) {
        let over = async {
            match &self.times {
                Some(times) => times.over().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stop.given() => {}
            () = over => {}
        }
    }

    /// Closes it: what has not been sent must not be.
    pub(crate) fn close(&self) {
        self.stop.give();
    }

    /// The lease was granted or renewed: it lapses at that time of the clock. The caller counts from the moment at
    /// which it asked the store, which is before the store's own.
    pub(crate) fn renew(&self, lapses_ms: u64) {
        if let Some(times) = &self.times {
            times.lapses_ms.store(lapses_ms, Ordering::Release);
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "Gate(open)" } else { "Gate(closed)" })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;

    #[tokio::test]
    async fn a_lease_that_lapsed_keeps_its_gate_shut_until_it_is_renewed() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let gate = Gate::new(&clock, None);
        gate.renew(1_000);
        let closed = gate.closed();
        tokio::pin!(closed);
        clock.advance(Duration::from_millis(999));
        assert!(gate.is_open());
        gate.renew(2_000);
        clock.advance(Duration::from_millis(1_000));
        assert!(gate.is_open() && futures_util::poll!(closed.as_mut()).is_pending());
        clock.advance(Duration::from_millis(1));
        assert!(!gate.is_open() && !gate.is_closed(), "it has lapsed, which is not for ever");
        closed.await;
        gate.renew(3_000);
        assert!(gate.is_open(), "the store said that the lease is still this process's");
        gate.close();
        assert!(!gate.is_open() && gate.is_closed());
    }
}
