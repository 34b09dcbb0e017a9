//! Progress on standard error: a bar on a terminal, plain lines elsewhere, JSON for machines.
//!
//! Holds throughout: standard output belongs to results and summaries; progress never goes there.

mod rate;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::clock::Stopwatch;
use crate::text;
use rate::Rate;

/// How often a line is printed where no bar can be.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How often a JSON object is printed.
const JSON_EVERY: Duration = Duration::from_secs(1);
/// Error codes that are shown.
const REASONS_SHOWN_MAX: usize = 4;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Bar,
    Lines,
    Json,
    Quiet,
}

impl Style {
    /// A bar on a terminal, lines elsewhere.
    pub(crate) fn of(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (_, true) => Style::Quiet,
            (true, false) => Style::Json,
            (false, false) if std::io::stderr().is_terminal() => Style::Bar,
            (false, false) => Style::Lines,
        }
    }
}

/// The numbers that are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) done: u64,
    pub(crate) total: u64,
    /// Requests in flight and their limit; none when other processes run the batch.
    pub(crate) in_flight: Option<(u64, u64)>,
    pub(crate) retries: u64,
    /// Lines that did not complete.
    pub(crate) failed: u64,
    /// Failed attempts of this process, by error code.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// Nothing can move, so that no rate means anything: it is paused, or nobody works on it.
    pub(crate) is_still: bool,
    /// Why the batch does not progress, if it does not.
    pub(crate) note: Option<String>,
}

/// Where progress is shown.
pub(crate) struct Screen {
    style: Style,
    /// Only while it is on the screen.
    bar: Option<ProgressBar>,
    started: Stopwatch,
    /// When it was last shown.
    shown: Option<Duration>,
    rate: Rate,
    note: Option<String>,
}

impl Screen {
    /// Nothing is shown yet.
    pub(crate) fn new(style: Style) -> Self {
        let (started, rate) = (Stopwatch::start(), Rate::default());
        Self { style, bar: None, started, shown: None, rate, note: None }
    }

    /// Shows the progress of a batch, if it is time to.
    pub(crate) fn show(&mut self, view: &View) {
        let now = self.started.elapsed();
        self.rate.add(now, view.done);
        if view.is_still {
            // What was done before the stop says nothing of what comes after it.
            self.rate.forget();
        }
        let note_is_new = view.note.is_some() && view.note != self.note;
        if !self.is_time() && !note_is_new {
            return;
        }
        self.note.clone_from(&view.note);
        match self.style {
            Style::Bar => {
                let (done, details) = (self.done(view).join(" · "), details(view).join(" · "));
                self.draw((view.done, view.total), done, details);
            }
            Style::Lines => print(&[self.done(view), details(view)].concat().join(" · ")),
            Style::Json => print(&self.object(view)),
            Style::Quiet => {}
        }
    }

    /// Shows how much of a file is loaded, if it is time to.
    pub(crate) fn take_in(&mut self, bytes: u64, total: u64) {
        if !self.is_time() {
            return;
        }
        let sentence = format!("loading: {} of {}", text::size(bytes), text::size(total));
        match self.style {
            Style::Bar => self.draw((bytes, total), text::percent(bytes, total), sentence),
            Style::Lines => print(&sentence),
            Style::Json => {
                let object = json!({ "event": "taking_in", "bytes": bytes, "bytes_total": total });
                print(&object.to_string());
            }
            Style::Quiet => {}
        }
    }

    fn draw(&mut self, (done, total): (u64, u64), beside: String, below: String) {
        let bar = self.bar.get_or_insert_with(|| {
            // Two lines: what is done stays in sight, however long the rest gets.
            let look = "{wide_bar:.green/dim} {prefix}\n{wide_msg:.dim}";
            let look = ProgressStyle::with_template(look).expect("the template is right");
            ProgressBar::new(total).with_style(look.progress_chars("━╸─"))
        });
        bar.set_length(total);
        bar.set_prefix(beside);
        bar.set_message(below);
        bar.set_position(done);
    }

    /// Whether it was last shown long enough ago. The first time comes after the first wait.
    fn is_time(&mut self) -> bool {
        let now = self.started.elapsed();
        let every = match self.style {
            Style::Bar => Duration::ZERO,
            Style::Lines => LINE_EVERY,
            Style::Json => JSON_EVERY,
            Style::Quiet => return false,
        };
        let is_time = now >= self.shown.unwrap_or_default() + every;
        if is_time {
            self.shown = Some(now);
        }
        is_time
    }

    /// Prints a line above the bar, which stays.
    pub(crate) fn print_line(&self, sentence: &str) {
        match self.style {
            Style::Quiet => {}
            Style::Bar | Style::Lines => match &self.bar {
                Some(bar) => bar.suspend(|| print(sentence)),
                None => print(sentence),
            },
            Style::Json => print(&json!({ "event": "note", "message": sentence }).to_string()),
        }
    }

