//! The tools that a command offers, from its flags.

use crate::args::{PythonArgs, SessionArgs};
use crate::failure::Usage;
use crate::terminal::{Console, TerminalAsker};
use cellblock::tools::{
    AnyTool, Approval, ApprovalMode, ApprovalPolicy, Asker, Opening, PythonTools, Registry,
    ToolError, Workbench,
};
use cellblock::{Preload, SessionOptions};
use clap::{Args, ValueEnum};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

/// Which tools there are.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolboxArgs {
    /// Offer the typed, documented functions of the .py files in this folder too
    #[arg(long, value_name = "DIR")]
    tools_dir: Vec<PathBuf>,
    /// Let tools from --tools-dir see this variable of the environment; code of models never does
    #[arg(long, value_name = "NAME", requires = "tools_dir")]
    tools_secret: Vec<String>,
}

/// Who must agree.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Approval")]
pub(crate) struct ApprovalArgs {
    /// Ask before: never, effects, code, tools or all [default: effects]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    pub(crate) approve: Option<Approve>,
}

/// What a person is asked for.
#[derive(Clone, Copy, Debug, ValueEnum)]
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

impl ToolboxArgs {
    /// All tools.
    pub(crate) async fn registry(&self, python: &PythonArgs) -> anyhow::Result<Registry> {
        let builder = Registry::builder().built_in();
        let builder = builder.extend(self.python_tools(python).await?);
        builder
            .build()
            .map_err(|error| Usage::plain(error.to_string()))
    }

    /// The tools that are written in Python. They are loaded now, in a session of their own.
    pub(crate) async fn python_tools(
        &self,
        python: &PythonArgs,
    ) -> anyhow::Result<Vec<Arc<dyn AnyTool>>> {
        let mut found = Vec::new();
        for folder in &self.tools_dir {
            let mut tools = PythonTools::new(folder);
            for name in &self.tools_secret {
                let value = std::env::var(name).map_err(|_| {
                    Usage::plain(format!(
                        "--tools-secret {name}: there is no such variable in the environment"
                    ))
                })?;
                tools = tools.secret(name, value);
            }
            let open = opener(python, SessionOptions::default());
            let loaded = tools.load(open).await;
            found.extend(loaded.map_err(|error| Usage::plain(error.to_string()))?);
        }
        Ok(found)
    }
}

impl ApprovalArgs {
    /// When to ask.
    pub(crate) fn policy(&self) -> ApprovalPolicy {
        ApprovalPolicy::mode(self.approve.map(Approve::mode).unwrap_or_default())
    }
}

/// A workbench whose session is made when it is first needed.
pub(crate) fn workbench(
    registry: Registry,
    policy: ApprovalPolicy,
    session: &SessionArgs,
    python: &PythonArgs,
    console: &Console,
) -> anyhow::Result<Workbench> {
    let open = opener(python, session.options()?);
    // Whoever is asked must see the question and be able to type.
    let is_someone_there = io::stdin().is_terminal() && console.err_is_terminal();
    let asker =
        is_someone_there.then(|| Arc::new(TerminalAsker::new(console.clone())) as Arc<dyn Asker>);
    let approval = Approval::new(policy, asker);
    Ok(Workbench::builder(registry)
        .sessions(open)
        .approval(approval)
        .build())
}

/// Makes sessions like this when they are needed.
fn opener(
    python: &PythonArgs,
    options: SessionOptions,
) -> impl Fn() -> Opening + Send + Sync + 'static {
    let python = python.clone();
    move || {
        let (python, options) = (python.clone(), options.clone());
        Box::pin(async move {
            let host = python.host(Preload::None)?;
            Ok::<_, ToolError>(host.open(options).await?)
        })
    }
}
