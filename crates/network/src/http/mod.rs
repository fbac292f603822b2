//! The proxy that a session finds on its loopback: plain HTTP, and tunnels for everything else.

mod body;
mod head;
mod headers;
pub(crate) mod response;
mod tls;
mod tunnel;

use crate::authority::Authority;
use crate::connection::{ConnectionOutcome, ConnectionRefusal, RequestKind};
use crate::credentials::Credential;
use crate::guard::{Guard, RELAY_BUFFER_BYTES};
use body::BodyError;
use cellblock_protocol::NetworkRule;
use head::Head;
use headers::{Framing, Header};
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a client may take to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long, and how much, a client that was refused may go on talking before its connection is closed. To close it at once would tear
/// it, and with it the answer.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
const MAX_DRAIN_BYTES: u64 = 1 << 20;
/// How much of a body is read at once.
const BODY_BUFFER_BYTES: usize = 64 << 10;

impl Guard {
    /// Serves one connection to the proxy. One request each: the next one may be to another host, and comes on its own connection.
    pub async fn serve_http(&self, mut client: TcpStream) {
        let begun = Instant::now();
        let _ = client.set_nodelay(true);
        // Without a slot nothing is read: code that opens connections without end must not hold the host's descriptors.
        let _slot = match self.acquire_slot() {
            Ok(slot) => slot,
            Err(refusal) => {
                let answer = error_response(&refusal);
                self.report(
                    RequestKind::Unknown,
                    None,
                    begun,
                    ConnectionOutcome::Refused(refusal),
                );
                let _ = client.write_all(answer.as_bytes()).await;
                return;
            }
        };
        let head = match timeout(HEAD_TIMEOUT, head::read(&mut client)).await {
            Ok(Ok(Some(head))) => head,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(refusal)) => {
                let answer = error_response(&refusal);
                self.report(
                    RequestKind::Unknown,
                    None,
                    begun,
                    ConnectionOutcome::Refused(refusal),
                );
                return respond(&mut client, &answer).await;
            }
        };
        let kind = match &head.path {
            Some(_) => RequestKind::Http(head.method.clone()),
            None => RequestKind::Tunnel,
        };
        let target = Some(head.authority.clone());
        let (outcome, answer) = match self.pass_on(&mut client, head).await {
            Ok(outcome) => (outcome, None),
            Err(ExchangeError::BeforeResponse(refusal)) => {
                let answer = error_response(&refusal);
                (ConnectionOutcome::Refused(refusal), Some(answer))
            }
            Err(ExchangeError::DuringResponse(refusal)) => {
                (ConnectionOutcome::Refused(refusal), None)
            }
        };
        self.report(kind, target, begun, outcome);
        if let Some(answer) = answer {
            respond(&mut client, &answer).await;
        }
    }

    async fn pass_on(
        &self,
        client: &mut TcpStream,
        head: Head,
    ) -> Result<ConnectionOutcome, ExchangeError> {
        let Authority { host, port } = &head.authority;
        let method = head.path.is_some().then_some(head.method.as_str());
        let destination = self.destination(&head);
        let rule = &self.rule_or_ask(&destination, method, client).await?;
        let Some(path) = &head.path else {
            let mut server = match self.proxies.for_tunnel(host) {
                Some(proxy) => proxy.tunnel(host, *port).await?,
                None => self.connect(rule, host, *port).await?,
            };
            let passed = self.tunnel(client, &mut server, &head.authority, head.rest);
            // The client was told that the tunnel stands.
            return passed.await.map_err(ExchangeError::DuringResponse);
        };
        let mut outgoing = self.outgoing(&head, rule)?;
        if !needs_tls(&outgoing.credentials) {
            let Some(proxy) = self.proxies.for_http(host) else {
                let server = self.connect(rule, host, *port).await?;
                let address = peer(&server, &head.authority)?;
                let request = outgoing.write(path, 80, "");
                return exchange(client, server, address, request, head).await;
            };
            let server = proxy.connect().await?;
            let address = peer(&server, &head.authority)?;
            let whole = format!("http://{}{path}", head.authority);
            let request = outgoing.write(&whole, 80, &proxy.authorization());
            return exchange(client, server, address, request, head).await;
        }
        // A header cannot be added to a connection that the code encrypts. So the code sends plain HTTP, and the guard speaks TLS.
        let server = self.connect(rule, host, destination.port).await?;
        let address = peer(&server, &destination)?;
        let server = self.trust.handshake(server, host).await;
        let server = server.map_err(|source| ConnectionRefusal::Unreachable {
            target: format!("https://{destination}"),
            source,
        })?;
        outgoing.authority = destination;
        let request = outgoing.write(path, 443, "");
        exchange(client, server, address, request, head).await
    }

    /// Where a request arrives, which is what the rules are asked about: at the host and port of its head, or at the port for TLS where a
    /// credential needs TLS.
    fn destination(&self, head: &Head) -> Authority {
        let mut destination = head.authority.clone();
        let is_secured = head.path.is_some() && needs_tls(&self.credentials_for(&destination));
        if is_secured && destination.port == 80 {
            destination.port = 443;
        }
        destination
    }

    fn credentials_for(&self, target: &Authority) -> Vec<&Credential> {
        let is_meant = |one: &&Credential| one.is_for(&target.host, target.port);
        self.credentials.iter().filter(is_meant).collect()
    }

    /// What the server is to be sent, if it may be.
    pub(crate) fn outgoing<'a>(
        &'a self,
        head: &'a Head,
        rule: &NetworkRule,
    ) -> Result<Outgoing<'a>, ConnectionRefusal> {
        let credentials = self.credentials_for(&head.authority);
        if !credentials.is_empty() && matches!(head.method.as_str(), "TRACE" | "TRACK") {
            return Err(ConnectionRefusal::NotPassedOn(
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

/// Why an exchange ended early.
enum ExchangeError {
    /// The client has not got any byte of a response.
    BeforeResponse(ConnectionRefusal),
    /// The client has part of a response, so the refusal cannot be sent any more.
    DuringResponse(ConnectionRefusal),
}

impl From<ConnectionRefusal> for ExchangeError {
    fn from(refusal: ConnectionRefusal) -> ExchangeError {
        ExchangeError::BeforeResponse(refusal)
    }
}

fn needs_tls(credentials: &[&Credential]) -> bool {
    credentials.iter().any(|credential| credential.needs_tls())
}

fn peer(server: &TcpStream, target: &Authority) -> Result<SocketAddr, ConnectionRefusal> {
    server
        .peer_addr()
        .map_err(|source| ConnectionRefusal::Unreachable {
            target: target.to_string(),
            source,
        })
}

/// Sends one request and passes its answer on. Both connections end with it.
async fn exchange(
    client: &mut TcpStream,
    server: impl AsyncRead + AsyncWrite,
    address: SocketAddr,
    request: String,
    head: Head,
) -> Result<ConnectionOutcome, ExchangeError> {
    let (client_reads, mut client_writes) = client.split();
    let (server_reads, mut server_writes) = tokio::io::split(server);
    let mut server_reads = BufReader::with_capacity(RELAY_BUFFER_BYTES, server_reads);
    let asking = async {
        let writing = server_writes.write_all(request.as_bytes());
        writing.await.map_err(|_| BodyError::Server)?;
        let from = Cursor::new(head.rest).chain(client_reads);
        let mut from = BufReader::with_capacity(BODY_BUFFER_BYTES, from);
        body::pass(&mut from, &mut server_writes, head.framing).await
    };
    let is_begun = AtomicBool::new(false);
    let answering = async {
        let received = response::pass(&mut server_reads, &mut client_writes, &is_begun).await?;
        client_writes.shutdown().await?;
        io::Result::Ok(received)
    };
    tokio::pin!(answering);
    let sent = tokio::select! {
        biased;
        // A server may answer before it has read the whole request. Then the rest of the request does not matter.
        received = &mut answering => FirstEvent::Response(received),
        sent = asking => FirstEvent::RequestSent(sent),
    };
    let exchange_error = |refusal| match is_begun.load(Ordering::Relaxed) {
        false => ExchangeError::BeforeResponse(refusal),
        true => ExchangeError::DuringResponse(refusal),
    };
    let (body_bytes, received) = match sent {
        FirstEvent::Response(received) => (0, received),
        FirstEvent::RequestSent(Ok(bytes)) => (bytes, answering.await),
        // A server that does not read may have answered.
        FirstEvent::RequestSent(Err(BodyError::Server)) => (0, answering.await),
        FirstEvent::RequestSent(Err(BodyError::Client(problem))) => {
            return Err(exchange_error(ConnectionRefusal::Malformed(problem)));
        }
    };
    match received {
        Ok(received) => Ok(ConnectionOutcome::Allowed {
            address,
            sent: request.len() as u64 + body_bytes,
            received,
        }),
        Err(source) if !is_begun.load(Ordering::Relaxed) => Err(ExchangeError::BeforeResponse(
            ConnectionRefusal::Unreachable {
                target: head.authority.to_string(),
                source,
            },
        )),
        // A connection that was torn was still one.
        Err(_) => Ok(ConnectionOutcome::Allowed {
            address,
            sent: request.len() as u64 + body_bytes,
            received: 0,
        }),
    }
}

/// Which half of the exchange ended first.
enum FirstEvent {
    RequestSent(Result<u64, BodyError>),
    Response(io::Result<u64>),
}

/// The response to a refused request.
fn error_response(refusal: &ConnectionRefusal) -> String {
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

async fn respond(client: &mut TcpStream, answer: &str) {
    let saying = async {
        client.write_all(answer.as_bytes()).await?;
        client.shutdown().await?;
        let mut rest = client.take(MAX_DRAIN_BYTES);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _ = timeout(DRAIN_LIMIT, saying).await;
}

/// What goes into the head of a request for a server.
pub(crate) struct Outgoing<'a> {
    pub(crate) head: &'a Head,
    /// The target of the request: the one in its head, or the same host at the port for TLS.
    pub(crate) authority: Authority,
    /// Those of the client's headers that are passed on.
    pub(crate) headers: Vec<&'a Header>,
    pub(crate) credentials: Vec<&'a Credential>,
}

impl Outgoing<'_> {
    /// Writes the head: `target` stands in the first line, `usual_port` need not be named in `Host`, and `more` are lines for a proxy
    /// between.
    pub(crate) fn write(&self, target: &str, usual_port: u16, more: &str) -> String {
        let Outgoing { head, .. } = self;
        let host = self.authority.host_header(usual_port);
        let mut request = format!(
            "{} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n",
            head.method
        );
        for Header { name, value } in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        match head.framing {
            Framing::NoBody => {}
            Framing::Length(bytes) => request.push_str(&format!("Content-Length: {bytes}\r\n")),
            Framing::Chunked => request.push_str("Transfer-Encoding: chunked\r\n"),
        }
        for credential in &self.credentials {
            request.push_str(&credential.line());
        }
        request.push_str(more);
        request.push_str("\r\n");
        request
    }
}

/// A request that the guard lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// The method that the rules were asked about.
    pub method: String,
    /// The host that the rules were asked about.
    pub authority: Authority,
    /// The path and query; `None` for a tunnel.
    pub path: Option<String>,
    /// The bytes that the server gets; none for a tunnel.
    pub bytes: Vec<u8>,
}

impl Guard {
    /// What becomes of these bytes of a client: the request as the server gets it over a plain connection, or why not. `None` for no bytes.
    pub fn rewrite(&self, bytes: &[u8]) -> Result<Option<Rewritten>, ConnectionRefusal> {
        poll_to_completion(async {
            let mut client = bytes;
            let Some(head) = head::read(&mut client).await? else {
                return Ok(None);
            };
            let Authority { host, port } = self.destination(&head);
            let method = head.path.is_some().then_some(head.method.as_str());
            let rule = self.rule(&host, port, method)?;
            let mut sent = Vec::new();
            if let Some(path) = &head.path {
                sent = self.outgoing(&head, rule)?.write(path, 80, "").into_bytes();
                let mut from = BufReader::new(Cursor::new(&head.rest).chain(client));
                let passed = body::pass(&mut from, &mut sent, head.framing).await;
                match passed {
                    Ok(_) => {}
                    Err(BodyError::Client(problem)) => {
                        return Err(ConnectionRefusal::Malformed(problem));
                    }
                    Err(BodyError::Server) => unreachable!("memory takes everything"),
                }
            }
            Ok(Some(Rewritten {
                method: head.method,
                authority: head.authority,
                path: head.path,
                bytes: sent,
            }))
        })
    }
}

/// The value of a future that reads and writes memory alone, and so never waits.
fn poll_to_completion<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut context) {
            return value;
        }
    }
}
