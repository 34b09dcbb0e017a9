//! The load of this process: its share of the CPU, and its memory. Known on Linux only; elsewhere
//! nothing is known and nothing shrinks.

/// `/proc` counts CPU time in these, whatever the kernel does inside.
const TICKS_PER_SEC: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

/// Looks at this process.
#[derive(Debug)]
pub(crate) struct ProcessLoad {
    cores: f64,
    /// When it was looked at last, and the CPU time used by then.
    last: Option<(u64, f64)>,
}

impl ProcessLoad {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        #[expect(clippy::cast_precision_loss, reason = "cores are few")]
        Self { cores: cores as f64, last: None }
    }

    /// The share of all cores that was used since the last look, and the memory in bytes.
    pub(crate) fn sample(&mut self, now_ms: u64) -> Option<(f64, u64)> {
        let used = cpu_secs(&std::fs::read_to_string("/proc/self/stat").ok()?)?;
        let memory = memory_bytes(&std::fs::read_to_string("/proc/self/statm").ok()?)?;
        let (since, before) = self.last.replace((now_ms, used))?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds between two looks are few")]
        let secs = now_ms.saturating_sub(since) as f64 / 1000.0;
        (secs > 0.0).then(|| ((used - before) / secs / self.cores, memory))
    }
}

/// User and system time: the 14th and 15th field. The name, the 2nd, may hold spaces and brackets.
fn cpu_secs(stat: &str) -> Option<f64> {
    let rest = &stat[stat.rfind(')')? + 1..];
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SEC)
}

/// Resident pages: the 2nd field.
fn memory_bytes(statm: &str) -> Option<u64> {
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_passed_over() {
        let stat = "42 (a b) c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 8 0 100 0 0";
        assert_eq!(cpu_secs(stat), Some(3.0));
        assert_eq!(memory_bytes("5000 1000 300 1 0 900 0"), Some(4_096_000));
    }
}
