//! The numeric configuration keys: what each one limits, which field it sets, and its range.
//!
//! Holds throughout: the default of a key is the engine's own, so that this table cannot drift from it;
//! the names of seed 001 are kept, and count in the environment without a prefix too.

use windrow::domain::lease::TRANCHE_LINES_MAX;
use windrow::domain::partition::PARTITIONS_MAX;
use windrow::engine;
use windrow::engine::ingest::Options as IngestOptions;

/// The options that the keys set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) engine: engine::Options,
    pub(crate) ingest: IngestOptions,
    pub(crate) server: windrow_server::Options,
    pub(crate) messages: engine::messages::Options,
}

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    WithPayload(u64),
    Decimal(f64),
    Switch(bool),
    /// No limit.
    None,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::WithPayload(value) => value.fmt(f),
            Value::Decimal(value) => value.fmt(f),
            Value::Switch(value) => value.fmt(f),
            Value::None => f.write_str("none"),
        }
    }
}

/// The type and range of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    WithPayload(u64, u64),
    Decimal(f64, f64),
    Switch,
    /// A whole number, or `none`.
    Optional(u64, u64),
}

/// One key.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// May also be set by an environment variable without the prefix `WINDROW_`.
    pub(crate) bare: bool,
    pub(crate) kind: Kind,
    pub(crate) get: fn(&Bounds) -> Value,
    pub(crate) set: fn(&mut Bounds, Value),
}

impl Key {
    /// Parses a value; the error says what is allowed.
    pub(crate) fn read(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let plain = text.replace('_', "");
        match self.kind {
            Kind::Optional(..) if text == "none" => Ok(Value::None),
            Kind::WithPayload(min, max) | Kind::Optional(min, max) => {
                let value = plain.parse().ok().filter(|value| (min..=max).contains(value));
                let none = if matches!(self.kind, Kind::Optional(..)) { ", or none" } else { "" };
                let expected = || format!("a whole number from {min} to {max}{none}");
                value.map(Value::WithPayload).ok_or_else(expected)
            }
            Kind::Decimal(min, max) => {
                let value = plain.parse().ok().filter(|value| (min..=max).contains(value));
                value.map(Value::Decimal).ok_or_else(|| format!("a number from {min} to {max}"))
            }
            Kind::Switch => match text {
                "true" => Ok(Value::Switch(true)),
                "false" => Ok(Value::Switch(false)),
                _ => Err("true or false".to_owned()),
            },
        }
    }
}

/// The key of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Numbers of any width, as the table has them.
trait Number: Sized {
    fn of(value: u64) -> Self;
    fn whole(self) -> u64;
}

macro_rules! number {
    ($($type:ty),*) => { $(
        impl Number for $type {
            fn of(value: u64) -> Self {
                Self::try_from(value).unwrap_or(Self::MAX)
            }
            fn whole(self) -> u64 {
                self.try_into().unwrap_or(u64::MAX)
            }
        }
    )* };
}

number!(u16, u32, usize);

impl Number for u64 {
    fn of(value: u64) -> Self {
        value
    }
    fn whole(self) -> u64 {
        self
    }
}

