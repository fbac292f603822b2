//! The flags of everything that asks a model.

use super::labels::Labels;
use super::recording::SessionNote;
use super::restoration::RunRestoration;
use super::templates::templates_in;
use crate::args::{ApprovalArgs, ToolServers, ToolboxArgs, install_packages};
use crate::args::{EnvironmentArgs, PythonArgs, SessionArgs, with_default};
use crate::config::{Config, ConfigArgs};
use crate::failure::Usage;
use crate::terminal::{Console, TerminalApprover};
use cellblock::agent::{
    Agent, AgentBuilder, Format, GivenFile, Prompt, RunBudget, RunLimits, Template, ToolOffer,
    executor_telling,
};
use cellblock::model::{CapabilityOverrides, Model, ModelChoice};
use cellblock::tools::{Approval, Approver, DynamicTool};
use cellblock::{Host, Journaling, Locale, SessionOptions, UnlistedHosts, parse_duration};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The flags of the model.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// The model, or replay:FILE for a recording [default: $CELLBLOCK_MODEL]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The endpoint's address, up to /chat/completions [default: $CELLBLOCK_BASE_URL]
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// The variable that holds the key [default: CELLBLOCK_API_KEY, then the provider's own]
    #[arg(long, value_name = "NAME")]
    pub(super) key_variable: Option<String>,
    /// Tokens of a request and its reply together [default: by the model's name]
    #[arg(long, value_name = "N")]
    pub(super) context_tokens: Option<u64>,
    /// Tokens of one reply at most
    #[arg(long, value_name = "N")]
    pub(crate) reply_tokens: Option<u32>,
    /// How freely the model chooses its words, 0 to 2
    #[arg(long, value_name = "N")]
    pub(crate) temperature: Option<f64>,
    /// Record every exchange with the model in this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Only the configuration has these.
    #[arg(skip)]
    pub(super) key_file: Option<PathBuf>,
    #[arg(skip)]
    pub(super) capabilities: CapabilityOverrides,
}

/// The flags of the agent.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Agent")]
pub(crate) struct AgentArgs {
    /// How the model acts: tools, json, xml, markdown or next_step [default: by its abilities]
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// The words it begins with: minimal or deep-research [default: minimal]
    #[arg(long, value_name = "PROMPT")]
    pub(super) prompt: Option<Prompt>,
    /// The language for the model: en or zh [default: en]
    #[arg(long, value_name = "LANGUAGE")]
    pub(super) locale: Option<Locale>,
    /// Do not offer the tool compute
    #[arg(long)]
    pub(super) no_compute: bool,
    /// At each step, ask for N replies, try each in a fork, and go on with the best
    #[arg(long, value_name = "N")]
    pub(super) best_of: Option<usize>,
    /// End after so many steps.
    #[arg(long, value_name = "N", help = with_default("End after so many steps", RunLimits::default().steps))]
    pub(super) max_steps: Option<usize>,
    /// End after this time, such as 90 or 5min
    #[arg(long, value_name = "SECS", value_parser = parse_duration)]
    pub(crate) max_time: Option<Duration>,
    /// End after so many tokens
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<u64>,
    /// End at this cost, where prices are known
    #[arg(long, value_name = "N")]
    pub(super) max_cost: Option<f64>,
    /// Offer the templates (.md) of this folder as tools, to the model and to each other
    #[arg(long, value_name = "DIR")]
    #[serde(default)]
    templates_dir: Vec<PathBuf>,
    /// Only the configuration has this: none, standard or full.
    #[arg(skip)]
    pub(super) preload: Option<String>,
}

/// The state that a run starts with.
#[derive(Default)]
pub(crate) struct RunSetup {
    /// The files in its workspace.
    pub(crate) files: Vec<GivenFile>,
    /// Notes in the record which session the run works in.
    pub(crate) note: SessionNote,
    /// The earlier session that the run continues in.
    pub(crate) restoration: Option<RunRestoration>,
    /// The host that its sessions are opened on; `None` for one of its own.
    pub(crate) host: Option<Host>,
    /// Tools besides those that the flags and the configuration name.
    pub(crate) tools: Vec<Arc<dyn DynamicTool>>,
    /// What is asked for approvals; `None` for the person at the terminal.
    pub(crate) approver: Option<Arc<dyn Approver>>,
}

/// All flags of a command that asks a model.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
pub(crate) struct AgentRunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(super) agent: AgentArgs,
    #[command(flatten)]
    pub(super) approval: ApprovalArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(super) python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

impl AgentRunArgs {
    /// The texts that are printed around the run, in its language.
    pub(crate) fn labels(&self) -> Labels {
        Labels(self.agent.locale.unwrap_or_default())
    }
}

impl ModelArgs {
    /// Removes an address with a password, which must not get into a record.
    pub(crate) fn forget_secrets(&mut self) {
        self.base_url.take_if(|url| url.contains('@'));
    }

    /// Whether the flags or the environment name a model.
    pub(crate) fn is_chosen(&self) -> bool {
        self.choice().is_ok()
    }

