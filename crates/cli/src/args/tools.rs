//! The tools that a command offers, from its flags.

use super::tool_servers::{ToolServers, with_tools_for_clients};
use super::{EnvironmentArgs, PythonArgs, SessionArgs};
use crate::config::Config;
use crate::failure::Usage;
use crate::terminal::{Console, EnvironmentBar, TerminalApprover};
use cellblock::tools::{
    Approval, ApprovalMode, ApprovalPolicy, Approver, DynamicTool, InstallPackagesTool,
    PythonTools, Registry, SessionFuture, ToolError, ToolRunner, shell_tools,
};
use cellblock::{NetworkRule, Packages, Preload, SessionOptions};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

/// The flags that add tools.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolboxArgs {
    /// Offer the typed, documented functions of the .py files in this folder too
    #[arg(long, value_name = "DIR")]
    tools_dir: Vec<PathBuf>,
    /// Let tools from --tools-dir see this variable of the environment; code of models never does
    #[arg(long, value_name = "NAME", requires = "tools_dir")]
    tools_secret: Vec<String>,
    /// Let tools from --tools-dir reach a host; the rules are those of --allow-net, which is for the code of models
    #[arg(long, value_name = "RULE", requires = "tools_dir")]
    tools_allow_net: Vec<NetworkRule>,
    /// Offer tools for a shell, for files and for web pages too
    #[arg(long)]
    #[serde(default)]
    shell: bool,
}

/// A folder of tools written in Python, and the session that they want.
struct ToolFolder {
    tools: PythonTools,
    options: SessionOptions,
}

/// The flag that says which calls need approval.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Approval")]
pub(crate) struct ApprovalArgs {
    /// Ask before: never, effects, code, tools or all [default: effects]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    pub(crate) approve: Option<Approve>,
}

/// The calls that need approval.
#[derive(Clone, Copy, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Approve {
    Never,
    Effects,
    Code,
    Tools,
    All,
}

impl Approve {
    fn mode(self) -> ApprovalMode {
        match self {
            Approve::Never => ApprovalMode::Never,
            Approve::Effects => ApprovalMode::Effects,
            Approve::Code => ApprovalMode::Code,
            Approve::Tools => ApprovalMode::Tools,
            Approve::All => ApprovalMode::All,
        }
    }
}

/// The callers of a set of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "mcp"),
    expect(dead_code, reason = "there are no clients over MCP")
)]
pub(crate) enum Audience {
    /// A person, or an agent of this program, which has the session itself.
    Local,
    /// Clients over MCP.
    McpClients,
    /// Clients over MCP that may install packages, which the user allowed beforehand: no person can be asked during a call.
    McpClientsWithInstall,
}

/// All tools, and the other servers that some of them come from.
pub(crate) struct Toolbox {
    pub(crate) registry: Registry,
    servers: ToolServers,
}

impl Toolbox {
    /// Ends the servers that were started for it.
    pub(crate) async fn close(&self) {
        self.servers.close().await;
    }
}

impl ToolboxArgs {
    /// Whether a folder of tools is named.
    pub(crate) fn has_folders(&self) -> bool {
        !self.tools_dir.is_empty()
    }

    /// All tools. Those written in Python are loaded now, in a session of their own; other MCP servers are started now. One that does not
    /// start is named, and the rest works.
    pub(crate) async fn open(
        &self,
        python: &PythonArgs,
        config: &Config,
        audience: Audience,
        console: &Console,
    ) -> anyhow::Result<Toolbox> {
        let (tools, servers) = self.gather(python, config, console).await?;
        let mut builder = Registry::builder().built_in();
        match audience {
            Audience::McpClients => builder = with_tools_for_clients(builder),
            Audience::McpClientsWithInstall => {
                builder = with_tools_for_clients(builder).tool(install_packages(console)?);
            }
            Audience::Local => builder = builder.tool(install_packages(console)?),
        }
        let registry = builder
            .extend(tools)
            .build()
            .map_err(|error| Usage::plain(error.to_string()))?;
        Ok(Toolbox { registry, servers })
    }

