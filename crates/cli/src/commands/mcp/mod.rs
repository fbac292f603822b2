//! `cellblock mcp`: the tools for any MCP client.

mod http;

use crate::args::{EnvironmentArgs, PythonArgs, SETUP_HINT, SessionArgs};
use crate::commands::live::Signals;
use crate::commands::runtime;
use crate::commands::toolbox::{ApprovalArgs, Audience, Toolbox, ToolboxArgs};
use crate::config::ConfigArgs;
use crate::terminal::Console;
use anyhow::Context as _;
use cellblock::mcp::{Files, Server};
use cellblock::tools::{Approval, Effects, SessionFuture, ToolError, ToolRunner};
use cellblock::{Host, Preload, SessionOptions};
use clap::Args;
use http::HttpArgs;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// Sessions that are made ahead of demand.
const AHEAD: usize = 2;
/// How long sessions may take to end when we are told to.
const FAREWELL: Duration = Duration::from_secs(5);

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
    let runtime = runtime::on_threads(2)?;
    let outcome = runtime.block_on(serve(args, console));
    // A thread may still wait for a line.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: McpArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let config = args.config.load()?;
    let python = args.python.settled(&config)?;
    let options = args.session.settled(&config)?.options()?;
    let listening = args.http.listen(console).await?;
    let builder = python.host_builder(Preload::Full).pool(AHEAD);
    let host = args.environment.build(builder, None, console).await?;
    if python.lacks_packages(&host) {
        console.hint(SETUP_HINT);
    }
    let policy = args.approval.policy(&config);
    let audience = match policy.allows("install_packages", Effects::Outside) {
        true => Audience::InstallingClients,
        false => Audience::Clients,
    };
    let toolbox = args
        .toolbox
        .open(&python, &config, audience, console)
        .await?;
    let server = server(&toolbox, host, options, move || {
        // The person is at the client, which asks by its own rules; nobody is here.
        Approval::new(policy.clone(), None)
    });
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
            let served = timeout(FAREWELL, serving).await.unwrap_or(Ok(()));
            (served, ExitCode::from(128 + signal as u8))
        }
    };
    toolbox.close().await;
    served.context("clients cannot be served")?;
    Ok(status)
}

/// A server whose clients have sessions like this.
pub(crate) fn server(
    toolbox: &Toolbox,
    host: Host,
    options: SessionOptions,
    approval: impl Fn() -> Approval + Send + Sync + 'static,
) -> Server {
    let registry = toolbox.registry.clone();
    let files = match &options.workspace {
        Some(_) => Files::Given,
        None => Files::None,
    };
    Server::new(files, move || {
        let (host, options) = (host.clone(), options.clone());
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
