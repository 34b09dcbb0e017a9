//! Figures: ratios with their bars, as a table and as JSON.

use std::time::Duration;

use serde::Serialize;

/// What a ratio must be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bar {
    /// Costs: not more than this.
    AtMost(f64),
    /// Speeds: not less than this.
    AtLeast(f64),
}

/// The unit of most speeds.
pub(crate) const LINES: &str = "lines/s";

/// One ratio of two things measured in the same run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) store: &'static str,
    /// The measured thing, for people.
    pub(crate) this: String,
    /// What it is compared with, for people.
    pub(crate) that: String,
    pub(crate) ratio: f64,
    pub(crate) bar: Bar,
    pub(crate) samples: usize,
    /// More about it, for people.
    pub(crate) detail: Option<String>,
}

impl Figure {
    /// A cost against another, from interleaved samples: the ratio of their medians.
    pub(crate) fn cost(
        name: &'static str,
        store: &'static str,
        these: &mut [Duration],
        those: &mut [Duration],
        at_most: f64,
    ) -> Self {
        let (this, that) = (median(these), median(those));
        Self {
            name,
            store,
            this: format!("{:.3} ms", this.as_secs_f64() * 1e3),
            that: format!("{:.3} ms", that.as_secs_f64() * 1e3),
            ratio: this.as_secs_f64() / that.as_secs_f64(),
            bar: Bar::AtMost(at_most),
            samples: these.len(),
            detail: None,
        }
    }

    /// A speed in that unit against another, from interleaved rounds: the ratio of their medians.
    pub(crate) fn speed(
        name: &'static str,
        store: &'static str,
        unit: &str,
        these: &mut [f64],
        those: &mut [f64],
        at_least: f64,
    ) -> Self {
        these.sort_by(f64::total_cmp);
        those.sort_by(f64::total_cmp);
        let (this, that) = (these[these.len() / 2], those[those.len() / 2]);
        Self {
            name,
            store,
            this: format!("{this:.0} {unit}"),
            that: format!("{that:.0} {unit}"),
            ratio: this / that,
            bar: Bar::AtLeast(at_least),
            samples: these.len(),
            detail: None,
        }
    }

    /// The 99th of a hundred times, in ms, against the longest it may be; with the others beside it.
    pub(crate) fn times(
        name: &'static str,
        store: &'static str,
        times: &mut [f64],
        ms_max: f64,
        (lines, of): (u64, &str),
    ) -> Self {
        times.sort_by(f64::total_cmp);
        let [p50, p90, p99, most] = [0.5, 0.9, 0.99, 1.0].map(|share| quantile(times, share));
        let samples = times.len();
        Self {
            name,
            store,
            this: format!("{p99:.1} ms"),
            that: format!("{lines} lines"),
            ratio: p99 / ms_max,
            bar: Bar::AtMost(1.0),
            samples,
            detail: Some(format!(
                "p50 {p50:.1}, p90 {p90:.1}, p99 {p99:.1}, most {most:.1} ms over {samples} {of}"
            )),
        }
    }

    pub(crate) fn holds(&self) -> bool {
        match self.bar {
            Bar::AtMost(bar) => self.ratio <= bar,
            Bar::AtLeast(bar) => self.ratio >= bar,
        }
    }
}

fn median(samples: &mut [Duration]) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// The sample that a share of all (sorted) is not above.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of a bench")]
    let rank = (sorted.len() as f64 * share).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the list")]
    sorted[(rank as usize).clamp(1, sorted.len()) - 1]
}

/// One line of the table.
pub(crate) fn print(figure: &Figure) {
    let bar = match figure.bar {
        Bar::AtMost(bar) => format!("<= {bar:.2}"),
        Bar::AtLeast(bar) => format!(">= {bar:.2}"),
    };
    println!(
        "{:<34} {:<9} {:>16} {:>16} {:>7.2} {:>8} {:>6}  {}",
        figure.name,
        figure.store,
        figure.this,
        figure.that,
        figure.ratio,
        bar,
        figure.samples,
        if figure.holds() { "holds" } else { "MISSED" }
    );
    if let Some(detail) = &figure.detail {
        println!("  {detail}");
    }
}

/// The head of the table.
pub(crate) fn print_head() {
    println!(
        "{:<34} {:<9} {:>16} {:>16} {:>7} {:>8} {:>6}",
        "figure", "store", "this", "against", "ratio", "bar", "n"
    );
}
