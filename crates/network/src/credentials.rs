//! Secrets that the guard adds to requests, and the TLS connections that carry them.

use crate::guard::CONNECT_TIMEOUT;
use cellblock_protocol::{CredentialRule, SecretPlace};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt as _;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The longest secret. Servers refuse longer headers.
const MAX_SECRET_BYTES: u64 = 16 << 10;

/// A header with a secret. The guard adds it to every plain HTTP request to a host, in place of one that the code may have sent.
#[derive(Clone)]
pub struct Credential {
    rule: CredentialRule,
    value: String,
}

/// Why a credential cannot be used. The secret is never part of it.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The secret cannot be read from the place that the rule names.
    #[error("the credential for {host} cannot be read from {place}: {source}")]
    Unreadable {
        /// The host of the credential.
        host: String,
        /// The variable or file that should hold the secret.
        place: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The secret cannot be part of a header.
    #[error(
        "the credential for {host} in {place} cannot be used: it must be one line of at most 16 KiB of printable text, and not empty"
    )]
    Unusable {
        /// The host of the credential.
        host: String,
        /// The variable or file that holds the secret.
        place: String,
    },
}

impl Credential {
    /// Reads the secret from the place that the rule names.
    pub fn read(rule: &CredentialRule) -> Result<Credential, CredentialError> {
        let (host, place) = (rule.host.to_string(), rule.secret.to_string());
        let secret = match &rule.secret {
            SecretPlace::Variable(name) => std::env::var(name).map_err(io::Error::other),
            SecretPlace::File(path) => {
                let mut text = String::new();
                let file = File::open(path);
                file.and_then(|file| file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text))
                    .map(|_| text)
            }
        };
        match secret {
            Ok(secret) => Credential::new(rule.clone(), secret.trim())
                .ok_or(CredentialError::Unusable { host, place }),
            Err(source) => Err(CredentialError::Unreadable {
                host,
                place,
                source,
            }),
        }
    }

    /// A credential with this secret. `None` if the secret cannot be part of a header.
    pub fn new(rule: CredentialRule, secret: &str) -> Option<Credential> {
        let good = !secret.is_empty()
            && secret.len() as u64 <= MAX_SECRET_BYTES
            && !secret.chars().any(char::is_control);
        let value = match &rule.scheme {
            Some(scheme) => format!("{scheme} {secret}"),
            None => secret.to_owned(),
        };
        good.then_some(Credential { rule, value })
    }

    pub(crate) fn is_for(&self, host: &str, port: u16) -> bool {
        self.rule.is_for(host, port)
    }

    /// Whether the credential may only be sent inside TLS.
    pub(crate) fn needs_tls(&self) -> bool {
        self.rule.tls
    }

    /// The name of the header.
    pub(crate) fn header(&self) -> &str {
        &self.rule.header
    }

    pub(crate) fn line(&self) -> String {
        format!("{}: {}\r\n", self.rule.header, self.value)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Credential({})", self.rule)
    }
}

/// Which certificates of servers the guard accepts.
#[derive(Clone, Default)]
pub(crate) enum ServerTrust {
    /// Those that the system of the host trusts.
    #[default]
    System,
    /// Those that this configuration accepts.
    Custom(Arc<ClientConfig>),
}

impl ServerTrust {
    /// Performs the TLS handshake on a connection.
    pub(crate) async fn handshake(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let config = match self {
            ServerTrust::System => system().await?,
            ServerTrust::Custom(config) => Arc::clone(config),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let begun = TlsConnector::from(config).connect(name, stream);
        timeout(CONNECT_TIMEOUT, begun)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The configuration that trusts the certificates of the system. They are read once, on a thread that may block.
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
