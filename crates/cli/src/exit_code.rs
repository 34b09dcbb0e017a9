//! The exit codes of the command line.
//!
//! Holds throughout: scripts rely on these numbers and on the words of `--json`, so neither changes.

use std::process::ExitCode;

/// How a command ended, as the shell sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded; for a run, every line completed.
    Success,
    /// The command failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// The file does not validate.
    Invalid,
    /// `windrow doctor` found an inconsistency.
    Contradiction,
    /// The batch is closed, and some of its lines did not complete.
    SomeFailed,
    /// The upstream could not be reached, or was unavailable for too long.
    Unreachable,
    /// The input file has changed since the run began.
    Changed,
    /// The outputs could not be written.
    Outputs,
    /// The configuration is wrong.
    Config,
    /// The command was stopped before its end, `windrow call` had no reply in time, or `windrow
    /// delete` was not confirmed.
    Stopped,
}

impl Exit {
    /// The number that the process exits with.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Invalid => 3,
            Exit::Contradiction => 4,
            Exit::SomeFailed => 5,
            Exit::Unreachable => 6,
            Exit::Changed => 7,
            Exit::Outputs => 8,
            Exit::Config => 9,
            Exit::Stopped => 10,
        }
    }

    /// The word that `--json` prints.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Exit::Success => "good",
            Exit::Failed => "failed",
            Exit::Usage => "usage",
            Exit::Invalid => "invalid_file",
            Exit::Contradiction => "contradiction",
            Exit::SomeFailed => "some_failed",
            Exit::Unreachable => "upstream_unreachable",
            Exit::Changed => "file_changed",
            Exit::Outputs => "outputs_not_written",
            Exit::Config => "configuration",
            Exit::Stopped => "stopped",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit_code: Exit) -> Self {
        ExitCode::from(exit_code.code())
    }
}

/// The list that `--help` prints.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
   0  success; for a run: every line completed
   1  failure: the message says why and what to do
   2  the command line is wrong
   3  the input file is not valid; nothing was sent
   4  `windrow doctor` found an inconsistency
   5  the batch is closed, and some of its lines did not complete
   6  the upstream could not be reached, or was unavailable for too long
   7  the input file changed since the run began
   8  the outputs could not be written; nothing is lost
   9  the configuration is wrong
  10  stopped before the end (the same command resumes), no reply in time, or not confirmed";

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Exit; 11] = [
        Exit::Success,
        Exit::Failed,
        Exit::Usage,
        Exit::Invalid,
        Exit::Contradiction,
        Exit::SomeFailed,
        Exit::Unreachable,
        Exit::Changed,
        Exit::Outputs,
        Exit::Config,
        Exit::Stopped,
    ];

    #[test]
    fn every_code_is_in_the_help() {
        for (exit, line) in ALL.into_iter().zip(EXIT_CODES.lines().skip(1)) {
            assert!(line.trim_start().starts_with(&format!("{}  ", exit.code())), "{line}");
        }
        assert_eq!(EXIT_CODES.lines().count(), ALL.len() + 1);
    }

    #[test]
    fn scripts_read_these_codes_and_words() {
        let told = ALL.map(|exit| format!("{} {}", exit.code(), exit.as_str()));
        let frozen = "0 good, 1 failed, 2 usage, 3 invalid_file, 4 contradiction, 5 some_failed, \
                      6 upstream_unreachable, 7 file_changed, 8 outputs_not_written, \
                      9 configuration, 10 stopped";
        assert_eq!(told.join(", "), frozen);
    }
}
