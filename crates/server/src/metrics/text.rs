//! The two formats of metrics: OpenMetrics for who asks for it, and the older text format for others.

use axum::http::{HeaderMap, header};

/// The type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// Whether the caller asks for OpenMetrics.
pub(super) fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains(OPEN_METRICS))
}

/// The whole type of an answer.
pub(super) fn content_type(is_open_metrics: bool) -> &'static str {
    if is_open_metrics {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain; version=0.0.4; charset=utf-8"
    }
}

/// OpenMetrics as the older text format: there, a counter is named as its samples are, and units and the
/// end are not said.
pub(super) fn plain(open_metrics: &str) -> String {
    let lines: Vec<&str> = open_metrics.lines().collect();
    let counters: Vec<&str> = lines.iter().filter_map(|line| counter(line)).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in lines {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => continue,
            (Some("#"), Some(word @ ("TYPE" | "HELP")), Some(name), Some(rest))
                if counters.contains(&name) =>
            {
                text.push_str(&format!("# {word} {name}_total {rest}"));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The name of a counter, of the line that says its type.
fn counter(line: &str) -> Option<&str> {
    line.strip_prefix("# TYPE ")?.strip_suffix(" counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_as_their_samples_are() {
        let open = "# HELP a_retries Retries.\n# TYPE a_retries counter\na_retries_total 3\n\
                    # HELP a_seconds Time.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                    a_seconds_sum 1.0\n# EOF\n";
        let wanted = "# HELP a_retries_total Retries.\n# TYPE a_retries_total counter\n\
                      a_retries_total 3\n# HELP a_seconds Time.\n# TYPE a_seconds histogram\n\
                      a_seconds_sum 1.0\n";
        assert_eq!(plain(open), wanted);
    }
}
