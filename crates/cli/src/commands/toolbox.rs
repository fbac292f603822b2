//! The tools that a command offers, from its flags.

use crate::args::{PythonArgs, SessionArgs};
use crate::terminal::{Console, TerminalAsker};
use cellblock::Preload;
use cellblock::tools::{
    Approval, ApprovalMode, ApprovalPolicy, Asker, Registry, ToolError, Workbench,
};
use clap::{Args, ValueEnum};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

/// Which tools there are, and who must agree.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolboxArgs {
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
    pub(crate) fn registry(&self) -> anyhow::Result<Registry> {
        Ok(Registry::builder().built_in().build()?)
    }

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
    let options = session.options()?;
    let python = python.clone();
    let open = move || {
        let (python, options) = (python.clone(), options.clone());
        let opening = async move {
            let host = python.host(Preload::None)?;
            Ok::<_, ToolError>(host.open(options).await?)
        };
        Box::pin(opening) as cellblock::tools::Opening
    };
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