    /// The tools that are not built in, and the servers that some of them come from, which must be closed in the end.
    pub(crate) async fn gather(
        &self,
        python: &PythonArgs,
        config: &Config,
        console: &Console,
    ) -> anyhow::Result<(Vec<Arc<dyn DynamicTool>>, ToolServers)> {
        let mut tools: Vec<Arc<dyn DynamicTool>> = Vec::new();
        if self.shell {
            tools.extend(shell_tools());
        }
        for ToolFolder {
            tools: folder,
            options,
        } in self.python_tools(config)?
        {
            let loaded = folder.load(opener(python, options)).await;
            tools.extend(loaded.map_err(|error| Usage::plain(error.to_string()))?);
        }
        let servers = ToolServers::connect(config, console).await?;
        tools.extend(servers.tools());
        Ok((tools, servers))
    }

    fn python_tools(&self, config: &Config) -> anyhow::Result<Vec<ToolFolder>> {
        let secret = |name: &String, source: &str| {
            std::env::var(name).map_err(|_| {
                Usage::plain(format!(
                    "{source} {name}: there is no such variable in the environment"
                ))
            })
        };
        let folder = |tools, network: &[NetworkRule]| ToolFolder {
            tools,
            options: SessionOptions {
                network: network.to_vec(),
                ..SessionOptions::default()
            },
        };
        let mut all = Vec::new();
        for path in &self.tools_dir {
            let mut tools = PythonTools::new(path);
            for name in &self.tools_secret {
                tools = tools.secret(name, secret(name, "--tools-secret")?);
            }
            all.push(folder(tools, &self.tools_allow_net));
        }
        for path in &config.tools.folders {
            let mut tools = PythonTools::new(config.path(path));
            for name in &config.tools.secrets {
                tools = tools.secret(name, secret(name, "tools.secrets in the configuration:")?);
            }
            all.push(folder(tools, &config.tools.allow_net));
        }
        Ok(all)
    }
}

/// The tool that brings packages; what it does is shown as it goes.
pub(crate) fn install_packages(console: &Console) -> anyhow::Result<InstallPackagesTool> {
    Ok(InstallPackagesTool::new(packages(console)?))
}

/// Brings packages to sessions, and shows how far that has come.
pub(crate) fn packages(console: &Console) -> anyhow::Result<Packages> {
    let bar = EnvironmentBar::lines(console);
    let packages = Packages::from_process()?;
    Ok(packages.reporting(move |progress| bar.report(&progress)))
}

impl ApprovalArgs {
    /// When to ask: what the configuration says, unless a flag says another mode.
    pub(crate) fn policy(&self, config: &Config) -> ApprovalPolicy {
        let mut policy = config.approval.clone();
        if let Some(approve) = self.approve {
            policy.mode = approve.mode();
        }
        policy
    }
}

/// A tool runner whose session is made when it is first needed.
pub(crate) fn tool_runner(
    registry: Registry,
    policy: ApprovalPolicy,
    session: &SessionArgs,
    (python, environment): (&PythonArgs, &EnvironmentArgs),
    console: &Console,
) -> anyhow::Result<ToolRunner> {
    let open = opener_in(python, environment, session.options()?, console);
    // Approval needs a terminal: a person must see the question and be able to type.
    let has_terminal = io::stdin().is_terminal() && console.err_is_terminal();
    let ask_input =
        has_terminal.then(|| Arc::new(TerminalApprover::new(console.clone())) as Arc<dyn Approver>);
    let approval = Approval::new(policy, ask_input);
    Ok(ToolRunner::builder(registry)
        .open_sessions(open)
        .approval(approval)
        .build())
}

/// Makes sessions like this, in this environment, when they are needed.
fn opener_in(
    python: &PythonArgs,
    environment: &EnvironmentArgs,
    options: SessionOptions,
    console: &Console,
) -> impl Fn() -> SessionFuture + Send + Sync + 'static {
    let (python, environment) = (python.clone(), environment.clone());
    let console = console.clone();
    move || {
        let (python, environment) = (python.clone(), environment.clone());
        let (options, console) = (options.clone(), console.clone());
        Box::pin(async move {
            let host = environment.host(&python, Preload::None, &console).await;
            let host = host.map_err(|error| ToolError::new(format!("{error:#}")))?;
            Ok::<_, ToolError>(host.open(options).await?)
        })
    }
}

/// Makes sessions like this when they are needed.
fn opener(
    python: &PythonArgs,
    options: SessionOptions,
) -> impl Fn() -> SessionFuture + Send + Sync + 'static {
    let python = python.clone();
    move || {
        let (python, options) = (python.clone(), options.clone());
        Box::pin(async move {
            let host = python.host(Preload::None)?;
            Ok::<_, ToolError>(host.open(options).await?)
        })
    }
}
