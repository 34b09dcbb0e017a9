//! The bounds of a running engine, each with a name. The command line names them as its
//! configuration does; see `docs/configuration.md`.

use std::path::PathBuf;
use std::time::Duration;

use windrow_domain::control::{pressure, slice};
use windrow_domain::retry::Policy;
use windrow_store::sweep::Retention;

const DAY_SECS: u64 = 24 * 3600;

windrow_domain::options! {
    /// The bounds of an engine: what it takes, holds, waits for and retries.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// Claim size and lease length: `WORKER_TARGET_SLICE_MS`, `CLAIM_MIN`, `CLAIM_MAX`,
        /// `SAFETY_FACTOR`, `LOCK_FLOOR_MS`, `LOCK_CAP_MS`.
        slice: slice::Bounds = slice::Bounds::default(),
        /// Attempts and waits: `MAX_ATTEMPTS_ERROR`, `MAX_ATTEMPTS_NOT_FOUND` and the backoff.
        retry: Policy = Policy::default(),
        /// CPU and memory of this process, beyond which it claims less.
        pressure: pressure::Bounds = pressure::Bounds::default(),
        /// Most requests in flight over all targets of this process.
        in_flight_max: u32 = 1024,
        /// A host that has said nothing but 429 for so long has its batches paused.
        throttled_max: Duration = Duration::from_secs(DAY_SECS),
        /// Whether the engine stops when a host answered the first requests with nothing but 401 or 403; their
        /// lines go back untried. Otherwise they fail.
        stop_when_refused: bool = false,
        /// Most outcomes of one turn.
        record_lines_max: usize = 1000,
        /// Most bytes of outcomes that wait to be recorded, before nothing more is started.
        record_bytes_max: usize = 32 << 20,
        /// Longest an outcome waits for others to be recorded with it.
        record_wait_max: Duration = Duration::from_millis(20),
        /// How often an engine polls the store for work.
        poll_every: Duration = Duration::from_secs(1),
        /// How often an instance says that it is alive.
        heartbeat_every: Duration = Duration::from_secs(10),
        /// The folder of this machine in which each instance holds a lock, so that others know at once when it
        /// is dead: one for each database, such as `<database>-live`. Without it a dead instance is waited for.
        live_folder: Option<PathBuf> = None,
        /// Silence, as another instance observes it, after which an instance is taken for dead.
        member_stale_after: Duration = Duration::from_secs(60),
        /// Longest wait for what is in flight when the engine is asked to stop.
        grace: Duration = Duration::from_secs(10),
        /// Shortest pause between two sweeps; each pause is drawn between the two.
        sweep_every_min: Duration = Duration::from_secs(10),
        /// Longest pause between two sweeps.
        sweep_every_max: Duration = Duration::from_secs(15),
        /// Most rows of each kind that one step of the sweep touches.
        sweep_rows_max: u32 = 1000,
        /// Lost leases after which a line that is alone in its lease fails.
        crashes_max: u32 = 3,
        /// How long rows are kept that work does not need.
        retention: Retention = Retention {
            closed_batch_secs: None,
            open_file_secs: DAY_SECS,
            member_secs: DAY_SECS,
        },
        /// Whether the worker that sees a batch end closes it; otherwise only the sweep does.
        finalise_inline: bool = true,
        /// Most attempts to take a finalisation that another process holds.
        finalise_attempts_max: u32 = 5,
        /// The wait between two of those attempts.
        finalise_wait: Duration = Duration::from_millis(50),
        /// How long a finalisation is held before it is renewed or lost.
        finalise_lease: Duration = Duration::from_secs(20),
        /// Most bytes of results in memory while outputs are written.
        output_bytes_max: u64 = 8 << 20,
    }
}
