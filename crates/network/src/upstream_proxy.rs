//! Proxies between this machine and the Internet. The guard connects through them, and checks its rules before: it asks a proxy only for
//! hosts that a rule allows.

use crate::connection::ConnectionRefusal;
use crate::guard::{CONNECT_TIMEOUT, target};
use crate::http::response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest response to a `CONNECT` request.
const MAX_CONNECT_REPLY_BYTES: usize = 16 << 10;

/// The proxies of this machine, and the hosts that are reached without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    without: Vec<String>,
}

/// A proxy that speaks plain HTTP.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    host: String,
    port: u16,
    /// The value of the header `Proxy-Authorization`.
    authorization: Option<String>,
}

/// An address of a proxy that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the proxy {address} cannot be used: only those with http:// can stand behind a session's guard"
)]
pub struct BadProxy {
    /// Without a name and a password.
    address: String,
}

impl Proxies {
    /// The proxies for plain HTTP and for tunnels, as the variables `http_proxy`, `https_proxy` and `no_proxy` have them.
    pub fn new(
        http: Option<&str>,
        https: Option<&str>,
        without: &str,
    ) -> Result<Proxies, BadProxy> {
        Ok(Proxies {
            http: http.map(Proxy::read).transpose()?,
            https: https.map(Proxy::read).transpose()?,
            without: without
                .split([',', ' '])
                .map(|host| host.trim().trim_start_matches('.').to_lowercase())
                .filter(|host| !host.is_empty())
                .collect(),
        })
    }

    /// The proxy for plain HTTP to a host.
    pub(crate) fn for_http(&self, host: &str) -> Option<&Proxy> {
        self.http.as_ref().filter(|_| !self.is_without(host))
    }

    /// The proxy for a tunnel to a host.
    pub(crate) fn for_tunnel(&self, host: &str) -> Option<&Proxy> {
        self.https.as_ref().filter(|_| !self.is_without(host))
    }

    fn is_without(&self, host: &str) -> bool {
        let host = host.to_lowercase();
        let is_meant = |known: &String| {
            known == "*"
                || host
                    .strip_suffix(known.as_str())
                    .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        self.without.iter().any(is_meant)
    }
}

impl Proxy {
    fn read(address: &str) -> Result<Proxy, BadProxy> {
        let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let (user, host_and_port) = match authority.rsplit_once('@') {
            Some((user, host_and_port)) => (Some(user), host_and_port),
            None => (None, authority),
        };
        let bad = || BadProxy {
            address: format!("{scheme}://{host_and_port}"),
        };
        let (host, port) = match host_and_port.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
            _ => (host_and_port, 80),
        };
        if !scheme.eq_ignore_ascii_case("http") || host.is_empty() {
            return Err(bad());
        }
        Ok(Proxy {
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authorization: user.map(|user| format!("Basic {}", STANDARD.encode(unescaped(user)))),
        })
    }

    /// The header line for the proxy, or an empty text.
    pub(crate) fn authorization(&self) -> String {
        let line = |word: &String| format!("Proxy-Authorization: {word}\r\n");
        self.authorization.as_ref().map(line).unwrap_or_default()
    }

    /// Connects to the proxy itself. The user named it, so private addresses are allowed.
    pub(crate) async fn connect(&self) -> Result<TcpStream, ConnectionRefusal> {
        let connecting = TcpStream::connect((self.host.as_str(), self.port));
        let stream = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(stream) => stream.map_err(|source| self.unreachable(source))?,
            Err(_) => return Err(self.unreachable(io::ErrorKind::TimedOut.into())),
        };
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// Opens a tunnel through the proxy.
    pub(crate) async fn tunnel(
        &self,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, ConnectionRefusal> {
        let mut stream = self.connect().await?;
        let target_text = target(host, port);
        let request = format!(
            "CONNECT {target_text} HTTP/1.1\r\nHost: {target_text}\r\n{}\r\n",
            self.authorization()
        );
        let asking = async {
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            // Byte by byte: what comes after it belongs to the tunnel.
            while !answer.ends_with(b"\r\n\r\n") {
                if answer.len() == MAX_CONNECT_REPLY_BYTES {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                answer.push(stream.read_u8().await?);
            }
            Ok(answer)
        };
        let answer = match timeout(CONNECT_TIMEOUT, asking).await {
            Ok(answer) => answer.map_err(|source| self.unreachable(source))?,
            Err(_) => return Err(self.unreachable(io::ErrorKind::TimedOut.into())),
        };
        if matches!(response::status(&answer), Some(200..300)) {
            return Ok(stream);
        }
        let answer = String::from_utf8_lossy(&answer);
        let first = answer.lines().next().unwrap_or_default();
        let said: String = first
            .chars()
            .filter(|c| !c.is_control())
            .take(200)
            .collect();
        let proxy = target(&self.host, self.port);
        Err(ConnectionRefusal::Unreachable {
            target: target_text,
            source: io::Error::other(format!("the proxy {proxy} says: {said}")),
        })
    }

    fn unreachable(&self, source: io::Error) -> ConnectionRefusal {
        ConnectionRefusal::Unreachable {
            target: format!("the proxy {}", target(&self.host, self.port)),
            source,
        }
    }
}

impl std::fmt::Debug for Proxy {
    /// Without the secret.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&target(&self.host, self.port))
    }
}

/// A name and a password may have `%40` in the place of `@`.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let escaped = escaped.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (*first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (byte, _) => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_hosts_are_reached_without_a_proxy() {
        let proxies = Proxies::new(
            None,
            Some("http://a:b%40@proxy.example:8080/"),
            ".own.example, x.org",
        );
        let proxies = proxies.unwrap();
        assert!(proxies.for_tunnel("example.org").is_some());
        assert!(proxies.for_tunnel("notx.org").is_some());
        for host in ["own.example", "a.OWN.example", "x.org"] {
            assert!(proxies.for_tunnel(host).is_none(), "{host}");
        }
        assert!(proxies.for_http("example.org").is_none());
        let proxy = proxies.for_tunnel("example.org").unwrap();
        assert_eq!(
            proxy.authorization(),
            "Proxy-Authorization: Basic YTpiQA==\r\n"
        );
        assert_eq!(format!("{proxy:?}"), "proxy.example:8080");
    }

    #[test]
    fn other_kinds_of_proxies_are_told_without_their_passwords() {
        let error = Proxies::new(None, Some("socks5://me:secret@proxy.example:1080"), "");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("socks5://proxy.example:1080"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
