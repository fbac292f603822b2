//! Rules for the network: which hosts the code of a session may reach.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::json::fields::Field;
use crate::json::invalid::{Invalid, shown_text};

/// The most rules of one session.
pub const MAX_NETWORK_RULES: usize = 64;

/// Something on the network that a session may reach, in the words of a person:
///
/// | rule | allows |
/// | --- | --- |
/// | `example.org` | this host, ports 80 and 443 |
/// | `*.example.org` | every host below it, and not itself |
/// | `example.org:8080` | this port alone |
/// | `GET,HEAD example.org` | plain HTTP with these methods alone |
/// | `tcp://db.example.org:5432` | a connection of any kind |
/// | `db.example.org:5432 private` | the host also where its address is a private one |
///
/// An address, and `localhost`, is named for what it is, so it may be private without the word.
///
/// ```
/// use cellblock_protocol::NetworkRule;
///
/// let rule: NetworkRule = "*.example.org:8080".parse().unwrap();
/// assert_eq!(rule.to_string(), "*.example.org:8080");
/// assert!("example.org/path".parse::<NetworkRule>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRule {
    /// The methods of plain HTTP; empty for everything.
    pub methods: Vec<String>,
    /// The hosts that the rule is for.
    pub host: HostPattern,
    /// The port; absent, 80 and 443.
    pub port: Option<u16>,
    /// Not through the proxy: the session finds the host under its own name and port.
    pub raw: bool,
    /// Private addresses are meant as well.
    pub private: bool,
}

/// The hosts of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// The one with this name, in small letters.
    Name(String),
    /// All below this name.
    Below(String),
    /// The one with this address.
    Address(IpAddr),
}

impl HostPattern {
    /// Whether a host, as a client names it, is meant.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host.eq_ignore_ascii_case(name),
            Self::Below(suffix) => {
                let host = host.to_ascii_lowercase();
                host.strip_suffix(suffix.as_str())
                    .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Self::Address(address) => host.parse() == Ok(*address),
        }
    }

    /// Whether the pattern is an address or `localhost`: then an address of this machine or its network is meant on purpose.
    fn says_what_it_is(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::Address(_) => true,
            Self::Below(_) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Below(suffix) => write!(out, "*.{suffix}"),
            Self::Address(IpAddr::V6(address)) => write!(out, "[{address}]"),
            Self::Address(address) => address.fmt(out),
        }
    }
}

impl NetworkRule {
    /// Whether the port is open by this rule.
    pub fn opens(&self, port: u16) -> bool {
        self.port
            .map_or(matches!(port, 80 | 443), |only| only == port)
    }
}

const EXPECTED: &str = "a rule such as `example.org`, `*.example.org:8080`, `GET,HEAD example.org` or `tcp://db.example.org:5432`";

impl FromStr for NetworkRule {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse(text).map_err(|problem| {
            Invalid::value(
                "network",
                EXPECTED,
                format!("{} ({problem})", shown_text(text)),
            )
        })
    }
}

fn parse(text: &str) -> Result<NetworkRule, &'static str> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let private = words.last() == Some(&"private");
    if private {
        words.pop();
    }
    let (methods, target) = match words[..] {
        [target] => (Vec::new(), target),
        [methods, target] => (parse_methods(methods)?, target),
        _ => return Err("it has no host, or too many words"),
    };
    let (raw, target) = match target.split_once("://") {
        Some(("tcp", rest)) => (true, rest),
        Some(_) => return Err("the only scheme is tcp://; HTTP and HTTPS need none"),
        None => (false, target),
    };
    if target.contains(['/', '@', '?', '#']) {
        return Err("only a host and a port can be allowed, not a path");
    }
    let (host, port) = split_port(target)?;
    let host = parse_host(host)?;
    if raw && (port.is_none() || matches!(host, HostPattern::Below(_)) || !methods.is_empty()) {
        return Err("tcp:// needs one host and one port");
    }
    Ok(NetworkRule {
        methods,
        private: private || host.says_what_it_is(),
        host,
        port,
        raw,
    })
}

fn parse_methods(text: &str) -> Result<Vec<String>, &'static str> {
    let method = |word: &str| {
        let good = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic());
        good.then(|| word.to_ascii_uppercase())
            .ok_or("methods are words such as GET,HEAD")
    };
    text.split(',').map(method).collect()
}

pub(crate) fn split_port(target: &str) -> Result<(&str, Option<u16>), &'static str> {
    let port = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err("a port is a number from 1 to 65535"),
        Ok(port) => Ok(Some(port)),
    };
    if let Some(rest) = target.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("a bracket is not closed")?;
        return match rest.strip_prefix(':') {
            Some(text) => Ok((host, port(text)?)),
            None if rest.is_empty() => Ok((host, None)),
            None => Err("after a bracket comes a port"),
        };
    }
    match target.split_once(':') {
        Some((_, more)) if more.contains(':') => Ok((target, None)),
        Some((host, text)) => Ok((host, port(text)?)),
        None => Ok((target, None)),
    }
}

pub(crate) fn parse_host(host: &str) -> Result<HostPattern, &'static str> {
    if let Ok(address) = host.parse() {
        return Ok(HostPattern::Address(address));
    }
    let (below, name) = match host.strip_prefix("*.").or_else(|| host.strip_prefix('.')) {
        Some(rest) => (true, rest),
        None => (false, host),
    };
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err("a host is a name, an address, or *.name");
    }
    if name.split('.').all(|part| part.parse::<u32>().is_ok()) {
        return Err("that is no whole address");
    }
    let name = name.to_ascii_lowercase();
    Ok(if below {
        HostPattern::Below(name)
    } else {
        HostPattern::Name(name)
    })
}

impl fmt::Display for NetworkRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(out, "{} ", self.methods.join(","))?;
        }
        let scheme = if self.raw { "tcp://" } else { "" };
        write!(out, "{scheme}{}", self.host)?;
        if let Some(port) = self.port {
            write!(out, ":{port}")?;
        }
        if self.private && !self.host.says_what_it_is() {
            out.write_str(" private")?;
        }
        Ok(())
    }
}

impl Serialize for NetworkRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NetworkRule {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Field for Vec<NetworkRule> {
    const EXPECTED: &'static str = "a list of rules such as \"example.org\"";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let rules = Vec::<String>::read(name, value)?;
        rules.iter().map(|rule| rule.parse()).collect()
    }
}
