//! The limits of the server, each with a name.

use std::time::Duration;

const THIRTY_DAYS: Duration = Duration::from_secs(30 * 24 * 3600);

windrow_domain::options! {
    /// The limits of a server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Options {
        /// Concurrent connections; further ones wait to be accepted.
        connections_max: usize = 2048,
        /// Timeout of a request head.
        head_timeout: Duration = Duration::from_secs(15),
        /// Longest stall within a request body.
        body_idle_timeout: Duration = Duration::from_secs(30),
        /// Lowest average rate of a request body after its first minute.
        body_bytes_per_sec_min: u64 = 1024,
        /// Largest request body of a call that is not an upload.
        body_bytes_max: usize = 1 << 20,
        /// Largest uploaded file.
        upload_bytes_max: u64 = 100 << 30,
        /// Concurrent uploads of all owners; further ones get a 429.
        uploads_max: usize = 16,
        /// Rate limit of one owner.
        requests_per_sec_max: u32 = 200,
        /// Burst of one owner above the rate limit.
        requests_burst: u32 = 400,
        /// Open batches of one owner; none for no limit.
        open_batches_max: Option<u32> = Some(10_000),
        /// How long a file is kept by default.
        file_retention: Duration = THIRTY_DAYS,
        /// How long outputs are kept by default.
        output_retention: Duration = THIRTY_DAYS,
        /// How long a key is cached.
        key_cache_max: Duration = Duration::from_secs(5),
        /// Longest time slice of a kickoff.
        kickoff_max: Duration = Duration::from_secs(60),
        /// Whether `GET /api/pending` is enabled.
        pending_dashboard: bool = false,
        /// Longest wait for requests in flight after a stop.
        grace: Duration = Duration::from_secs(10),
    }
}
