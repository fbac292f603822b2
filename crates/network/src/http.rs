//! The proxy that a session finds on its loopback: plain HTTP, and tunnels for everything else.

use crate::answer;
use crate::authority::Authority;
use crate::body::{self, BodyError};
use crate::credentials::Credential;
use crate::error::Refusal;
use crate::guard::Guard;
use crate::head::{self, Head};
use crate::headers;
use crate::record::{Kind, Outcome};
use crate::request::Outgoing;
use crate::tcp::{BUFFER, relay};
use cellblock_protocol::NetworkRule;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a client may take to say what it wants.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// How long, and how much, a client that was refused may go on talking before its connection is closed. To close it at once would tear
/// it, and with it the answer.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
const MAX_DRAIN_BYTES: u64 = 1 << 20;
/// How much of a body is read at once.
const BODY_BUFFER: usize = 64 << 10;

impl Guard {
    /// Serves one connection to the proxy. One request each: the next one may be to another host, and comes on its own connection.
    pub async fn serve_http(&self, mut client: TcpStream) {
        let begun = Instant::now();
        let _ = client.set_nodelay(true);
        // Without a place nothing is read: code that opens connections without end must not hold the host's descriptors.
        let _place = match self.enter() {
            Ok(place) => place,
            Err(refusal) => {
                let answer = answer_to(&refusal);
                self.note(Kind::Unknown, None, begun, Outcome::Refused(refusal));
                let _ = client.write_all(answer.as_bytes()).await;
                return;
            }
        };
        let head = match timeout(HEAD_LIMIT, head::read(&mut client)).await {
            Ok(Ok(Some(head))) => head,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(refusal)) => {
                let answer = answer_to(&refusal);
                self.note(Kind::Unknown, None, begun, Outcome::Refused(refusal));
                return say(&mut client, &answer).await;
            }
        };
        let kind = match &head.path {
            Some(_) => Kind::Http(head.method.clone()),
            None => Kind::Tunnel,
        };
        let target = Some(head.authority.clone());
        let (outcome, answer) = match self.pass_on(&mut client, head).await {
            Ok(outcome) => (outcome, None),
            Err(Stopped::Before(refusal)) => {
                let answer = answer_to(&refusal);
                (Outcome::Refused(refusal), Some(answer))
            }
            Err(Stopped::InTheAnswer(refusal)) => (Outcome::Refused(refusal), None),
        };
        self.note(kind, target, begun, outcome);
        if let Some(answer) = answer {
            say(&mut client, &answer).await;
        }
    }

    async fn pass_on(&self, client: &mut TcpStream, head: Head) -> Result<Outcome, Stopped> {
        let Authority { host, port } = &head.authority;
        let method = head.path.is_some().then_some(head.method.as_str());
        let rule = self.rule(host, *port, method)?;
        let Some(path) = &head.path else {
            let mut server = match self.proxies.for_tunnel(host) {
                Some(proxy) => proxy.tunnel(host, *port).await?,
                None => self.connect(rule, host, *port).await?,
            };
            return Ok(tunnel(client, &mut server, &head.rest).await?);
        };
        let mut outgoing = self.outgoing(&head, rule)?;
        let needs_tls = |credential: &&Credential| credential.needs_tls();
        if !outgoing.credentials.iter().any(needs_tls) {
            let Some(proxy) = self.proxies.for_http(host) else {
                let server = self.connect(rule, host, *port).await?;
                let address = peer(&server, &head.authority)?;
                let request = outgoing.write(path, 80, "");
                return exchange(client, server, address, request, head).await;
            };
            let server = proxy.reach().await?;
            let address = peer(&server, &head.authority)?;
            let whole = format!("http://{}{path}", head.authority);
            let request = outgoing.write(&whole, 80, &proxy.authorization());
            return exchange(client, server, address, request, head).await;
        }
        // The code cannot speak TLS with the host and have a header put into it. So it speaks plainly with us.
        let secure = Authority {
            host: host.clone(),
            port: if *port == 80 { 443 } else { *port },
        };
        let server = self.connect(rule, host, secure.port).await?;
        let address = peer(&server, &secure)?;
        let server = self.trust.begin(server, host).await;
        let server = server.map_err(|source| Refusal::Unreachable {
            target: format!("https://{secure}"),
            source,
        })?;
        outgoing.authority = secure;
        let request = outgoing.write(path, 443, "");
        exchange(client, server, address, request, head).await
    }

    /// What the server is to be sent, if it may be.
    pub(crate) fn outgoing<'a>(
        &'a self,
        head: &'a Head,
        rule: &NetworkRule,
    ) -> Result<Outgoing<'a>, Refusal> {
        let Authority { host, port } = &head.authority;
        let is_meant = |one: &&Credential| one.is_for(host, *port);
        let credentials: Vec<_> = self.credentials.iter().filter(is_meant).collect();
        if !credentials.is_empty() && matches!(head.method.as_str(), "TRACE" | "TRACK") {
            return Err(Refusal::NotPassedOn(
                "it asks the server to send it back, and with it the credential of this host",
            ));
        }
        Ok(Outgoing {
            head,
            authority: head.authority.clone(),
            headers: headers::for_server(&head.headers, &credentials, rule)?,
            credentials,
        })
    }
}

