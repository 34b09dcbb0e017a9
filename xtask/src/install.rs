//! Installing programs with the system's package manager, when they are not there.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// What can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Postgres,
    Pgbouncer,
    /// A load generator, whose figure the bench prints beside its own.
    Wrk,
    /// Python with what makes virtual environments.
    Python,
    Node,
    Npm,
    Redis,
    Rabbitmq,
}

/// A package manager: how it is called, and what it calls the programs.
struct Installer {
    program: &'static str,
    before: &'static [&'static str],
    install: &'static [&'static str],
    postgres: &'static str,
    pgbouncer: &'static str,
    python: &'static str,
    node: &'static str,
    npm: &'static str,
    redis: &'static str,
    rabbitmq: &'static str,
    as_root: bool,
}

const INSTALLERS: &[Installer] = &[
    Installer {
        program: "apt-get",
        before: &["update", "--quiet"],
        install: &["install", "--quiet", "--yes", "--no-install-recommends"],
        postgres: "postgresql",
        pgbouncer: "pgbouncer",
        python: "python3-venv",
        node: "nodejs",
        npm: "npm",
        redis: "redis-server",
        rabbitmq: "rabbitmq-server",
        as_root: true,
    },
    Installer {
        program: "dnf",
        before: &[],
        install: &["install", "--assumeyes"],
        postgres: "postgresql-server",
        pgbouncer: "pgbouncer",
        python: "python3",
        node: "nodejs",
        npm: "nodejs-npm",
        redis: "redis",
        rabbitmq: "rabbitmq-server",
        as_root: true,
    },
    Installer {
        program: "apk",
        before: &[],
        install: &["add", "--no-cache"],
        postgres: "postgresql",
        pgbouncer: "pgbouncer",
        python: "python3",
        node: "nodejs",
        npm: "npm",
        redis: "redis",
        rabbitmq: "rabbitmq-server",
        as_root: true,
    },
    Installer {
        program: "pacman",
        before: &[],
        install: &["-Sy", "--noconfirm", "--needed"],
        postgres: "postgresql",
        pgbouncer: "pgbouncer",
        python: "python",
        node: "nodejs",
        npm: "npm",
        redis: "redis",
        rabbitmq: "rabbitmq",
        as_root: true,
    },
    Installer {
        program: "brew",
        before: &[],
        install: &["install"],
        postgres: "postgresql@17",
        pgbouncer: "pgbouncer",
        python: "python",
        node: "node",
        npm: "node",
        redis: "redis",
        rabbitmq: "rabbitmq",
        as_root: false,
    },
];

/// The commands that would install what is missing, on a system with these programs.
fn plan(
    missing: &[Program],
    has: impl Fn(&str) -> bool,
    is_root: bool,
) -> Result<Vec<Vec<String>>> {
    let Some(manager) = INSTALLERS.iter().find(|manager| has(manager.program)) else {
        bail!(
            "{} not found, and no package manager that xtask knows is here: install them by hand \
             (PostgreSQL 15 or newer), or set WINDROW_TEST_DATABASE_URL to a server you have",
            names(missing)
        );
    };
    let sudo = manager.as_root && !is_root;
    if sudo && !has("sudo") {
        bail!(
            "{} not found, and installing needs root: run as root once, or install by hand",
            names(missing)
        );
    }
    let packages = missing.iter().map(|program| match program {
        Program::Postgres => manager.postgres,
        Program::Pgbouncer => manager.pgbouncer,
        Program::Wrk => "wrk",
        Program::Python => manager.python,
        Program::Node => manager.node,
        Program::Npm => manager.npm,
        Program::Redis => manager.redis,
        Program::Rabbitmq => manager.rabbitmq,
    });
    let install: Vec<&str> = manager.install.iter().copied().chain(packages).collect();
    let lines = [manager.before.to_vec(), install].into_iter().filter(|args| !args.is_empty());
    let typed = lines.map(|args| {
        let head = sudo.then_some("sudo").into_iter().chain([manager.program]);
        head.chain(args).map(str::to_owned).collect()
    });
    Ok(typed.collect())
}

fn names(missing: &[Program]) -> String {
    let words = missing.iter().map(|program| match program {
        Program::Postgres => "PostgreSQL's server programs",
        Program::Pgbouncer => "pgbouncer",
        Program::Wrk => "wrk",
        Program::Python => "Python with venv",
        Program::Node => "Node.js",
        Program::Npm => "npm",
        Program::Redis => "redis-server",
        Program::Rabbitmq => "rabbitmq-server",
    });
    words.collect::<Vec<_>>().join(" and ")
}

/// Installs what is missing, or only says how.
pub(crate) fn install(missing: &[Program], dry_run: bool) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    shell::say(&format!("{} not found; installing", names(missing)));
    for line in plan(missing, shell::has, is_root())? {
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        if dry_run {
            shell::say(&format!("would run: {}", shell::typed(&command)));
        } else if !shell::succeeds(&mut command)? {
            bail!("`{}` failed: install {} by hand", shell::typed(&command), names(missing));
        }
    }
    Ok(())
}

fn is_root() -> bool {
    let said = Command::new("id").arg("-u").output();
    said.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(missing: &[Program], here: &[&str], is_root: bool) -> Vec<String> {
        let lines = plan(missing, |name| here.contains(&name), is_root).unwrap();
        lines.iter().map(|line| line.join(" ")).collect()
    }

    #[test]
    fn apt_is_updated_first() {
        let lines = typed(&[Program::Postgres, Program::Pgbouncer], &["apt-get"], true);
        assert_eq!(
            lines,
            [
                "apt-get update --quiet",
                "apt-get install --quiet --yes --no-install-recommends postgresql pgbouncer",
            ]
        );
    }

    #[test]
    fn only_what_is_missing_is_installed_and_sudo_only_where_needed() {
        assert_eq!(
            typed(&[Program::Pgbouncer], &["dnf", "sudo"], false),
            ["sudo dnf install --assumeyes pgbouncer"]
        );
        assert_eq!(typed(&[Program::Pgbouncer], &["brew"], false), ["brew install pgbouncer"]);
        assert_eq!(
            typed(&[Program::Python, Program::Node, Program::Npm], &["apk"], true),
            ["apk add --no-cache python3 nodejs npm"]
        );
        assert_eq!(
            typed(&[Program::Redis, Program::Rabbitmq], &["dnf"], true),
            ["dnf install --assumeyes redis rabbitmq-server"]
        );
    }

    #[test]
    fn without_a_way_to_install_the_message_says_what_to_do() {
        let failed = |here: &[&str]| {
            plan(&[Program::Postgres], |name| here.contains(&name), false).unwrap_err().to_string()
        };
        assert!(failed(&[]).contains("WINDROW_TEST_DATABASE_URL"));
        assert!(failed(&["apk"]).contains("needs root"));
    }
}
