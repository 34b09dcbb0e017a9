//! Runs messages in this process: with the handlers and publishers of the configuration, and the
//! consumers that fill the inbox.
//!
//! Holds throughout: a process for which the configuration names no handler, publisher or consumer
//! runs no messages, since without handlers it would take partitions from processes that have
//! them; all parts end together, and handlers that run may finish within the grace time.

use std::sync::Arc;

use tokio::task::JoinSet;
use windrow::engine::clock::Clock;
use windrow::engine::deliver::webhook::Webhook;
use windrow::engine::deliver::{BadOption, Inbox, Publisher, Route, Routes};
use windrow::engine::messages::{Client, Gauges, Runner, Running, http};
use windrow::engine::signal::Stop;
use windrow::store::{Kind, Store};
use windrow_brokers::nats::{NatsConsumer, NatsPublisher};
use windrow_brokers::rabbitmq::{RabbitConsumer, RabbitPublisher};
use windrow_brokers::redis::RedisPublisher;

use crate::config::{Config, Outlet, Source, Tables};
use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;

/// The messages of this process, running.
pub(crate) struct MessageRunner {
    runner: Running,
    consumers: Vec<Consumer>,
}

/// A broker's consumer that fills the inbox.
enum Consumer {
    Nats(NatsConsumer),
    Rabbitmq(RabbitConsumer),
}

impl MessageRunner {
    /// Joins the processes that run the messages of this database. None when the configuration names
    /// no handler, publisher or consumer.
    pub(crate) async fn start(
        context: &Context,
        store: &Arc<dyn Store>,
    ) -> anyhow::Result<Option<Self>> {
        let config = &context.config;
        if config.tables.is_empty() {
            return Ok(None);
        }
        let runner = runner(config, store)?;
        let runner = runner.start().await.map_err(|error| refused(config, error))?;
        match consumers(config, &runner.client()) {
            Ok(consumers) => Ok(Some(Self { runner, consumers })),
            Err(error) => {
                runner.stop().await;
                Err(error)
            }
        }
    }

    /// A client that wakes this runner at once.
    pub(crate) fn client(&self) -> Client {
        self.runner.client()
    }

    /// The runner's numbers.
    pub(crate) fn watch(&self) -> impl Fn() -> Gauges + Send + Sync + 'static {
        let handle = self.runner.handle();
        move || handle.gauges()
    }

    /// Runs until it is stopped. Fails when the runner ends by itself.
    pub(crate) async fn run(self, stop: Stop) -> anyhow::Result<()> {
        let Self { mut runner, consumers } = self;
        let mut consuming = JoinSet::new();
        for consumer in consumers {
            let stop = stop.clone();
            consuming.spawn(async move { consumer.run(&stop).await });
        }
        tokio::select! {
            () = stop.given() => {}
            () = runner.wait() => anyhow::bail!("the message runner ended unexpectedly"),
        }
        // Messages that were received are stored before the handlers stop.
        while consuming.join_next().await.is_some() {}
        runner.stop().await;
        Ok(())
    }
}

impl Consumer {
    async fn run(&self, stop: &Stop) {
        match self {
            Consumer::Nats(consumer) => consumer.run(stop).await,
            Consumer::Rabbitmq(consumer) => consumer.run(stop).await,
        }
    }
}

fn runner(
    config: &Config,
    store: &Arc<dyn Store>,
) -> anyhow::Result<windrow::engine::messages::Builder> {
    let Tables { objects, inbox, publish, .. } = &config.tables;
    let lifecycle = !publish.is_empty();
    let options = config.bounds.messages.clone().lifecycle(lifecycle);
    let mut builder = Runner::builder(store.clone(), config.service.clone())
        .options(options)
        .routes(routes(config)?);
    for (name, options) in objects {
        let remote = http::Remote::new(options).map_err(|bad| bad_option("objects", name, bad))?;
        builder = builder.remote_object(name, remote);
    }
    for (name, handler) in inbox {
        let remote =
            http::Remote::new(&handler.to).map_err(|bad| bad_option("inbox", name, bad))?;
        builder = builder.consumer(name, handler.patterns.clone(), remote);
    }
    Ok(builder)
}

/// The publishers. Messages about batches that no publisher takes are dropped by the engine.
fn routes(config: &Config) -> anyhow::Result<Routes> {
    let mut routes = Vec::new();
    for (name, publish) in &config.tables.publish {
        let publisher: Result<Arc<dyn Publisher>, BadOption> = match &publish.to {
            Outlet::Webhook(options) => Webhook::new(name, options).map(|made| Arc::new(made) as _),
            Outlet::Nats(options) => {
                NatsPublisher::new(name, options.clone()).map(|made| Arc::new(made) as _)
            }
            Outlet::Redis(options) => {
                RedisPublisher::new(name, options.clone()).map(|made| Arc::new(made) as _)
            }
            Outlet::Rabbitmq(options) => {
                RabbitPublisher::new(name, options.clone()).map(|made| Arc::new(made) as _)
            }
        };
        let publisher = publisher.map_err(|bad| bad_option("publish", name, bad))?;
        routes.push(Route::new(publish.patterns.clone(), publisher));
    }
    Ok(Routes::new(routes)?)
}

fn consumers(config: &Config, client: &Client) -> anyhow::Result<Vec<Consumer>> {
    let mut consumers = Vec::new();
    for (name, consume) in &config.tables.consume {
        let owner = consume.owner.as_ref().unwrap_or(&config.owner);
        let inbox: Arc<dyn Inbox> = Arc::new(client.inbox(owner.clone()));
        let consumer = match &consume.from {
            Source::Nats(options) => {
                NatsConsumer::new(name, options.clone(), inbox, Clock::machine())
                    .map(Consumer::Nats)
            }
            Source::Rabbitmq(options) => {
                RabbitConsumer::new(name, options.clone(), inbox, Clock::machine())
                    .map(Consumer::Rabbitmq)
            }
        };
        consumers.push(consumer.map_err(|bad| bad_option("consume", name, bad))?);
    }
    Ok(consumers)
}

fn bad_option(kind: &str, name: &str, bad: BadOption) -> anyhow::Error {
    let what = format!("the configuration of [{kind}.{name}] is not valid");
    let remedy = "correct it; docs/configuration.md lists the options.";
    anyhow::Error::new(bad).context(CliError::new(Exit::Config, what, remedy))
}

/// Explains why the runner did not start.
fn refused(config: &Config, error: windrow::store::Error) -> anyhow::Error {
    let kind = error.kind;
    let error = anyhow::Error::new(error);
    match kind {
        Kind::Conflict => {
            let what = format!(
                "the messages of this database are not run by service {:?} with {} partitions",
                config.service, config.bounds.messages.partitions
            );
            let remedy = "set `messages.service` and `messages.partitions` to what `windrow partitions` \
                          prints, or add --no-messages.";
            error.context(CliError::new(Exit::Config, what, remedy))
        }
        Kind::Invalid => {
            let remedy = "correct the value; `windrow config` lists all of them.";
            error.context(CliError::new(
                Exit::Config,
                "the configuration of messages is not valid",
                remedy,
            ))
        }
        _ => error.context("messages could not be started"),
    }
}
