//! What the chosen tests need on the machine: servers, brokers, the official clients.
//!
//! Holds throughout: a test that is run has what it needs, since `windrow_testkit::require` lets it
//! fail otherwise.

use windrow_testkit::programs;

use super::{Args, E2E, FAULT};
use crate::install::Program;
use crate::{brokers, clients};

/// The packages that start brokers.
const BROKERS: [&str; 3] = ["windrow-brokers", "windrow-testkit", E2E];
/// The packages whose tests start PostgreSQL by themselves.
const OWN_SERVERS: [&str; 3] = [FAULT, "windrow-testkit", "windrow-store-postgres"];

/// What has to be installed before what is run can run.
pub(super) fn missing(args: &Args, has_server: bool) -> Vec<Program> {
    let mut missing = Vec::new();
    // Some tests start servers of their own, also beside one that is given.
    let own_servers = !has_server || runs_own_servers(args);
    let has_programs = programs::postgres_folder().is_some() || args.postgres_bin.is_some();
    if own_servers && !has_programs {
        missing.push(Program::Postgres);
    }
    if own_servers && programs::pgbouncer().is_none() {
        missing.push(Program::Pgbouncer);
    }
    if runs_clients(args) {
        missing.extend(clients::missing());
    }
    let servers = if runs_brokers(args) {
        brokers::missing()
    } else if runs_nats(args) && clients::python().is_none() {
        vec![Program::Python]
    } else {
        Vec::new()
    };
    for program in servers {
        // The clients may have asked for Python already.
        if !missing.contains(&program) {
            missing.push(program);
        }
    }
    missing
}

/// Whether tests of these packages are among what is run. `without` names the subsets that leave
/// them out.
fn runs(args: &Args, packages: &[&str], without: &[&str]) -> bool {
    if args.package.is_empty() {
        !args.subset.as_deref().is_some_and(|subset| without.contains(&subset))
    } else {
        args.package.iter().any(|package| packages.contains(&&**package))
    }
}

/// Whether the faults are among what is run.
pub(super) fn runs_faults(args: &Args) -> bool {
    runs(args, &[FAULT], &["conformance", "e2e"])
}

/// Whether tests that start PostgreSQL by themselves are among what is run.
pub(super) fn runs_own_servers(args: &Args) -> bool {
    runs(args, &OWN_SERVERS, &["conformance", "e2e"])
}

/// Whether the official clients are among what is run.
pub(super) fn runs_clients(args: &Args) -> bool {
    runs(args, &[E2E], &["conformance", "fault"])
}

/// Whether brokers are started by what is run.
pub(super) fn runs_brokers(args: &Args) -> bool {
    runs(args, &BROKERS, &["conformance", "fault"])
}

/// Whether NATS is started by what is run. Of the brokers, the faults take this one.
pub(super) fn runs_nats(args: &Args) -> bool {
    runs_brokers(args) || runs_faults(args)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parsed;
    use super::*;

    #[test]
    fn clients_are_prepared_only_where_they_are_run() {
        for words in [&[][..], &["e2e"], &["some_name"], &["-p", E2E]] {
            assert!(runs_clients(&parsed(words)), "{words:?}");
        }
        for words in [&["fault"][..], &["conformance"], &["-p", "xtask"]] {
            assert!(!runs_clients(&parsed(words)), "{words:?}");
        }
    }

    #[test]
    fn brokers_are_installed_only_where_they_are_run() {
        for words in [&[][..], &["some_name"], &["e2e"], &["-p", BROKERS[0]]] {
            assert!(runs_brokers(&parsed(words)), "{words:?}");
        }
        for words in [&["fault"][..], &["conformance"], &["-p", "xtask"]] {
            assert!(!runs_brokers(&parsed(words)), "{words:?}");
        }
        assert!(runs_nats(&parsed(&["fault"])) && !runs_nats(&parsed(&["conformance"])));
    }
}
