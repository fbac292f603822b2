//! The head of a request to the proxy, read strictly: what is not clear is refused, not guessed.
//!
//! Two steps. First the bytes: a head is lines of visible ASCII that end with CR LF, and nothing else. What some servers take for a line
//! end or a space (a bare LF, a tab, a vertical tab) never gets further. Then the parser, `httparse`, and on top of it what the rules
//! need to be sure about: one method, one host, one path, one way to tell where the body ends.

use super::headers;
use super::headers::{Framing, Header, Version};
use crate::authority::Authority;
use crate::connection::ConnectionRefusal;
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
pub(crate) async fn read(
    client: &mut (impl AsyncRead + Unpin),
) -> Result<Option<Head>, ConnectionRefusal> {
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
            Ok(0) | Err(_) => {
                return Err(ConnectionRefusal::Malformed(
                    "it ended in the middle of its head",
                ));
            }
            Ok(_) => {}
        }
    }
}

/// Checks the bytes of a head from `checked` on, and finds its end. Each byte is looked at once, however slowly they come.
fn check(bytes: &[u8], checked: usize) -> Result<Option<usize>, ConnectionRefusal> {
    for (at, byte) in bytes.iter().enumerate().skip(checked) {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let is_good = match byte {
            b'\n' => before == Some(b'\r'),
            b'\r' => at > 0 && before != Some(b'\r'),
            b' '..=b'~' => before != Some(b'\r'),
            _ => false,
        };
        if !is_good {
            return Err(ConnectionRefusal::Malformed(
                "its head has other bytes than visible ASCII and line ends of CR LF",
            ));
        }
        if at >= MAX_HEAD_BYTES {
            return Err(ConnectionRefusal::Malformed("its head is too long"));
        }
        if bytes[..=at].ends_with(END) {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}

fn parse(bytes: &[u8], rest: Vec<u8>) -> Result<Head, ConnectionRefusal> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(bytes).map_err(unparsed)?;
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(ConnectionRefusal::Malformed(
            "its first line is not one of HTTP/1.1",
        ));
    };
    if parsed != httparse::Status::Complete(bytes.len()) {
        return Err(ConnectionRefusal::Malformed(
            "it can be read as more than one request",
        ));
    }
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    if !method.bytes().all(is_letter) {
        return Err(ConnectionRefusal::Malformed("its method is no word"));
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
        return Err(ConnectionRefusal::Malformed(
            "a request for a tunnel has no body",
        ));
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

fn unparsed(error: httparse::Error) -> ConnectionRefusal {
    ConnectionRefusal::Malformed(match error {
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
fn text(value: &[u8]) -> Result<String, ConnectionRefusal> {
    let text = std::str::from_utf8(value);
    let text =
        text.map_err(|_| ConnectionRefusal::Malformed("one of its headers is not well formed"))?;
    Ok(text.trim_matches(' ').to_owned())
}

fn parse_authority(text: &str, default_port: Option<u16>) -> Result<Authority, ConnectionRefusal> {
    let parsed = Authority::parse(text, default_port);
    parsed.ok_or(ConnectionRefusal::Malformed(
        "the host that it asks for is not well formed",
    ))
}

/// `http://host:port/path?query`
fn parse_address(target: &str) -> Result<(Authority, String), ConnectionRefusal> {
    let Some(rest) = target.strip_prefix("http://") else {
        return Err(ConnectionRefusal::Malformed(
            "a proxy is asked with a whole address, http://host/path; for https it is asked for a tunnel with CONNECT",
        ));
    };
    let (authority, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    if !is_path(path) {
        return Err(ConnectionRefusal::Malformed(
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
mod tests {
    use super::*;

    async fn read_text(text: &str) -> Result<Option<Head>, ConnectionRefusal> {
        read(&mut text.as_bytes()).await
    }

    async fn accepted(text: &str) -> Head {
        read_text(text).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_request_and_a_tunnel() {
        let text = "POST http://Example.org:8080/a?b HTTP/1.1\r\nHost: example.org:8080\r\nAccept: x\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(
            accepted(text).await,
            Head {
                method: "POST".to_owned(),
                authority: Authority {
                    host: "example.org".to_owned(),
                    port: 8080
                },
                path: Some("/a?b".to_owned()),
                headers: vec![Header {
                    name: "Accept".to_owned(),
                    value: "x".to_owned()
                }],
                framing: Framing::Length(3),
                rest: b"abc".to_vec(),
            }
        );
        let head = accepted("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]\r\n\r\n").await;
        assert_eq!(
            (head.authority.to_string().as_str(), head.path),
            ("[::1]:443", None)
        );
        assert!(read_text("").await.unwrap().is_none());
        let head = accepted("GET http://a.b?q HTTP/1.0\r\n\r\n").await;
        assert_eq!(head.path.as_deref(), Some("/?q"));
        let head = accepted("GET http://a.b./%2e HTTP/1.1\r\nHost: a.b\r\n\r\n").await;
        assert_eq!(
            (head.authority.host.as_str(), head.path.as_deref()),
            ("a.b", Some("/%2e"))
        );
    }

    #[tokio::test]
    async fn what_can_be_read_in_two_ways_is_refused() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET https://a.b/ HTTP/1.1\r\n\r\n",
            "get http://a.b/ HTTP/1.1\r\n\r\n",
            "GET http://a.b/ HTTP/2\r\n\r\n",
            "GET  http://a.b/ HTTP/1.1\r\n\r\n",
            "GET http://a.b/\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://a b/ HTTP/1.1\r\n\r\n",
            "GET http://a.b:0/ HTTP/1.1\r\n\r\n",
            "GET http://a.b%00.c/ HTTP/1.1\r\n\r\n",
            "CONNECT a.b HTTP/1.1\r\n\r\n",
            "CONNECT a.b:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            "CONNECT a.b:443 HTTP/1.1\r\nHost: c.d\r\n\r\n",
            "CONNECT http://a.b:443 HTTP/1.1\r\n\r\n",
            "GET http://a.b/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://a.b/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET http://a.b/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
            "POST http://a.b/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "POST http://a.b/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST http://a.b/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.b/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
            "GET http://a.b/ HTTP/1.1\r\nHost: a",
        ] {
            assert!(read_text(text).await.is_err(), "{text:?}");
        }
        let long = |bytes| {
            format!(
                "GET http://a.b/ HTTP/1.1\r\nA: {}\r\n\r\n",
                "x".repeat(bytes)
            )
        };
        assert!(read_text(&long(60_000)).await.is_ok());
        assert!(read_text(&long(70_000)).await.is_err());
        let many = |count| {
            format!(
                "GET http://a.b/ HTTP/1.1\r\n{}\r\n",
                "A: b\r\n".repeat(count)
            )
        };
        assert!(read_text(&many(MAX_HEADERS)).await.is_ok());
        assert!(read_text(&many(MAX_HEADERS + 1)).await.is_err());
    }

    #[tokio::test]
    async fn a_bad_byte_is_refused_before_the_head_has_ended() {
        for text in [
            "GET http://a.b/\tx",
            "\r",
            "GET\n",
            "GET http://a.b/ HTTP/1.1\rX",
        ] {
            // The client would say more, but need not be heard.
            let (mut client, mut guard) = tokio::io::duplex(1024);
            tokio::io::AsyncWriteExt::write_all(&mut client, text.as_bytes())
                .await
                .unwrap();
            let refused =
                tokio::time::timeout(std::time::Duration::from_secs(10), read(&mut guard));
            assert!(refused.await.unwrap().is_err(), "{text:?}");
        }
    }
}
