//! `cellblock serve`: sessions and the agent over HTTP, for programs and browsers.

use super::mcp;
use crate::agent_run::{AgentArgs, ModelArgs};
use crate::args::{
    ApprovalArgs, ClusterArgs, EnvironmentArgs, PythonArgs, SETUP_HINT, ToolboxArgs,
};
use crate::cell_run::Signals;
use crate::config::{Config, ConfigArgs};
use crate::failure::Usage;
use crate::process;
use crate::terminal::Console;
use anyhow::Context as _;
use cellblock::agent::Agent;
use cellblock::env::Dirs;
use cellblock::mcp::with_tools_for_clients;
use cellblock::tools::{Approval, DynamicTool, Registry};
use cellblock::{Host, Isolation, NetworkRule, Preload, SessionOptions, parse_size};
use cellblock_server::{
    AgentSetup, Authentication, Demo, OpenIdOptions, Quotas, Server, ServerError, ServerOptions,
    Tls, Transport,
};
use clap::Args;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::{TcpListener, lookup_host};

/// The seed of Python's hashes on all nodes of a cluster: a session that moves finds its sets in the same order. It protects nothing:
/// code in a session can attack only itself.
const CLUSTER_HASH_SEED: u32 = 1;
/// Sessions that are made ahead of demand.
const POOL_SIZE: usize = 2;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    approval: ApprovalArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
struct ServerArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8742")]
    listen: String,
    /// The port alone: the same as --listen 127.0.0.1:PORT
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// The directory with everything that outlives the server [default: server in the state directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Show everything with recorded replies, a prepared conversation and nothing to configure
    #[arg(long, conflicts_with_all = ["data", "no_auth", "auth_header", "behind_proxy", "model"])]
    demo: bool,
    /// Write everything in the data directory to a tar archive, and end; a server may run meanwhile
    #[arg(long, value_name = "FILE", conflicts_with_all = ["restore", "demo"])]
    backup: Option<PathBuf>,
    /// Fill an empty data directory from such an archive, and end
    #[arg(long, value_name = "FILE", conflicts_with = "demo")]
    restore: Option<PathBuf>,
    /// Let everyone on this machine in, as the same administrator
    #[arg(long, conflicts_with = "auth_header")]
    no_auth: bool,
    /// A trusted proxy names the user in this header
    #[arg(long, value_name = "HEADER", requires = "behind_proxy")]
    auth_header: Option<String>,
    /// A user that the proxy names and that manages the server
    #[arg(long = "admin", value_name = "NAME", requires = "auth_header")]
    admins: Vec<String>,
    /// Users may also log in with this OpenID provider
    #[arg(long, value_name = "URL", requires_all = ["openid_client", "public_url"], conflicts_with_all = ["auth_header", "no_auth", "demo"])]
    openid_issuer: Option<String>,
    /// The name under which the provider knows this server; its secret is in CELLBLOCK_OPENID_SECRET
    #[arg(long, value_name = "ID", requires = "openid_issuer")]
    openid_client: Option<String>,
    /// The claim with a user's name, which users must not be able to choose
    #[arg(
        long,
        value_name = "CLAIM",
        default_value = "preferred_username",
        requires = "openid_issuer"
    )]
    openid_claim: String,
    /// The address under which browsers reach the server, for the OpenID provider
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// A proxy with TLS is in front; browsers then insist on TLS
    #[arg(long)]
    behind_proxy: bool,
    /// The certificate chain of the server's own TLS, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with_all = ["behind_proxy", "demo"])]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Take requests for this host name too, beside localhost
    #[arg(long = "allow-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// A limit of every user: sessions, memory, disk, cells_per_minute, seconds_per_day, cost_per_day or runs
    #[arg(long = "quota", value_name = "NAME=VALUE")]
    quotas: Vec<String>,
    /// Programs that speak the E2B API find sandboxes below this domain; TLS and its names lead here
    #[arg(long, value_name = "DOMAIN")]
    e2b_domain: Option<String>,
    /// A host that sandboxes of the E2B API reach; by default they reach none
    #[arg(long = "e2b-allow", value_name = "HOST")]
    e2b_hosts: Vec<NetworkRule>,
}

const EXAMPLES: &str = "\
The first start prints a link with which a browser makes the administrator. Without a model there are sessions and no chats.
Ctrl-C ends the requests that are under way, then the sessions; they come back from their journals with the next start.

Examples:
  cellblock serve                                    for a browser on this machine
  cellblock serve --demo                             a look around, without a key
  cellblock serve --model gpt-4o-mini                with an agent
  cellblock serve --no-auth --listen 127.0.0.1:8000  for programs on this machine, without a login
  cellblock serve --listen 0.0.0.0:8742 --behind-proxy --allow-host box.example.org
  cellblock serve --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem
  cellblock serve --openid-issuer https://id.example.org --openid-client cellblock --public-url https://box.example.org
  cellblock serve --no-auth --cluster nats://a,nats://b,nats://c
  cellblock serve --backup server.tar                while it runs; --restore brings it back
  cellblock serve --quota sessions=4 --quota memory=4GiB --quota cost_per_day=2.5";

