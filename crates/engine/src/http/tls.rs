//! TLS to upstreams, webhooks and handlers: which certificates are trusted, and the handshake of a start check.
//!
//! Holds throughout: a certificate of `ca_file` is trusted as an authority, and as a server's own when the
//! server shows exactly that one: a self-signed certificate (as `openssl req -x509` makes it) is both, and the
//! rules of authorities would refuse it as a server's. Signatures of the handshake are checked in either case.

use std::error::Error as StdError;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as RustlsError, SignatureScheme,
};

use super::explain::in_words;

/// A file of certificates that cannot be used.
#[derive(Debug)]
pub(crate) struct BadCaFile {
    pub(crate) path: PathBuf,
    pub(crate) source: Box<dyn StdError + Send + Sync>,
}

/// Why TLS with a server cannot succeed, now or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsRefusal {
    /// Its certificate is not trusted, or is not for its name; with the verifier's words.
    Certificate(String),
    /// It does not speak TLS on this port.
    NotTls,
    /// The file of certificates cannot be used; with the reason.
    CaFile(String),
    /// The connection failed meanwhile, which may pass; with the error.
    Connection(String),
}

/// Makes a TLS handshake over a connection, as a request to that host would, and sends nothing.
pub async fn handshake(
    stream: TcpStream,
    host: &str,
    ca_file: Option<&Path>,
) -> Result<(), TlsRefusal> {
    let bad_file =
        |bad: BadCaFile| TlsRefusal::CaFile(format!("{}: {}", bad.path.display(), bad.source));
    let trusted = ca_file.map(read).transpose().map_err(bad_file)?.unwrap_or_default();
    let config = config(trusted, &[]).map_err(|error| TlsRefusal::CaFile(error.to_string()))?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| TlsRefusal::Certificate(error.to_string()))?;
    match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
        Ok(_) => Ok(()),
        Err(error) => Err(refusal(&error)),
    }
}

/// What a server of HTTP skips before a request (RFC 9112, 2.2), and one of TLS cannot read.
const EMPTY_LINES: &[u8] = b"\r\n\r\n\r\n";
/// The first byte of an alert of TLS.
const ALERT: u8 = 0x15;
/// Longest wait for the second connection and its handshake.
const SHAKE_MAX: Duration = Duration::from_secs(5);

/// Whether a server that plain HTTP was to be spoken with speaks TLS on that port. Sends it empty lines, which are no
/// request. A server of HTTP is silent, which is waited for no longer than told; one of TLS ends the connection, and a
/// handshake on another one proves what it is.
pub async fn speaks_tls(mut stream: TcpStream, host: &str, silent_for: Duration) -> bool {
    let mut answer = [0];
    let address = stream.peer_addr();
    let said = async {
        stream.write_all(EMPTY_LINES).await?;
        stream.read(&mut answer).await
    };
    match timeout(silent_for, said).await {
        Err(_) => return false,
        Ok(Ok(1..)) => return answer[0] == ALERT,
        Ok(Ok(0) | Err(_)) => {}
    }
    let shaken = async {
        let stream = TcpStream::connect(address.ok()?).await.ok()?;
        Some(handshake(stream, host, None).await)
    };
    let shaken = timeout(SHAKE_MAX, shaken).await.ok().flatten();
    matches!(shaken, Some(Ok(()) | Err(TlsRefusal::Certificate(_))))
}

fn refusal(error: &std::io::Error) -> TlsRefusal {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<RustlsError>());
    match inner {
        Some(RustlsError::InvalidCertificate(why)) => {
            TlsRefusal::Certificate(in_words(&why.to_string()))
        }
        Some(RustlsError::InvalidMessage(_)) => TlsRefusal::NotTls,
        Some(other) => TlsRefusal::Connection(other.to_string()),
        None => TlsRefusal::Connection(error.to_string()),
    }
}

/// The certificates of a file, as PEM; at least one.
pub(crate) fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, BadCaFile> {
    let error = |source| BadCaFile { path: path.to_owned(), source };
    let pem = fs::read(path).map_err(|source| error(source.into()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|source| error(source.into()))?;
    if found.is_empty() {
        return Err(error("it holds no certificate".into()));
    }
    Ok(found)
}

/// The configuration of a client that trusts the system's authorities and these certificates besides.
pub(crate) fn config(
    trusted: Vec<CertificateDer<'static>>,
    protocols: &[&str],
) -> Result<ClientConfig, RustlsError> {
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let authorities = Verifier::new_with_extra_roots(trusted.iter().cloned(), provider.clone())?;
    let verifier = TrustVerifier { authorities, trusted };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

/// Trusts what authorities vouch for, and servers that show one of these certificates themselves.
#[derive(Debug)]
struct TrustVerifier {
    authorities: Verifier,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for TrustVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        // The operator named this very certificate for this upstream; that the server has its key is shown
        // by the signature of the handshake, which is checked below.
        if self.trusted.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        let authorities = &self.authorities;
        authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.authorities.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.authorities.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}
