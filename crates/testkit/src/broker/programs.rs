//! Finding the brokers' programs.

use std::env;
use std::path::{Path, PathBuf};

use crate::programs::path_folders;

/// Where `cargo xtask test` keeps NATS, below cargo's own folder.
const NATS_BELOW_TARGET: &str = "brokers/python/bin/nats-server";

/// NATS: the one that `cargo xtask test` pinned, else one in `PATH`.
pub fn nats_server() -> Option<PathBuf> {
    // Test programs run from below cargo's folder.
    let own = env::current_exe().ok()?;
    let pinned = own.ancestors().skip(1).map(|folder| folder.join(NATS_BELOW_TARGET));
    pinned.chain(in_folders("nats-server", &[])).find(|program| program.is_file())
}

/// Redis.
pub fn redis_server() -> Option<PathBuf> {
    in_folders("redis-server", &["/usr/local/bin", "/opt/homebrew/bin"])
        .find(|program| program.is_file())
}

/// RabbitMQ. Debian's program in `PATH` is a wrapper that only root and one account may run, so
/// the one behind it comes first.
pub fn rabbitmq_server() -> Option<PathBuf> {
    let behind = ["/usr/lib/rabbitmq/bin", "/opt/homebrew/sbin", "/usr/local/sbin"];
    let behind = behind.into_iter().map(|folder| Path::new(folder).join("rabbitmq-server"));
    behind.chain(in_folders("rabbitmq-server", &[])).find(|program| program.is_file())
}

/// The name service that Erlang's programs need.
pub(super) fn epmd() -> Option<PathBuf> {
    in_folders("epmd", &["/usr/lib/erlang/bin"]).find(|program| program.is_file())
}

fn in_folders(name: &str, more: &[&str]) -> impl Iterator<Item = PathBuf> {
    let more = more.iter().map(PathBuf::from);
    let folders: Vec<PathBuf> = path_folders().into_iter().chain(more).collect();
    folders.into_iter().map(move |folder| folder.join(name))
}
