//! Certificates: which are trusted, and what is said of the others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::{default_provider, sign::any_supported_type};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use windrow_engine::execute::http::{TlsRefusal, handshake};
use windrow_engine::execute::{Executor as _, Verdict};
use windrow_testkit::upstream::Script;

use super::{LINE, attempt, executor_of, start};

/// A certificate that signed itself, as `openssl req -x509` makes it: an authority that shows itself.
struct SelfSigned {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    file: NamedTempFile,
}

impl SelfSigned {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(certificate.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Self { certificate: certificate.der().clone(), key, file }
    }
}

/// A server that shows a certificate, proves it with a key, and answers everything with `{}`.
async fn serve(
    certificate: &CertificateDer<'static>,
    key: &PrivateKeyDer<'static>,
) -> (SocketAddr, JoinSet<()>) {
    let key = CertifiedKey::new(vec![certificate.clone()], any_supported_type(key).unwrap());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            if matches!(stream.read(&mut request).await, Ok(1..)) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                let _ = stream.write_all(answer).await;
                let _ = stream.shutdown().await;
            }
        }
    });
    (address, tasks)
}

async fn shake(address: SocketAddr, trusted: &SelfSigned) -> Result<(), TlsRefusal> {
    let stream = TcpStream::connect(address).await.unwrap();
    handshake(stream, "localhost", Some(trusted.file.path())).await
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_trusted_when_it_is_named() {
    let (own, other) = (SelfSigned::new(), SelfSigned::new());
    let (address, _tasks) = serve(&own.certificate, &own.key).await;
    assert_eq!(shake(address, &own).await, Ok(()));
    assert!(matches!(shake(address, &other).await, Err(TlsRefusal::Certificate(_))));

    let url = format!("https://localhost:{}", address.port());
    let file = own.file.path().to_owned();
    let tried =
        executor_of(&url, |settings| settings.ca_file = Some(file)).execute(attempt(LINE)).await;
    assert_eq!(tried.verdict, Verdict::Completed, "{tried:?}");
    let file = other.file.path().to_owned();
    let tried =
        executor_of(&url, |settings| settings.ca_file = Some(file)).execute(attempt(LINE)).await;
    let Verdict::Failed(failure) = tried.verdict else { panic!("{tried:?}") };
    assert_eq!(failure.code, "tls_failed");
    assert!(failure.message.contains("ca_file"), "{}", failure.message);
}

/// To show a certificate is not enough: a server has to have its key.
#[tokio::test]
async fn a_server_that_shows_a_named_certificate_without_its_key_is_refused() {
    let (own, thief) = (SelfSigned::new(), SelfSigned::new());
    let (address, _tasks) = serve(&own.certificate, &thief.key).await;
    assert_ne!(shake(address, &own).await, Ok(()));
    let url = format!("https://localhost:{}", address.port());
    let file = own.file.path().to_owned();
    let tried =
        executor_of(&url, |settings| settings.ca_file = Some(file)).execute(attempt(LINE)).await;
    assert!(matches!(tried.verdict, Verdict::Failed(_)), "{tried:?}");
}

#[tokio::test]
async fn a_port_that_does_not_speak_tls_is_told_apart() {
    let upstream = start(Script::echo()).await;
    assert_eq!(shake(upstream.address(), &SelfSigned::new()).await, Err(TlsRefusal::NotTls));
}
