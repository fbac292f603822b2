//! The flags for serving over HTTP.

use crate::failure::Usage;
use crate::terminal::Console;
use anyhow::Context as _;
use cellblock::mcp::HttpOptions;
use cellblock::parse_duration;
use clap::Args;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, lookup_host};

/// The shortest token that is taken: one can try many in an hour.
const SHORTEST_TOKEN: usize = 16;

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub(super) struct HttpArgs {
    /// Serve many clients over streamable HTTP at http://ADDR/mcp; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Listen on an address that other machines reach
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// Take requests for this host name too, beside localhost
    #[arg(long, value_name = "NAME", requires = "http")]
    allow_host: Vec<String>,
    /// Let pages of this web origin in, such as https://example.com:443
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
    /// End a client's session after this time of silence [default: 30min]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "http")]
    idle: Option<Duration>,
}

impl HttpArgs {
    /// Where to listen and how, when it is to be HTTP. Says the address, and the token if nobody gave one.
    pub(super) async fn listen(
        &self,
        console: &Console,
    ) -> anyhow::Result<Option<(TcpListener, HttpOptions)>> {
        let Some(wanted) = &self.http else {
            return Ok(None);
        };
        let address = self.address(wanted).await?;
        let (token, is_given) = match std::env::var("CELLBLOCK_MCP_TOKEN") {
            Ok(token) if token.len() < SHORTEST_TOKEN => {
                return Err(Usage::plain(format!(
                    "CELLBLOCK_MCP_TOKEN is too short: at least {SHORTEST_TOKEN} characters are needed"
                )));
            }
            Ok(token) => (token, true),
            Err(_) => (fresh_token()?, false),
        };
        let mut options = HttpOptions::new(&token);
        options.origins = self.allow_origin.clone();
        options.hosts.extend(self.allow_host.iter().cloned());
        if self.allow_remote && self.allow_host.is_empty() {
            // Who comes from elsewhere uses a name that nobody told us; the token is still needed.
            options.hosts.clear();
        }
        options.idle = self.idle.unwrap_or(options.idle);
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        console.say(&format!("serving at http://{}/mcp", listener.local_addr()?));
        if !is_given {
            console.say(&format!("token: {token}"));
        }
        Ok(Some((listener, options)))
    }

    async fn address(&self, wanted: &str) -> anyhow::Result<SocketAddr> {
        let bad = |problem: String| {
            Usage::hinted(
                format!("--http {wanted}: {problem}"),
                "write an address and a port, such as 127.0.0.1:8765",
            )
        };
        let found = lookup_host(wanted).await;
        let mut found = found.map_err(|error| bad(error.to_string()))?;
        let address = found
            .next()
            .ok_or_else(|| bad("there is no such address".to_owned()))?;
        if !address.ip().is_loopback() && !self.allow_remote {
            return Err(Usage::hinted(
                format!("--http {wanted}: other machines reach this address"),
                "use 127.0.0.1, or say --allow-remote if that is meant; whoever has the token can run code here",
            ));
        }
        Ok(address)
    }
}

/// A token that nobody can guess.
fn fresh_token() -> anyhow::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("there is no randomness for a token")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
