//! Where requests are sent: the upstreams of the command line and the configuration.
//!
//! Holds throughout: a key or header of the configuration is never sent to another origin than the
//! one it was configured for.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use url::Url;
use windrow::domain::upstream::MarkSecret;
use windrow::domain::{AuditEntryId, State, Target, UpstreamId};
use windrow::engine::execute::Executor;
use windrow::engine::execute::http::{self, Config, HttpExecutor, KeySource, Upstream};
use windrow::store::audit_log::NewAuditEntry;
use windrow::store::batch::{Batch, LaneUpstreams};
use windrow::store::inspect::{BatchesQuery, PAGE_MAX};
use windrow::store::upstream::Upstream as Registration;
use windrow::store::{Scope, Store};

use crate::context::Context;
use crate::destination::{Destination, usual_table};
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::{hint, ranges};

/// The table of the configuration for every target that no other table names.
pub(crate) const DEFAULT: &str = "default";

/// Longest name of a variable that is printed.
const VARIABLE_CHARS_MAX: usize = 64;

/// How the upstream that `--to` names is treated.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct UpstreamArgs {
    /// Maximum number of concurrent requests to the upstream, over all models [default: 64, from 8 up as
    /// long as all goes well]
    #[arg(long, value_name = "N", value_parser = ranges::whole(1_u32, 100_000))]
    concurrency: Option<u32>,
    /// Maximum number of requests to the upstream per second [default: no limit]
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Longest time of one attempt, from its start to the end of the answer, for example `90s` [default:
    /// 15m]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    timeout: Option<Duration>,
    /// Maximum number of attempts after the first, for errors that may pass [default: 4]
    #[arg(long, value_name = "N", value_parser = ranges::whole(0_u32, 999))]
    retries: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

/// What proves to an upstream whose requests they are.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct KeyArgs {
    /// Environment variable with the API key, sent as `Authorization: Bearer`
    #[arg(long, value_name = "VAR", conflicts_with = "api_key_file")]
    api_key_env: Option<String>,
    /// File with the API key
    #[arg(long, value_name = "PATH")]
    api_key_file: Option<PathBuf>,
    /// Header to add to every request, for example `X-Team: hay` or `x-team=hay`; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "must be a number above 0, in requests per second".to_owned())
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = text.parse::<jiff::SignedDuration>().ok();
    let time = time.and_then(|time| Duration::try_from(time).ok()).filter(|time| !time.is_zero());
    time.ok_or_else(|| "must be a time such as 90s or 10m".to_owned())
}

/// `Name: value`, as people and other programs write it, or `name=value`.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once([':', '=']).ok_or("must be `NAME: VALUE` or NAME=VALUE")?;
    match name.trim() {
        "" => Err("the name of the header is missing".to_owned()),
        name => Ok((name.to_owned(), value.trim().to_owned())),
    }
}

/// Whether a text may be printed as the name of a variable. A key that was given by mistake may not.
pub(crate) fn is_variable_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.len() <= VARIABLE_CHARS_MAX && text.chars().all(is_plain)
}

impl KeyArgs {
    /// Refuses a variable that is not set, without printing what may be a key.
    fn check(&self) -> Result<(), CliError> {
        match &self.api_key_env {
            Some(name) if !is_variable_name(name) && std::env::var_os(name).is_none() => {
                let what = "--api-key-env does not name an environment variable that is set";
                let remedy = "give the name of a variable, not the key itself: export \
                              API_KEY=… and --api-key-env API_KEY. What was given is not repeated \
                              here, since it may be a key.";
                Err(CliError::new(Exit::Config, what, remedy))
            }
            _ => Ok(()),
        }
    }

    /// Whether a key or a header is given.
    fn is_given(&self) -> bool {
        self.api_key_env.is_some() || self.api_key_file.is_some() || !self.header.is_empty()
    }

    /// The upstream with this key and these headers, where they are given.
    fn apply(&self, mut upstream: Upstream) -> Upstream {
        let variable = self.api_key_env.clone().map(KeySource::Env);
        let key = variable.or_else(|| self.api_key_file.clone().map(KeySource::File));
        upstream.api_key = key.or(upstream.api_key);
        upstream.headers.0.extend(self.header.iter().cloned());
        upstream
    }

