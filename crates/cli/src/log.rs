//! The log, on standard error: sentences for people, fields for machines, never bodies or keys. Traces
//! go to a collector when the configuration names one.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::config::{Config, LogFormat, Origin};
use crate::error::CliError;
use crate::exit_code::Exit;

/// Libraries whose errors come back to us as failures, and are logged where they are handled. A filter
/// that names one of them shows its log.
const QUIET: &str = "async_nats=warn,lapin=off";

/// The running log. When it goes, what waits for the collector is sent.
#[must_use]
pub(crate) struct Log(Option<SdkTracerProvider>);

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(|provider| provider.shutdown()) {
            eprintln!("the last traces could not be sent: {error}");
        }
    }
}

/// Starts it. A format on the command line stands over the configuration.
pub(crate) fn start(config: &Config, format: Option<LogFormat>) -> anyhow::Result<Log> {
    let filter = filter(&config.log)?;
    let format = format.unwrap_or(config.log_format);
    let lines = lines(format, has_colour(), std::io::stderr);
    let provider = config.otlp.as_deref().map(provider).transpose()?;
    let traces = provider
        .as_ref()
        .map(|provider| tracing_opentelemetry::layer().with_tracer(provider.tracer("windrow")));
    tracing_subscriber::registry().with(lines).with(traces).with(filter).init();
    Ok(Log(provider))
}

fn filter(log: &str) -> anyhow::Result<EnvFilter> {
    let wrong = || {
        let what = format!("`log` is {log:?}, which is not a log filter");
        CliError::new(Exit::Config, what, "set it to `info` or `windrow_engine=debug,warn`.")
    };
    // What is said later counts.
    EnvFilter::try_new(format!("{QUIET},{log}")).with_context(wrong)
}

/// Colours only on a terminal, and not with `NO_COLOR`.
fn has_colour() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !unwanted
}

/// The lines of the log, as they are written.
fn lines<W>(format: LogFormat, colour: bool, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().with_ansi(colour).with_writer(writer);
    match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    }
}

/// Sends spans to a collector, in batches and from a thread of its own.
fn provider(url: &str) -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder().with_http().with_endpoint(url).build();
    let exporter = exporter.with_context(|| {
        let what = format!("`otlp` is {url:?}, which is not a usable URL");
        CliError::new(Exit::Config, what, "set it to a URL like http://127.0.0.1:4318/v1/traces.")
    })?;
    let resource = Resource::builder().with_service_name("windrow").build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// Starts it for a command that prints something else, if `log` is configured.
pub(crate) fn start_if_asked(config: &Config) -> anyhow::Result<Option<Log>> {
    match config.origin("log") {
        Origin::Default => Ok(None),
        Origin::File { .. } | Origin::Environment(_) | Origin::Flag => {
            start(config, None).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written.
    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_who_looks_sees_colours() {
        assert!(!has_colour() || std::io::stderr().is_terminal());
        for (format, colour) in
            [(LogFormat::Text, true), (LogFormat::Text, false), (LogFormat::Json, false)]
        {
            let captured = Captured::default();
            let writer = captured.clone();
            let log =
                tracing_subscriber::registry().with(lines(format, colour, move || writer.clone()));
            tracing::subscriber::with_default(log, || tracing::info!(lines = 3, "file taken in"));
            let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
            assert!(text.contains("file taken in"), "{text}");
            assert_eq!(text.contains('\u{1b}'), colour, "{text:?}");
        }
    }

    #[test]
    fn clients_of_brokers_speak_only_when_asked() {
        for (given, hears) in [("info", false), ("debug", false), ("info,lapin=error", true)] {
            let captured = Captured::default();
            let writer = captured.clone();
            let lines = lines(LogFormat::Text, false, move || writer.clone());
            let log = tracing_subscriber::registry().with(lines).with(filter(given).unwrap());
            tracing::subscriber::with_default(log, || {
                tracing::error!(target: "lapin::channels", "from outside");
                tracing::info!("from here");
            });
            let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.contains("from outside"), hears, "{given}: {text}");
            assert!(text.contains("from here"), "{given}: {text}");
        }
        assert!(filter("=").is_err());
    }
}
