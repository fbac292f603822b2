//! Tunnels: bytes in both directions, after a look at the name that a TLS client asks for.
//!
//! One address can serve many hosts. A client tells the server which host it means in the first message of TLS (SNI), before anything is
//! encrypted. So the guard reads this message, and a tunnel to a host that a rule allows is no way to a host that no rule allows.
//!
//! A server can ask for that message once more (`HelloRetryRequest`), and goes by the name in the second one. So the guard passes on the
//! first message alone, and nothing after it before the answer says whether another one follows.

use super::tls::Beginning;
use super::{HEAD_TIMEOUT, tls};
use crate::authority::Authority;
use crate::connection::{ConnectionOutcome, ConnectionRefusal};
use crate::guard::{Guard, relay};
use rustls::server::Acceptor;
use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest first message of TLS, with the headers of its records.
const MAX_HELLO_BYTES: usize = 96 << 10;
/// The message of TLS that ends a connection because of its name: fatal, `unrecognized_name`.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// What the beginning of a client's bytes says.
#[derive(Debug, PartialEq, Eq)]
enum Hello {
    /// More bytes are needed.
    Incomplete,
    /// TLS, with the name that the client asks for.
    Complete { name: Option<String> },
    /// TLS that cannot be read.
    Malformed,
}

impl Guard {
    /// Passes bytes on between the client and the server of a tunnel. `rest` is what the client has sent already.
    pub(super) async fn tunnel(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        target: &Authority,
        rest: Vec<u8>,
    ) -> Result<ConnectionOutcome, ConnectionRefusal> {
        let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
        let answered = client.write_all(established).await;
        answered.map_err(ConnectionRefusal::Broken)?;
        let first = match first_bytes(client, server, rest).await {
            Ok(first) => first,
            Err(error) => return Err(ConnectionRefusal::Broken(error)),
        };
        let handed_on = match tls::beginning(&first) {
            Beginning::Other => {
                server
                    .write_all(&first)
                    .await
                    .map_err(ConnectionRefusal::Broken)?;
                return relay(client, server).await;
            }
            Beginning::Handshake => self.pass_hellos(client, server, target, first).await,
            Beginning::OtherRecord => Err(ConnectionRefusal::Malformed(
                "a tunnel begins with a record of TLS that is not its first message",
            )),
        };
        if let Err(refusal) = handed_on {
            let _ = client.write_all(&UNRECOGNIZED_NAME).await;
            let _ = client.shutdown().await;
            return Err(refusal);
        }
        relay(client, server).await
    }

    /// Passes on the first message of TLS, and the second one if the server asks for it, each after a look at its name. `read` is what the
    /// client has sent so far.
    async fn pass_hellos(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        target: &Authority,
        read: Vec<u8>,
    ) -> Result<(), ConnectionRefusal> {
        let (hello, mut rest) = self.check_name(client, target, read).await?;
        server
            .write_all(&hello)
            .await
            .map_err(ConnectionRefusal::Broken)?;
        let answer = in_time(tls::first_answer(server)).await?;
        client
            .write_all(&answer)
            .await
            .map_err(ConnectionRefusal::Broken)?;
        if tls::asks_again(&answer) {
            let mut sent = rest.as_slice().chain(&mut *client);
            let begun = in_time(tls::pass_until_handshake(&mut sent, server)).await?;
            let mut read = begun.unwrap_or_default();
            read.extend_from_slice(sent.into_inner().0);
            rest = match read.is_empty() {
                true => read,
                false => {
                    let (hello, rest) = self.check_name(client, target, read).await?;
                    server
                        .write_all(&hello)
                        .await
                        .map_err(ConnectionRefusal::Broken)?;
                    rest
                }
            };
        }
        server
            .write_all(&rest)
            .await
            .map_err(ConnectionRefusal::Broken)
    }

    /// Reads the first message of TLS to its end, and refuses a name that no rule allows. Returns the message, and what was read after it.
    async fn check_name(
        &self,
        client: &mut TcpStream,
        target: &Authority,
        mut read: Vec<u8>,
    ) -> Result<(Vec<u8>, Vec<u8>), ConnectionRefusal> {
        let reading = async {
            loop {
                match hello(&read) {
                    Hello::Incomplete if read.len() < MAX_HELLO_BYTES => {}
                    said => return Ok::<_, io::Error>((said, read)),
                }
                if client.read_buf(&mut read).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        let (said, mut read) = in_time(reading).await?;
        let unreadable =
            ConnectionRefusal::Malformed("the first message of TLS in a tunnel cannot be read");
        let Hello::Complete { name } = said else {
            return Err(unreadable);
        };
        if let Some(name) = name {
            self.check_hidden_host(target, &name)?;
        }
        let Some(length) = tls::length_of_message(&read) else {
            return Err(unreadable);
        };
        let rest = read.split_off(length);
        Ok((read, rest))
    }

    /// Refuses a host inside a tunnel that no rule allows. A rule for an address means all that is at the address.
    fn check_hidden_host(&self, target: &Authority, name: &str) -> Result<(), ConnectionRefusal> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let is_address = target.host.parse::<IpAddr>().is_ok();
        if is_address || name == target.host {
            return Ok(());
        }
        self.rule(&name, target.port, None).map(drop)
    }
}

/// Waits for a part of the handshake, but not for ever.
async fn in_time<T>(part: impl Future<Output = io::Result<T>>) -> Result<T, ConnectionRefusal> {
    let late = |_| Err(io::ErrorKind::TimedOut.into());
    let outcome = timeout(HEAD_TIMEOUT, part).await.unwrap_or_else(late);
    outcome.map_err(ConnectionRefusal::Broken)
}

/// Waits for the first bytes of the client, until they show whether it speaks TLS. Empty where the server speaks first: then it does not.
async fn first_bytes(
    client: &mut TcpStream,
    server: &TcpStream,
    mut rest: Vec<u8>,
) -> io::Result<Vec<u8>> {
    if rest.is_empty() {
        let mut byte = [0];
        tokio::select! {
            biased;
            read = client.read_buf(&mut rest) => { read?; }
            // The byte stays where it is.
            peeked = server.peek(&mut byte) => { peeked?; }
        }
    }
    if let [kind] = rest[..]
        && tls::is_kind_of_record(kind)
    {
        client.read_buf(&mut rest).await?;
    }
    Ok(rest)
}

/// Reads the first message of TLS with the parser of a TLS server. Code may spread it over many records.
fn hello(bytes: &[u8]) -> Hello {
    let (mut acceptor, mut left) = (Acceptor::default(), bytes);
    loop {
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_owned);
                return Hello::Complete { name };
            }
            Ok(None) if left.is_empty() => return Hello::Incomplete,
            Ok(None) => {}
            Err(_) => return Hello::Malformed,
        }
        if acceptor.read_tls(&mut left).is_err() {
            return Hello::Malformed;
        }
    }
}
