//! TLS with a host, spoken by the guard: for requests that carry a credential.

use crate::guard::CONNECT_LIMIT;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use std::io;
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Whom the guard believes to be who they say they are.
#[derive(Clone, Default)]
pub(crate) enum Trust {
    /// Those whom the host's system believes.
    #[default]
    System,
    /// As this says.
    Own(Arc<ClientConfig>),
}

impl Trust {
    /// Begins TLS on a connection.
    pub(crate) async fn begin(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = match self {
            Trust::System => system().await?,
            Trust::Own(config) => Arc::clone(config),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let begun = TlsConnector::from(config).connect(name, stream);
        timeout(CONNECT_LIMIT, begun)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The system's certificates are read once, on a thread that may wait for the disk.
async fn system() -> io::Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let made = tokio::task::spawn_blocking(|| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_platform_verifier()?
            .with_no_client_auth();
        Ok::<_, rustls::Error>(Arc::new(config))
    });
    let config = made.await?.map_err(io::Error::other)?;
    Ok(Arc::clone(CONFIG.get_or_init(|| config)))
}