/// Where a request was stopped.
enum Stopped {
    /// The client has not heard anything yet.
    Before(Refusal),
    /// The client has part of an answer, so that nothing else can be said.
    InTheAnswer(Refusal),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Before(refusal)
    }
}

fn peer(server: &TcpStream, target: &Authority) -> Result<SocketAddr, Refusal> {
    server.peer_addr().map_err(|source| Refusal::Unreachable {
        target: target.to_string(),
        source,
    })
}

async fn tunnel(
    client: &mut TcpStream,
    server: &mut TcpStream,
    rest: &[u8],
) -> Result<Outcome, Refusal> {
    let begun = async {
        client
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await?;
        server.write_all(rest).await
    };
    begun.await.map_err(Refusal::Broken)?;
    relay(client, server).await
}

/// Sends one request and passes its answer on. Both connections end with it.
async fn exchange(
    client: &mut TcpStream,
    server: impl AsyncRead + AsyncWrite,
    address: SocketAddr,
    request: String,
    head: Head,
) -> Result<Outcome, Stopped> {
    let (client_reads, mut client_writes) = client.split();
    let (server_reads, mut server_writes) = tokio::io::split(server);
    let mut server_reads = BufReader::with_capacity(BUFFER, server_reads);
    let asking = async {
        let writing = server_writes.write_all(request.as_bytes());
        writing.await.map_err(|_| BodyError::Server)?;
        let from = Cursor::new(head.rest).chain(client_reads);
        let mut from = BufReader::with_capacity(BODY_BUFFER, from);
        body::pass(&mut from, &mut server_writes, head.framing).await
    };
    let is_begun = AtomicBool::new(false);
    let answering = async {
        let received = answer::pass(&mut server_reads, &mut client_writes, &is_begun).await?;
        client_writes.shutdown().await?;
        io::Result::Ok(received)
    };
    tokio::pin!(answering);
    let sent = tokio::select! {
        biased;
        // A server may answer before it has heard everything, and then what else there is to say does not matter.
        received = &mut answering => Heard::Answer(received),
        sent = asking => Heard::Sent(sent),
    };
    let stopped = |refusal| match is_begun.load(Ordering::Relaxed) {
        false => Stopped::Before(refusal),
        true => Stopped::InTheAnswer(refusal),
    };
    let (body_bytes, received) = match sent {
        Heard::Answer(received) => (0, received),
        Heard::Sent(Ok(bytes)) => (bytes, answering.await),
        // A server that does not read may have answered.
        Heard::Sent(Err(BodyError::Server)) => (0, answering.await),
        Heard::Sent(Err(BodyError::Client(problem))) => {
            return Err(stopped(Refusal::Malformed(problem)));
        }
    };
    match received {
        Ok(received) => Ok(Outcome::Allowed {
            address,
            sent: request.len() as u64 + body_bytes,
            received,
        }),
        Err(source) if !is_begun.load(Ordering::Relaxed) => {
            Err(Stopped::Before(Refusal::Unreachable {
                target: head.authority.to_string(),
                source,
            }))
        }
        // A connection that was torn was still one.
        Err(_) => Ok(Outcome::Allowed {
            address,
            sent: request.len() as u64 + body_bytes,
            received: 0,
        }),
    }
}

/// What ended first.
enum Heard {
    Sent(Result<u64, BodyError>),
    Answer(io::Result<u64>),
}

/// What a client is told that was refused.
fn answer_to(refusal: &Refusal) -> String {
    let body = format!("{refusal}\n");
    // Clients that asked for a tunnel show nothing but the first line.
    let plain = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
    let reason: String = refusal.to_string().chars().map(plain).take(500).collect();
    format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nX-Cellblock: refused\r\nConnection: close\r\n\r\n{body}",
        refusal.status(),
        body.len(),
    )
}

async fn say(client: &mut TcpStream, answer: &str) {
    let saying = async {
        client.write_all(answer.as_bytes()).await?;
        client.shutdown().await?;
        let mut rest = client.take(MAX_DRAIN_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _ = timeout(DRAIN_LIMIT, saying).await;
}