macro_rules! key {
    ($name:literal, $bare:literal, whole $min:literal..=$max:expr, $($path:ident).+, $about:literal) => {
        Key {
            name: $name, about: $about, bare: $bare, kind: Kind::WithPayload($min, $max),
            get: |bounds| Value::WithPayload(bounds.$($path).+.whole()),
            set: |bounds, value| if let Value::WithPayload(value) = value {
                bounds.$($path).+ = Number::of(value);
            },
        }
    };
    ($name:literal, $bare:literal, decimal $min:literal..=$max:expr, $($path:ident).+, $about:literal) => {
        Key {
            name: $name, about: $about, bare: $bare, kind: Kind::Decimal($min, $max),
            get: |bounds| Value::Decimal(bounds.$($path).+),
            set: |bounds, value| if let Value::Decimal(value) = value {
                bounds.$($path).+ = value;
            },
        }
    };
    ($name:literal, $bare:literal, switch, $($path:ident).+, $about:literal) => {
        Key {
            name: $name, about: $about, bare: $bare, kind: Kind::Switch,
            get: |bounds| Value::Switch(bounds.$($path).+),
            set: |bounds, value| if let Value::Switch(value) = value {
                bounds.$($path).+ = value;
            },
        }
    };
    ($name:literal, $bare:literal, optional $min:literal..=$max:expr, $($path:ident).+, $about:literal) => {
        Key {
            name: $name, about: $about, bare: $bare, kind: Kind::Optional($min, $max),
            get: |bounds| bounds.$($path).+.map_or(Value::None, |value| Value::WithPayload(value.whole())),
            set: |bounds, value| bounds.$($path).+ = match value {
                Value::WithPayload(value) => Some(Number::of(value)),
                Value::Decimal(_) | Value::Switch(_) | Value::None => None,
            },
        }
    };
    // Told in seconds, kept in milliseconds.
    ($name:literal, $bare:literal, secs $min:literal..=$max:expr, $($path:ident).+, $about:literal) => {
        Key {
            name: $name, about: $about, bare: $bare, kind: Kind::WithPayload($min, $max),
            get: |bounds| Value::WithPayload(bounds.$($path).+ / 1000),
            set: |bounds, value| if let Value::WithPayload(value) = value {
                bounds.$($path).+ = value * 1000;
            },
        }
    };
    ($name:literal, $bare:literal, optional_secs $min:literal..=$max:expr, $($path:ident).+, $about:literal) => {
        Key {
            name: $name, about: $about, bare: $bare, kind: Kind::Optional($min, $max),
            get: |bounds| bounds.$($path).+.map_or(Value::None, |value| Value::WithPayload(value / 1000)),
            set: |bounds, value| bounds.$($path).+ = match value {
                Value::WithPayload(value) => Some(value * 1000),
                Value::Decimal(_) | Value::Switch(_) | Value::None => None,
            },
        }
    };
}

const CLAIM_MAX: u64 = TRANCHE_LINES_MAX as u64;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// A hundred years, give or take.
const AGE_SECS_MAX: u64 = 100 * 366 * 24 * 3600;
const TIB: u64 = 1 << 40;
const PARTITIONS: u64 = PARTITIONS_MAX as u64;