    /// An executor for one upstream and all that is asked of it.
    pub(crate) fn executor(&self, mut upstream: Upstream) -> anyhow::Result<HttpExecutor> {
        self.check()?;
        upstream.targets.clear();
        build(Config { upstreams: Vec::new(), default: Some(self.apply(upstream)) })
    }
}

impl UpstreamArgs {
    /// Sends everything to one upstream.
    pub(crate) fn executor(
        &self,
        context: &Context,
        to: &Destination,
    ) -> anyhow::Result<HttpExecutor> {
        self.key.check()?;
        if to.table.is_none() {
            self.note_other_table(context, &to.url);
        }
        let default = Some(self.apply(to.settings(context)));
        build(Config { upstreams: Vec::new(), default })
    }

    /// The upstream of a command that sends everything to one: what `--to` says, else the
    /// configuration's `[upstreams.default]`, else its only table. The name of a table stands for its own
    /// key and headers: with others, the URL is what the upstream is known by.
    pub(crate) fn destination(
        &self,
        context: &Context,
        to: Option<&Url>,
    ) -> anyhow::Result<Destination> {
        if let Some(to) = to {
            return Destination::url(to);
        }
        let Some((name, _)) = usual_table(context) else {
            let what = "no upstream is given";
            let remedy = "name it with --to URL, or as [upstreams.default] in the configuration.";
            return Err(CliError::usage(what, remedy).into());
        };
        self.with_key(Destination::table(context, name)?)
    }

    /// The URL of a table in place of its name, when another key or header than its own is given.
    pub(crate) fn with_key(&self, to: Destination) -> anyhow::Result<Destination> {
        if self.key.is_given() { Destination::url(&to.url) } else { Ok(to) }
    }

    /// Sends each target where the configuration says, and every other to `to` if it is given. None
    /// when no upstream is named and the process runs messages only.
    pub(crate) fn executor_for_all(
        &self,
        context: &Context,
        to: Option<&Url>,
        messages: bool,
    ) -> anyhow::Result<Option<HttpExecutor>> {
        self.key.check()?;
        let runs_messages = messages && !context.config.tables.is_empty();
        if runs_messages && to.is_none() && context.config.upstreams.is_empty() {
            return Ok(None);
        }
        let mut tables = context.config.upstreams.clone();
        let default = tables.remove(DEFAULT).map(|table| table.name(DEFAULT.to_owned()));
        if let Some(to) = to {
            self.note_other_table(context, to);
        }
        let default = to
            .map(|to| self.upstream(context, to))
            .or_else(|| default.map(|table| self.apply(table)));
        let named = tables.into_iter().map(|(name, table)| table.name(name));
        let upstreams: Vec<_> = named.collect();
        if upstreams.is_empty() && default.is_none() {
            let what = "no upstream is configured";
            let remedy = "give one with --to, or as [upstreams.NAME] in the configuration.";
            return Err(CliError::usage(what, remedy).into());
        }
        build(Config { upstreams, default }).map(Some)
    }

    fn upstream(&self, context: &Context, to: &Url) -> Upstream {
        self.apply(table_for(context, to))
    }

