//! The log, on standard error: sentences for people, fields for machines, never bodies or keys.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat, Origin};
use crate::ending::Ending;
use crate::failure::Told;

/// Starts it. A format on the command line stands over the configuration.
pub(crate) fn start(config: &Config, format: Option<LogFormat>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log).with_context(|| {
        let what = format!("`log` is {:?}, which is no filter", config.log);
        Told::new(Ending::Config, what, "give it as `info` or `windrow_engine=debug,warn`.")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format.unwrap_or(config.log_format) {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

/// Starts it for a command that shows something else, if somebody asked for it.
pub(crate) fn start_if_asked(config: &Config) -> anyhow::Result<()> {
    match config.origin("log") {
        Origin::Default => Ok(()),
        Origin::File { .. } | Origin::Environment(_) | Origin::Flag => start(config, None),
    }
}
