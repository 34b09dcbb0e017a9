//! `windrow completions`: what a shell needs to complete commands and options.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::ending::Ending;
use crate::{Cli, text};

/// Prints a completion script.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    shell: Shell,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Ending> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "windrow", &mut script);
    text::say(String::from_utf8(script)?.trim_end())?;
    Ok(Ending::Good)
}