    /// Removes the bar until something is shown again.
    pub(crate) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn done(&self, view: &View) -> Vec<String> {
        let mut parts = vec![format!(
            "{}/{} ({})",
            text::count(view.done),
            text::count(view.total),
            text::percent(view.done, view.total)
        )];
        let is_idle = view.in_flight.is_none_or(|(now, _)| now == 0);
        if is_idle && self.rate.is_stalled() {
            return parts;
        }
        if let Some(rate) = self.rate.per_sec() {
            parts.push(format!("{}/s", text::decimal(rate)));
        }
        if let Some(left) = self.rate.time_for(view.total.saturating_sub(view.done)) {
            parts.push(format!("{} left", text::long_time(left)));
        }
        parts
    }

    fn object(&self, view: &View) -> String {
        let is_idle = view.in_flight.is_none_or(|(now, _)| now == 0);
        let rate = Some(&self.rate).filter(|rate| !(is_idle && rate.is_stalled()));
        let left = rate.and_then(|rate| rate.time_for(view.total.saturating_sub(view.done)));
        let (in_flight, limit) = view.in_flight.unzip();
        json!({
            "event": "progress",
            "done": view.done,
            "total": view.total,
            "per_sec": rate.and_then(Rate::per_sec),
            "left_secs": left.map(|left| left.as_secs()),
            "in_flight": in_flight,
            "in_flight_max": limit,
            "retries": view.retries,
            "failed": view.failed,
            "reasons": view.reasons,
            "note": view.note,
        })
        .to_string()
    }
}

fn details(view: &View) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some((now, most)) = view.in_flight {
        parts.push(format!("{}/{} in flight", text::count(now), text::count(most)));
    }
    if view.retries > 0 {
        parts.push(text::plural(view.retries, "retry"));
    }
    if view.failed > 0 {
        parts.push(format!("{} failed", text::count(view.failed)));
    }
    parts.extend(reasons(&view.reasons));
    parts.extend(view.note.as_deref().map(text::one_line));
    parts
}

/// The most frequent error codes.
fn reasons(all: &BTreeMap<String, u64>) -> Option<String> {
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    let more = if sorted.len() > REASONS_SHOWN_MAX { ", …" } else { "" };
    let words = sorted.iter().take(REASONS_SHOWN_MAX);
    let words: Vec<_> =
        words.map(|(code, number)| format!("{code} {}", text::count(**number))).collect();
    (!words.is_empty()).then(|| format!("{}{more}", words.join(", ")))
}

/// Prints a line on standard error. A closed pipe is ignored.
fn print(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        let reasons = [("http_500", 3), ("http_429", 12)];
        View {
            done: 1200,
            total: 5000,
            in_flight: Some((8, 64)),
            retries: 15,
            failed: 1,
            reasons: reasons.map(|(code, number)| (code.to_owned(), number)).into(),
            is_still: false,
            note: None,
        }
    }

    #[test]
    fn no_rate_and_no_time_is_shown_while_nothing_moves() {
        let mut screen = Screen::new(Style::Quiet);
        let secs = Duration::from_secs;
        screen.rate.add(secs(0), 0);
        screen.rate.add(secs(2), 1200);
        screen.rate.add(secs(6), 1200);
        let busy = view();
        assert_eq!(screen.done(&busy)[1..], ["200/s", "19 s left"], "slow requests are in flight");
        let idle = View { in_flight: Some((0, 64)), ..view() };
        assert_eq!(screen.done(&idle), ["1,200/5,000 (24%)"]);
        assert!(screen.object(&idle).contains("\"left_secs\":null"));
        screen.show(&View { is_still: true, ..view() });
        assert_eq!(screen.done(&busy), ["1,200/5,000 (24%)"]);
    }

    #[test]
    fn a_line_says_what_a_person_wants_to_know() {
        let mut screen = Screen::new(Style::Quiet);
        screen.rate.add(Duration::ZERO, 0);
        screen.rate.add(Duration::from_secs(2), 1200);
        let output = "1,200/5,000 (24%) · 600/s · 6 s left · 8/64 in flight · 15 retries · \
                    1 failed · http_429 12, http_500 3";
        assert_eq!([screen.done(&view()), details(&view())].concat().join(" · "), output);
        let object: serde_json::Value = serde_json::from_str(&screen.object(&view())).unwrap();
        assert_eq!((&object["done"], &object["left_secs"]), (&json!(1200), &json!(6)));
        let names: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        let frozen = "done event failed in_flight in_flight_max left_secs note per_sec reasons retries total";
        assert_eq!(names.join(" "), frozen);
    }
}