    /// What the command line says is stronger than the table.
    fn apply(&self, mut upstream: Upstream) -> Upstream {
        if let Some(most) = self.concurrency {
            upstream.concurrency_max = most;
            upstream.concurrency_start = most;
            upstream.concurrency_min = upstream.concurrency_min.min(most);
        }
        if let Some(rate) = self.rate {
            upstream.requests_per_sec_max = Some(rate);
        }
        if let Some(timeout) = self.timeout {
            let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1);
            upstream.total_ms_max = ms;
            upstream.first_byte_ms_max = ms;
            upstream.idle_ms_max = upstream.idle_ms_max.min(ms);
            upstream.connect_ms_max = upstream.connect_ms_max.min(ms);
        }
        if let Some(retries) = self.retries {
            upstream.attempts_max = Some(retries + 1);
        }
        self.key.apply(upstream)
    }

    /// Says that a table that may have been meant is not used: the default one is for another URL than
    /// `--to`, or several are for the same.
    fn note_other_table(&self, context: &Context, to: &Url) {
        if context.json || table_of(context, to).is_some() {
            return;
        }
        let tables = &context.config.upstreams;
        let same = tables.iter().filter(|(_, table)| is_for(table, to));
        let same: Vec<_> = same.map(|(name, _)| format!("[upstreams.{name}]")).collect();
        if !same.is_empty() {
            let same = same.join(" and ");
            eprintln!("note: {same} are for {to}: none of their settings and keys is used");
        } else if let Some(table) = tables.get(DEFAULT) {
            let other = &table.base_url;
            eprintln!(
                "note: [upstreams.{DEFAULT}] is for {other}, not for {to}: its settings are not used"
            );
        }
    }
}

/// The table of the configuration that is for this URL: the one with the same URL, else the default or
/// only one if its scheme, host and port are the same. Of several with the same URL, which may have
/// different keys, only the default one is taken.
fn table_of<'a>(context: &'a Context, to: &Url) -> Option<&'a Upstream> {
    let tables = &context.config.upstreams;
    let mut same = tables.values().filter(|table| is_for(table, to));
    let (first, second) = (same.next(), same.next());
    let near = usual_table(context).map(|(_, table)| table);
    let near = near
        .filter(|table| table.base_url.parse::<Url>().is_ok_and(|url| url.origin() == to.origin()));
    first.filter(|_| second.is_none()).or(near)
}

/// Whether a table has this very URL, however it is written.
fn is_for(table: &Upstream, to: &Url) -> bool {
    let known = table.base_url.parse().ok().and_then(|url| http::upstream_of(&url).ok());
    known.is_some() && known == http::upstream_of(to).ok()
}

/// The settings for a URL: those of the table that is for the same origin.
pub(crate) fn table_for(context: &Context, to: &Url) -> Upstream {
    let mut upstream = table_of(context, to).cloned().unwrap_or_default();
    upstream.base_url = to.to_string();
    // The URL is what it is known by, whatever table it has its key from.
    upstream.name.clear();
    upstream.targets.clear();
    upstream
}

/// The upstream that a URL on the command line names.
pub(crate) fn upstream_of(to: &Url) -> anyhow::Result<UpstreamId> {
    http::upstream_of(to).with_context(|| {
        CliError::usage(format!("{to} is too long"), "give a shorter URL with --to.")
    })
}

/// Where lines of a new batch go, by their targets: to the tables of the configuration that name them,
/// every other to `to` or to the default table. What none of them serves is bound by the first worker
/// that claims it.
pub(crate) fn lane_upstreams(
    config: &crate::config::Config,
    to: Option<&Url>,
) -> anyhow::Result<LaneUpstreams> {
    let name = |name: &str| {
        let remedy = "give its table a shorter name.";
        UpstreamId::new(name).with_context(|| {
            CliError::new(Exit::Config, format!("the upstream {name:?} has a bad name"), remedy)
        })
    };
    let mut upstreams = LaneUpstreams::from(UpstreamId::unknown());
    for (table, upstream) in config.upstreams.iter().filter(|(name, _)| *name != DEFAULT) {
        let id = name(table)?;
        let targets = upstream.targets.iter().map(|target| (target.clone(), id.clone()));
        upstreams.by_target.extend(targets);
    }
    if let Some(to) = to {
        upstreams.others = upstream_of(to)?;
    } else if config.upstreams.contains_key(DEFAULT) {
        upstreams.others = name(DEFAULT)?;
    } else if let Some((table, _)) = without_model(config) {
        upstreams.by_target.entry(Target::no_model()).or_insert(name(table)?);
    }
    Ok(upstreams)
}

