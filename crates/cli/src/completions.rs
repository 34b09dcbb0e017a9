//! `windrow completions`: prints a script for the completion of commands and options.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::exit_code::Exit;
use crate::{Cli, text};

/// Print a completion script.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell to print the script for
    shell: Shell,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windrow", &mut script);
    text::print_line(String::from_utf8(script)?.trim_end())?;
    Ok(Exit::Success)
}
