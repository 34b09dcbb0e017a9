//! RabbitMQ: many folders, a name service, and an account that is not root.
//!
//! Holds throughout: nothing of the system's own RabbitMQ is read or written. The name service is a
//! process of ours; one that RabbitMQ started by itself would outlive it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::programs::epmd;
use super::{Broker, START_SECS_MAX, STOP, answers, missing};
use crate::Failure;
use crate::process::{Home, Server, free_port};

/// The program that sets variables and then becomes the server, so that a start looks the same as
/// a start once more.
const ENV: &str = "/usr/bin/env";

pub(super) fn start(program: &Path) -> Result<Broker, Failure> {
    let (names, names_port) = name_service()?;
    let home = Home::new("windrow-rabbitmq-", STOP)?;
    let (port, peer_port) = (free_port()?, free_port()?);
    let settings = format!("listeners.tcp.1 = 127.0.0.1:{port}\nlog.console.level = warning\n");
    home.write("rabbitmq.conf", &settings)?;
    let at = |name: &str| home.path().join(name).display().to_string();
    let variables = [
        ("HOME", home.path().display().to_string()),
        ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
        ("ERL_EPMD_PORT", names_port.to_string()),
        ("ERL_CRASH_DUMP_BYTES", "0".to_owned()),
        ("RABBITMQ_NODENAME", format!("windrow{port}@localhost")),
        ("RABBITMQ_DIST_PORT", peer_port.to_string()),
        ("RABBITMQ_CONF_ENV_FILE", at("none")),
        ("RABBITMQ_CONFIG_FILE", at("rabbitmq.conf")),
        ("RABBITMQ_CONFIG_FILES", at("none.d")),
        ("RABBITMQ_ADVANCED_CONFIG_FILE", at("none.config")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", at("plugins")),
        ("RABBITMQ_MNESIA_BASE", at("data")),
        ("RABBITMQ_FEATURE_FLAGS_FILE", at("flags")),
        ("RABBITMQ_GENERATED_CONFIG_DIR", at("generated")),
        ("RABBITMQ_LOG_BASE", at("logs")),
        ("RABBITMQ_LOGS", "-".to_owned()),
        ("RABBITMQ_PID_FILE", at("pid")),
        // Its script then becomes the server instead of waiting for it, so our child is the server.
        ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
    ];
    let mut words: Vec<OsString> = Vec::new();
    words.extend(variables.map(|(name, value)| format!("{name}={value}").into()));
    words.push(program.into());
    let env = PathBuf::from(ENV);
    Broker::start(home, "rabbitmq-server", "amqp", port, &env, words, Some(names))
}

fn name_service() -> Result<(Server, u16), Failure> {
    let program = epmd().ok_or_else(|| missing("epmd"))?;
    let home = Home::new("windrow-epmd-", STOP)?;
    let port = free_port()?;
    let mut command = home.command(&program);
    command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
    let mut server = Server::spawn(home, command)?;
    server.wait_until("epmd", Duration::from_secs(START_SECS_MAX), || answers(port))?;
    Ok((server, port))
}
