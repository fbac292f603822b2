//! A connection to a server, and the answers that come back on it.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What the server says that it saw.
    pub(crate) seen: Option<Seen>,
}

/// A request as a server saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    target: String,
    is_decoded: bool,
    pub(crate) headers: Vec<(String, String)>,
    /// `None` where the server does not tell.
    pub(crate) body: Option<String>,
}

impl Seen {
    /// From an answer of `servers.py` and its like, or from the lines of a server that only fills in a text.
    fn read(body: &[u8]) -> Option<Seen> {
        let text = std::str::from_utf8(body).ok()?;
        if let Some(lines) = text.strip_prefix("seen\n") {
            let mut lines = lines.lines();
            let (method, target) = (lines.next()?, lines.next()?);
            let headers = lines.filter_map(|line| line.split_once('='));
            let headers = headers.filter(|(_, value)| !value.is_empty());
            return Some(Seen {
                method: method.to_owned(),
                target: target.to_owned(),
                is_decoded: false,
                headers: headers
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                body: None,
            });
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let string = |value: &Value| value.as_str().map(str::to_owned);
        let decoded = string(&value["target"]["decoded"]);
        let headers = value["headers"].as_array()?.iter();
        Some(Seen {
            method: string(&value["method"])?,
            is_decoded: decoded.is_some(),
            target: decoded.or_else(|| string(&value["target"]))?,
            headers: headers
                .filter_map(|pair| Some((string(&pair[0])?, string(&pair[1])?)))
                .collect(),
            body: Some(from_hex(value["body"].as_str()?)),
        })
    }

    /// Whether it was asked for this path and query.
    pub(crate) fn is_target(&self, path: &str) -> bool {
        if !self.is_decoded {
            return self.target == path;
        }
        // How far a path is decoded differs: a slash may stay as it is.
        let slashes = |text: &str| text.trim_start_matches('/').to_owned();
        slashes(&decoded(&self.target)) == slashes(&decoded(path))
    }

    /// How many headers it took for the credential.
    pub(crate) fn credentials(&self) -> usize {
        let is_credential = |(name, _): &&(String, String)| {
            name.to_ascii_lowercase()
                .replace(|c: char| !c.is_ascii_alphanumeric(), "-")
                == "x-key"
        };
        self.headers.iter().filter(is_credential).count()
    }
}

/// Sends bytes on a connection of their own, and returns every answer until its end.
pub(crate) fn exchange(port: u16, bytes: &[u8]) -> Vec<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // A server that has refused already need not take the rest.
    let _ = stream.write_all(bytes);
    let mut came = Vec::new();
    let _ = stream.read_to_end(&mut came);
    let mut rest = &came[..];
    let mut answers = Vec::new();
    while let Some(answer) = next(&mut rest) {
        answers.push(answer);
    }
    answers
}

fn next(rest: &mut &[u8]) -> Option<Answer> {
    let end = rest.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&rest[..end]).to_ascii_lowercase();
    *rest = &rest[end + 4..];
    let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
    if (100..200).contains(&status) {
        return next(rest);
    }
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    let body = if header("transfer-encoding").is_some_and(|value| value == "chunked") {
        take_chunks(rest)?
    } else {
        let length = header("content-length").map_or(rest.len(), |value| value.parse().unwrap());
        let (body, after) = rest.split_at_checked(length)?;
        *rest = after;
        body.to_vec()
    };
    Some(Answer {
        status,
        seen: Seen::read(&body),
    })
}

fn take_chunks(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        body.extend_from_slice(rest.get(end + 2..end + 2 + size)?);
        *rest = rest.get(end + 4 + size..)?;
        if size == 0 {
            return Some(body);
        }
    }
}

fn decoded(text: &str) -> String {
    // As WSGI has it: each byte is a character.
    let mut decoded = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let escaped = rest.get(1..3).filter(|_| c == '%');
        let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped {
            Some(byte) => {
                decoded.push(char::from(byte));
                rest = &rest[3..];
            }
            None => {
                decoded.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    decoded
}

fn from_hex(text: &str) -> String {
    let bytes = text.as_bytes().chunks(2);
    let bytes: Vec<u8> = bytes
        .filter_map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