/// The one table, of those with a name, that says which paths may be asked for: lines without a model go
/// there when no table is for all others.
pub(crate) fn without_model(config: &crate::config::Config) -> Option<(&str, &Upstream)> {
    let named = config.upstreams.iter().filter(|(name, _)| *name != DEFAULT);
    let mut with_paths = named.filter(|(_, table)| !table.paths.is_empty());
    let (name, table) = with_paths.next()?;
    with_paths.next().is_none().then_some((name.as_str(), table))
}

/// Sends what is left of a batch to that upstream, if it goes to another one: the person who started the
/// command says so. The audit log names the command.
pub(crate) async fn rebind(
    context: &Context,
    store: &dyn Store,
    batch: Batch,
    upstream: &UpstreamId,
    command: &str,
) -> anyhow::Result<Batch> {
    if batch.upstreams.iter().all(|known| known == upstream) {
        return Ok(batch);
    }
    let entry = NewAuditEntry {
        id: AuditEntryId::new(),
        actor: format!("{} ({command})", context.config.owner),
        address: None,
        action: format!("move to {upstream}"),
    };
    Ok(store.move_batch(&context.scope(), batch.id, upstream.clone(), entry).await?)
}

/// Says that the upstream of this batch has the host and the key of this command from now on: that a person
/// started it is their word. Refused while other open batches go there, which were begun with another key
/// and would be sent with this one.
pub(crate) async fn take_upstream(
    store: &dyn Store,
    executor: &impl Executor,
    batch: &Batch,
) -> anyhow::Result<()> {
    if executor.registrations(&MarkSecret([0; 32])).is_empty() {
        return Ok(());
    }
    let ours = executor.registrations(&store.mark_secret().await?);
    let known = store.upstreams().await?;
    for ours in ours.into_iter().filter(|ours| batch.upstreams.contains(&ours.upstream)) {
        let differs = |known: &&Registration| known.upstream == ours.upstream && **known != ours;
        if known.iter().find(differs).is_none() {
            continue;
        }
        if let Some(other) = other_open_batch(store, batch, &ours.upstream).await? {
            return Err(taken(&ours.upstream, &other).into());
        }
        store.set_upstream(ours).await?;
    }
    Ok(())
}

/// An open batch beside this one that goes to the upstream.
async fn other_open_batch(
    store: &dyn Store,
    batch: &Batch,
    upstream: &UpstreamId,
) -> anyhow::Result<Option<Batch>> {
    let states = State::ALL.into_iter().filter(|state| !state.is_closed()).collect();
    let mut query = BatchesQuery { states, limit: PAGE_MAX, ..BatchesQuery::default() };
    loop {
        let page = store.batches(&Scope::All, query.clone()).await?;
        let is_other = |other: &Batch| other.id != batch.id && other.upstreams.contains(upstream);
        let mut rows = page.rows.into_iter();
        if let Some(other) = rows.find(is_other) {
            return Ok(Some(other));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(None),
        }
    }
}

/// Other batches go to the upstream with another key.
fn taken(upstream: &UpstreamId, other: &Batch) -> CliError {
    let what = format!(
        "the database knows another key for {upstream}, and batch {} is still to be sent with that one",
        other.id
    );
    let accept = hint::command(&["upstreams", "accept", upstream.as_str()]);
    let remedy = format!(
        "use that key, or finish or cancel that batch first; if the key of this command is right for all of \
         them: {accept}"
    );
    CliError::new(Exit::Config, what, remedy)
}

fn build(config: Config) -> anyhow::Result<HttpExecutor> {
    HttpExecutor::new(config).map(HttpExecutor::named_only).context(CliError::new(
        Exit::Config,
        "the configuration of an upstream is not valid",
        "correct it in the configuration or on the command line.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_written_in_either_way() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(header("X-Team: hay: fine"), pair("X-Team", "hay: fine"));
        assert_eq!(header("x-a=b:c"), pair("x-a", "b:c"));
        assert!(header("nothing").is_err() && header(": b").is_err());
    }

    #[test]
    fn a_key_is_no_name() {
        assert!(is_variable_name("OPENAI_API_KEY") && !is_variable_name("sk-proj-abc"));
    }
}
