//! Which headers of a request are passed on, and which the guard decides about alone.

use crate::authority::Authority;
use crate::connection::ConnectionRefusal;
use crate::credentials::Credential;
use cellblock_protocol::NetworkRule;

/// A header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.0, which knows no chunks.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the body of a request is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body, and no header that speaks of one.
    NoBody,
    /// The body has this many bytes (`Content-Length`).
    Length(u64),
    /// The body comes in chunks (`Transfer-Encoding: chunked`).
    Chunked,
}

/// Headers between the client and the guard. They end here.
const DROPPED_HEADERS: [&str; 5] = [
    "keep-alive",
    "proxy",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
];
/// Headers that change what follows the head, or how. The guard supports none of them.
const REFUSED_HEADERS: [(&str, &str); 4] = [
    ("http2-settings", "it asks for HTTP/2"),
    ("te", "it has the header TE"),
    ("trailer", "it announces headers after its body"),
    ("upgrade", "it asks for another protocol"),
];
/// Headers that the guard reads and writes itself.
const GUARD_HEADERS: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];
/// Headers by which some servers take a request for one with another method.
const METHOD_OVERRIDES: [&str; 4] = [
    "x-http-method",
    "x-http-method-override",
    "x-method",
    "x-method-override",
];
/// The most digits of a `Content-Length`: what fits into 63 bits, with room to spare.
const MAX_LENGTH_DIGITS: usize = 18;

/// What the headers of a request say about it, and the rest of them, to be passed on.
pub(crate) struct Sorted {
    pub(crate) host: Option<String>,
    pub(crate) framing: Framing,
    pub(crate) passed_on: Vec<Header>,
}

/// Sorts the headers of a request. Everything that two readers could take for two different things is refused.
pub(crate) fn sort(headers: Vec<Header>, version: Version) -> Result<Sorted, ConnectionRefusal> {
    let mut sorted = Sorted {
        host: None,
        framing: Framing::NoBody,
        passed_on: Vec::with_capacity(headers.len()),
    };
    for header in headers {
        let plain = plain_name(&header.name);
        let refused = REFUSED_HEADERS.iter().find(|(name, _)| *name == plain);
        let is_reserved = GUARD_HEADERS.contains(&plain.as_str())
            || DROPPED_HEADERS.contains(&plain.as_str())
            || plain == "expect"
            || refused.is_some();
        if !is_reserved {
            sorted.passed_on.push(header);
            continue;
        }
        if !header.name.eq_ignore_ascii_case(&plain) {
            return Err(ConnectionRefusal::Malformed(
                "one of its headers has a name that can be taken for another one",
            ));
        }
        if let Some((_, problem)) = refused {
            return Err(ConnectionRefusal::Malformed(problem));
        }
        match plain.as_str() {
            "expect" => return Err(ConnectionRefusal::Expectation),
            "host" if sorted.host.is_some() => {
                return Err(ConnectionRefusal::Malformed(
                    "it has more than one header Host",
                ));
            }
            "host" => sorted.host = Some(header.value),
            "connection" => check_connection(&header.value)?,
            "content-length" => sorted.frame(parse_length(&header.value)?)?,
            "transfer-encoding" => {
                if version == Version::Http10 || !header.value.eq_ignore_ascii_case("chunked") {
                    return Err(unclear_length());
                }
                sorted.frame(Framing::Chunked)?;
            }
            // One of `DROPPED`.
            _ => {}
        }
    }
    Ok(sorted)
}

impl Sorted {
    fn frame(&mut self, framing: Framing) -> Result<(), ConnectionRefusal> {
        if self.framing != Framing::NoBody {
            return Err(unclear_length());
        }
        self.framing = framing;
        Ok(())
    }

    /// Refuses a header `Host` that names another host than the first line does.
    pub(crate) fn check_host(&self, authority: &Authority) -> Result<(), ConnectionRefusal> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        // Without a port it is about the same host, and the first line has the port.
        let named = Authority::parse(host, Some(authority.port));
        if named.as_ref() == Some(authority) {
            Ok(())
        } else {
            Err(ConnectionRefusal::Malformed(
                "its header Host names another host than its first line",
            ))
        }
    }
}

/// The headers that the server gets, without those that a credential replaces. Refuses headers that a server could take for the
/// credential, or for another method than the ones that the rule names.
pub(crate) fn for_server<'a>(
    headers: &'a [Header],
    credentials: &[&Credential],
    rule: &NetworkRule,
) -> Result<Vec<&'a Header>, ConnectionRefusal> {
    let mut kept = Vec::with_capacity(headers.len());
    for header in headers {
        let plain = plain_name(&header.name);
        if !rule.methods.is_empty() && METHOD_OVERRIDES.contains(&plain.as_str()) {
            return Err(ConnectionRefusal::NotPassedOn(
                "its rule names methods, and a header of it asks the server for another method",
            ));
        }
        let alike = credentials
            .iter()
            .filter(|credential| plain_name(credential.header()) == plain);
        let names: Vec<&str> = alike.map(|credential| credential.header()).collect();
        if names.is_empty() {
            kept.push(header);
        } else if !names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&header.name))
        {
            return Err(ConnectionRefusal::NotPassedOn(
                "a header of it can be taken for the credential of this host",
            ));
        }
    }
    Ok(kept)
}

/// Only what says how long the connection lives. Any other word names a header that would have to be taken out.
fn check_connection(value: &str) -> Result<(), ConnectionRefusal> {
    let is_known = |word: &str| {
        let word = word.trim_matches(' ');
        word.eq_ignore_ascii_case("close") || word.eq_ignore_ascii_case("keep-alive")
    };
    if value.split(',').all(is_known) {
        Ok(())
    } else {
        Err(ConnectionRefusal::Malformed(
            "its header Connection has other words than close and keep-alive",
        ))
    }
}

fn parse_length(value: &str) -> Result<Framing, ConnectionRefusal> {
    let is_plain = !value.is_empty()
        && value.len() <= MAX_LENGTH_DIGITS
        && value.bytes().all(|byte| byte.is_ascii_digit());
    let length = value.parse().ok().filter(|_| is_plain);
    length.map(Framing::Length).ok_or_else(unclear_length)
}

fn unclear_length() -> ConnectionRefusal {
    ConnectionRefusal::Malformed("how long its body is cannot be told")
}

/// The name as a program behind CGI or WSGI sees it: there, `X_Key`, `x-key` and `X.Key` are one variable.
fn plain_name(name: &str) -> String {
    let plain = |byte: u8| match byte.to_ascii_lowercase() {
        byte @ (b'a'..=b'z' | b'0'..=b'9') => char::from(byte),
        _ => '-',
    };
    name.bytes().map(plain).collect()
}
