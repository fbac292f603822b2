//! The proxy that a session finds on its loopback: plain HTTP, and tunnels for everything else.

use crate::credentials::Credential;
use crate::error::Refusal;
use crate::guard::{Guard, target};
use crate::head::{self, Head};
use crate::record::{Kind, Outcome};
use crate::tcp::{BUFFER, relay};
use crate::{answer, body};
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a client may take to say what it wants.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// Headers that are between two neighbours, and end here.
const BETWEEN_NEIGHBOURS: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
];

impl Guard {
    /// Serves one connection to the proxy. One request each: the next one may be to someone else, and comes on its own.
    pub async fn serve_http(&self, mut client: TcpStream) {
        let begun = Instant::now();
        let _ = client.set_nodelay(true);
        let place = self.enter();
        let head = match timeout(HEAD_LIMIT, head::read(&mut client)).await {
            Ok(Ok(Some(head))) => head,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(refusal)) => {
                let (kind, nowhere) = (Kind::Http("?".to_owned()), "?".to_owned());
                self.note(kind, nowhere, begun, Outcome::Refused(refusal.to_string()));
                return refuse(&mut client, &refusal).await;
            }
        };
        let kind = match &head.path {
            Some(_) => Kind::Http(head.method.clone()),
            None => Kind::Tunnel,
        };
        let target = target(&head.host, head.port);
        let outcome = match place {
            Err(refusal) => Err(refusal),
            Ok(_place) => self.pass_on(&mut client, head).await,
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(refusal) => {
                refuse(&mut client, &refusal).await;
                Outcome::Refused(refusal.to_string())
            }
        };
        self.note(kind, target, begun, outcome);
    }

    async fn pass_on(&self, client: &mut TcpStream, head: Head) -> Result<Outcome, Refusal> {
        let method = head.path.is_some().then_some(head.method.as_str());
        let rule = self.rule(&head.host, head.port, method)?;
        let Some(path) = &head.path else {
            let mut server = match self.proxies.for_tunnel(&head.host) {
                Some(proxy) => proxy.tunnel(&head.host, head.port).await?,
                None => self.connect(rule, &head.host, head.port).await?,
            };
            return Ok(tunnel(client, &mut server, &head.rest).await);
        };
        let is_meant = |one: &&Credential| one.is_for(&head.host, head.port);
        let credentials: Vec<_> = self.credentials.iter().filter(is_meant).collect();
        if !credentials.iter().any(|credential| credential.needs_tls()) {
            let Some(proxy) = self.proxies.for_http(&head.host) else {
                let server = self.connect(rule, &head.host, head.port).await?;
                let address = peer(&server, &head)?;
                let request = request(&head, path, 80, &credentials);
                return Ok(exchange(client, server, address, request, head).await);
            };
            let server = proxy.reach().await?;
            let address = peer(&server, &head)?;
            let whole = format!("http://{}{path}", target(&head.host, head.port));
            let mut request = request(&head, &whole, 80, &credentials);
            // Before the empty line that ends it.
            request.insert_str(request.len() - 2, &proxy.authorization());
            return Ok(exchange(client, server, address, request, head).await);
        }
        // The code cannot speak TLS with the host and have a header put into it. So it speaks plainly with us.
        let port = if head.port == 80 { 443 } else { head.port };
        let server = self.connect(rule, &head.host, port).await?;
        let address = peer(&server, &head)?;
        let server = self.trust.begin(server, &head.host).await;
        let server = server.map_err(|source| Refusal::Unreachable {
            target: format!("https://{}", target(&head.host, port)),
            source,
        })?;
        let head = Head { port, ..head };
        let path = head.path.as_deref().unwrap_or("/");
        let request = request(&head, path, 443, &credentials);
        Ok(exchange(client, server, address, request, head).await)
    }
}

fn peer(server: &TcpStream, head: &Head) -> Result<SocketAddr, Refusal> {
    server.peer_addr().map_err(|source| Refusal::Unreachable {
        target: target(&head.host, head.port),
        source,
    })
}

/// The head that the server gets. `usual` is the port that need not be said.
fn request(head: &Head, path: &str, usual: u16, credentials: &[&Credential]) -> String {
    let host = if head.port == usual {
        head.host.clone()
    } else {
        target(&head.host, head.port)
    };
    let mut request = format!(
        "{} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n",
        head.method
    );
    for (name, value) in &head.headers {
        let is = |other: &&str| name.eq_ignore_ascii_case(other);
        let replaced = credentials
            .iter()
            .any(|credential| credential.replaces(name));
        if is(&"host") || replaced || BETWEEN_NEIGHBOURS.iter().any(is) {
            continue;
        }
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    for credential in credentials {
        request.push_str(&credential.line());
    }
    request.push_str("\r\n");
    request
}

async fn tunnel(client: &mut TcpStream, server: &mut TcpStream, rest: &[u8]) -> Outcome {
    let begun = async {
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await?;
        server.write_all(rest).await
    };
    match begun.await {
        Ok(()) => relay(client, server).await,
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

/// One request and its answer.
async fn exchange(
    client: &mut TcpStream,
    server: impl AsyncRead + AsyncWrite,
    address: SocketAddr,
    request: String,
    head: Head,
) -> Outcome {
    let (client_reads, mut client_writes) = client.split();
    let (server_reads, mut server_writes) = tokio::io::split(server);
    let mut server_reads = BufReader::with_capacity(BUFFER, server_reads);
    let asking = async {
        server_writes.write_all(request.as_bytes()).await?;
        let mut from = BufReader::new(Cursor::new(head.rest).chain(client_reads));
        let bytes = body::pass(&mut from, &mut server_writes, head.body).await?;
        server_writes.flush().await?;
        Ok::<_, io::Error>(bytes)
    };
    let answering = async {
        let received = answer::pass(&mut server_reads, &mut client_writes).await?;
        client_writes.shutdown().await?;
        Ok::<_, io::Error>(received)
    };
    // A server may answer before it has heard everything, and then what else there is to say does not matter.
    tokio::pin!(answering);
    let sent = tokio::select! {
        biased;
        received = &mut answering => {
            return Outcome::Allowed { address, sent: request.len() as u64, received: received.unwrap_or(0) };
        }
        sent = asking => sent,
    };
    let received = match sent {
        Ok(_) => answering.await.unwrap_or(0),
        Err(_) => 0,
    };
    let sent = request.len() as u64 + sent.unwrap_or(0);
    Outcome::Allowed {
        address,
        sent,
        received,
    }
}

async fn refuse(client: &mut TcpStream, refusal: &Refusal) {
    let body = format!("{refusal}\n");
    // Clients that asked for a tunnel show nothing but the first line.
    let plain = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
    let reason: String = refusal.to_string().chars().map(plain).take(500).collect();
    let answer = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nX-Cellblock: refused\r\nConnection: close\r\n\r\n{body}",
        refusal.status(),
        body.len(),
    );
    let _ = client.write_all(answer.as_bytes()).await;
    let _ = client.shutdown().await;
}
