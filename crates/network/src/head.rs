//! The head of a request to a proxy, read strictly: what is not clear is refused, not guessed.

use crate::error::Refusal;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest head.
const LONGEST: usize = 64 << 10;

/// A request as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What the server shall be asked for; `None` for a tunnel.
    pub(crate) path: Option<String>,
    /// Name and value, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Length,
    /// What came after the head already.
    pub(crate) rest: Vec<u8>,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Bytes(u64),
    Chunks,
}

/// Reads one. `None` when the client went away before it said anything.
pub(crate) async fn read(client: &mut (impl AsyncRead + Unpin)) -> Result<Option<Head>, Refusal> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(end) = find_end(&bytes).filter(|end| *end <= LONGEST) {
            let rest = bytes.split_off(end);
            return parse(&bytes, rest).map(Some);
        }
        if bytes.len() > LONGEST {
            return Err(Refusal::Malformed("its head is too long"));
        }
        match client.read_buf(&mut bytes).await {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) | Err(_) => return Err(Refusal::Malformed("it ended in the middle of its head")),
            Ok(_) => {}
        }
    }
}

fn find_end(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(at + 4)
}

fn parse(bytes: &[u8], rest: Vec<u8>) -> Result<Head, Refusal> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Refusal::Malformed("its head is not text"))?;
    let mut lines = text.trim_end_matches("\r\n").split("\r\n");
    let line = lines.next().unwrap_or_default();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = line.split(' ').collect::<Vec<_>>()[..] else {
        return Err(Refusal::Malformed("its first line is not one of HTTP/1.1"));
    };
    if method.is_empty() || !method.chars().all(|c| c.is_ascii_uppercase() || c == '-') {
        return Err(Refusal::Malformed("its method is no word"));
    }
    let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
    let (authority, path, default) = if method == "CONNECT" {
        (target, None, None)
    } else {
        let Some(rest) = target.strip_prefix("http://") else {
            return Err(Refusal::Malformed(
                "a proxy is asked with a whole address, http://host/path; for https it is asked for a tunnel with CONNECT",
            ));
        };
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let path = path.split('#').next().unwrap_or("/");
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        (authority, Some(path), Some(80))
    };
    let (host, port) = split(authority, default)?;
    let body = length(&headers)?;
    Ok(Head {
        method: method.to_owned(),
        host,
        port,
        path,
        headers,
        body,
        rest,
    })
}

fn header(line: &str) -> Result<(String, String), Refusal> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let bad = Refusal::Malformed("one of its headers is not well formed");
    match line.split_once(':') {
        Some((name, value)) if !name.is_empty() && name.chars().all(is_name) => {
            let value = value.trim();
            if value.chars().any(|c| c.is_control() && c != '\t') {
                return Err(bad);
            }
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(bad),
    }
}

fn split(authority: &str, default: Option<u16>) -> Result<(String, u16), Refusal> {
    let bad = || Refusal::Malformed("the host it asks for is not well formed");
    // A name and a password before the host would be for the server.
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(bad)?;
        (host, rest.strip_prefix(':'))
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let port = match port {
        Some(text) => text.parse().map_err(|_| bad())?,
        None => default.ok_or_else(bad)?,
    };
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    // A dot at the end means the same host.
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() || host.len() > 253 || !host.chars().all(is_good) || port == 0 {
        return Err(bad());
    }
    Ok((host.to_owned(), port))
}

fn length(headers: &[(String, String)]) -> Result<Length, Refusal> {
    let bad = || Refusal::Malformed("how long its body is cannot be told");
    let values = |name: &'static str| {
        let of = move |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        headers.iter().filter(of).map(|(_, value)| value.as_str())
    };
    let lengths: Vec<&str> = values("content-length").collect();
    let codings: Vec<&str> = values("transfer-encoding").collect();
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Length::Bytes(0)),
        ([text], []) if text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map(Length::Bytes).map_err(|_| bad())
        }
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Length::Chunks),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_text(text: &str) -> Result<Option<Head>, Refusal> {
        read(&mut text.as_bytes()).await
    }

    #[tokio::test]
    async fn a_request_and_a_tunnel() {
        let text = "POST http://Example.org:8080/a?b#c HTTP/1.1\r\nHost: other\r\nContent-Length: 3\r\n\r\nabc";
        let head = read_text(text).await.unwrap().unwrap();
        assert_eq!((head.host.as_str(), head.port), ("Example.org", 8080));
        assert_eq!(head.path.as_deref(), Some("/a?b"));
        assert_eq!((head.body, head.rest), (Length::Bytes(3), b"abc".to_vec()));
        let head = read_text("CONNECT [::1]:443 HTTP/1.1\r\n\r\n")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (head.host.as_str(), head.port, head.path),
            ("::1", 443, None)
        );
        assert!(read_text("").await.unwrap().is_none());
        let head = read_text("GET http://a.b?q HTTP/1.0\r\n\r\n")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(head.path.as_deref(), Some("/?q"));
        let head = read_text("GET http://me:word@a.b./ HTTP/1.1\r\n\r\n")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(head.host, "a.b");
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
        let long = format!(
            "GET http://a.b/ HTTP/1.1\r\nA: {}\r\n\r\n",
            "x".repeat(100_000)
        );
        assert!(read_text(&long).await.is_err());
    }
}
