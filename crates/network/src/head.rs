//! The head of a request to the proxy, read strictly: what is not clear is refused, not guessed.
//!
//! Two steps. First the bytes: a head is lines of visible ASCII that end with CR LF, and nothing else. What some servers take for a line
//! end or a space (a bare LF, a tab, a vertical tab) never gets further. Then the parser, `httparse`, and on top of it what the rules
//! need to be sure about: one method, one host, one path, one way to tell where the body ends.

use crate::authority::Authority;
use crate::error::Refusal;
use crate::headers::{self, Framing, Header, Version};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The most headers of a request; servers have about this limit too.
const MAX_HEADERS: usize = 100;
/// What ends a head.
const END: &[u8] = b"\r\n\r\n";

/// A request as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) authority: Authority,
    /// What the server is asked for, with its query; `None` for a tunnel.
    pub(crate) path: Option<String>,
    /// The headers that may be passed on, in order.
    pub(crate) headers: Vec<Header>,
    pub(crate) framing: Framing,
    /// What came after the head already.
    pub(crate) rest: Vec<u8>,
}

/// Reads a head. `None` when the client went away before it said anything.
pub(crate) async fn read(client: &mut (impl AsyncRead + Unpin)) -> Result<Option<Head>, Refusal> {
    let mut bytes = Vec::with_capacity(1024);
    let mut checked = 0;
    loop {
        if let Some(end) = check(&bytes, checked)? {
            let rest = bytes.split_off(end);
            return parse(&bytes, rest).map(Some);
        }
        checked = bytes.len();
        match client.read_buf(&mut bytes).await {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) | Err(_) => return Err(Refusal::Malformed("it ended in the middle of its head")),
            Ok(_) => {}
        }
    }
}

/// Checks the bytes of a head from `checked` on, and finds its end. Each byte is looked at once, however slowly they come.
fn check(bytes: &[u8], checked: usize) -> Result<Option<usize>, Refusal> {
    for (at, byte) in bytes.iter().enumerate().skip(checked) {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let is_good = match byte {
            b'\n' => before == Some(b'\r'),
            b'\r' => at > 0 && before != Some(b'\r'),
            b' '..=b'~' => before != Some(b'\r'),
            _ => false,
        };
        if !is_good {
            return Err(Refusal::Malformed(
                "its head has other bytes than visible ASCII and line ends of CR LF",
            ));
        }
        if at >= MAX_HEAD_BYTES {
            return Err(Refusal::Malformed("its head is too long"));
        }
        if bytes[..=at].ends_with(END) {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}

fn parse(bytes: &[u8], rest: Vec<u8>) -> Result<Head, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(bytes).map_err(unparsed)?;
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(Refusal::Malformed("its first line is not one of HTTP/1.1"));
    };
    if parsed != httparse::Status::Complete(bytes.len()) {
        return Err(Refusal::Malformed(
            "it can be read as more than one request",
        ));
    }
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    if !method.bytes().all(is_letter) {
        return Err(Refusal::Malformed("its method is no word"));
    }
    let mut headers = Vec::with_capacity(request.headers.len());
    for field in request.headers.iter() {
        headers.push(Header {
            name: field.name.to_owned(),
            value: text(field.value)?,
        });
    }
    let version = match version {
        0 => Version::Http10,
        _ => Version::Http11,
    };
    let sorted = headers::sort(headers, version)?;
    let (authority, path) = if method == "CONNECT" {
        (parse_authority(target, None)?, None)
    } else {
        let (authority, path) = parse_address(target)?;
        (authority, Some(path))
    };
    sorted.check_host(&authority)?;
    if path.is_none() && sorted.framing != Framing::NoBody {
        return Err(Refusal::Malformed("a request for a tunnel has no body"));
    }
    Ok(Head {
        method: method.to_owned(),
        authority,
        path,
        headers: sorted.passed_on,
        framing: sorted.framing,
        rest,
    })
}

fn unparsed(error: httparse::Error) -> Refusal {
    Refusal::Malformed(match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::NewLine => {
            "one of its headers is not well formed"
        }
        httparse::Error::TooManyHeaders => "it has too many headers",
        httparse::Error::Version | httparse::Error::Token | httparse::Error::Status => {
            "its first line is not one of HTTP/1.1"
        }
    })
}

/// A value without the spaces around it.
fn text(value: &[u8]) -> Result<String, Refusal> {
    let text = std::str::from_utf8(value);
    let text = text.map_err(|_| Refusal::Malformed("one of its headers is not well formed"))?;
    Ok(text.trim_matches(' ').to_owned())
}

fn parse_authority(text: &str, default_port: Option<u16>) -> Result<Authority, Refusal> {
    let parsed = Authority::parse(text, default_port);
    parsed.ok_or(Refusal::Malformed(
        "the host that it asks for is not well formed",
    ))
}

/// `http://host:port/path?query`
fn parse_address(target: &str) -> Result<(Authority, String), Refusal> {
    let Some(rest) = target.strip_prefix("http://") else {
        return Err(Refusal::Malformed(
            "a proxy is asked with a whole address, http://host/path; for https it is asked for a tunnel with CONNECT",
        ));
    };
    let (authority, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    if !is_path(path) {
        return Err(Refusal::Malformed(
            "the path that it asks for is not well formed: `%` needs two hexadecimal digits after it, and `#` and `\\` cannot stand there",
        ));
    }
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Ok((parse_authority(authority, Some(80))?, path))
}

/// A path with its query. Clients send more than the standard allows (`[`, `|`), and servers agree about them. They do not about a fragment
/// and a backslash.
fn is_path(path: &str) -> bool {
    let mut parts = path.split('%');
    let is_plain = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_graphic() && b != b'#' && b != b'\\')
    };
    let is_escaped = |part: &str| {
        let digits = part.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) && is_plain(part)
    };
    parts.next().is_some_and(is_plain) && parts.all(is_escaped)
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
