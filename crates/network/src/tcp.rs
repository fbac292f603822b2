//! Connections that a rule for TCP allows: the session finds the host under its own name, and bytes go both ways.

use crate::authority::Authority;
use crate::error::Refusal;
use crate::guard::Guard;
use crate::record::{Kind, Outcome};
use cellblock_protocol::{HostPattern, NetworkRule};
use std::io;
use std::time::Instant;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;

/// Large enough that a fast connection stays one.
pub(crate) const BUFFER: usize = 256 << 10;

impl Guard {
    /// Serves one connection of the session's to the host of `rule`, which is one for TCP.
    pub async fn serve_tcp(&self, mut client: TcpStream, rule: &NetworkRule) {
        let begun = Instant::now();
        let host = match &rule.host {
            HostPattern::Name(name) | HostPattern::Below(name) => name.clone(),
            HostPattern::Address(address) => address.to_string(),
        };
        let port = rule.port.unwrap_or_default();
        let outcome = match self.enter() {
            Err(refusal) => Err(refusal),
            Ok(_place) => match self.connect(rule, &host, port).await {
                Err(refusal) => Err(refusal),
                Ok(mut server) => relay(&mut client, &mut server).await,
            },
        };
        let outcome = outcome.unwrap_or_else(Outcome::Refused);
        let target = Authority { host, port };
        self.note(Kind::Tcp, Some(target), begun, outcome);
    }
}

/// Hands bytes on in both directions until both have ended.
pub(crate) async fn relay(
    client: &mut TcpStream,
    server: &mut TcpStream,
) -> Result<Outcome, Refusal> {
    let address = server.peer_addr().map_err(Refusal::Broken)?;
    let _ = client.set_nodelay(true);
    let copied: io::Result<(u64, u64)> =
        copy_bidirectional_with_sizes(client, server, BUFFER, BUFFER).await;
    // A connection that was torn was still one.
    let (sent, received) = copied.unwrap_or_default();
    Ok(Outcome::Allowed {
        address,
        sent,
        received,
    })
}
