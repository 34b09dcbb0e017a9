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
use windrow::engine::messages::Client;
use windrow::store::{Kind, Store};
use windrow_server::api_key::{ApiKey, KeySpec};
use windrow_server::throttled_executor::ThrottledExecutor;
use windrow_server::tls::Tls;
use windrow_server::{App, Messages, Metrics, Parts, Routes, Unserved};

use crate::config::LogFormat;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::message_runner::MessageRunner;
use crate::process::{Process, Workload};
use crate::run::url;
use crate::upstream::{DEFAULT, UpstreamArgs};
use crate::{keys, log, text};

/// The environment variable that sets the admin key.
const ADMIN_KEY: &str = "WINDROW_ADMIN_KEY";

/// Serve the HTTP API and run batches and messages until SIGTERM or SIGINT.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on [env: WINDROW_LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
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
        routes: Arc::new(Served::new(context, &args)),
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
    greet(context, &*store, &listener, process.engine().is_none()).await?;
    drop(store);
    process.serve(|stop| async move {
        app.serve(listener, tls, stop).await.context("the server ended")
    });
    let summary = process.run_until_stopped(move |batch| metrics.observe_closed(batch)).await?;
    let released = summary.report.released;
    context.print_result(&serde_json::json!({ "released": released }), || {
        format!("Stopped: released {} lines.", text::count(released))
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

/// Prints the address, and on the first start the admin key, which is shown only once.
async fn greet(
    context: &Context,
    store: &dyn Store,
    listener: &TcpListener,
    no_work: bool,
) -> anyhow::Result<()> {
    let made = admin_key(context, store).await?;
    let scheme = if context.config.tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}", listener.local_addr()?);
    let value = serde_json::json!({
        "listening": address,
        "admin_key": made.as_ref().map(ApiKey::reveal),
    });
    context.print_result(&value, || {
        let work = if no_work { ", without a batch worker" } else { "" };
        let mut output = format!("Listening on {address}{work}.");
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

/// Which targets have an upstream, and which endpoints of them.
struct Served {
    named: HashMap<Target, Vec<String>>,
    /// Endpoints of all other targets; none when those are refused.
    others: Option<Vec<String>>,
}

impl Served {
    fn new(context: &Context, args: &Args) -> Self {
        let tables = &context.config.upstreams;
        let named = tables.iter().filter(|(name, _)| *name != DEFAULT).flat_map(|(_, table)| {
            table.targets.iter().map(|target| (target.clone(), table.endpoints.clone()))
        });
        let default = tables.get(DEFAULT).map(|table| table.endpoints.clone());
        // A server without a worker and without upstreams leaves the check to the workers.
        let anything = args.to.is_some() || (args.no_work && tables.is_empty());
        Self { named: named.collect(), others: default.or(anything.then(Vec::new)) }
    }
}

impl Routes for Served {
    fn check(&self, target: &Target, endpoint: &str) -> Result<(), Unserved> {
        let endpoints = self.named.get(target).or(self.others.as_ref()).ok_or(Unserved::Target)?;
        let is_served = endpoints.is_empty() || endpoints.iter().any(|known| known == endpoint);
        if is_served { Ok(()) } else { Err(Unserved::Endpoint) }
    }
}
