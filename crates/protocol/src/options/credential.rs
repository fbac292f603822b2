//! Credentials that the host adds to requests, so that code in a session never sees them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::json::fields::Field;
use crate::json::invalid::{Invalid, shown_text};
use crate::options::network_rule::{HostPattern, parse_host, split_port};

/// A header that requests to a host get outside the session, in the words of a person:
///
/// | rule | puts on |
/// | --- | --- |
/// | `api.example.org Authorization: Bearer env:API_TOKEN` | the host's variable `API_TOKEN`, with a word before it |
/// | `*.example.org:8443 X-Key: file:/run/keys/example` | what a file of the host's holds |
/// | `http://localhost:8080 X-Key: env:KEY` | the same without TLS |
///
/// The rule says where the secret is, never what it is: it can be logged, and shown in a list of processes. Code asks for
/// `http://host/…`, and the guard speaks TLS with the host, unless the rule begins with `http://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialRule {
    /// The hosts that get the header.
    pub host: HostPattern,
    /// The port; absent, 80 and 443.
    pub port: Option<u16>,
    /// Whether the guard speaks TLS with the host.
    pub tls: bool,
    /// The name of the header.
    pub header: String,
    /// The word before the secret, such as `Bearer`.
    pub scheme: Option<String>,
    /// The place where the host keeps the secret.
    pub secret: SecretPlace,
}

/// The place where the host keeps a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretPlace {
    /// In an environment variable.
    Variable(String),
    /// In a file.
    File(PathBuf),
}

impl CredentialRule {
    /// Whether a request to this host and port gets it.
    pub fn is_for(&self, host: &str, port: u16) -> bool {
        let there = self
            .port
            .map_or(matches!(port, 80 | 443), |only| only == port);
        there && self.host.matches(host)
    }
}

/// Headers that say where a request begins and ends, and which host it is for. A secret in one of them would break every request.
const RESERVED_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const EXPECTED: &str = "a rule such as `api.example.org Authorization: Bearer env:API_TOKEN` or `api.example.org X-Key: file:/run/keys/example`";

impl FromStr for CredentialRule {
    type Err = Invalid;

    /// The value is not shown: it may be the secret itself, which must not reach a log.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse(text).map_err(|problem| {
            let host = shown_text(text.split_whitespace().next().unwrap_or_default());
            Invalid::value("credentials", EXPECTED, format!("{host} … ({problem})"))
        })
    }
}

fn parse(text: &str) -> Result<CredentialRule, &'static str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (target, header, scheme, place) = match words[..] {
        [target, header, place] => (target, header, None, place),
        [target, header, scheme, place] => (target, header, Some(scheme), place),
        _ => return Err("it is a host, a header with a colon, perhaps one word, and a place"),
    };
    let (tls, target) = match target.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        Some(_) => return Err("the schemes are https:// and http://"),
        None => (true, target),
    };
    if target.contains(['/', '@', '?', '#']) {
        return Err("only a host and a port can have a credential, not a path");
    }
    let (host, port) = split_port(target)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let header = header
        .strip_suffix(':')
        .filter(|name| !name.is_empty() && name.chars().all(is_name))
        .ok_or("a header is a name with a colon, such as `Authorization:`")?;
    if RESERVED_HEADERS.contains(&header.to_ascii_lowercase().as_str()) {
        return Err("this header belongs to the request itself and can hold no credential");
    }
    Ok(CredentialRule {
        host: parse_host(host)?,
        port,
        tls,
        header: header.to_owned(),
        scheme: scheme.map(str::to_owned),
        secret: parse_place(place)?,
    })
}

fn parse_place(text: &str) -> Result<SecretPlace, &'static str> {
    match text.split_once(':') {
        Some(("env", name)) if !name.is_empty() => Ok(SecretPlace::Variable(name.to_owned())),
        Some(("file", path)) if !path.is_empty() => Ok(SecretPlace::File(path.into())),
        _ => Err(
            "the secret itself cannot stand here; say where it is: env:NAME for an environment variable, or file:PATH",
        ),
    }
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(out, "env:{name}"),
            Self::File(path) => write!(out, "file:{}", path.display()),
        }
    }
}

impl fmt::Display for CredentialRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "" } else { "http://" };
        write!(out, "{scheme}{}", self.host)?;
        if let Some(port) = self.port {
            write!(out, ":{port}")?;
        }
        write!(out, " {}: ", self.header)?;
        if let Some(word) = &self.scheme {
            write!(out, "{word} ")?;
        }
        self.secret.fmt(out)
    }
}

impl Serialize for CredentialRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CredentialRule {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Field for Vec<CredentialRule> {
    const EXPECTED: &'static str =
        "a list of rules such as \"api.example.org Authorization: Bearer env:API_TOKEN\"";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let rules = Vec::<String>::read(name, value)?;
        rules.iter().map(|rule| rule.parse()).collect()
    }
}
