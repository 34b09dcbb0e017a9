//! Where requests are sent: the upstreams of the command line and the configuration.
//!
//! Holds throughout: a key or header of the configuration is never sent to another origin than the
//! one it was configured for.

use std::path::PathBuf;

use anyhow::Context as _;
use url::Url;
use windrow::engine::execute::http::{Config, HttpExecutor, KeySource, Upstream};

use crate::config::pair;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;

/// The table of the configuration for every target that no other table names.
pub(crate) const DEFAULT: &str = "default";

/// How the upstream that `--to` names is treated.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct UpstreamArgs {
    /// Maximum number of concurrent requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: Option<u32>,
    /// Environment variable with the API key, sent as `Authorization: Bearer`
    #[arg(long, value_name = "VAR", conflicts_with = "api_key_file")]
    api_key_env: Option<String>,
    /// File with the API key
    #[arg(long, value_name = "PATH")]
    api_key_file: Option<PathBuf>,
    /// Header to add to every request; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    header: Vec<(String, String)>,
}

impl UpstreamArgs {
    /// Sends everything to one URL.
    pub(crate) fn executor(&self, context: &Context, to: &Url) -> anyhow::Result<HttpExecutor> {
        let default = Some(self.upstream(context, to));
        build(Config { upstreams: Vec::new(), default })
    }

    /// Sends each target where the configuration says, and every other to `to` if it is given. None
    /// when no upstream is named and the process runs messages only.
    pub(crate) fn executor_for_all(
        &self,
        context: &Context,
        to: Option<&Url>,
        messages: bool,
    ) -> anyhow::Result<Option<HttpExecutor>> {
        let runs_messages = messages && !context.config.tables.is_empty();
        if runs_messages && to.is_none() && context.config.upstreams.is_empty() {
            return Ok(None);
        }
        let mut tables = context.config.upstreams.clone();
        let default = tables.remove(DEFAULT);
        let default = to.map(|to| self.upstream(context, to)).or(default);
        let named = tables.into_iter().map(|(name, table)| Upstream { name, ..table });
        let upstreams: Vec<_> = named.collect();
        if upstreams.is_empty() && default.is_none() {
            let what = "no upstream is configured";
            let remedy = "give one with --to, or as [upstreams.NAME] in the configuration.";
            return Err(CliError::usage(what, remedy).into());
        }
        build(Config { upstreams, default }).map(Some)
    }

    fn upstream(&self, context: &Context, to: &Url) -> Upstream {
        let table = context.config.upstreams.get(DEFAULT).filter(|table| {
            table.base_url.parse::<Url>().is_ok_and(|url| url.origin() == to.origin())
        });
        let mut upstream = table.cloned().unwrap_or_default();
        upstream.base_url = to.to_string();
        upstream.targets.clear();
        if let Some(most) = self.concurrency {
            upstream.concurrency_max = most;
            upstream.concurrency_start = most;
            upstream.concurrency_min = upstream.concurrency_min.min(most);
        }
        let variable = self.api_key_env.clone().map(KeySource::Env);
        let key = variable.or_else(|| self.api_key_file.clone().map(KeySource::File));
        upstream.api_key = key.or(upstream.api_key);
        upstream.headers.0.extend(self.header.iter().cloned());
        upstream
    }
}

fn build(config: Config) -> anyhow::Result<HttpExecutor> {
    HttpExecutor::new(config).context(CliError::new(
        Exit::Config,
        "the configuration of an upstream is not valid",
        "correct it in the configuration or on the command line.",
    ))
}