    /// Which model that is, and where its exchanges are recorded.
    pub(crate) fn choice(&self) -> anyhow::Result<ModelChoice> {
        let choice = ModelChoice {
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            key_variable: self.key_variable.clone(),
            key_file: self.key_file.clone(),
            capabilities: self.capabilities.clone(),
            record: self.record.clone(),
            ..ModelChoice::default()
        };
        let choice = choice.or_from_environment(|name| std::env::var(name).ok());
        if choice.model.is_none() {
            return Err(Usage::hinted(
                "no model is chosen",
                "name one with --model, CELLBLOCK_MODEL or `name` in the section [model] of the configuration; docs/models.md has the settings of the usual providers",
            ));
        }
        Ok(choice)
    }
}

impl AgentArgs {
    /// The templates that are offered as tools.
    pub(crate) fn templates(&self) -> anyhow::Result<Vec<Template>> {
        let mut templates = Vec::new();
        for directory in &self.templates_dir {
            templates.extend(templates_in(directory)?);
        }
        Ok(templates)
    }

    /// The limits of a run that the flags name.
    pub(crate) fn budget(&self) -> RunBudget {
        RunBudget {
            steps: self.max_steps,
            time: self.max_time,
            tokens: self.max_tokens,
            cost: self.max_cost,
        }
    }

    /// Sets up an agent with these flags and templates.
    pub(crate) fn set_up(
        &self,
        builder: AgentBuilder,
        model: &ModelArgs,
        templates: Vec<Template>,
    ) -> AgentBuilder {
        let defaults = RunLimits::default();
        let limits = RunLimits {
            steps: self.max_steps.unwrap_or(defaults.steps),
            time: self.max_time,
            tokens: self.max_tokens,
            cost: self.max_cost,
            ..defaults
        };
        let offer = if self.no_compute {
            ToolOffer::Withheld
        } else {
            ToolOffer::Offered
        };
        let mut builder = builder
            .prompt(self.prompt.clone().unwrap_or_default())
            .locale(self.locale.unwrap_or_default())
            .compute(offer)
            .best_of(self.best_of.unwrap_or(1))
            .limits(limits);
        if let Some(format) = self.format {
            builder = builder.format(format);
        }
        if let Some(tokens) = model.context_tokens {
            builder = builder.context_tokens(tokens);
        }
        if let Some(tokens) = model.reply_tokens {
            builder = builder.max_tokens(tokens);
        }
        if let Some(temperature) = model.temperature {
            builder = builder.temperature(temperature);
        }
        templates.into_iter().fold(builder, AgentBuilder::template)
    }
}

impl AgentRunArgs {
    /// The configuration file that the flags name.
    pub(crate) fn configuration(&self) -> anyhow::Result<Config> {
        self.config.load()
    }

    /// Refuses options that no session or agent can be made with, before a model is looked for or a server of it started.
    pub(crate) fn check_options(&self) -> anyhow::Result<()> {
        self.session.options()?;
        self.agent.templates()?;
        Ok(())
    }

    /// An agent with this model, and the servers that tools of it come from. Nothing else is started yet, except tools that are
    /// written in Python.
    pub(crate) async fn agent(
        &self,
        model: Arc<dyn Model>,
        setup: RunSetup,
        console: &Console,
    ) -> anyhow::Result<(AgentBuilder, ToolServers)> {
        let config = self.config.load()?;
        let (tools, servers) = self.toolbox.gather(&self.python, &config, console).await?;
        let preload = self.agent.preload();
        let host = match setup.host {
            Some(host) => host,
            None => {
                self.environment
                    .host(&self.python, preload, console)
                    .await?
            }
        };
        let approval = self.approval(&config, setup.approver, console);
        let unlisted_hosts = match approval.asks_about_hosts() {
            true => UnlistedHosts::Ask,
            false => UnlistedHosts::Refuse,
        };
        let options = SessionOptions {
            journal: Journaling::On,
            unlisted_hosts,
            ..self.session.options()?
        };
        let note = setup.note.clone();
        let mut executor = executor_telling(host.clone(), options, setup.files, move |session| {
            note.write(session);
        });
        if let Some(restoration) = setup.restoration {
            let session = restoration.restore(&host, console).await?;
            setup.note.write(&session);
            executor = executor.with_first_session(session);
        }
        let builder = Agent::builder()
            .shared_model(model)
            .executor(executor)
            .tools(tools)
            .tools(setup.tools)
            .tool(install_packages(console)?)
            .approval(approval);
        let templates = self.agent.templates()?;
        let builder = self.agent.set_up(builder, &self.model, templates);
        Ok((builder, servers))
    }

    /// When to ask for approval. Asking needs a terminal: a person must see the question and be able to type.
    fn approval(
        &self,
        config: &Config,
        approver: Option<Arc<dyn Approver>>,
        console: &Console,
    ) -> Approval {
        let has_terminal = io::stdin().is_terminal() && console.err_is_terminal();
        let at_terminal = has_terminal
            .then(|| Arc::new(TerminalApprover::new(console.clone())) as Arc<dyn Approver>);
        Approval::new(self.approval.policy(config), approver.or(at_terminal))
    }

    /// Whether some tools are written in Python. They have state of their own, which no record keeps.
    pub(crate) fn has_python_tools(&self) -> bool {
        self.toolbox.has_folders()
    }

    /// Whether sessions can be opened on a host that was made without these flags.
    pub(crate) fn wants_no_other_python(&self) -> bool {
        self.python.python.is_none() && !self.python.stdlib && self.environment.env.is_none()
    }
}
