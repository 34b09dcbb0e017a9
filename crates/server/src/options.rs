//! The limits of the server, each with a name.

/// The limits of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Concurrent connections; further ones wait to be accepted.
    pub connections_max: usize,
    /// Timeout of a request head.
    pub head_ms_max: u64,
    /// Longest stall within a request body.
    pub body_idle_ms_max: u64,
    /// Lowest average rate of a request body after its first minute.
    pub body_bytes_per_sec_min: u64,
    /// Largest request body of a call that is not an upload.
    pub body_bytes_max: usize,
    /// Largest uploaded file.
    pub upload_bytes_max: u64,
    /// Concurrent uploads of all owners; further ones get a 429.
    pub uploads_max: usize,
    /// Rate limit of one owner.
    pub requests_per_sec_max: u32,
    /// Burst of one owner above the rate limit.
    pub requests_burst: u32,
    /// Open batches of one owner; none for no limit.
    pub open_batches_max: Option<u32>,
    /// How long a file is kept by default, in seconds.
    pub file_secs: u64,
    /// How long outputs are kept by default, in seconds.
    pub output_secs: u64,
    /// How long a key is cached.
    pub key_ms_max: u64,
    /// Longest time slice of a kickoff.
    pub kickoff_ms_max: u64,
    /// Whether `GET /api/pending` is enabled.
    pub pending_dashboard: bool,
    /// Longest wait for requests in flight after a stop.
    pub grace_ms: u64,
}

const THIRTY_DAYS_SECS: u64 = 30 * 24 * 3600;

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 2048,
            head_ms_max: 15_000,
            body_idle_ms_max: 30_000,
            body_bytes_per_sec_min: 1024,
            body_bytes_max: 1 << 20,
            upload_bytes_max: 100 << 30,
            uploads_max: 16,
            requests_per_sec_max: 200,
            requests_burst: 400,
            open_batches_max: Some(10_000),
            file_secs: THIRTY_DAYS_SECS,
            output_secs: THIRTY_DAYS_SECS,
            key_ms_max: 5_000,
            kickoff_ms_max: 60_000,
            pending_dashboard: false,
            grace_ms: 10_000,
        }
    }
}
