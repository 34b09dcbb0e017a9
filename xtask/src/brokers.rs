//! The brokers that tests run against: Redis and RabbitMQ from the system, NATS at a pinned version
//! below cargo's own folder, where `windrow_testkit::broker` looks for it.

use windrow_testkit::broker;

use crate::clients::{self, Environment};
use crate::install::Program;
use crate::shell;

/// What has to be installed before brokers can be started.
pub(crate) fn missing() -> Vec<Program> {
    let mut missing = Vec::new();
    if broker::redis_server().is_none() {
        missing.push(Program::Redis);
    }
    if broker::rabbitmq_server().is_none() {
        missing.push(Program::Rabbitmq);
    }
    if clients::python().is_none() {
        missing.push(Program::Python);
    }
    missing
}

/// Where NATS is, and at which version.
pub(crate) fn nats() -> Environment {
    Environment {
        folder: shell::target().join("brokers/python"),
        pins: vec![shell::root().join("crates/brokers/tests/requirements.txt")],
    }
}