/// All keys, in the order in which `windrow config` prints them.
pub(crate) const KEYS: &[Key] = &[
    key!("ingest_min_rows", true, whole 1..=65_536, ingest.rows_min,
        "minimum rows per transaction while a file is loaded, and the first size"),
    key!("ingest_max_rows", true, whole 1..=65_536, ingest.chunk_lines_max,
        "maximum rows per transaction while a file is loaded"),
    key!("ingest_max_batch_bytes", true, whole 1..=8 << 20, ingest.chunk_bytes_max,
        "maximum bytes per transaction while a file is loaded"),
    key!("db_p50_ms", true, whole 1..=HOUR_MS, ingest.db_p50_ms,
        "transactions grow until they take this long"),
    key!("db_p95_ms", true, whole 1..=HOUR_MS, ingest.db_p95_ms,
        "transactions that take longer shrink"),
    key!("worker_target_slice_ms", true, whole 1..=HOUR_MS, engine.slice.slice_ms,
        "how long the lines of one claim should take"),
    key!("claim_min", true, whole 1..=CLAIM_MAX, engine.slice.claim_min,
        "minimum lines per claim"),
    key!("claim_max", true, whole 1..=CLAIM_MAX, engine.slice.claim_max,
        "maximum lines per claim"),
    key!("claim_bytes_max", false, whole 1..=TIB, engine.slice.bytes_max,
        "maximum bytes per claim"),
    key!("safety_factor", true, decimal 0.01..=1.0, engine.slice.safety_factor,
        "share of the slice that is planned for"),
    key!("lock_floor_ms", true, whole 100..=HOUR_MS, engine.slice.lock_floor_ms,
        "shortest lease"),
    key!("lock_cap_ms", true, whole 100..=HOUR_MS, engine.slice.lock_cap_ms,
        "longest lease"),
    key!("max_attempts_error", true, whole 1..=1000, engine.retry.attempts_max,
        "maximum attempts per line"),
    key!("max_attempts_not_found", true, whole 1..=1000, engine.retry.attempts_not_found_max,
        "maximum attempts per line that the upstream answers with not found"),
    key!("backoff_ms_min", false, whole 1..=DAY_MS, engine.retry.backoff_ms_min,
        "longest delay before the second attempt; doubles with each further one"),
    key!("backoff_ms_max", false, whole 1..=DAY_MS, engine.retry.backoff_ms_max,
        "longest delay between attempts, also for Retry-After"),
    key!("in_flight_max", false, whole 1..=100_000, engine.in_flight_max,
        "maximum concurrent requests of one process"),
    key!("record_lines_max", false, whole 1..=10_000, engine.record_lines_max,
        "maximum results written at once"),
    key!("record_bytes_max", false, whole 1..=TIB, engine.record_bytes_max,
        "bytes of results waiting to be written above which no request is started"),
    key!("record_ms_max", false, whole 0..=60_000, engine.record_ms_max,
        "longest time that a result waits to be written with others"),
    key!("cpu_max", false, decimal 0.01..=1.0, engine.pressure.cpu_max,
        "share of all cores above which less is claimed"),
    key!("memory_bytes_max", false, whole 0..=TIB, engine.pressure.memory_bytes_max,
        "memory of the process above which less is claimed; 0 for no limit"),
    key!("poll_ms", false, whole 10..=HOUR_MS, engine.poll_ms,
        "how often an idle worker polls for work"),
    key!("heartbeat_ms", false, whole 10..=HOUR_MS, engine.heartbeat_ms,
        "how often an instance sends a heartbeat"),
    key!("member_stale_ms", false, whole 100..=DAY_MS, engine.member_stale_ms,
        "time without a heartbeat after which an instance counts as dead"),
    key!("grace_ms", false, whole 0..=HOUR_MS, engine.grace_ms,
        "longest wait for requests in flight on shutdown"),
    key!("sweep_ms_min", false, whole 10..=DAY_MS, engine.sweep_ms_min,
        "minimum interval between sweeps"),
    key!("sweep_ms_max", false, whole 10..=DAY_MS, engine.sweep_ms_max,
        "maximum interval between sweeps"),
    key!("sweep_rows_max", false, whole 1..=1_000_000, engine.sweep_rows_max,
        "maximum rows per step of the sweep"),
    key!("crashes_max", false, whole 1..=1000, engine.crashes_max,
        "lost leases after which a line that is alone in its lease fails"),
    key!(
        "finalise_inline",
        false,
        switch,
        engine.finalise_inline,
        "whether the worker that finishes a batch closes it"
    ),
    key!("finalise_attempts_max", false, whole 1..=1000, engine.finalise_attempts_max,
        "maximum attempts to finalise a batch that another process holds"),
    key!("finalise_wait_ms", false, whole 0..=60_000, engine.finalise_wait_ms,
        "delay between those attempts"),
    key!("finalise_lease_ms", false, whole 100..=HOUR_MS, engine.finalise_lease_ms,
        "lease of a finalisation"),
    key!("output_bytes_max", false, whole 1..=TIB, engine.output_bytes_max,
        "maximum bytes of results in memory while outputs are written"),
    key!("retention_closed_batch_secs", false, optional 0..=AGE_SECS_MAX, engine.retention.closed_batch_secs,
        "how long closed batches are kept"),
    key!("retention_open_file_secs", false, whole 1..=AGE_SECS_MAX, engine.retention.open_file_secs,
        "how long incomplete uploads are kept"),
    key!("retention_member_secs", false, whole 1..=AGE_SECS_MAX, engine.retention.member_secs,
        "how long instances that left stay in lists"),
    key!("connections_max", false, whole 1..=1_000_000, server.connections_max,
        "maximum connections to the server"),
    key!("head_ms_max", false, whole 100..=HOUR_MS, server.head_ms_max,
        "longest wait for the headers of a request"),
    key!("body_idle_ms_max", false, whole 100..=HOUR_MS, server.body_idle_ms_max,
        "longest pause within the body of a request"),
    key!("body_bytes_per_sec_min", false, whole 0..=TIB, server.body_bytes_per_sec_min,
        "minimum rate of an upload in bytes per second, on average after its first minute"),
    key!("body_bytes_max", false, whole 1024..=1 << 30, server.body_bytes_max,
        "maximum bytes of a request body, except uploads"),
    key!("upload_bytes_max", false, whole 1..=TIB, server.upload_bytes_max,
        "maximum bytes of an uploaded file"),
    key!("uploads_max", false, whole 1..=10_000, server.uploads_max,
        "maximum concurrent uploads"),
    key!("requests_per_sec_max", false, whole 1..=1_000_000, server.requests_per_sec_max,
        "rate limit of one owner, in requests per second"),
    key!("requests_burst", false, whole 1..=1_000_000, server.requests_burst,
        "burst of one owner above the rate limit"),
    key!("open_batches_max", false, optional 1..=1_000_000, server.open_batches_max,
        "maximum open batches of one owner"),
    key!("file_secs", false, whole 3600..=AGE_SECS_MAX, server.file_secs,
        "lifetime of an uploaded file that names none"),
    key!("output_secs", false, whole 3600..=2_592_000, server.output_secs,
        "lifetime of the outputs of a batch that names none"),
    key!("key_ms_max", false, whole 0..=HOUR_MS, server.key_ms_max,
        "how long an API key is cached"),
    key!("kickoff_ms_max", false, whole 1..=HOUR_MS, server.kickoff_ms_max,
        "longest time slice of a kickoff"),
    key!(
        "pending_dashboard",
        false,
        switch,
        server.pending_dashboard,
        "whether the list of pending items of all jobs is served"
    ),
    key!("server_grace_ms", false, whole 0..=HOUR_MS, server.grace_ms,
        "longest wait for requests in flight when the server stops"),
    key!("messages.partitions", false, whole 1..=PARTITIONS, messages.partitions,
        "number of partitions; fixed by the first process that runs messages of a database"),
    key!("messages.own_max", false, whole 1..=PARTITIONS, messages.own_max,
        "maximum partitions of one process"),
    key!("messages.heartbeat_ms", false, whole 10..=HOUR_MS, messages.heartbeat_ms,
        "how often a process that runs messages sends a heartbeat"),
    key!("messages.stale_ms", false, whole 21..=HOUR_MS, messages.stale_ms,
        "time without a heartbeat after which it counts as dead; more than two heartbeats"),
    key!("messages.poll_ms", false, whole 50..=HOUR_MS, messages.poll_ms,
        "how often an idle process polls for messages"),
    key!("messages.streams_in_flight_max", false, whole 1..=5_000, messages.streams_in_flight_max,
        "maximum streams that are handled concurrently"),
    key!("messages.held_max", false, whole 1..=10_000, messages.messages_held_max,
        "maximum messages in memory"),
    key!("messages.held_bytes_max", false, whole 1..=TIB, messages.bytes_held_max,
        "maximum bytes of messages in memory"),
    key!("messages.commits_in_flight_max", false, whole 1..=64, messages.commits_in_flight_max,
        "maximum concurrent commits of messages"),
    key!("messages.handler_ms_max", false, whole 1..=DAY_MS, messages.handler_ms_max,
        "timeout of a handler or a publisher"),
    key!("messages.grace_ms", false, whole 0..=HOUR_MS, messages.grace_ms,
        "longest wait for running handlers on shutdown"),
    key!("messages.attempts_max", false, whole 1..=1000, messages.retry.attempts_max,
        "maximum attempts of a message or call; those without a connection do not count"),
    key!("messages.backoff_ms_min", false, whole 1..=DAY_MS, messages.retry.backoff_ms_min,
        "longest delay before the second attempt of a message; doubles with each further one"),
    key!("messages.backoff_ms_max", false, whole 1..=DAY_MS, messages.retry.backoff_ms_max,
        "longest delay between attempts, also for Retry-After"),
    key!("messages.away_backoff_ms_max", false, whole 1..=DAY_MS, messages.give_up.backoff_ms_max,
        "longest delay between attempts while a handler or receiver is unavailable, unless it asks for a longer one"),
    key!("messages.give_up_secs", false, whole 1..=AGE_SECS_MAX, messages.give_up.give_up_secs,
        "age at which a message or call is given up on while its handler or receiver is unavailable"),
    key!("messages.retention_dedupe_secs", false, secs 1..=AGE_SECS_MAX, messages.upkeep.dedupe_ms,
        "how long the id of a message is remembered to detect duplicates"),
    key!("messages.retention_answered_secs", false, secs 1..=AGE_SECS_MAX, messages.upkeep.archive_ms,
        "how long answered calls stay in lists before they are archived"),
    key!("messages.retention_tombstone_secs", false, secs 1..=AGE_SECS_MAX, messages.upkeep.tombstone_ms,
        "how long the id of an expired call is remembered"),
    key!("messages.retention_dead_secs", false, optional_secs 1..=AGE_SECS_MAX, messages.upkeep.dead_ms,
        "how long dead letters are kept"),
    key!("messages.retention_stream_secs", false, secs 1..=AGE_SECS_MAX, messages.upkeep.stream_ms,
        "how long streams without messages are kept"),
    key!("messages.retention_event_secs", false, optional_secs 1..=AGE_SECS_MAX, messages.upkeep.event_ms,
        "how long events are kept that the snapshot of their stream includes"),
    key!("messages.processing_after_ms", false, whole 1..=DAY_MS, messages.processing_after_ms,
        "how long a call runs before it is shown as processing"),
    key!("messages.upkeep_ms", false, whole 1000..=DAY_MS, messages.upkeep_ms,
        "how often expired data is removed"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_within_its_own_bounds_and_set_is_the_inverse_of_get() {
        let defaults = Bounds::default();
        for key in KEYS {
            let value = (key.get)(&defaults);
            assert_eq!(key.read(&value.to_string()), Ok(value), "{}", key.name);
            let mut bounds = Bounds::default();
            (key.set)(&mut bounds, value);
            assert_eq!((key.get)(&bounds), value, "{}", key.name);
        }
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../../docs/configuration.md");
        let names = KEYS.iter().map(|key| key.name).chain(super::super::TEXTS.iter().copied());
        for name in names {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
    }

    #[test]
    fn a_value_out_of_bounds_is_told_what_it_may_be() {
        let claim = find("claim_max").unwrap();
        assert_eq!(claim.read("1_000"), Ok(Value::WithPayload(1000)));
        let expected = Err("a whole number from 1 to 1000".to_owned());
        assert_eq!(claim.read("0"), expected);
        assert_eq!(claim.read("many"), expected);
        let factor = find("safety_factor").unwrap();
        assert_eq!(factor.read("NaN"), Err("a number from 0.01 to 1".to_owned()));
        let keep = find("retention_closed_batch_secs").unwrap();
        assert_eq!(keep.read("none"), Ok(Value::None));
    }
}
