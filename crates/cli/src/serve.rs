//! `windrow serve`: the HTTP API and a worker in one process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use url::Url;
use windrow::domain::{KeyId, Role, Target};
use windrow::engine::clock::Clock;
use windrow::engine::execute::Executor;
use windrow::engine::execute::http::Upstream;
use windrow::engine::messages::Client;
use windrow::store::batch::LaneUpstreams;
use windrow::store::{Kind, Store};
use windrow_server::api_key::{ApiKey, KeySpec};
use windrow_server::throttled_executor::ThrottledExecutor;
use windrow_server::tls::Tls;
use windrow_server::{App, Messages, Metrics, Parts, Routes, Unserved};

use crate::config::{LogFormat, listen_address};
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::message_runner::MessageRunner;
use crate::process::{Process, Workload};
use crate::run::url;
use crate::upstream::{DEFAULT, UpstreamArgs, lane_upstreams, without_model};
use crate::{keys, log, text};

/// The environment variable that sets the admin key.
const ADMIN_KEY: &str = "WINDROW_ADMIN_KEY";

/// Serve the HTTP API and run batches and messages until SIGTERM or SIGINT.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on, HOST:PORT; without a host, on this machine only [env: WINDROW_LISTEN]
    /// [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Base URL of the upstream for models that the configuration does not name
    #[arg(long, value_name = "URL", value_parser = url)]
    to: Option<Url>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Serve the API only; `windrow work` processes on the same database run batches and messages
    #[arg(long, conflicts_with = "to")]
    no_work: bool,
    /// Disable messages: neither run them nor serve their API
    #[arg(long)]
    no_messages: bool,
    /// Format of the log [env: WINDROW_LOG_FORMAT] [default: text]; WINDROW_LOG sets the filter
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let _log = log::start(&context.config, args.log_format)?;
    let metrics = Metrics::new(Clock::machine());
    let store = metrics.store(context.open().await?);
    let storage = context.open_storage()?;
    let executor = executor(context, &args, &metrics)?;
    let address = args.listen.unwrap_or(context.config.listen);
    let listener = TcpListener::bind(address).await.with_context(|| {
        let what = format!("could not listen on {address}");
        CliError::new(Exit::Failed, what, "choose another address with --listen.")
    })?;
    let tls = tls(context)?;
    let workload = Workload {
        service: "windrow serve",
        store: &store,
        storage: &storage,
        executor: executor.clone(),
        messages: !args.no_work && !args.no_messages,
    };
    let mut process = Process::start(context, workload).await?;
    let parts = Parts {
        store: store.clone(),
        storage,
        routes: Arc::new(Served::new(context, &args)?),
        engine: process.engine(),
        executor,
        work: context.config.bounds.engine.clone(),
        ingest: context.config.bounds.ingest.clone(),
        options: context.config.bounds.server.clone(),
        clock: Clock::machine(),
        metrics: metrics.clone(),
    };
    let app = if args.no_messages {
        App::new(parts)
    } else {
        App::with_messages(parts, messages(process.messages.as_ref(), &store))
    };
    let upstreams = if args.no_work { Vec::new() } else { upstreams(context, args.to.as_ref()) };
    greet(context, &*store, &listener, &upstreams).await?;
    drop(store);
    process.serve(|stop| async move {
        app.serve(listener, tls, stop).await.context("the server ended")
    });
    let summary = process.run_until_stopped(move |batch| metrics.observe_closed(batch)).await?;
    let released = summary.report.released;
    context.print_result(&serde_json::json!({ "released": released }), || {
        format!("Stopped: released {}.", text::plural(released, "line"))
    })?;
    Ok(Exit::Success)
}

/// What the API does with messages: through the runner of this process, when there is one.
fn messages(runner: Option<&MessageRunner>, store: &Arc<dyn Store>) -> Messages {
    match runner {
        Some(runner) => Messages::new(runner.client()).watched(runner.watch()),
        None => Messages::new(Client::new(store.clone())),
    }
}

/// Runs lines, for the engine and for jobs that are driven by hand, over the same connections. None for
/// a server without a worker, and for one that only runs messages.
fn executor(
    context: &Context,
    args: &Args,
    metrics: &Metrics,
) -> anyhow::Result<Option<Arc<dyn Executor>>> {
    if args.no_work {
        return Ok(None);
    }
    let messages = !args.no_messages;
    let executor = args.upstream.executor_for_all(context, args.to.as_ref(), messages)?;
    Ok(executor.map(|executor| Arc::new(metrics.executor(ThrottledExecutor::new(executor))) as _))
}

fn tls(context: &Context) -> anyhow::Result<Option<Tls>> {
    let Some((cert, key)) = &context.config.tls else { return Ok(None) };
    let tls = Tls::read(cert, key).with_context(|| {
        let remedy = "`tls_cert` and `tls_key` must name PEM files with a certificate and its key.";
        CliError::new(Exit::Config, "the TLS configuration is not valid", remedy)
    })?;
    Ok(Some(tls))
}

/// Where the requests of batches go, the one of `--to` first.
fn upstreams(context: &Context, to: Option<&Url>) -> Vec<String> {
    let configured = context.config.upstreams.iter();
    let configured = configured.filter(|(name, _)| to.is_none() || *name != DEFAULT);
    let configured = configured.map(|(_, table)| table.base_url.clone());
    let mut all: Vec<String> = to.map(ToString::to_string).into_iter().chain(configured).collect();
    all.dedup();
    all
}

