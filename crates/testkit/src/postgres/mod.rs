//! PostgreSQL for tests and benches: a cluster of our own, and databases cloned from a template.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::process::{Home, Server, Stop, free_port};
use crate::{Failure, programs};

#[cfg(feature = "net")]
mod database;

#[cfg(feature = "net")]
pub use database::Database;

/// Tests reach their server through this variable; `cargo xtask test` sets it.
pub const DATABASE_URL: &str = "WINDROW_TEST_DATABASE_URL";
/// The same server behind a transaction pooler; absent where there is no pooler.
pub const POOLER_URL: &str = "WINDROW_TEST_POOLER_URL";

const START_SECS_MAX: u64 = 60;
const START_ATTEMPTS_MAX: u32 = 3;
/// Fast shutdown, which rolls back what runs; then immediate.
const STOP: &[Stop] = &[(Signal::INT, "INT"), (Signal::QUIT, "QUIT")];

/// How a cluster is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Commits survive power loss, as in production. Functional tests do without and run faster.
    pub durable: bool,
    /// Sessions at the same time.
    pub connections_max: u32,
    /// The folder of `initdb` and `postgres`; looked for in the usual places when absent.
    pub programs: Option<PathBuf>,
    /// Further settings, as in `postgresql.conf`. They win over those made here.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { durable: false, connections_max: 300, programs: None, settings: Vec::new() }
    }
}

/// A throw-away cluster on a free port of 127.0.0.1; stopped and removed when dropped.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    port: u16,
    program: PathBuf,
    words: Vec<OsString>,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Sessions are cut off and what runs is rolled back; then it ends in good order.
    Fast,
    /// At once, as in a crash: the next start recovers from the log.
    Immediate,
}

impl Cluster {
    /// Makes a cluster and waits until it accepts connections.
    pub fn start(options: &Options) -> Result<Self, Failure> {
        let programs = match &options.programs {
            Some(folder) => folder.clone(),
            None => programs::postgres_folder()
                .ok_or_else(|| Failure::new("PostgreSQL's server programs were not found"))?,
        };
        let mut attempts = 1;
        loop {
            match Self::try_start(&programs, options) {
                Err(failure) if attempts < START_ATTEMPTS_MAX && failure.is_port_taken() => {
                    attempts += 1;
                }
                outcome => return outcome,
            }
        }
    }

    fn try_start(programs: &Path, options: &Options) -> Result<Self, Failure> {
        let mut home = Home::new("windrow-postgres-", STOP)?;
        initdb(&mut home, programs, options)?;
        let sockets = home.subfolder("sockets")?;
        let port = free_port()?;
        let program = programs.join("postgres");
        let mut words = vec![OsString::from("-D"), home.path().join("data").into_os_string()];
        for (name, value) in settings(options, port, &sockets) {
            words.extend([OsString::from("-c"), OsString::from(format!("{name}={value}"))]);
        }
        let mut command = home.command(&program);
        command.args(&words);
        let server = Server::spawn(home, command)?;
        let mut cluster = Self { server, port, program, words };
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    fn wait_until_ready(&mut self) -> Result<(), Failure> {
        let pid_file = self.pid_file();
        let within = Duration::from_secs(START_SECS_MAX);
        self.server.wait_until("PostgreSQL", within, || is_ready(&pid_file))
    }

    fn pid_file(&self) -> PathBuf {
        self.folder().join("data").join("postmaster.pid")
    }

    /// Stops the server and waits until it is gone; its data stay.
    pub fn stop(&mut self, how: Shutdown) {
        self.server.stop(match how {
            Shutdown::Fast => STOP,
            Shutdown::Immediate => &STOP[1..],
        });
    }

    /// Starts the server again after [`Cluster::stop`]: same port, same data.
    pub fn start_again(&mut self) -> Result<(), Failure> {
        // One that was killed leaves it behind, and it would say "ready" for the next.
        let _ = fs::remove_file(self.pid_file());
        self.server.start_again(&self.program, &self.words)?;
        self.wait_until_ready()
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The superuser's address of the cluster's first database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Where it keeps everything; gone when the cluster is.
    pub fn folder(&self) -> &Path {
        self.server.path()
    }
}

fn initdb(home: &mut Home, programs: &Path, options: &Options) -> Result<(), Failure> {
    let mut command = home.command(&programs.join("initdb"));
    command.arg("-D").arg(home.path().join("data"));
    command.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]);
    if !options.durable {
        command.arg("--no-sync");
    }
    let output = home.run(command).map_err(Failure::while_doing("run initdb"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("initdb ended with {}: {}", output.status, said.trim())))
}

fn settings(options: &Options, port: u16, sockets: &Path) -> Vec<(String, String)> {
    let mut settings = vec![
        ("listen_addresses", "127.0.0.1".to_owned()),
        ("port", port.to_string()),
        ("unix_socket_directories", sockets.display().to_string()),
        ("max_connections", options.connections_max.to_string()),
    ];
    if options.durable {
        settings.push(("synchronous_commit", "on".to_owned()));
    } else {
        for name in ["fsync", "synchronous_commit", "full_page_writes"] {
            settings.push((name, "off".to_owned()));
        }
    }
    let own = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
    own.chain(options.settings.iter().cloned()).collect()
}

/// The server writes its own state there; a mere connect would succeed while it still starts up.
fn is_ready(pid_file: &Path) -> bool {
    const STATUS_LINE: usize = 7;
    let text = fs::read_to_string(pid_file).unwrap_or_default();
    text.lines().nth(STATUS_LINE).is_some_and(|status| status.trim() == "ready")
}
