//! Message brokers for tests: NATS, Redis and RabbitMQ, each in a folder of its own.
//!
//! Holds throughout: each listens on a free port of 127.0.0.1 and keeps it and its data when it is
//! stopped and started again; what it acknowledged is on disk.

mod programs;
mod rabbitmq;

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

pub use programs::{nats_server, rabbitmq_server, redis_server};

use crate::Failure;
use crate::process::{Home, Server, Stop, free_port};

/// RabbitMQ takes about ten seconds on a quiet machine.
const START_SECS_MAX: u64 = 120;
const START_ATTEMPTS_MAX: u32 = 3;
const STOP: &[Stop] = &[(Signal::TERM, "TERM")];

/// A running broker; stopped and removed when dropped.
#[derive(Debug)]
pub struct Broker {
    server: Server,
    name: &'static str,
    scheme: &'static str,
    port: u16,
    program: PathBuf,
    words: Vec<OsString>,
    /// What it needs beside itself; goes after it.
    _beside: Option<Server>,
}

impl Broker {
    /// A NATS server with JetStream.
    pub fn nats() -> Result<Self, Failure> {
        let program = nats_server().ok_or_else(|| missing("nats-server"))?;
        with_a_port(|| {
            let home = Home::new("windrow-nats-", STOP)?;
            let data = home.subfolder("data")?;
            let port = free_port()?;
            let words = words(&["-js", "-sd"])
                .chain([data.into_os_string()])
                .chain(words(&["-a", "127.0.0.1", "-p"]))
                .chain([port.to_string().into()]);
            Self::start(home, "nats-server", "nats", port, &program, words.collect(), None)
        })
    }

    /// A Redis server that has every write on disk before it answers.
    pub fn redis() -> Result<Self, Failure> {
        let program = redis_server().ok_or_else(|| missing("redis-server"))?;
        with_a_port(|| {
            let home = Home::new("windrow-redis-", STOP)?;
            let data = home.subfolder("data")?;
            let port = free_port()?;
            let words = words(&["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
                .chain(words(&["--appendfsync", "always", "--dir"]))
                .chain([data.into_os_string(), "--port".into(), port.to_string().into()]);
            Self::start(home, "redis-server", "redis", port, &program, words.collect(), None)
        })
    }

    /// A RabbitMQ server with the account `guest`, password `guest`. It takes its time: a run of
    /// tests starts one.
    pub fn rabbitmq() -> Result<Self, Failure> {
        let program = rabbitmq_server().ok_or_else(|| missing("rabbitmq-server"))?;
        with_a_port(|| rabbitmq::start(&program))
    }

    fn start(
        home: Home,
        name: &'static str,
        scheme: &'static str,
        port: u16,
        program: &Path,
        words: Vec<OsString>,
        beside: Option<Server>,
    ) -> Result<Self, Failure> {
        let mut command = home.command(program);
        command.args(&words);
        let server = Server::spawn(home, command)?;
        let program = program.to_path_buf();
        let mut broker = Self { server, name, scheme, port, program, words, _beside: beside };
        broker.wait()?;
        Ok(broker)
    }

    fn wait(&mut self) -> Result<(), Failure> {
        let port = self.port;
        let within = Duration::from_secs(START_SECS_MAX);
        self.server.wait_until(self.name, within, || answers(port))
    }

    /// Where clients connect: `nats://127.0.0.1:4222`.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Asks it to end, and waits for that. Its data stays.
    pub fn stop(&mut self) {
        self.server.stop(STOP);
    }

    /// Kills it. Its data stays.
    pub fn kill(&mut self) {
        self.server.stop(&[]);
    }

    /// Starts it once more with its data and on its port, after it was stopped or killed.
    pub fn start_again(&mut self) -> Result<(), Failure> {
        self.server.start_again(&self.program, &self.words)?;
        self.wait()
    }
}

fn words(texts: &'static [&str]) -> impl Iterator<Item = OsString> {
    texts.iter().map(OsString::from)
}

fn answers(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn missing(program: &str) -> Failure {
    Failure::new(format!("{program} was not found: `cargo xtask test` installs it"))
}

/// Tries other ports when somebody was faster.
fn with_a_port(start: impl Fn() -> Result<Broker, Failure>) -> Result<Broker, Failure> {
    let mut attempts = 1;
    loop {
        match start() {
            Err(failure) if attempts < START_ATTEMPTS_MAX && failure.is_port_taken() => {
                attempts += 1;
            }
            outcome => return outcome,
        }
    }
}
