//! The bounds of the server, each with a name.

/// How much of anything a caller may have, and how long it may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Connections at the same time; further ones wait to be accepted.
    pub connections_max: usize,
    /// Longest wait for the head of a request.
    pub head_ms_max: u64,
    /// Longest silence within the body of a request.
    pub body_idle_ms_max: u64,
    /// Fewest bytes a second of a body, on average after its first minute.
    pub body_bytes_per_sec_min: u64,
    /// Largest body of a call that is no upload.
    pub body_bytes_max: usize,
    /// Largest file that is uploaded.
    pub upload_bytes_max: u64,
    /// Uploads at the same time, of all owners; further ones are told to come again.
    pub uploads_max: usize,
    /// Requests a second of one owner.
    pub requests_per_sec_max: u32,
    /// Requests of one owner at once, above the rate.
    pub requests_burst: u32,
    /// Batches of one owner that are not closed; none for no bound.
    pub open_batches_max: Option<u32>,
    /// How long a file lives that does not say, in seconds.
    pub file_secs: u64,
    /// How long outputs live whose batch does not say, in seconds.
    pub output_secs: u64,
    /// How long a key that was found is believed without asking again.
    pub key_ms_max: u64,
    /// Longest time slice that `kickoff` drives a job.
    pub kickoff_ms_max: u64,
    /// Whether there is a list of what is pending over all jobs.
    pub pending_dashboard: bool,
    /// Longest wait for requests in flight when asked to stop.
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
