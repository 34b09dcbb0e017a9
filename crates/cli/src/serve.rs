//! `windrow serve`: the API and a worker in one process.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinSet;
use url::Url;
use windrow::domain::Role;
use windrow::engine::clock::Clock;
use windrow::engine::execute::Executor;
use windrow::engine::messages::Client;
use windrow::engine::signal::Stop;
use windrow::engine::storage::Storage;
use windrow::engine::{Engine, Event, Report};
use windrow::prelude::*;
use windrow::store::Kind;
use windrow_server::api_key::{ApiKey, KeySpec};
use windrow_server::throttled_executor::ThrottledExecutor;
use windrow_server::tls::Tls;
use windrow_server::{App, Messages, Metrics, Parts, Routes, Unserved};

use crate::config::LogFormat;
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::message_runner::MessageRunner;
use crate::run::{storage_error, url};
use crate::signals::{Signals, exit_at_once};
use crate::upstream::{DEFAULT, UpstreamArgs};
use crate::{keys, log, text};

/// The variable that sets the admin's key.
const ADMIN_KEY: &str = "WINDROW_ADMIN_KEY";

/// Serves the API, and works on every batch, until SIGTERM or SIGINT.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen [env: WINDROW_LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The upstream of every model that the configuration does not name
    #[arg(long, value_name = "URL", value_parser = url)]
    to: Option<Url>,
    #[command(flatten)]
    upstream: UpstreamArgs,
    /// Only the API: batches and messages are worked on by `windrow work` elsewhere, on the same
    /// database
    #[arg(long, conflicts_with = "to")]
    no_work: bool,
    /// No messages: neither run here, nor in the API
    #[arg(long)]
    no_messages: bool,
    /// How lines of the log look [env: WINDROW_LOG_FORMAT] [default: text]; WINDROW_LOG says what is
    /// logged
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    let _log = log::start(&context.config, args.log_format)?;
    let metrics = Metrics::new(Clock::machine());
    let store = metrics.store(context.open().await?);
    let storage = Storage::open(&context.config.storage).with_context(storage_error)?;
    let executor = executor(context, &args, &metrics)?;
    let address = args.listen.unwrap_or(context.config.listen);
    let listener = TcpListener::bind(address).await.with_context(|| {
        let what = format!("could not listen on {address}");
        CliError::new(Exit::Failed, what, "choose another address with --listen.")
    })?;
    let tls = tls(context)?;
    let mut signals = Signals::new().context("could not listen for signals")?;
    let message_runner = match args.no_work || args.no_messages {
        true => None,
        false => MessageRunner::start(context, &store).await?,
    };
    let engine = executor.clone().map(|executor| engine(context, executor, &store, &storage));
    let parts = Parts {
        store: store.clone(),
        storage,
        routes: Arc::new(Served::new(context, &args)),
        engine: engine.as_ref().map(Engine::handle),
        executor,
        work: context.config.bounds.engine.clone(),
        ingest: context.config.bounds.ingest.clone(),
        options: context.config.bounds.server.clone(),
        clock: Clock::machine(),
        metrics: metrics.clone(),
    };
    let app = match args.no_messages {
        true => App::new(parts),
        false => App::with_messages(parts, messages(message_runner.as_ref(), &store)),
    };
    greet(context, &*store, &listener, engine.is_none()).await?;

    let handle = engine.as_ref().map(Engine::handle);
    let (stop, mut tasks) = (Stop::new(), JoinSet::new());
    let server_stop = stop.clone();
    tasks.spawn(async move {
        app.serve(listener, tls, server_stop)
            .await
            .map(|()| None::<Report>)
            .context("the server ended")
    });
    if let Some(message_runner) = message_runner {
        let plane_stop = stop.clone();
        tasks.spawn(async move { message_runner.run(plane_stop).await.map(|()| None) });
    }
    let mut watchers = JoinSet::new();
    if let Some(engine) = engine {
        watchers.spawn(count_closed(engine.handle().subscribe(), metrics));
        tasks.spawn(async move { Ok(Some(engine.run().await?)) });
    }
    let report = wait(&mut tasks, &mut signals, || {
        stop.give();
        handle.iter().for_each(|handle| handle.stop());
    })
    .await?;
    let released = report.map_or(0, |report| report.released);
    context.print_result(&serde_json::json!({ "released": released }), || {
        format!("Stopped: {} lines went back to be claimed again.", text::count(released))
    })?;
    Ok(Exit::Success)
}

/// What the API does with messages: through the runner of this process, when there is one.
fn messages(message_runner: Option<&MessageRunner>, store: &Arc<dyn Store>) -> Messages {
    match message_runner {
        Some(message_runner) => {
            Messages::new(message_runner.client()).watched(message_runner.watch())
        }
        None => Messages::new(Client::new(store.clone())),
    }
}

