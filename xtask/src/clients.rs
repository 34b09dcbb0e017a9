//! The official clients that the end-to-end tests run, in throw-away environments below cargo's own
//! folder: a virtual environment of Python, and a folder of Node's modules.
//!
//! Holds throughout: every version is pinned in the repository; an environment is made once and
//! again only when its pins differ; one that was not finished does not count as made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::install::Program;
use crate::shell;

/// Where the tests find Python with its clients.
const PYTHON: &str = "WINDROW_E2E_PYTHON";
/// Where they find the folder with `node_modules`.
const NODE: &str = "WINDROW_E2E_NODE";
/// What an environment was made from; written last.
const PINS: &str = "pins";

/// The folder with the pins and the programs.
pub(crate) fn sources() -> PathBuf {
    shell::root().join("tests/e2e")
}

/// What has to be installed before the clients can be.
pub(crate) fn missing() -> Vec<Program> {
    let mut missing = Vec::new();
    if python().is_none() {
        missing.push(Program::Python);
    }
    if !shell::has("node") {
        missing.push(Program::Node);
    }
    if !shell::has("npm") {
        missing.push(Program::Npm);
    }
    missing
}

/// A Python that can make virtual environments; the system's own where the first one cannot.
pub(crate) fn python() -> Option<&'static str> {
    ["python3", "/usr/bin/python3"].into_iter().find(|program| {
        let mut command = Command::new(program);
        command.args(["-c", "import ensurepip, venv"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// The two environments.
pub(crate) struct Clients {
    python: Environment,
    node: Environment,
}

/// An environment: where it is, and the files with its pins.
pub(crate) struct Environment {
    pub(crate) folder: PathBuf,
    pub(crate) pins: Vec<PathBuf>,
}

impl Clients {
    pub(crate) fn below(target: &Path, sources: &Path) -> Self {
        let node = sources.join("node");
        Self {
            python: Environment {
                folder: target.join("e2e/python"),
                pins: vec![sources.join("python/requirements.txt")],
            },
            node: Environment {
                folder: target.join("e2e/node"),
                pins: vec![node.join("package.json"), node.join("package-lock.json")],
            },
        }
    }

    /// Makes what is not there yet, or only says how.
    pub(crate) fn prepare(&self, dry_run: bool) -> Result<()> {
        self.python.prepare_python(dry_run)?;
        if self.node.is_stale()? {
            self.node.make(dry_run, Environment::node_commands)?;
        }
        Ok(())
    }

    /// Tells the tests where they are.
    pub(crate) fn announce(&self, command: &mut Command) {
        command.env(PYTHON, self.python.folder.join("bin/python"));
        command.env(NODE, &self.node.folder);
    }
}

impl Environment {
    /// Makes a virtual environment of Python, if it is not there yet.
    pub(crate) fn prepare_python(&self, dry_run: bool) -> Result<()> {
        if self.is_stale()? {
            self.make(dry_run, Environment::python_commands)?;
        }
        Ok(())
    }

    fn wanted(&self) -> Result<String> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
        };
        self.pins.iter().map(read).collect()
    }

    /// Whether it was made from other pins, or not to its end.
    fn is_stale(&self) -> Result<bool> {
        let made = fs::read_to_string(self.folder.join(PINS)).ok();
        Ok(made != Some(self.wanted()?))
    }

    fn make(&self, dry_run: bool, commands: impl FnOnce(&Self) -> Vec<Command>) -> Result<()> {
        if !dry_run {
            self.clear()?;
        }
        for mut command in commands(self) {
            if dry_run {
                shell::say(&format!("would run: {}", shell::typed(&command)));
            } else if !shell::succeeds(&mut command)? {
                bail!("`{}` failed: what the tests run is not there", shell::typed(&command));
            }
        }
        if !dry_run {
            fs::write(self.folder.join(PINS), self.wanted()?)?;
        }
        Ok(())
    }

    /// An empty folder with the pins in it.
    fn clear(&self) -> Result<()> {
        let shown = self.folder.display();
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).with_context(|| format!("could not clear {shown}"))?;
        }
        fs::create_dir_all(&self.folder).with_context(|| format!("could not make {shown}"))?;
        for path in &self.pins {
            let name = path.file_name().context("a file of pins has a name")?;
            fs::copy(path, self.folder.join(name))?;
        }
        Ok(())
    }

    fn python_commands(&self) -> Vec<Command> {
        let mut venv = Command::new(python().unwrap_or("python3"));
        venv.args(["-m", "venv"]).arg(&self.folder);
        let mut pip = Command::new(self.folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--requirement"]);
        pip.arg(self.folder.join("requirements.txt"));
        pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        vec![venv, pip]
    }

    fn node_commands(&self) -> Vec<Command> {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&self.folder);
        vec![npm]
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn an_environment_is_made_once_and_again_when_its_pins_change() {
        let top = env::temp_dir().join(format!("windrow-clients-{}", std::process::id()));
        let sources = top.join("sources");
        fs::create_dir_all(sources.join("python")).unwrap();
        let pins = sources.join("python/requirements.txt");
        fs::write(&pins, "a==1\n").unwrap();
        let environment = Clients::below(&top, &sources).python;
        assert!(environment.is_stale().unwrap());
        environment.make(false, |_| vec![Command::new("true")]).unwrap();
        assert!(!environment.is_stale().unwrap());
        fs::write(&pins, "a==2\n").unwrap();
        assert!(environment.is_stale().unwrap());
        environment.make(false, |_| vec![Command::new("false")]).unwrap_err();
        assert!(environment.is_stale().unwrap(), "half of one is none");
        fs::remove_dir_all(&top).unwrap();
    }
}
