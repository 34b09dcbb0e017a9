//! Running other programs, announced first.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use windrow_testkit::process::Keeper;

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    let own = env::var("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").to_owned());
    let own = Path::new(&own);
    own.parent().unwrap_or(own).to_path_buf()
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The cargo that runs us, at the top of the repository.
pub(crate) fn cargo<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(args: I) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root()).args(args);
    command
}

/// One calm line for the person who watches.
pub(crate) fn say(line: &str) {
    println!("xtask: {line}");
}

/// The command as it would be typed.
pub(crate) fn typed(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Runs to the end; whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    say(&typed(command));
    let status = command.status().with_context(|| format!("could not run {}", typed(command)))?;
    Ok(status.success())
}

/// Runs to the end in a process group of its own with a keeper, so that whatever the command starts
/// ends with us; its exit code.
pub(crate) fn guarded(command: &mut Command) -> Result<ExitCode> {
    let name = typed(command);
    say(&name);
    let mut child =
        command.process_group(0).spawn().with_context(|| format!("could not run {name}"))?;
    let keeper = Keeper::of_group(&child)?;
    let status = child.wait().with_context(|| format!("could not wait for {name}"))?;
    drop(keeper);
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

/// Whether there is such a program at all.
pub(crate) fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
