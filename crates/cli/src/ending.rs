//! How a command ends: the exit codes, which scripts rely on and which therefore stay.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It happened; of a run: every line completed.
    Good,
    /// It did not happen.
    Failed,
    /// The command line asks for something that is not there.
    Usage,
    /// The file does not validate.
    Invalid,
    /// The doctor found rows that contradict each other.
    Contradiction,
    /// The batch is closed, and some of its lines did not complete.
    SomeFailed,
    /// The upstream could not be reached, or was down for too long.
    Unreachable,
    /// The file is not the one that the run began with.
    Changed,
    /// The outputs could not be written.
    Outputs,
    /// The configuration is wrong.
    Config,
    /// It was asked to stop before its end.
    Stopped,
}

impl Ending {
    /// The code that a script sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Ending::Good => 0,
            Ending::Failed => 1,
            Ending::Usage => 2,
            Ending::Invalid => 3,
            Ending::Contradiction => 4,
            Ending::SomeFailed => 5,
            Ending::Unreachable => 6,
            Ending::Changed => 7,
            Ending::Outputs => 8,
            Ending::Config => 9,
            Ending::Stopped => 10,
        }
    }

    /// The word that `--json` gives.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Ending::Good => "good",
            Ending::Failed => "failed",
            Ending::Usage => "usage",
            Ending::Invalid => "invalid_file",
            Ending::Contradiction => "contradiction",
            Ending::SomeFailed => "some_failed",
            Ending::Unreachable => "upstream_unreachable",
            Ending::Changed => "file_changed",
            Ending::Outputs => "outputs_not_written",
            Ending::Config => "configuration",
            Ending::Stopped => "stopped",
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        ExitCode::from(ending.code())
    }
}

/// What `--help` says of them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
   0  it happened; of a run: every line completed
   1  it did not happen: the message says why and what to do
   2  the command line is wrong
   3  the file does not validate (it is kept with its errors, and can be read)
   4  the doctor found a batch whose rows contradict each other
   5  the batch is closed, and some of its lines did not complete
   6  the upstream could not be reached, or was down for too long
   7  the file changed since the run began
   8  the outputs could not be written; nothing is lost
   9  the configuration is wrong
  10  stopped before the end; the same command goes on";

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Ending; 11] = [
        Ending::Good,
        Ending::Failed,
        Ending::Usage,
        Ending::Invalid,
        Ending::Contradiction,
        Ending::SomeFailed,
        Ending::Unreachable,
        Ending::Changed,
        Ending::Outputs,
        Ending::Config,
        Ending::Stopped,
    ];

    #[test]
    fn every_code_is_in_the_help() {
        for (ending, line) in ALL.into_iter().zip(EXIT_CODES.lines().skip(1)) {
            assert!(line.trim_start().starts_with(&format!("{}  ", ending.code())), "{line}");
        }
        assert_eq!(EXIT_CODES.lines().count(), ALL.len() + 1);
    }

    #[test]
    fn scripts_read_these_codes_and_words() {
        let told = ALL.map(|ending| format!("{} {}", ending.code(), ending.as_str()));
        let frozen = "0 good, 1 failed, 2 usage, 3 invalid_file, 4 contradiction, 5 some_failed, \
                      6 upstream_unreachable, 7 file_changed, 8 outputs_not_written, \
                      9 configuration, 10 stopped";
        assert_eq!(told.join(", "), frozen);
    }
}
