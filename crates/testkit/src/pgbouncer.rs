//! A transaction pooler in front of a server: the hard case for session state.
//!
//! Holds throughout: any database name passes through, and sessions are few, so that two clients
//! really do share one.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::postgres::Cluster;
use crate::process::{Home, Server, Stop, free_port};
use crate::{Failure, programs};

const START_SECS_MAX: u64 = 20;
const START_ATTEMPTS_MAX: u32 = 3;
const SESSIONS_PER_DATABASE: u32 = 6;
/// It keeps nothing, so it may simply be killed; its gentler ends differ from version to version.
const STOP: &[Stop] = &[];

/// A server to pool for, as the pooler itself reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The role every session gets.
    pub user: String,
    /// Its password, where the server asks for one.
    pub password: Option<String>,
}

impl Upstream {
    /// Reads `postgres://user[:password]@host[:port]/…`. None for addresses that a pooler of ours
    /// cannot stand in front of: sockets, several hosts, settings after a `?`, escaped characters.
    pub fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (account, address) = authority.rsplit_once('@')?;
        let (user, password) = match account.split_once(':') {
            Some((user, password)) => (user, Some(password.to_owned())),
            None => (account, None),
        };
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (address, 5432),
        };
        let odd = |c: char| "%,'\\[] ".contains(c);
        if user.is_empty() || host.is_empty() || authority.contains(odd) || path.contains('?') {
            return None;
        }
        Some(Self { host: host.to_owned(), port, user: user.to_owned(), password })
    }
}

/// A pgbouncer on a free port of 127.0.0.1; stopped and removed when dropped.
#[derive(Debug)]
pub struct Pooler {
    _server: Server,
    port: u16,
    user: String,
}

impl Pooler {
    /// Pools for a cluster of ours.
    pub fn start(cluster: &Cluster) -> Result<Self, Failure> {
        Self::in_front_of(&Upstream {
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: cluster.port(),
            user: "postgres".to_owned(),
            password: None,
        })
    }

    /// Pools for any server that can be reached by TCP.
    pub fn in_front_of(upstream: &Upstream) -> Result<Self, Failure> {
        let program =
            programs::pgbouncer().ok_or_else(|| Failure::new("pgbouncer was not found"))?;
        let mut attempts = 1;
        loop {
            match Self::try_start(&program, upstream) {
                Err(failure) if attempts < START_ATTEMPTS_MAX && failure.is_port_taken() => {
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn try_start(program: &Path, upstream: &Upstream) -> Result<Self, Failure> {
        let home = Home::new("windrow-pgbouncer-", STOP)?;
        let sockets = home.subfolder("sockets")?;
        let port = free_port()?;
        let file = home.write("pgbouncer.ini", &settings(upstream, port, &sockets))?;
        let mut command = home.command(program);
        command.arg(file);
        let mut server = Server::spawn(home, command)?;
        let within = Duration::from_secs(START_SECS_MAX);
        server.wait_until("pgbouncer", within, || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        })?;
        Ok(Self { _server: server, port, user: upstream.user.clone() })
    }

    /// The pooler's address of the server's first database; other names pass through as well.
    pub fn url(&self) -> String {
        format!("postgres://{}@127.0.0.1:{}/postgres", self.user, self.port)
    }
}

fn settings(upstream: &Upstream, port: u16, sockets: &Path) -> String {
    let Upstream { host, port: server_port, user, password } = upstream;
    let password = password.as_ref().map(|p| format!(" password='{p}'")).unwrap_or_default();
    let sockets = sockets.display();
    format!(
        "[databases]\n\
         * = host={host} port={server_port} user={user}{password}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir = {sockets}\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         max_client_conn = 1000\n\
         default_pool_size = {SESSIONS_PER_DATABASE}\n\
         server_idle_timeout = 5\n\
         ignore_startup_parameters = extra_float_digits,options\n\
         log_connections = 0\n\
         log_disconnections = 0\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_a_pooler_can_front_are_read() {
        let read = |url| Upstream::parse(url).map(|u| (u.host, u.port, u.user, u.password));
        let own = |s: &str| s.to_owned();
        let cases = [
            ("postgres://me@db:6000/x", Some((own("db"), 6000, own("me"), None))),
            ("postgresql://me:pw@db", Some((own("db"), 5432, own("me"), Some(own("pw"))))),
            ("postgres:///x", None),
            ("postgres://me@db/x?sslmode=require", None),
            ("postgres://me@one,two/x", None),
            ("host=db user=me", None),
        ];
        for (url, wanted) in cases {
            assert_eq!(read(url), wanted, "{url}");
        }
    }
}
