//! TLS of the server's own: a certificate and its key from PEM files.

use crate::error::ServerError;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What connections are encrypted with. Read once: a server with a new certificate is started again.
#[derive(Clone)]
pub struct Tls {
    config: Arc<rustls::ServerConfig>,
}

impl Tls {
    /// Reads a chain of certificates and the key of the first one.
    pub fn from_files(certificates: &Path, key: &Path) -> Result<Tls, ServerError> {
        let bad = |path: &Path, problem: &dyn std::fmt::Display| {
            ServerError::Options(format!("{}: {problem}", path.display()))
        };
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect)
            .map_err(|error| bad(certificates, &error))?;
        if chain.is_empty() {
            return Err(bad(certificates, &"it holds no certificate"));
        }
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(certificates, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| bad(certificates, &error))?;
        Ok(Tls {
            config: Arc::new(config),
        })
    }

    /// Accepts connections.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Tls").finish_non_exhaustive()
    }
}
