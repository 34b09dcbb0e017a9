//! NATS JetStream.
//!
//! Holds throughout: `Nats-Msg-Id` is `<owner>:<id>`, so that the server drops a repeat within its
//! window and never another owner's message.

mod consumer;
mod publisher;

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, ServerAddr};
use serde::Deserialize;
use windrow_domain::attempt::{Class, Failure};
use windrow_engine::deliver::{BadOption, Secret, shown};

pub use consumer::{ConsumerOptions, NatsConsumer};
pub use publisher::{NatsPublisher, PublisherOptions};

use crate::connection::within;

/// Longest wait that an option can ask for.
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;
/// Bounds of the wait between two attempts to connect again.
const RECONNECT_MS_MIN: u64 = 50;
const RECONNECT_MS_MAX: u64 = 4_000;
/// Notices a server that went away without a word.
const PING: Duration = Duration::from_secs(10);

windrow_domain::options! {
    /// Where a NATS server is, and the credentials.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Server {
        /// `nats://[account:password@]host[:port]`, `tls://` with TLS; several with commas between.
        url: Secret = Secret::from("nats://127.0.0.1:4222"),
        /// The text of a credentials file (`.creds`).
        credentials: Option<Secret> = None,
        /// Certificates to trust besides the system's, as PEM.
        ca_file: Option<PathBuf> = None,
        /// Longest wait for a connection, TLS included.
        connect_ms_max: u64 = 5_000,
    }
}

/// What is needed to connect, read once.
struct Connector {
    name: String,
    addresses: Vec<ServerAddr>,
    credentials: Option<String>,
    ca_file: Option<PathBuf>,
    connect_ms_max: u64,
    /// The addresses without accounts.
    shown: String,
}

impl Connector {
    fn new(name: &str, server: &Server) -> Result<Self, BadOption> {
        BadOption::unless_within("connect_ms_max", server.connect_ms_max, WAIT_MS_MAX)?;
        let url = server.url.read("url")?;
        let parts = || url.split(',').map(str::trim);
        let parse = |part: &str| {
            part.parse().map_err(|_| BadOption::new("url", "is no address of a NATS server"))
        };
        let credentials = match &server.credentials {
            Some(secret) => Some(secret.read("credentials")?),
            None => None,
        };
        let connector = Self {
            name: name.to_owned(),
            addresses: parts().map(parse).collect::<Result<_, _>>()?,
            credentials,
            ca_file: server.ca_file.clone(),
            connect_ms_max: server.connect_ms_max,
            shown: parts().map(shown).collect::<Vec<_>>().join(","),
        };
        connector.options()?;
        Ok(connector)
    }

    fn options(&self) -> Result<ConnectOptions, BadOption> {
        let mut options = ConnectOptions::new()
            .name(format!("windrow {}", self.name))
            .connection_timeout(Duration::from_millis(self.connect_ms_max))
            .max_reconnects(None)
            .ping_interval(PING)
            .reconnect_delay_callback(|attempts| {
                let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(32).min(32);
                let ms = RECONNECT_MS_MIN.saturating_mul(1 << doublings);
                Duration::from_millis(ms.min(RECONNECT_MS_MAX))
            });
        if let Some(text) = &self.credentials {
            let bad = |_| BadOption::new("credentials", "are no NATS credentials");
            options = options.credentials(text).map_err(bad)?;
        }
        if let Some(path) = &self.ca_file {
            options = options.add_root_certificates(path.clone());
        }
        Ok(options)
    }

    /// A connection, which comes back by itself when it is lost.
    async fn connect(&self) -> Result<Client, Failure> {
        let bad = |error: BadOption| Failure::permanent("nats_options", error.to_string());
        let options = self.options().map_err(bad)?;
        let what = format!("There was no connection to {}", self.shown);
        within(self.connect_ms_max, &what, async {
            options.connect(self.addresses.clone()).await.map_err(|error| {
                let message = format!("{what}: {}.", error.kind());
                match error.kind() {
                    ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                        Failure::retryable("nats_auth", message)
                    }
                    ConnectErrorKind::TimedOut => {
                        Failure::new(Class::Timeout, "connect_timeout", message)
                            .with_unavailable(true)
                    }
                    _ => Failure::unavailable("connect_failed", message),
                }
            })
        })
        .await
    }
}

/// A text that a header of NATS can hold: without control characters, which would end it.
fn header_text(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let escape = |c: char| {
        if c.is_control() || c == '%' {
            c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect()
        } else {
            c.to_string()
        }
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_accounts() {
        let server = Server { url: "nats://me:hush@one:4222, two".into(), ..Server::default() };
        let connector = Connector::new("it", &server).unwrap();
        assert_eq!(connector.shown, "nats://one:4222,two");
        assert!(!format!("{server:?}").contains("hush"));
        let bad = Server { url: "http://[".into(), ..Server::default() };
        assert_eq!(Connector::new("it", &bad).err().unwrap().name, "url");
        let bad = Server { credentials: Some("x".into()), ..Server::default() };
        assert_eq!(Connector::new("it", &bad).err().unwrap().name, "credentials");
    }

    #[test]
    fn a_header_holds_no_control_character() {
        assert_eq!(header_text("100% ü"), "100% ü");
        assert_eq!(header_text("1%\r\n"), "1%25%0D%0A");
    }
}
