//! The last gate before a request is sent: whether the line may still go out.
//!
//! Holds throughout: a gate that closed stays closed; it closes when the lease of the line must not go on
//! (cancelled, paused, moved, lost), and at the end of the batch's window. Whoever waits for a slot, a rate
//! or a connection asks it afterwards, directly before the request is written.

use std::fmt;

use crate::clock::Clock;
use crate::signal::Stop;

/// Says whether a line may still be sent. Cheap to clone; all lines of a lease share one.
#[derive(Clone, Default)]
pub struct Gate {
    stop: Stop,
    /// With the clock that judges it, in its milliseconds.
    deadline: Option<(Clock, u64)>,
}

impl Gate {
    /// A gate that closes by itself at that time of the clock, if it has one.
    pub(crate) fn new(clock: &Clock, deadline_ms: Option<u64>) -> Self {
        Self { stop: Stop::new(), deadline: deadline_ms.map(|at| (clock.clone(), at)) }
    }

    /// Whether the line may be sent now.
    pub fn is_open(&self) -> bool {
        let late = self.deadline.as_ref().is_some_and(|(clock, at)| clock.millis() >= *at);
        !late && !self.stop.is_given()
    }

    /// Waits until it is closed.
    pub async fn closed(&self) {
        let late = async {
            match &self.deadline {
                Some((clock, at)) => clock.sleep_until(*at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stop.given() => {}
            () = late => {}
        }
    }

    /// Closes it: what has not been sent must not be.
    pub(crate) fn close(&self) {
        self.stop.give();
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() { "Gate(open)" } else { "Gate(closed)" })
    }
}
