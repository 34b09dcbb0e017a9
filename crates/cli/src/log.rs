//! The log, on standard error: sentences for people, fields for machines, never bodies or keys. Traces
//! go to a collector when the configuration names one.

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::config::{Config, LogFormat, Origin};
use crate::ending::Ending;
use crate::failure::Told;

/// The running log. When it goes, what waits for the collector is sent.
#[must_use]
pub(crate) struct Log(Option<SdkTracerProvider>);

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(|provider| provider.shutdown()) {
            eprintln!("the last traces were not sent: {error}");
        }
    }
}

/// Starts it. A format on the command line stands over the configuration.
pub(crate) fn start(config: &Config, format: Option<LogFormat>) -> anyhow::Result<Log> {
    let filter = EnvFilter::try_new(&config.log).with_context(|| {
        let what = format!("`log` is {:?}, which is no filter", config.log);
        Told::new(Ending::Config, what, "give it as `info` or `windrow_engine=debug,warn`.")
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match format.unwrap_or(config.log_format) {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let provider = config.otlp.as_deref().map(provider).transpose()?;
    let traces = provider
        .as_ref()
        .map(|provider| tracing_opentelemetry::layer().with_tracer(provider.tracer("windrow")));
    tracing_subscriber::registry().with(lines).with(traces).with(filter).init();
    Ok(Log(provider))
}

/// Sends spans to a collector, in batches and from a thread of its own.
fn provider(url: &str) -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder().with_http().with_endpoint(url).build();
    let exporter = exporter.with_context(|| {
        let what = format!("`otlp` is {url:?}, where no traces can be sent to");
        Told::new(Ending::Config, what, "give it as http://127.0.0.1:4318/v1/traces.")
    })?;
    let resource = Resource::builder().with_service_name("windrow").build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// Starts it for a command that shows something else, if somebody asked for it.
pub(crate) fn start_if_asked(config: &Config) -> anyhow::Result<Option<Log>> {
    match config.origin("log") {
        Origin::Default => Ok(None),
        Origin::File { .. } | Origin::Environment(_) | Origin::Flag => {
            start(config, None).map(Some)
        }
    }
}
