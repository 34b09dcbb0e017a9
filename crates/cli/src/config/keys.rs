//! The numeric configuration keys: what each one limits, which field it sets, and its range.
//!
//! Holds throughout: the default of a key is the engine's own, so that this table cannot drift from it;
//! the names of seed 001 are kept, and count in the environment without a prefix too.

use std::time::Duration;

use windrow::domain::lease::TRANCHE_LINES_MAX;
use windrow::domain::millis;
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
    /// How long the input files of `windrow run` and `ingest` are kept; none for ever.
    pub(crate) input_file_secs: Option<u64>,
}

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Decimal(f64),
    Switch(bool),
    /// No limit.
    None,
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Whole(value) => value.fmt(f),
            Value::Decimal(value) => value.fmt(f),
            Value::Switch(value) => value.fmt(f),
            Value::None => f.write_str("none"),
        }
    }
}

/// The type and range of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Whole(u64, u64),
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
    /// The field that it sets, as written here.
    path: &'static str,
    pub(crate) get: fn(&Bounds) -> Value,
    pub(crate) set: fn(&mut Bounds, Value),
}

impl Key {
    /// Whose options it sets: `engine`, `ingest`, `server` or `messages`.
    pub(crate) fn part(&self) -> &'static str {
        self.path.split('.').next().unwrap_or_default().trim()
    }

    /// Parses a value; the error says what is allowed.
    pub(crate) fn read(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let plain = text.replace('_', "");
        match self.kind {
            Kind::Optional(..) if text == "none" => Ok(Value::None),
            Kind::Whole(min, max) | Kind::Optional(min, max) => {
                let value = plain.parse().ok().filter(|value| (min..=max).contains(value));
                let none = if matches!(self.kind, Kind::Optional(..)) { ", or none" } else { "" };
                let expected = || format!("a whole number from {min} to {max}{none}");
                value.map(Value::Whole).ok_or_else(expected)
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

/// What a whole number of a key counts.
#[derive(Clone, Copy)]
enum Unit {
    /// Things; of times, milliseconds.
    Plain,
    /// Seconds of a time that is kept in milliseconds or as a duration.
    Secs,
}

/// A field that a key sets.
trait Setting {
    fn get(&self, unit: Unit) -> Value;
    fn set(&mut self, unit: Unit, value: Value);
}

macro_rules! whole {
    ($($type:ty),*) => { $(
        impl Setting for $type {
            fn get(&self, unit: Unit) -> Value {
                let value = (*self).try_into().unwrap_or(u64::MAX);
                Value::Whole(match unit {
                    Unit::Plain => value,
                    Unit::Secs => value / 1000,
                })
            }
            fn set(&mut self, unit: Unit, value: Value) {
                if let Value::Whole(value) = value {
                    let value = match unit {
                        Unit::Plain => value,
                        Unit::Secs => value * 1000,
                    };
                    *self = Self::try_from(value).unwrap_or(Self::MAX);
                }
            }
        }
    )* };
}

whole!(u16, u32, u64, usize);

impl Setting for Duration {
    fn get(&self, unit: Unit) -> Value {
        millis(*self).get(unit)
    }
    fn set(&mut self, unit: Unit, value: Value) {
        let mut ms = millis(*self);
        ms.set(unit, value);
        *self = Duration::from_millis(ms);
    }
}

impl Setting for f64 {
    fn get(&self, _: Unit) -> Value {
        Value::Decimal(*self)
    }
    fn set(&mut self, _: Unit, value: Value) {
        if let Value::Decimal(value) = value {
            *self = value;
        }
    }
}

impl Setting for bool {
    fn get(&self, _: Unit) -> Value {
        Value::Switch(*self)
    }
    fn set(&mut self, _: Unit, value: Value) {
        if let Value::Switch(value) = value {
            *self = value;
        }
    }
}

impl<T: Setting + Default> Setting for Option<T> {
    fn get(&self, unit: Unit) -> Value {
        self.as_ref().map_or(Value::None, |value| value.get(unit))
    }
    fn set(&mut self, unit: Unit, value: Value) {
        *self = (value != Value::None).then(|| {
            let mut inner = T::default();
            inner.set(unit, value);
            inner
        });
    }
}

macro_rules! key {
    ($name:literal, $bare:literal, Switch, $($path:ident).+, $about:literal) => {
        key!(@ $name, $bare, Kind::Switch, Unit::Plain, $($path).+, $about)
    };
    ($name:literal, $bare:literal, $kind:ident $min:literal..=$max:expr, secs $($path:ident).+, $about:literal) => {
        key!(@ $name, $bare, Kind::$kind($min, $max), Unit::Secs, $($path).+, $about)
    };
    ($name:literal, $bare:literal, $kind:ident $min:literal..=$max:expr, $($path:ident).+, $about:literal) => {
        key!(@ $name, $bare, Kind::$kind($min, $max), Unit::Plain, $($path).+, $about)
    };
    (@ $name:literal, $bare:literal, $kind:expr, $unit:expr, $($path:ident).+, $about:literal) => {
        Key {
            name: $name,
            about: $about,
            bare: $bare,
            kind: $kind,
            path: stringify!($($path).+),
            get: |bounds| bounds.$($path).+.get($unit),
            set: |bounds, value| bounds.$($path).+.set($unit, value),
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
    key!("ingest_min_rows", true, Whole 1..=65_536, ingest.rows_min,
        "minimum rows per transaction while a file is loaded, and how many it starts with"),
    key!("ingest_max_rows", true, Whole 1..=65_536, ingest.chunk_lines_max,
        "maximum rows per transaction while a file is loaded"),
    key!("ingest_max_batch_bytes", true, Whole 1..=8 << 20, ingest.chunk_bytes_max,
        "maximum bytes per transaction while a file is loaded"),
    key!("db_p50_ms", true, Whole 1..=HOUR_MS, ingest.db_p50,
        "transactions grow until they take this long while a file is loaded"),
    key!("db_p95_ms", true, Whole 1..=HOUR_MS, ingest.db_p95,
        "transactions that take longer shrink while a file is loaded"),
    key!("worker_target_slice_ms", true, Whole 1..=HOUR_MS, engine.slice.slice_ms,
        "how long the lines of one claim should take"),
    key!("claim_min", true, Whole 1..=CLAIM_MAX, engine.slice.claim_min,
        "minimum lines per claim"),
    key!("claim_max", true, Whole 1..=CLAIM_MAX, engine.slice.claim_max,
        "maximum lines per claim"),
    key!("claim_bytes_max", false, Whole 1..=TIB, engine.slice.bytes_max,
        "maximum bytes of the lines of one claim"),
    key!("safety_factor", true, Decimal 0.01..=1.0, engine.slice.safety_factor,
        "share of the slice that is planned for"),
    key!("lock_floor_ms", true, Whole 100..=HOUR_MS, engine.slice.lock_floor_ms,
        "shortest lease"),
    key!("lock_cap_ms", true, Whole 100..=HOUR_MS, engine.slice.lock_cap_ms,
        "longest lease"),
    key!("max_attempts_error", true, Whole 1..=1000, engine.retry.attempts_max,
        "maximum attempts per line"),
    key!("max_attempts_not_found", true, Optional 1..=1000, engine.retry.attempts_not_found_max,
        "maximum attempts per line that the upstream answers with not found, and strategies per row; none for 2 \
         and for all strategies"),
    key!("backoff_ms_min", false, Whole 1..=DAY_MS, engine.retry.backoff_ms_min,
        "longest delay before the second attempt; doubles with each further one"),
    key!("backoff_timeout_ms_min", false, Whole 1..=DAY_MS, engine.retry.backoff_timeout_ms_min,
        "the same after a timeout or a failed connection"),
    key!("backoff_unacceptable_ms_min", false, Whole 1..=DAY_MS, engine.retry.backoff_unacceptable_ms_min,
        "the same after an answer that is not acceptable"),
    key!("backoff_not_found_ms_min", false, Whole 1..=DAY_MS, engine.retry.backoff_not_found_ms_min,
        "delay before the second attempt of a line that the upstream answers with not found"),
    key!("backoff_ms_max", false, Whole 1..=DAY_MS, engine.retry.backoff_ms_max,
        "longest delay between attempts, also for Retry-After"),
    key!("backoff_throttled_ms_max", false, Whole 1..=DAY_MS, engine.retry.backoff_throttled_ms_max,
        "longest delay of a line whose upstream answered 429, beyond Retry-After"),
    key!("throttled_secs_max", false, Whole 1..=AGE_SECS_MAX, secs engine.throttled_max,
        "how long an upstream may answer nothing but 429 before its batches are paused with that reason"),
    key!("in_flight_max", false, Whole 1..=100_000, engine.in_flight_max,
        "maximum concurrent requests of one process"),
    key!("record_lines_max", false, Whole 1..=10_000, engine.record_lines_max,
        "maximum results written at once"),
    key!("record_bytes_max", false, Whole 1..=TIB, engine.record_bytes_max,
        "bytes of results waiting to be written above which no request is started"),
    key!("record_ms_max", false, Whole 0..=60_000, engine.record_wait_max,
        "longest time that a result waits to be written with others"),
    key!("cpu_max", false, Decimal 0.01..=1.0, engine.pressure.cpu_max,
        "share of all cores above which less is claimed"),
    key!("memory_bytes_max", false, Whole 0..=TIB, engine.pressure.memory_bytes_max,
        "memory of the process above which less is claimed; 0 for no limit"),
    key!("poll_ms", false, Whole 10..=HOUR_MS, engine.poll_every,
        "how often an idle worker polls for work"),
    key!("heartbeat_ms", false, Whole 10..=HOUR_MS, engine.heartbeat_every,
        "how often an instance sends a heartbeat"),
    key!("member_stale_ms", false, Whole 100..=DAY_MS, engine.member_stale_after,
        "time without a heartbeat after which an instance counts as dead"),
    key!("grace_ms", false, Whole 0..=HOUR_MS, engine.grace,
        "longest wait for requests in flight on shutdown"),
    key!("sweep_ms_min", false, Whole 10..=DAY_MS, engine.sweep_every_min,
        "minimum interval between sweeps"),
    key!("sweep_ms_max", false, Whole 10..=DAY_MS, engine.sweep_every_max,
        "maximum interval between sweeps"),
    key!("sweep_rows_max", false, Whole 1..=1_000_000, engine.sweep_rows_max,
        "maximum rows per step of the sweep"),
    key!("crashes_max", false, Whole 1..=1000, engine.crashes_max,
        "lost leases after which a line that is alone in its lease fails"),
    key!(
        "finalise_inline",
        false,
        Switch,
        engine.finalise_inline,
        "whether the worker that finishes a batch closes it; otherwise the sweep does"
    ),
    key!("finalise_attempts_max", false, Whole 1..=1000, engine.finalise_attempts_max,
        "maximum attempts to finalise a batch that another process holds"),
    key!("finalise_wait_ms", false, Whole 0..=60_000, engine.finalise_wait,
        "delay between those attempts"),
    key!("finalise_lease_ms", false, Whole 100..=HOUR_MS, engine.finalise_lease,
        "how long a finalisation is held before it is renewed or lost"),
    key!("output_bytes_max", false, Whole 1..=TIB, engine.output_bytes_max,
        "maximum bytes of results in memory while outputs are written"),
    key!("retention_closed_batch_secs", false, Optional 0..=AGE_SECS_MAX, engine.retention.closed_batch_secs,
        "how long closed batches are kept"),
    key!("retention_input_file_secs", false, Optional 1..=AGE_SECS_MAX, input_file_secs,
        "how long the input files of `run` and `ingest` are kept; never removed while a batch over them is open"),
    key!("retention_open_file_secs", false, Whole 1..=AGE_SECS_MAX, engine.retention.open_file_secs,
        "how long incomplete uploads are kept"),
    key!("retention_member_secs", false, Whole 1..=AGE_SECS_MAX, engine.retention.member_secs,
        "how long instances that left stay in lists"),
    key!("connections_max", false, Whole 1..=1_000_000, server.connections_max,
        "maximum connections to the server; further ones wait to be accepted"),
    key!("head_ms_max", false, Whole 100..=HOUR_MS, server.head_timeout,
        "longest wait for the headers of a request, and for TLS"),
    key!("body_idle_ms_max", false, Whole 100..=HOUR_MS, server.body_idle_timeout,
        "longest pause within the body of a request"),
    key!("body_bytes_per_sec_min", false, Whole 0..=TIB, server.body_bytes_per_sec_min,
        "minimum rate of an upload in bytes per second, on average after its first minute"),
    key!("body_bytes_max", false, Whole 1024..=1 << 30, server.body_bytes_max,
        "maximum bytes of a request body, except uploads"),
    key!("upload_bytes_max", false, Whole 1..=TIB, server.upload_bytes_max,
        "maximum bytes of an uploaded file"),
    key!("uploads_max", false, Whole 1..=10_000, server.uploads_max,
        "maximum concurrent uploads; further ones are answered with 429"),
    key!("requests_per_sec_max", false, Whole 1..=1_000_000, server.requests_per_sec_max,
        "rate limit of one owner of the API in requests per second, per process"),
    key!("requests_burst", false, Whole 1..=1_000_000, server.requests_burst,
        "maximum requests of one owner at once, above the rate limit"),
    key!("open_batches_max", false, Optional 1..=1_000_000, server.open_batches_max,
        "maximum batches of one owner that are not closed"),
    key!("file_secs", false, Whole 3600..=AGE_SECS_MAX, secs server.file_retention,
        "lifetime of an uploaded file that names none; the default is 30 days"),
    key!("output_secs", false, Whole 3600..=2_592_000, secs server.output_retention,
        "lifetime of the outputs of a batch that names none; the default is 30 days"),
    key!("key_ms_max", false, Whole 0..=HOUR_MS, server.key_cache_max,
        "how long an API key is cached; a revoked one works no longer than that"),
    key!("kickoff_ms_max", false, Whole 1..=HOUR_MS, server.kickoff_max,
        "longest time slice of a kickoff"),
    key!(
        "pending_dashboard",
        false,
        Switch,
        server.pending_dashboard,
        "whether the list of pending items of all jobs is served"
    ),
    key!("server_grace_ms", false, Whole 0..=HOUR_MS, server.grace,
        "longest wait for requests in flight when the server stops"),
    key!("messages.partitions", false, Whole 1..=PARTITIONS, messages.partitions,
        "number of partitions; fixed by the first process that runs messages of a database"),
    key!("messages.own_max", false, Whole 1..=PARTITIONS, messages.own_max,
        "maximum partitions of one process"),
    key!("messages.heartbeat_ms", false, Whole 10..=HOUR_MS, messages.heartbeat_every,
        "how often a process that runs messages sends a heartbeat"),
    key!("messages.stale_ms", false, Whole 21..=HOUR_MS, messages.stale_after,
        "time without a heartbeat after which it counts as dead; more than two heartbeats"),
    key!("messages.poll_ms", false, Whole 50..=HOUR_MS, messages.poll_every,
        "how often an idle process polls for messages that it was not notified of"),
    key!("messages.streams_in_flight_max", false, Whole 1..=5_000, messages.streams_in_flight_max,
        "maximum streams that are handled concurrently"),
    key!("messages.held_max", false, Whole 1..=10_000, messages.messages_held_max,
        "maximum messages in memory"),
    key!("messages.held_bytes_max", false, Whole 1..=TIB, messages.bytes_held_max,
        "maximum bytes of messages in memory"),
    key!("messages.commits_in_flight_max", false, Whole 1..=64, messages.commits_in_flight_max,
        "maximum concurrent commits of messages"),
    key!("messages.handler_ms_max", false, Whole 1..=DAY_MS, messages.handler_timeout,
        "timeout of a handler or a publisher"),
    key!("messages.grace_ms", false, Whole 0..=HOUR_MS, messages.grace,
        "longest wait for running handlers on shutdown"),
    key!("messages.attempts_max", false, Whole 1..=1000, messages.retry.attempts_max,
        "maximum attempts of a message or call; those that found its handler or receiver unavailable do not count"),
    key!("messages.backoff_ms_min", false, Whole 1..=DAY_MS, messages.retry.backoff_ms_min,
        "longest delay before the second attempt of a message; doubles with each further one"),
    key!("messages.backoff_ms_max", false, Whole 1..=DAY_MS, messages.retry.backoff_ms_max,
        "longest delay between attempts, also for Retry-After"),
    key!("messages.away_backoff_ms_max", false, Whole 1..=DAY_MS, messages.give_up.backoff_ms_max,
        "longest delay between attempts while a handler or receiver is unavailable, unless it asks for a longer one"),
    key!("messages.give_up_secs", false, Whole 1..=AGE_SECS_MAX, messages.give_up.give_up_secs,
        "age at which a message or call is given up on because its handler or receiver is unavailable; its own attempts must have found that for a twenty-fourth of this time, too; a call without an answer never expires"),
    key!("messages.retention_dedupe_secs", false, Whole 1..=AGE_SECS_MAX, secs messages.retention.dedupe_ms,
        "how long the id of a message is remembered to detect duplicates"),
    key!("messages.retention_answered_secs", false, Whole 1..=AGE_SECS_MAX, secs messages.retention.archive_ms,
        "how long answered calls stay in lists before they are archived"),
    key!("messages.retention_archive_secs", false, Optional 1..=AGE_SECS_MAX, secs messages.retention.archived_ms,
        "how long the archive keeps answers, from the answer on; then only the id of the call is remembered; for ever by default"),
    key!("messages.retention_tombstone_secs", false, Whole 1..=AGE_SECS_MAX, secs messages.retention.tombstone_ms,
        "how long expired calls still refuse to run again"),
    key!("messages.retention_dead_secs", false, Optional 1..=AGE_SECS_MAX, secs messages.retention.dead_ms,
        "how long dead letters are kept"),
    key!("messages.retention_stream_secs", false, Whole 1..=AGE_SECS_MAX, secs messages.retention.stream_ms,
        "how long streams without messages are kept"),
    key!("messages.retention_event_secs", false, Optional 1..=AGE_SECS_MAX, secs messages.retention.event_ms,
        "how long events are kept that the snapshot of their stream includes"),
    key!("messages.processing_after_ms", false, Whole 1..=DAY_MS, messages.processing_after,
        "how long a call runs before it is shown as processing, with the instance that runs it"),
    key!("messages.upkeep_ms", false, Whole 1000..=DAY_MS, messages.maintenance_every,
        "how often data past its retention is removed"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    /// The key's row in the tables of `docs/configuration.md`.
    fn row(key: &Key) -> String {
        let default = match (key.get)(&Bounds::default()) {
            Value::Whole(value) => text::count(value),
            other => other.to_string(),
        };
        let number = |value| match value {
            AGE_SECS_MAX => "100 years".to_owned(),
            TIB => "2^40".to_owned(),
            value => text::count(value),
        };
        let range = match key.kind {
            Kind::Whole(min, max) => format!("{} to {}", number(min), number(max)),
            Kind::Optional(min, max) => format!("{} to {}, or none", number(min), number(max)),
            Kind::Decimal(min, max) => format!("{min} to {max}"),
            Kind::Switch => "true, false".to_owned(),
        };
        format!("| `{}` | {default} | {range} | {} |", key.name, key.about)
    }

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

    /// The rows follow from the keys; `WINDROW_UPDATE_SNAPSHOTS=1` writes them anew.
    #[test]
    fn every_key_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(path).unwrap();
        let row_of = |name: &str| format!("| `{name}` |");
        let names = KEYS.iter().map(|key| key.name).chain(super::super::TEXTS.iter().copied());
        for name in names {
            assert!(page.contains(&row_of(name)), "docs/configuration.md has no row for {name}");
        }
        let key_of = |line: &str| KEYS.iter().find(|key| line.starts_with(&row_of(key.name)));
        let mut is_bounds = false;
        let written = page.lines().map(|line| {
            // Keys of upstreams have names of these, too.
            is_bounds = if line.starts_with("## ") { line == "## Bounds" } else { is_bounds };
            match key_of(line).filter(|_| is_bounds) {
                Some(key) => row(key) + "\n",
                None => line.to_owned() + "\n",
            }
        });
        let written: String = written.collect();
        if std::env::var_os("WINDROW_UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(path, &written).unwrap();
            return;
        }
        for (now, wanted) in page.lines().zip(written.lines()) {
            assert_eq!(now, wanted, "WINDROW_UPDATE_SNAPSHOTS=1 writes the rows anew");
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
        assert_eq!(claim.read("1_000"), Ok(Value::Whole(1000)));
        let expected = Err("a whole number from 1 to 1000".to_owned());
        assert_eq!(claim.read("0"), expected);
        assert_eq!(claim.read("many"), expected);
        let factor = find("safety_factor").unwrap();
        assert_eq!(factor.read("NaN"), Err("a number from 0.01 to 1".to_owned()));
        let keep = find("retention_closed_batch_secs").unwrap();
        assert_eq!(keep.read("none"), Ok(Value::None));
    }
}
