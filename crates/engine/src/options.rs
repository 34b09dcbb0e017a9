//! The bounds of a running engine, each with a name. The command line names them as its
//! configuration does; see `docs/configuration.md`.

use windrow_domain::control::{pressure, slice};
use windrow_domain::retry::Policy;
use windrow_store::sweep::Retention;

/// How much of anything an engine takes, holds, waits for or tries.
#[derive(Clone, Debug)]
pub struct Options {
    /// Claim size and lease length: `WORKER_TARGET_SLICE_MS`, `CLAIM_MIN`, `CLAIM_MAX`,
    /// `SAFETY_FACTOR`, `LOCK_FLOOR_MS`, `LOCK_CAP_MS`.
    pub slice: slice::Bounds,
    /// Tries and waits: `MAX_ATTEMPTS_ERROR`, `MAX_ATTEMPTS_NOT_FOUND` and the backoff.
    pub retry: Policy,
    /// CPU and memory of this process, beyond which it claims less.
    pub pressure: pressure::Bounds,
    /// Most requests in flight over all targets of this process.
    pub in_flight_max: u32,
    /// Most outcomes of one turn.
    pub record_lines_max: usize,
    /// Most bytes of outcomes that wait to be recorded, before nothing more is started.
    pub record_bytes_max: usize,
    /// Longest an outcome waits for others to be recorded with it.
    pub record_ms_max: u64,
    /// How often an idle engine looks for work.
    pub poll_ms: u64,
    /// How often an instance says that it is alive.
    pub heartbeat_ms: u64,
    /// When an instance that fell silent is taken for dead.
    pub member_stale_ms: u64,
    /// Longest wait for what is in flight when it is asked to stop.
    pub grace_ms: u64,
    /// Shortest pause between two sweeps; each is drawn between the two.
    pub sweep_ms_min: u64,
    /// Longest pause between two sweeps.
    pub sweep_ms_max: u64,
    /// Most rows of anything that one step of the sweep touches.
    pub sweep_rows_max: u32,
    /// Lost leases after which a line that is alone in its lease fails.
    pub crashes_max: u32,
    /// How long to keep what.
    pub retention: Retention,
    /// Whether the worker that sees a batch end closes it; otherwise only the sweep does.
    pub finalise_inline: bool,
    /// Most attempts to take a finalisation that another process holds.
    pub finalise_attempts_max: u32,
    /// The wait between those tries.
    pub finalise_wait_ms: u64,
    /// How long a finalisation is held before it is renewed or lost.
    pub finalise_lease_ms: u64,
    /// Most bytes of results in memory while outputs are written.
    pub output_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slice: slice::Bounds::default(),
            retry: Policy::default(),
            pressure: pressure::Bounds::default(),
            in_flight_max: 1024,
            record_lines_max: 1000,
            record_bytes_max: 32 << 20,
            record_ms_max: 20,
            poll_ms: 1000,
            heartbeat_ms: 10_000,
            member_stale_ms: 60_000,
            grace_ms: 10_000,
            sweep_ms_min: 10_000,
            sweep_ms_max: 15_000,
            sweep_rows_max: 1000,
            crashes_max: 3,
            retention: Retention {
                closed_batch_secs: None,
                open_file_secs: 24 * 3600,
                member_secs: 24 * 3600,
            },
            finalise_inline: true,
            finalise_attempts_max: 5,
            finalise_wait_ms: 50,
            finalise_lease_ms: 20_000,
            output_bytes_max: 8 << 20,
        }
    }
}