/// Serves until a signal comes.
pub(crate) fn run(args: &ServeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let ServerArgs {
        backup, restore, ..
    } = &args.server;
    if let Some(archive) = backup {
        let data = args.server.data_directory()?;
        cellblock_server::backup(&data, archive).map_err(refused)?;
        console.say(&format!("{} holds {}", archive.display(), data.display()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(archive) = restore {
        let data = args.server.data_directory()?;
        cellblock_server::restore(archive, &data).map_err(refused)?;
        console.say(&format!("{} is restored", data.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let workers = std::thread::available_parallelism()
        .map_or(2, usize::from)
        .max(2);
    let runtime = process::runtime_on_threads(workers)?;
    let outcome = runtime.block_on(serve(args, console));
    runtime.shutdown_background();
    outcome
}

async fn serve(args: &ServeArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let config = args.config.load()?;
    let python = args.python.resolve(&config)?;
    let address = args.server.address().await?;
    let (tools, servers) = args.toolbox.gather(&python, &config, console).await?;
    let demo = args.server.demo.then(DemoServer::new).transpose()?;
    let mut options = args.server.options(demo.as_ref())?;
    options.agent = match &demo {
        Some(demo) => Some(demo.demo.agent()),
        None => args.agent(tools.clone(), &config, console).await?,
    };
    options.check_address(address).map_err(refused)?;
    let mut builder = python.host_builder(Preload::Full).pool(POOL_SIZE);
    if args.cluster.is_chosen() {
        builder = builder.hash_seed(CLUSTER_HASH_SEED);
    }
    let host = args.environment.build(builder, None, console).await?;
    if python.lacks_packages(&host) {
        console.hint(SETUP_HINT);
    }
    options.mcp = Some(args.mcp(tools, &config, &host)?);
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    options.cluster = args.cluster.options(listener.local_addr()?).await?;
    if let Some(cluster) = &mut options.cluster {
        let runtime = host.runtime(&Isolation::default()).await?;
        cluster.walls = runtime.rung().to_string();
    }
    let node = options.cluster.as_ref().map(|cluster| cluster.node.clone());
    let pools = host.clone();
    let server = Server::open(host, options).await.map_err(refused)?;
    let scheme = if args.server.tls_cert.is_some() {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{}", listener.local_addr()?);
    console.say(&format!("serving at {url}"));
    if let Some(node) = node {
        console.say(&format!("node {node} of the cluster"));
    }
    let found_by = match &args.server.e2b_domain {
        Some(domain) => format!("E2B_DOMAIN={domain}"),
        None => format!("E2B_API_URL={url} E2B_SANDBOX_URL={url}"),
    };
    console.say(&format!(
        "for programs that speak the E2B API: {found_by} and a token as E2B_API_KEY"
    ));
    if let Some(demo) = &demo {
        let path = demo.demo.prepare(&server).await.map_err(refused)?;
        console.say(&format!("look around, until Ctrl-C, at {url}{path}"));
    } else if let Some(secret) = server.first_start_secret().await.map_err(refused)? {
        console.say(&format!(
            "make the administrator, within a day, at {url}/setup#{secret}"
        ));
    }
    let stop = cellblock::agent::CancellationToken::new();
    let serving = server.serve(listener, stop.clone());
    tokio::pin!(serving);
    let status = tokio::select! {
        served = &mut serving => {
            served.map_err(refused)?;
            ExitCode::SUCCESS
        }
        signal = signals.next() => {
            console.say("stopping: requests that are under way are finished; once more ends at once");
            stop.cancel();
            tokio::select! {
                served = &mut serving => served.map_err(refused)?,
                _ = signals.next() => {}
            }
            ExitCode::from(128 + signal as u8)
        }
    };
    servers.close().await;
    pools.close_pools().await;
    Ok(status)
}

/// A demonstration, with a data directory that is removed when it ends.
struct DemoServer {
    demo: Demo,
    directory: tempfile::TempDir,
}

impl DemoServer {
    fn new() -> anyhow::Result<DemoServer> {
        let directory = tempfile::Builder::new()
            .prefix("cellblock-demo-")
            .tempdir()
            .context("there is no place for the data of the demonstration")?;
        Ok(DemoServer {
            demo: Demo::default(),
            directory,
        })
    }
}

impl ServeArgs {
    /// The agent, where a model is chosen.
    async fn agent(
        &self,
        tools: Vec<Arc<dyn DynamicTool>>,
        config: &Config,
        console: &Console,
    ) -> anyhow::Result<Option<AgentSetup>> {
        let (agent, model) = self.agent.resolve_with(&self.model, config)?;
        if !model.is_chosen() {
            return Ok(None);
        }
        let builder = agent.set_up(Agent::builder().tools(tools), &model, agent.templates()?);
        let setup = AgentSetup::new(model.open(console).await?)
            .builder(builder)
            .policy(self.approval.policy(config));
        Ok(Some(setup))
    }

    /// The MCP server behind `/mcp`: a session for each client.
    fn mcp(
        &self,
        tools: Vec<Arc<dyn DynamicTool>>,
        config: &Config,
        host: &Host,
    ) -> anyhow::Result<cellblock::mcp::Server> {
        let registry = with_tools_for_clients(Registry::builder().built_in())
            .extend(tools)
            .build()
            .map_err(|error| Usage::plain(error.to_string()))?;
        let policy = self.approval.policy(config);
        let options = SessionOptions::default();
        Ok(mcp::server(&registry, host.clone(), options, move || {
            Approval::new(policy.clone(), None)
        }))
    }
}

impl ServerArgs {
    fn options(&self, demo: Option<&DemoServer>) -> anyhow::Result<ServerOptions> {
        let data = match demo {
            Some(demo) => demo.directory.path().to_owned(),
            None => self.data_directory()?,
        };
        let mut options = ServerOptions::new(data);
        options.authentication = match &self.auth_header {
            _ if self.no_auth => Authentication::Off,
            Some(header) => Authentication::Header(header.to_ascii_lowercase()),
            None => Authentication::Users,
        };
        if self.behind_proxy {
            options.transport = Transport::BehindTls;
        }
        if let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let tls = Tls::from_files(certificates, key).map_err(refused)?;
            options.transport = Transport::Tls(tls);
        }
        options.allowed_hosts = self.allowed_hosts.clone();
        if let Some(domain) = &self.e2b_domain {
            if !self.behind_proxy && self.tls_cert.is_none() {
                return Err(Usage::hinted(
                    format!(
                        "--e2b-domain {domain} needs TLS: clients reach such names by https alone"
                    ),
                    "give --tls-cert and --tls-key with a certificate for *.DOMAIN, or --behind-proxy",
                ));
            }
            options.allowed_hosts.push(format!("*.{domain}"));
        }
        options.e2b.domain = self.e2b_domain.clone();
        options.e2b.network = self.e2b_hosts.clone();
        options.admins = self.admins.clone();
        options.openid = self.openid();
        options.quotas = quotas(&self.quotas)?;
        Ok(options)
    }

    fn openid(&self) -> Option<OpenIdOptions> {
        let (Some(issuer), Some(client), Some(public_url)) =
            (&self.openid_issuer, &self.openid_client, &self.public_url)
        else {
            return None;
        };
        let secret = std::env::var("CELLBLOCK_OPENID_SECRET").ok();
        Some(OpenIdOptions {
            issuer: issuer.clone(),
            client_id: client.clone(),
            client_secret: secret.filter(|secret| !secret.is_empty()),
            public_url: public_url.clone(),
            name_claim: self.openid_claim.clone(),
        })
    }

    fn data_directory(&self) -> anyhow::Result<PathBuf> {
        Ok(match &self.data {
            Some(data) => data.clone(),
            None => Dirs::from_process()?.state.join("server"),
        })
    }

    async fn address(&self) -> anyhow::Result<SocketAddr> {
        if let Some(port) = self.port {
            return Ok((Ipv4Addr::LOCALHOST, port).into());
        }
        let bad = |problem: String| {
            Usage::hinted(
                format!("--listen {}: {problem}", self.listen),
                "write an address and a port, such as 127.0.0.1:8742",
            )
        };
        let found = lookup_host(&self.listen).await;
        let mut found = found.map_err(|error| bad(error.to_string()))?;
        found
            .next()
            .ok_or_else(|| bad("there is no such address".to_owned()))
    }
}

/// The limits of users, with these changes.
fn quotas(changes: &[String]) -> anyhow::Result<Quotas> {
    let mut all = json!(Quotas::default());
    for change in changes {
        let bad = |problem: &str| Usage::plain(format!("--quota {change}: {problem}"));
        let (name, text) = change.split_once('=').ok_or_else(|| bad("it has no `=`"))?;
        if all.get(name).is_none() {
            return Err(bad("there is no such limit"));
        }
        let value = match name {
            "memory" | "disk" => json!(parse_size(text).map_err(|error| bad(&error.to_string()))?),
            _ => text.parse::<Value>().map_err(|_| bad("it is no number"))?,
        };
        all[name] = value;
    }
    serde_json::from_value(all).map_err(|error| Usage::plain(format!("--quota: {error}")))
}

/// The error with its hint, where it has one.
fn refused(error: ServerError) -> anyhow::Error {
    let hint = match &error {
        ServerError::Store(error) => error.hint(),
        _ => None,
    };
    match hint {
        Some(hint) => Usage::hinted(error.to_string(), hint),
        None => Usage::plain(error.to_string()),
    }
}