/// Prints the address, and on the first start the admin key, which is shown only once.
async fn greet(
    context: &Context,
    store: &dyn Store,
    listener: &TcpListener,
    upstreams: &[String],
) -> anyhow::Result<()> {
    let made = admin_key(context, store).await?;
    let scheme = if context.config.tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}", listener.local_addr()?);
    let database = context.config.database.to_string();
    let value = serde_json::json!({
        "listening": address,
        "admin_key": made.as_ref().map(ApiKey::reveal),
        "database": database,
        "upstreams": upstreams,
    });
    context.print_result(&value, || {
        let sends = match upstreams {
            [] => "no upstream: batches are run by `windrow work`".to_owned(),
            all => format!("requests go to {}", all.join(", ")),
        };
        let mut output = format!(
            "Listening on {address}; the API is described at {address}/docs.\nDatabase: {database}; \
             {sends}."
        );
        if let Some(api_key) = &made {
            output += &format!("\nAdmin key (shown only once): {}", api_key.reveal());
        }
        output
    })
}

/// Makes sure that there is an admin key. Gives it when it was created here.
async fn admin_key(context: &Context, store: &dyn Store) -> anyhow::Result<Option<ApiKey>> {
    let spec = KeySpec {
        owner: context.config.owner.clone(),
        role: Role::Admin,
        name: "admin".to_owned(),
        expires_at: None,
    };
    if let Some(chosen) = std::env::var(ADMIN_KEY).ok().filter(|text| !text.is_empty()) {
        let api_key = ApiKey::chosen(&chosen).with_context(|| {
            let remedy = "choose a longer one, or unset the variable to have one generated.";
            CliError::new(Exit::Config, format!("{ADMIN_KEY} is not usable as a key"), remedy)
        })?;
        return match store.find_key(&api_key.hash()).await {
            Ok(key) if key.role == Role::Admin => Ok(None),
            Ok(_) => Err(not_admins("belongs to a member, not to an admin")),
            Err(error) if error.kind == Kind::Missing => {
                match store.add_key(api_key.to_new_key(KeyId::new(), spec)).await {
                    Ok(_) => Ok(None),
                    // The store knows it, and does not accept it any more.
                    Err(error) if error.kind == Kind::Conflict => {
                        Err(not_admins("was revoked, or has expired"))
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        };
    }
    if keys::has_admin(store).await? {
        return Ok(None);
    }
    keys::make(store, spec).await.map(|(_, api_key)| Some(api_key))
}

fn not_admins(why: &str) -> anyhow::Error {
    let remedy = "choose another, or unset the variable to use the existing keys.";
    CliError::new(Exit::Config, format!("the key in {ADMIN_KEY} {why}"), remedy).into()
}

/// Which targets have an upstream, and what may be asked of each.
struct Served {
    named: HashMap<Target, Upstream>,
    /// What may be asked of all other targets; none when those are refused.
    others: Option<Upstream>,
    /// Whether some upstream allows other methods than POST.
    allows_methods: bool,
    /// Whether the workers alone know what may be asked for.
    leaves_checks: bool,
    /// Where lines of new batches go.
    upstreams: LaneUpstreams,
}

impl Served {
    fn new(context: &Context, args: &Args) -> anyhow::Result<Self> {
        let tables = &context.config.upstreams;
        let named = tables.iter().filter(|(name, _)| *name != DEFAULT).flat_map(|(_, table)| {
            table.targets.iter().map(|target| (target.clone(), table.clone()))
        });
        let mut named: HashMap<_, _> = named.collect();
        let default = tables.get(DEFAULT).cloned();
        // A server without a worker and without upstreams leaves the check to the workers.
        let leaves_checks = args.no_work && tables.is_empty();
        let anything = args.to.is_some() || leaves_checks;
        let others = default.or(anything.then(Upstream::default));
        let upstreams = lane_upstreams(&context.config, args.to.as_ref())?;
        let methods = |table: &Upstream| table.method.is_some() || !table.methods.is_empty();
        let allows_methods = leaves_checks || tables.values().any(methods);
        if others.is_none()
            && let Some((_, table)) = without_model(&context.config)
        {
            named.entry(Target::no_model()).or_insert_with(|| table.clone());
        }
        Ok(Self { named, others, allows_methods, leaves_checks, upstreams })
    }

    fn of(&self, target: &Target) -> Option<&Upstream> {
        self.named.get(target).or(self.others.as_ref())
    }
}

impl Routes for Served {
    fn check(&self, target: &Target, endpoint: &str) -> Result<(), Unserved> {
        let table = self.of(target).ok_or(Unserved::Target)?;
        if table.allows_path(endpoint) { Ok(()) } else { Err(Unserved::Endpoint) }
    }

    fn mixes_paths(&self, target: &Target) -> bool {
        self.of(target).is_some_and(|table| !table.paths.is_empty())
    }

    fn allows_methods(&self) -> bool {
        self.allows_methods
    }

    fn allows_method(&self, target: &Target, method: &str) -> bool {
        self.of(target).is_some_and(|table| match &table.methods[..] {
            // A method of the table's own takes the place of what lines say.
            [] => self.leaves_checks || table.method.is_some() || method == "POST",
            methods => methods.iter().any(|known| known == method),
        })
    }

    fn upstreams(&self, _: &str) -> LaneUpstreams {
        self.upstreams.clone()
    }
}
