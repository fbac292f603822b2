//! Secrets that are put on requests on their way out.

use cellblock_protocol::{CredentialRule, SecretPlace};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};

/// The longest secret: servers refuse longer headers.
const LONGEST: u64 = 16 << 10;

/// A header that every plain HTTP request to a host gets, in place of one that the code may have sent.
#[derive(Clone)]
pub struct Credential {
    rule: CredentialRule,
    value: String,
}

/// Why a credential cannot be used. The secret is never part of it.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// It is not where the rule says.
    #[error("the credential for {host} cannot be read from {place}: {source}")]
    Unreadable {
        /// Whom it is for.
        host: String,
        /// Where it should be.
        place: String,
        /// Why not.
        source: io::Error,
    },
    /// It could not stand in a header.
    #[error(
        "the credential for {host} in {place} cannot be used: it must be one line of at most 16 KiB of printable text, and not empty"
    )]
    Unusable {
        /// Whom it is for.
        host: String,
        /// Where it is.
        place: String,
    },
}

impl Credential {
    /// Fetches the secret from where the rule says it is.
    pub fn read(rule: &CredentialRule) -> Result<Credential, CredentialError> {
        let (host, place) = (rule.host.to_string(), rule.secret.to_string());
        let secret = match &rule.secret {
            SecretPlace::Variable(name) => std::env::var(name).map_err(io::Error::other),
            SecretPlace::File(path) => {
                let mut text = String::new();
                let file = File::open(path);
                file.and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text))
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

    /// With this secret. `None` where it could not stand in a header.
    pub fn new(rule: CredentialRule, secret: &str) -> Option<Credential> {
        let good = !secret.is_empty()
            && secret.len() as u64 <= LONGEST
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

    /// Whether it may only travel inside TLS.
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
