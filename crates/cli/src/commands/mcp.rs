//! `cellblock mcp`: the tools for any MCP client.

use crate::args::{ApprovalArgs, Audience, ToolboxArgs};
use crate::args::{EnvironmentArgs, PythonArgs, SETUP_HINT, SessionArgs, with_default};
use crate::cell_run::Signals;
use crate::config::ConfigArgs;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, HintPlace, WorkspaceKind, remedy};
use anyhow::Context as _;
use cellblock::mcp::{Files, HttpOptions, Server, nesting_level};
use cellblock::tools::{Approval, Effects, Registry, SessionFuture, ToolError, ToolRunner, names};
use cellblock::{CellResult, Host, Preload, SessionOptions, parse_duration};
use clap::Args;
use serde::Deserialize as _;
use serde_json::Value;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::{TcpListener, lookup_host};
use tokio::time::timeout;

/// Sessions that are made ahead of demand.
const POOL_SIZE: usize = 2;
/// How long sessions may take to end after a signal.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    approval: ApprovalArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

const EXAMPLES: &str = r#"Serves one client on standard input and output, or many over HTTP. Each has a session of its own, which ends with it.

Add it to a client's configuration:
  {"mcpServers": {"cellblock": {"command": "cellblock", "args": ["mcp"]}}}

Examples:
  cellblock mcp                                    for a client that starts us
  cellblock mcp --workspace ~/data                 with these files
  cellblock mcp --http 127.0.0.1:8765              for programs on this machine
  CELLBLOCK_MCP_TOKEN=... cellblock mcp --http 0.0.0.0:8765 --allow-remote"#;

/// Serves until the client goes or a signal comes.
pub(crate) fn run(args: McpArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(serve(args, console));
    // A thread may still wait for a line.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: McpArgs, console: &Console) -> anyhow::Result<ExitCode> {
    if nesting_level() > 1 {
        return Err(Usage::hinted(
            "this server was started by a server that Cellblock started: its configuration names `cellblock mcp` itself",
            "remove that server from [mcp.servers] of the configuration file, or give it another --config",
        ));
    }
    let mut signals = Signals::new()?;
    let config = args.config.load()?;
    let python = args.python.resolve(&config)?;
    let options = args.session.resolve(&config)?.options()?;
    let listening = args.http.listen(console).await?;
    let builder = python.host_builder(Preload::Full).pool(POOL_SIZE);
    let host = args.environment.build(builder, None, console).await?;
    if python.lacks_packages(&host) {
        console.hint(SETUP_HINT);
    }
    let advice: fn(&Value) -> Option<String> = match args.session.workspace_kind() {
        WorkspaceKind::Fresh => |result| advice(WorkspaceKind::Fresh, result),
        WorkspaceKind::Named => |result| advice(WorkspaceKind::Named, result),
    };
    let policy = args.approval.policy(&config);
    let audience = match policy.allows(names::INSTALL_PACKAGES, Effects::Outside) {
        true => Audience::McpClientsWithInstall,
        false => Audience::McpClients,
    };
    let toolbox = args
        .toolbox
        .open(&python, &config, audience, console)
        .await?;
    let pools = host.clone();
    let server = server(&toolbox.registry, host, options, move || {
        // The client asks its user by its own rules. No person is at this process.
        Approval::new(policy.clone(), None)
    })
    .advice(advice);
    let serving = async {
        match listening {
            Some((listener, options)) => server.serve_http(listener, options).await,
            None => server.serve_stdio().await,
        }
    };
    tokio::pin!(serving);
    let (served, status) = tokio::select! {
        served = &mut serving => (served, ExitCode::SUCCESS),
        signal = signals.next() => {
            server.stop();
            let served = timeout(SHUTDOWN_TIMEOUT, serving).await.unwrap_or(Ok(()));
            (served, ExitCode::from(128 + signal as u8))
        }
    };
    toolbox.close().await;
    pools.close_pools().await;
    served.context("clients cannot be served")?;
    Ok(status)
}

/// The flag that helps against the limit that a cell ran into.
fn advice(workspace: WorkspaceKind, result: &Value) -> Option<String> {
    result.get("error").filter(|error| error.is_object())?;
    let result = CellResult::deserialize(result).ok()?;
    let remedy = remedy(HintPlace::Mcp, workspace, &result)?;
    Some(format!("Hint: {}.", remedy.text))
}

/// A server whose clients have sessions like this.
pub(crate) fn server(
    registry: &Registry,
    host: Host,
    options: SessionOptions,
    approval: impl Fn() -> Approval + Send + Sync + 'static,
) -> Server {
    let registry = registry.clone();
    let files = match &options.workspace {
        Some(_) => Files::Given,
        None => Files::None,
    };
    Server::new(files, move |client| {
        let (host, mut options) = (host.clone(), options.clone());
        options.limits = client.bounded(options.limits);
        let open = move || -> SessionFuture {
            let (host, options) = (host.clone(), options.clone());
            Box::pin(async move { Ok::<_, ToolError>(host.open(options).await?) })
        };
        ToolRunner::builder(registry.clone())
            .open_sessions(open)
            .approval(approval())
            .build()
    })
}

/// The shortest token that is taken: one can try many in an hour.
const MIN_TOKEN_CHARS: usize = 16;

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
struct HttpArgs {
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
    /// End a client's session after this time of silence.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "http", help = idle_help())]
    idle: Option<Duration>,
}

fn idle_help() -> String {
    let minutes = HttpOptions::DEFAULT_IDLE.as_secs() / 60;
    let help = "End a client's session after this time of silence";
    with_default(help, format_args!("{minutes}min"))
}

impl HttpArgs {
    /// The listener and its options, if HTTP is asked for. Prints the address, and the token if the user gave none.
    async fn listen(
        &self,
        console: &Console,
    ) -> anyhow::Result<Option<(TcpListener, HttpOptions)>> {
        let Some(wanted) = &self.http else {
            return Ok(None);
        };
        let address = self.address(wanted).await?;
        let (token, is_given) = match std::env::var("CELLBLOCK_MCP_TOKEN") {
            Ok(token) if token.len() < MIN_TOKEN_CHARS => {
                return Err(Usage::plain(format!(
                    "CELLBLOCK_MCP_TOKEN is too short: at least {MIN_TOKEN_CHARS} characters are needed"
                )));
            }
            Ok(token) => (token, true),
            Err(_) => (fresh_token()?, false),
        };
        let mut options = HttpOptions::new(&token);
        options.origins = self.allow_origin.clone();
        options.hosts.extend(self.allow_host.iter().cloned());
        if self.allow_remote && self.allow_host.is_empty() {
            // The name under which other machines reach this one is unknown here. The token is still needed.
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
                "use 127.0.0.1, or say --allow-remote if that is meant; anyone with the token can run code here",
            ));
        }
        Ok(address)
    }
}

/// A random token.
fn fresh_token() -> anyhow::Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("there is no randomness for a token")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
