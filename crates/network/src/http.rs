//! The proxy that a session finds on its loopback: plain HTTP, and tunnels for everything else.

use crate::body;
use crate::error::Refusal;
use crate::guard::{Guard, target};
use crate::head::{self, Head};
use crate::record::{Kind, Outcome};
use crate::tcp::relay;
use std::io::{self, Cursor};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy};
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
        let mut server = self.connect(rule, &head.host, head.port).await?;
        Ok(if let Some(path) = &head.path {
            let request = self.request(&head, path);
            exchange(client, &mut server, request, head).await
        } else {
            tunnel(client, &mut server, &head.rest).await
        })
    }

    /// The head that the server gets.
    fn request(&self, head: &Head, path: &str) -> String {
        let credentials: Vec<_> = self
            .credentials
            .iter()
            .filter(|one| one.is_for(&head.host))
            .collect();
        let host = if head.port == 80 {
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
    server: &mut TcpStream,
    request: String,
    head: Head,
) -> Outcome {
    let address = match server.peer_addr() {
        Ok(address) => address,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    let (client_reads, mut client_writes) = client.split();
    let (mut server_reads, mut server_writes) = server.split();
    let asking = async {
        server_writes.write_all(request.as_bytes()).await?;
        let mut from = BufReader::new(Cursor::new(head.rest).chain(client_reads));
        let bytes = body::pass(&mut from, &mut server_writes, head.body).await?;
        server_writes.flush().await?;
        Ok::<_, io::Error>(bytes)
    };
    let answering = async {
        let received = copy(&mut server_reads, &mut client_writes).await?;
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
