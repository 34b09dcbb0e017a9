//! `windrow upstreams`: what the database knows of each upstream, and a person's word when that changes.
//!
//! Holds throughout: a key is never printed or stored, only whether there is one; nothing is sent.

use anyhow::Context as _;
use serde_json::json;
use url::Url;
use windrow::domain::UpstreamId;
use windrow::engine::execute::Executor as _;
use windrow::engine::execute::http::Upstream as Table;
use windrow::store::Store;
use windrow::store::batch::Batch;
use windrow::store::member::ServedUpstreams;
use windrow::store::upstream::Upstream;

use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::list::ListOr;
use crate::run::url;
use crate::table;
use crate::upstream::{KeyArgs, table_for, upstream_of};
use crate::workers::is_live;

/// List upstreams, or change what the database knows of one.
pub(crate) type Args = ListOr<Command, ListArgs>;

/// List the upstreams that the database knows, and which processes serve them.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Set the base URL of an upstream, and take its key from here
    Set(SetArgs),
    /// Accept the base URL and the key that are configured here for an upstream
    Accept(AcceptArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The name of the upstream
    name: String,
    /// Its base URL from now on
    #[arg(long, value_name = "URL", value_parser = url)]
    base_url: Url,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AcceptArgs {
    /// The name of the upstream: a table of the configuration, or a URL that was given with --to
    name: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => list(context).await,
        Some(Command::Set(args)) => {
            let table = context.config.upstreams.get(&args.name).cloned().unwrap_or_default();
            set(context, &args.name, table.base_url(args.base_url.to_string()), &args.key).await
        }
        Some(Command::Accept(args)) => {
            let table = match (context.config.upstreams.get(&args.name), url(&args.name)) {
                (Some(table), _) => table.clone(),
                (None, Ok(to)) => table_for(context, &to),
                (None, Err(_)) => {
                    let what = format!("there is no upstream {:?} in the configuration", args.name);
                    let remedy = "name a table of it, or set its URL with `windrow upstreams set`.";
                    return Err(CliError::usage(what, remedy).into());
                }
            };
            set(context, &args.name, table, &args.key).await
        }
    }
}

/// Says what an upstream is from now on.
async fn set(context: &Context, name: &str, table: Table, key: &KeyArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    // A URL is known by its canonical text.
    let id = match url(name) {
        Ok(to) if !context.config.upstreams.contains_key(name) => upstream_of(&to)?,
        _ => UpstreamId::new(name).context("not the name of an upstream")?,
    };
    let executor = key.executor(table.name(id.to_string()))?;
    let mut made = executor.registrations(&store.mark_secret().await?);
    let upstream = made.pop().context("an upstream has a base URL")?;
    store.set_upstream(upstream.clone()).await?;
    context.print_result(&value(&upstream), || {
        let key =
            if upstream.key_mark.is_empty() { "without a key" } else { "with the key given here" };
        format!("{id} is {} {key} from now on.", upstream.base_url)
    })?;
    Ok(Exit::Success)
}

/// An upstream as it is shown: whether it has a key, never the mark.
fn value(upstream: &Upstream) -> serde_json::Value {
    json!({
        "upstream": upstream.upstream, "base_url": upstream.base_url,
        "has_key": !upstream.key_mark.is_empty(),
    })
}

async fn list(context: &Context) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let (upstreams, served) = (store.upstreams().await?, Served::read(context, &*store).await?);
    let row = |upstream: &Upstream| {
        let mut row = value(upstream);
        row["served_by"] = json!(served.by(&upstream.upstream));
        row
    };
    let rows: Vec<_> = upstreams.iter().map(row).collect();
    context.print_result(&json!({ "rows": rows }), || {
        if upstreams.is_empty() {
            return "No upstreams.".to_owned();
        }
        let mut table = table::Table::new(&["upstream", "base url", "key", "served by"]);
        for upstream in &upstreams {
            table.row([
                upstream.upstream.to_string(),
                upstream.base_url.clone(),
                if upstream.key_mark.is_empty() { "-" } else { "yes" }.to_owned(),
                served.shown(&upstream.upstream),
            ]);
        }
        table.to_string()
    })?;
    Ok(Exit::Success)
}

/// Which live processes serve which upstreams.
pub(crate) struct Served(Vec<(ServedUpstreams, String)>);

impl Served {
    /// Reads it from the members that were heard of lately.
    pub(crate) async fn read(context: &Context, store: &dyn Store) -> anyhow::Result<Self> {
        let members = store.members().await?;
        let serving =
            members.iter().filter(|member| is_live(context, member)).filter_map(|member| {
                let serving = ServedUpstreams::read(&member.metadata)?;
                Some((
                    serving,
                    format!("{} on {} (pid {})", member.service, member.host, member.pid),
                ))
            });
        Ok(Self(serving.collect()))
    }

    /// The processes that claim lines of an upstream.
    pub(crate) fn by(&self, upstream: &UpstreamId) -> Vec<&str> {
        let serves = |serving: &ServedUpstreams| {
            // Whoever comes first binds what nobody knows.
            upstream.is_unknown() || serving.upstreams.contains(upstream)
        };
        let found = self.0.iter().filter(|(serving, _)| serves(serving));
        found.map(|(_, process)| process.as_str()).collect()
    }

    /// An upstream that somebody serves and that has the URL of the batch's own, which nobody serves.
    pub(crate) async fn same_url(
        &self,
        store: &dyn Store,
        batch: &Batch,
    ) -> anyhow::Result<Option<UpstreamId>> {
        let canonical = |text: &str| url(text).ok().and_then(|url| upstream_of(&url).ok());
        let mut unserved = batch.upstreams.iter().filter(|upstream| self.by(upstream).is_empty());
        let Some(wanted) = unserved.find_map(|upstream| canonical(upstream.as_str())) else {
            return Ok(None);
        };
        let known = store.upstreams().await?;
        let mut twins = known.into_iter().filter(|known| {
            canonical(&known.base_url).as_ref() == Some(&wanted)
                && !self.by(&known.upstream).is_empty()
        });
        Ok(twins.next().map(|twin| twin.upstream))
    }

    /// The same, for people.
    pub(crate) fn shown(&self, upstream: &UpstreamId) -> String {
        match &self.by(upstream)[..] {
            [] => "nobody".to_owned(),
            [one] => (*one).to_owned(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        }
    }
}

/// The name of an upstream for people.
pub(crate) fn shown(upstream: &UpstreamId) -> String {
    if upstream.is_unknown() {
        return "not known yet; the first worker that claims it decides".to_owned();
    }
    if upstream.is_own() { "the program's own".to_owned() } else { upstream.to_string() }
}
