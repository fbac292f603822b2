//! How a node proves to the servers who it is, and how the connection is encrypted.

use super::{NatsOptions, failed};
use crate::engine::EngineError;
use async_nats::ConnectOptions;
use std::fmt;
use std::path::{Path, PathBuf};

/// What the connections to the servers are encrypted with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsTls {
    /// The certificates, as PEM, of authorities that the servers' certificates come from. Without it, those of the system count.
    pub authorities: Option<PathBuf>,
    /// The node's own certificate and its key, as PEM, for servers that ask for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl NatsTls {
    /// Whether a connection without TLS is refused.
    pub fn is_required(&self) -> bool {
        self.authorities.is_some() || self.certificate.is_some()
    }
}

/// What a file of credentials holds.
#[derive(Clone, PartialEq, Eq)]
enum Credentials {
    /// A signed identity with its key, as `nsc` writes it.
    Signed(String),
    /// The seed of an nkey.
    Seed(String),
    /// A user with a password.
    Password(String, String),
    /// A token.
    Token(String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Credentials::Signed(_) => "Signed",
            Credentials::Seed(_) => "Seed",
            Credentials::Password(..) => "Password",
            Credentials::Token(_) => "Token",
        })
    }
}

impl Credentials {
    fn read(text: &str) -> Option<Credentials> {
        if text.contains("-----BEGIN NATS USER JWT-----") {
            return Some(Credentials::Signed(text.to_owned()));
        }
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let (line, None) = (lines.next()?, lines.next()) else {
            return None;
        };
        let is_seed = line.len() == 58
            && line.starts_with("SU")
            && line
                .bytes()
                .all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'));
        Some(match line.split_once(':') {
            _ if is_seed => Credentials::Seed(line.to_owned()),
            Some((user, password)) => Credentials::Password(user.to_owned(), password.to_owned()),
            None => Credentials::Token(line.to_owned()),
        })
    }
}

/// The options of a connection, with the credentials and certificates of a node.
pub(super) fn connect_options(options: &NatsOptions) -> Result<ConnectOptions, EngineError> {
    let mut connect = ConnectOptions::new().require_tls(options.tls.is_required());
    if let Some(authorities) = &options.tls.authorities {
        check_readable(authorities)?;
        connect = connect.add_root_certificates(authorities.clone());
    }
    if let Some((certificate, key)) = &options.tls.certificate {
        check_readable(certificate)?;
        check_readable(key)?;
        connect = connect.add_client_certificate(certificate.clone(), key.clone());
    }
    let Some(path) = &options.credentials else {
        return Ok(connect);
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad_file(path, &error))?;
    let held = Credentials::read(&text).ok_or_else(|| {
        let problem = "it holds neither credentials as `nsc` writes them, nor one line with the seed of an nkey, USER:PASSWORD or a token";
        bad_file(path, &problem)
    })?;
    match held {
        Credentials::Signed(text) => connect.credentials(&text).map_err(failed),
        Credentials::Seed(seed) => Ok(connect.nkey(seed)),
        Credentials::Password(user, password) => Ok(connect.user_and_password(user, password)),
        Credentials::Token(token) => Ok(connect.token(token)),
    }
}

/// Says which file cannot be read: the client's own error does not name it.
fn check_readable(path: &Path) -> Result<(), EngineError> {
    let opened = std::fs::File::open(path);
    opened.map(drop).map_err(|error| bad_file(path, &error))
}

fn bad_file(path: &Path, problem: &dyn fmt::Display) -> EngineError {
    EngineError(format!("{}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_credentials_is_one_of_four_kinds() {
        let signed = "-----BEGIN NATS USER JWT-----\ne30\n------END NATS USER JWT------\n";
        assert_eq!(
            Credentials::read(signed),
            Some(Credentials::Signed(signed.to_owned()))
        );
        let seed = format!("SU{}", "A".repeat(56));
        let expected = Some(Credentials::Seed(seed.clone()));
        assert_eq!(Credentials::read(&format!("{seed}\n")), expected);
        // A colon may be part of a password.
        let expected = Some(Credentials::Password("ann".to_owned(), "a:b".to_owned()));
        assert_eq!(Credentials::read("ann:a:b\n"), expected);
        let expected = Some(Credentials::Token("secret".to_owned()));
        assert_eq!(Credentials::read("\nsecret\n"), expected);
        assert_eq!(Credentials::read(""), None);
        assert_eq!(Credentials::read("one\ntwo\n"), None);
    }

    #[test]
    fn credentials_are_not_shown() {
        let held = Credentials::Password("ann".to_owned(), "secret".to_owned());
        assert_eq!(format!("{held:?}"), "Password");
    }
}
