//! SIGINT (Ctrl-C) and SIGTERM, which ask the process to stop.
//!
//! Holds throughout: the first signal stops gracefully, so that requests in flight may finish; the
//! second exits at once, and other processes take over the leases that are left behind.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit_code::Exit;

/// The two signals that ask the process to stop.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from now on; without it, the first signal kills the process.
    pub(crate) fn new() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next one of either.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Exits without waiting for anything, on the second signal.
pub(crate) fn exit_at_once() -> ! {
    std::process::exit(Exit::Stopped.code().into())
}
