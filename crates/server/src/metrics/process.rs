//! What every program says of its own process, under the names that Prometheus gives them everywhere.
//!
//! Holds throughout: it is read from `/proc` at a scrape; where there is none, nothing is said.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Ticks of a second in `/proc`, on every Linux.
const TICKS_PER_SEC: f64 = 100.0;
/// Where the fields of `/proc/self/stat` begin that follow the name of the program.
const FIRST_FIELD: usize = 3;

type RealCounter = Counter<f64, AtomicU64>;
type RealGauge = Gauge<f64, AtomicU64>;

/// The metrics of this process.
#[derive(Default)]
pub(super) struct ProcessMetrics {
    cpu_seconds: RealCounter,
    start_time: RealGauge,
    resident_bytes: Gauge,
    virtual_bytes: Gauge,
    threads: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Total user and system CPU time spent in seconds";
        registry.register("process_cpu_seconds", help, self.cpu_seconds.clone());
        let help = "Start time of the process since the Unix epoch in seconds";
        registry.register("process_start_time_seconds", help, self.start_time.clone());
        let mut whole = |name: &str, help: &str, gauge: &Gauge| {
            registry.register(name, help, gauge.clone());
        };
        whole(
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            &self.resident_bytes,
        );
        whole("process_virtual_memory_bytes", "Virtual memory size in bytes", &self.virtual_bytes);
        whole("process_threads", "Number of threads of the process", &self.threads);
        whole("process_open_fds", "Number of open file descriptors", &self.open_fds);
        whole("process_max_fds", "Maximum number of open file descriptors", &self.max_fds);
    }

    /// Reads them anew.
    pub(super) fn read(&self) {
        let text = |name: &str| fs::read_to_string(name).unwrap_or_default();
        let (stat, status) = (text("/proc/self/stat"), text("/proc/self/status"));
        if let (Some(user), Some(system)) = (field(&stat, 14), field(&stat, 15)) {
            let secs = (user + system) / TICKS_PER_SEC;
            self.cpu_seconds.inner().store(secs.to_bits(), Ordering::Relaxed);
        }
        if let (Some(start), Some(boot)) = (field(&stat, 22), boot_secs(&text("/proc/stat"))) {
            self.start_time.set(boot + start / TICKS_PER_SEC);
        }
        let kib = |key: &str| number_after(&status, key).map(|kib| kib.saturating_mul(1024));
        let set = |gauge: &Gauge, value: Option<i64>| {
            value.map(|value| gauge.set(value));
        };
        set(&self.resident_bytes, kib("VmRSS:"));
        set(&self.virtual_bytes, kib("VmSize:"));
        set(&self.threads, number_after(&status, "Threads:"));
        let open = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        set(&self.open_fds, open.and_then(|open| i64::try_from(open).ok()));
        set(&self.max_fds, number_after(&text("/proc/self/limits"), "Max open files"));
    }
}

/// A field of `/proc/self/stat` by its number in the manual. The name before may hold blanks.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number - FIRST_FIELD)?.parse().ok()
}

/// When the machine was started, in seconds since the epoch.
fn boot_secs(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The first number of the line that begins with a word.
fn number_after(text: &str, key: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_behind_a_name_with_blanks() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 4200 1 2";
        assert_eq!((field(stat, 14), field(stat, 15)), (Some(150.0), Some(50.0)));
        assert_eq!(field(stat, 22), Some(4200.0));
        assert_eq!(number_after("Name: x\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
        assert_eq!(boot_secs("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