/// Counts the batches that are closed, as long as there are any.
async fn count_closed(mut events: broadcast::Receiver<Event>, metrics: Metrics) {
    loop {
        match events.recv().await {
            Ok(Event::Closed { batch }) => metrics.observe_closed(&batch),
            Ok(Event::OutputFailed { .. }) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Waits until everything has ended. The first signal, or the first end, stops the rest.
async fn wait(
    tasks: &mut JoinSet<anyhow::Result<Option<Report>>>,
    signals: &mut Signals,
    stop: impl Fn(),
) -> anyhow::Result<Option<Report>> {
    let (mut asked, mut report, mut failed) = (false, None, None);
    loop {
        tokio::select! {
            ended = tasks.join_next() => {
                let Some(ended) = ended else { break };
                stop();
                match ended.context("a part of the server panicked").and_then(|ended| ended) {
                    Ok(output) => report = report.or(output),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            () = signals.next() => {
                if std::mem::replace(&mut asked, true) {
                    exit_at_once();
                }
                tracing::info!("stopping; what is in flight may finish");
                stop();
            }
        }
    }
    failed.map_or(Ok(report), Err)
}

fn engine(
    context: &Context,
    executor: Arc<dyn Executor>,
    store: &Arc<dyn Store>,
    storage: &Storage,
) -> Engine {
    Engine::builder(store.clone())
        .executor(executor)
        .storage(storage.clone())
        .options(context.config.bounds.engine.clone())
        .service("windrow serve")
        .build()
}

/// What runs lines: one for the engine and for those who drive a job by hand; they share its
/// connections. None for a server without a worker, and for one that only runs messages.
fn executor(
    context: &Context,
    args: &Args,
    metrics: &Metrics,
) -> anyhow::Result<Option<Arc<dyn Executor>>> {
    let to = args.to.as_ref();
    let messages_only = !args.no_messages
        && !context.config.tables.is_empty()
        && !UpstreamArgs::is_named(context, to);
    if args.no_work || messages_only {
        return Ok(None);
    }
    let executor = args.upstream.executor_for_all(context, to)?;
    Ok(Some(Arc::new(metrics.executor(ThrottledExecutor::new(executor)))))
}

fn tls(context: &Context) -> anyhow::Result<Option<Tls>> {
    let Some((cert, key)) = &context.config.tls else { return Ok(None) };
    let tls = Tls::read(cert, key).with_context(|| {
        let remedy = "`tls_cert` and `tls_key` name files with a certificate and its key, as PEM.";
        CliError::new(Exit::Config, "the server cannot speak TLS as it is configured", remedy)
    })?;
    Ok(Some(tls))
}

/// Says where it is, and on a first start the admin's key, once.
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
        let work = if no_work { ", without a worker for batches" } else { "" };
        let mut output = format!("Windrow listens on {address}{work}.");
        if let Some(api_key) = &made {
            output += &format!("\nThe admin's key, shown only now: {}", api_key.reveal());
        }
        output
    })
}

/// Makes sure that there is an admin. Gives the key when it was made here.
async fn admin_key(context: &Context, store: &dyn Store) -> anyhow::Result<Option<ApiKey>> {
    let spec = KeySpec {
        owner: context.config.owner.clone(),
        role: Role::Admin,
        name: "admin".to_owned(),
        expires_at: None,
    };
    if let Some(chosen) = std::env::var(ADMIN_KEY).ok().filter(|text| !text.is_empty()) {
        let api_key = ApiKey::chosen(&chosen).with_context(|| {
            let remedy = "choose a longer one, or unset it to have one made.";
            CliError::new(Exit::Config, format!("{ADMIN_KEY} cannot be a key"), remedy)
        })?;
        return match store.find_key(&api_key.hash()).await {
            Ok(key) if key.role == Role::Admin => Ok(None),
            Ok(_) => Err(not_admins("is the key of a member")),
            Err(error) if error.kind == Kind::Missing => {
                match store.add_key(api_key.to_new_key(KeyId::new(), spec)).await {
                    Ok(_) => Ok(None),
                    // It is known, and not let in.
                    Err(error) if error.kind == Kind::Conflict => {
                        Err(not_admins("was revoked, or is past its end"))
                    }
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        };
    }
    match keys::has_admin(store).await? {
        true => Ok(None),
        false => keys::make(store, spec).await.map(|(_, api_key)| Some(api_key)),
    }
}

fn not_admins(why: &str) -> anyhow::Error {
    let remedy = "choose another, or unset it to use the keys that there are.";
    CliError::new(Exit::Config, format!("the key in {ADMIN_KEY} {why}"), remedy).into()
}

/// Which targets the configuration serves, and which paths of them.
struct Served {
    named: HashMap<Target, Vec<String>>,
    /// None when every other target is refused.
    others: Option<Vec<String>>,
}

impl Served {
    fn new(context: &Context, args: &Args) -> Self {
        let tables = &context.config.upstreams;
        let named = tables.iter().filter(|(name, _)| *name != DEFAULT).flat_map(|(_, table)| {
            table.targets.iter().map(|target| (target.clone(), table.endpoints.clone()))
        });
        let default = tables.get(DEFAULT).map(|table| table.endpoints.clone());
        // One that only takes files in, and knows of no upstream, leaves it to those who work.
        let anything = args.to.is_some() || (args.no_work && tables.is_empty());
        Self { named: named.collect(), others: default.or(anything.then(Vec::new)) }
    }
}

impl Routes for Served {
    fn check(&self, target: &Target, endpoint: &str) -> Result<(), Unserved> {
        let endpoints = self.named.get(target).or(self.others.as_ref()).ok_or(Unserved::Target)?;
        match endpoints.is_empty() || endpoints.iter().any(|known| known == endpoint) {
            true => Ok(()),
            false => Err(Unserved::Endpoint),
        }
    }
}
