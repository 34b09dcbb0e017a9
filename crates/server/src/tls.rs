//! TLS: a certificate and its key from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// The TLS configuration of a server. Cheap to clone.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that is missing, or has no certificate or key.
    #[error("could not read {}", path.display())]
    Read {
        /// The file that could not be used.
        path: PathBuf,
        /// Why it could not be read.
        source: pem::Error,
    },
    /// Certificate and key do not belong together.
    #[error("the certificate and the key cannot be used together")]
    Pair(#[from] tokio_rustls::rustls::Error),
}

impl Tls {
    /// Reads a chain of certificates and its key, both as PEM.
    pub fn read(cert: &Path, key: &Path) -> Result<Self, Error> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Read { path, source }
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert)
            .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>());
        let chain = chain.map_err(wrong(cert))?;
        let key_der = PrivateKeyDer::from_pem_file(key).map_err(wrong(key))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key_der)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
