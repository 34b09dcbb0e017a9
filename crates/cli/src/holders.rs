//! What a batch waits for when nothing moves: lines that another process holds, and until when.
//!
//! Holds throughout: it is for people and decides nothing; a time that is shown is one by which the lines
//! are back, not the earliest one.

use std::time::Duration;

use windrow::domain::millis;
use windrow::engine::Options;
use windrow::store::inspect::Holder;

use crate::text;

/// Steps in which a time is shown, so that a line of progress is not printed every second.
const STEP_SECS: u64 = 5;

/// Who holds lines of a batch, as a sentence; none when no process does.
pub(crate) fn sentence(holders: &[Holder], options: &Options) -> Option<String> {
    silent_sentence(holders, options).or_else(|| {
        let lines = lines_of(holders.iter())?;
        Some(format!("{lines} held by {}", processes(&holders.iter().collect::<Vec<_>>())))
    })
}

/// What processes hold that do not answer, and until when; none when all do. A process that ought to have
/// sent a heartbeat and has not does not answer.
pub(crate) fn silent_sentence(holders: &[Holder], options: &Options) -> Option<String> {
    // A quarter more, since a heartbeat takes its time.
    let answers_ms = millis(options.heartbeat_every).saturating_mul(5) / 4;
    let is_silent = |holder: &&Holder| holder.silent_ms.is_none_or(|silent| silent > answers_ms);
    let silent: Vec<&Holder> = holders.iter().filter(is_silent).collect();
    let lines = lines_of(silent.iter().copied())?;
    let lost_ms = silent.iter().map(|holder| holder.lost_in_ms).max()?;
    // The sweep that returns them comes with a pause.
    let back = Duration::from_millis(lost_ms).saturating_add(options.sweep_every_max);
    let back = text::long_time(Duration::from_secs(back.as_secs().next_multiple_of(STEP_SECS)));
    let who = processes(&silent);
    let answers = if silent.len() == 1 { "does not answer" } else { "do not answer" };
    Some(format!("{lines} held by {who} that {answers}; they come back within {back}"))
}

fn lines_of<'a>(holders: impl Iterator<Item = &'a Holder>) -> Option<String> {
    let lines: u64 = holders.map(|holder| holder.lines).sum();
    match lines {
        0 => None,
        1 => Some("1 line is".to_owned()),
        lines => Some(format!("{} lines are", text::count(lines))),
    }
}

fn processes(holders: &[&Holder]) -> String {
    match holders {
        [Holder { process: Some((host, pid)), .. }] => format!("a process (pid {pid} on {host})"),
        [_] => "a process".to_owned(),
        several => format!("{} processes", text::count(several.len() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use windrow::domain::InstanceId;

    use super::*;

    fn holder(lines: u64, lost_in_ms: u64, silent_ms: Option<u64>) -> Holder {
        let process = silent_ms.map(|_| ("box".to_owned(), 7));
        Holder { instance: InstanceId::new(), process, lines, lost_in_ms, silent_ms }
    }

    #[test]
    fn it_says_what_is_waited_for_and_until_when() {
        let (options, living) = (Options::default(), holder(2, 29_000, Some(9_000)));
        let said = |holders: &[Holder]| sentence(holders, &options).unwrap_or_default();
        assert_eq!(said(&[]), "");
        assert_eq!(
            said(std::slice::from_ref(&living)),
            "2 lines are held by a process (pid 7 on box)"
        );
        assert_eq!(
            said(&[living, holder(78, 7_000, Some(20_000))]),
            "78 lines are held by a process (pid 7 on box) that does not answer; they come back within 25 s"
        );
        assert_eq!(
            said(&[holder(1, 0, None), holder(3, 5_000, Some(60_000))]),
            "4 lines are held by 2 processes that do not answer; they come back within 20 s"
        );
    }
}
