//! Checks that the upstream accepts connections, and that TLS with it works, before anything is written.

use std::path::Path;
use std::time::Duration;

use tokio::net::TcpStream;
use url::Url;
use windrow::engine::execute::http::{TlsRefusal, handshake, speaks_tls};

use crate::clock::Stopwatch;
use crate::error::CliError;
use crate::exit_code::Exit;

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a server of plain HTTP is heard to be silent: a run begins that much later.
const SILENT_MIN: Duration = Duration::from_millis(50);
const SILENT_MAX: Duration = Duration::from_secs(1);

/// Parses `--to`.
pub(crate) fn url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|why| format!("not a URL: {why}"))?;
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(_)) => {}
        _ => return Err("must be http://host:port or https://host".to_owned()),
    }
    if !url.username().is_empty() || url.password().is_some() {
        let instead = "--api-key-env, --api-key-file or --header";
        return Err(format!(
            "the URL is stored and printed: pass the secret with {instead} instead"
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a query: each line has its own path".to_owned());
    }
    Ok(url)
}

/// Connects, makes the TLS handshake where there is one, and closes again.
pub(crate) async fn probe(url: &Url, ca_file: Option<&Path>) -> Result<(), CliError> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let started = Stopwatch::start();
    let why = match tokio::time::timeout(CONNECT_MAX, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) if url.scheme() == "https" => {
            return check_tls(url, stream, host, ca_file).await;
        }
        Ok(Ok(stream)) => return check_plain(url, stream, host, started.elapsed()).await,
        Ok(Err(error)) => match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            _ => error.to_string(),
        },
        Err(_) => format!("no response in {} s", CONNECT_MAX.as_secs()),
    };
    Err(unreachable(url, &why))
}

fn unreachable(url: &Url, why: &str) -> CliError {
    let what = format!("could not reach {url}: {why}");
    let remedy = "start the server or correct --to, and run the same command again; nothing was \
                  sent, and finished lines keep their results.";
    CliError::new(Exit::Unreachable, what, remedy)
}

/// It took the connection, and there was no TLS: it may be away, or the port may speak plain HTTP.
fn unshaken(url: &Url, why: &str) -> CliError {
    let remedy = "if this port speaks plain HTTP, use http:// in --to; else start the server, and run the \
                  same command again; nothing was sent, and finished lines keep their results.";
    CliError::new(Exit::Unreachable, format!("could not reach {url}: {why}"), remedy)
}

/// A port that speaks TLS would answer no request in plain HTTP, however long one waits.
async fn check_plain(
    url: &Url,
    stream: TcpStream,
    host: &str,
    connecting: Duration,
) -> Result<(), CliError> {
    // What a server of TLS says comes after one way there and back, as the connection did.
    let silent_for = (connecting * 4).clamp(SILENT_MIN, SILENT_MAX);
    if !speaks_tls(stream, host, silent_for).await {
        return Ok(());
    }
    let remedy = "use https:// in --to, or the port that speaks plain HTTP; nothing was sent.";
    Err(CliError::new(Exit::Config, format!("{url} speaks TLS on this port"), remedy))
}

/// A certificate does not get better by waiting, so the command ends at once.
async fn check_tls(
    url: &Url,
    stream: TcpStream,
    host: &str,
    ca_file: Option<&Path>,
) -> Result<(), CliError> {
    let shaken = tokio::time::timeout(CONNECT_MAX, handshake(stream, host, ca_file)).await;
    let (what, remedy) = match shaken {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(TlsRefusal::Certificate(why))) => {
            let remedy = format!(
                "name the certificate, or that of its authority, as a PEM file: `ca_file` in \
                 [upstreams.default] with base_url = \"{url}\" in windrow.toml; nothing was sent."
            );
            (format!("the certificate of {url} is not trusted: {why}"), remedy)
        }
        Ok(Err(TlsRefusal::NotTls)) => {
            let remedy = "use http:// in --to, or the port that speaks TLS; nothing was sent.";
            (format!("{url} does not speak TLS"), remedy.to_owned())
        }
        Ok(Err(TlsRefusal::CaFile(why))) => {
            let remedy = "correct `ca_file` in the configuration; nothing was sent.";
            (format!("the certificates of ca_file cannot be used: {why}"), remedy.to_owned())
        }
        Ok(Err(TlsRefusal::Connection(why))) => return Err(unshaken(url, &why)),
        Err(_) => {
            let why = format!("no TLS handshake in {} s", CONNECT_MAX.as_secs());
            return Err(unshaken(url, &why));
        }
    };
    Err(CliError::new(Exit::Config, what, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_taken() {
        assert!(url("http://localhost:8000/v1").is_ok());
        assert!(url("https://[::1]").is_ok());
        for bad in ["localhost:8000", "ftp://h", "http://", "http://u:p@h", "http://h/?a=b"] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_told_apart() {
        // Port 1 refuses at once.
        let error = probe(&url("http://127.0.0.1:1").unwrap(), None).await.unwrap_err();
        assert_eq!(error.to_string(), "could not reach http://127.0.0.1:1/: connection refused");
    }
}
