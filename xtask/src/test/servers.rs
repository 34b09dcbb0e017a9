//! The database servers that the tests run on: PostgreSQL, and a transaction pooler in front of it.

use std::env;
use std::process::Command;

use anyhow::{Context, Result};
use windrow_testkit::pgbouncer::{Pooler, Upstream};
use windrow_testkit::postgres::{Cluster, DATABASE_URL, Options, POOLER_URL};
use windrow_testkit::require;

use super::Args;
use crate::shell;

/// Several test programs share the server, and each case has pools of its own.
const SESSIONS_MAX: u32 = 600;

/// What the tests run on. The pooler is declared first, so that it goes before its server does.
pub(super) struct Servers {
    pooler: Option<Pooler>,
    pub(super) cluster: Option<Cluster>,
    database_url: String,
}

impl Servers {
    /// A throw-away server with a pooler in front of it.
    pub(super) fn start(args: &Args) -> Result<Self> {
        let programs = args.postgres_bin.clone();
        let options = Options { programs, connections_max: SESSIONS_MAX, ..Options::default() };
        let cluster = Cluster::start(&options).context("no PostgreSQL to test on")?;
        let pooler = Pooler::start(&cluster).context("no transaction pooler to test on")?;
        let database_url = cluster.url();
        shell::say(&format!("PostgreSQL at {database_url}, pgbouncer at {}", pooler.url()));
        Ok(Self { pooler: Some(pooler), cluster: Some(cluster), database_url })
    }

    /// The caller's server, with a pooler of ours in front of it.
    pub(super) fn given(database_url: String) -> Self {
        shell::say(&format!("using the server of {DATABASE_URL}"));
        let pooler = pooler_for(&database_url).unwrap_or_else(|reason| {
            let (own, skip) = (POOLER_URL, require::REQUIRE);
            shell::say(&format!(
                "no pooler in front of it, so its tests fail ({reason:#}): set {own} to one you \
                 have, or {skip}=none to skip what is missing"
            ));
            None
        });
        Self { pooler, cluster: None, database_url }
    }

    /// Tells the tests where they are.
    pub(super) fn announce(&self, command: &mut Command) {
        command.env(DATABASE_URL, &self.database_url);
        if let Some(pooler) = &self.pooler {
            command.env(POOLER_URL, pooler.url());
        }
    }
}

/// None when the caller brings a pooler too.
fn pooler_for(database_url: &str) -> Result<Option<Pooler>> {
    if env::var_os(POOLER_URL).is_some() {
        return Ok(None);
    }
    let upstream = Upstream::parse(database_url)
        .context("only plain postgres://user@host:port/name addresses can have one")?;
    Ok(Some(Pooler::in_front_of(&upstream)?))
}
