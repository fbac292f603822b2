//! The flags of everything that asks a model.

use crate::args::{PythonArgs, SessionArgs};
use crate::commands::toolbox::{ApprovalArgs, ToolboxArgs};
use crate::config::{Config, ConfigArgs};
use crate::failure::Usage;
use crate::terminal::{Console, TerminalAsker};
use cellblock::agent::{
    Agent, AgentBuilder, Format, GivenFile, Offer, Prompt, RunLimits, executor,
};
use cellblock::mcp::Connected;
use cellblock::model::{Choice, Model};
use cellblock::tools::{Approval, Asker};
use cellblock::{Locale, Preload, parse_duration};
use clap::Args;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which model.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// The model, or replay:FILE for a recording [default: $CELLBLOCK_MODEL]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The endpoint's address, up to /chat/completions [default: $CELLBLOCK_BASE_URL]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The variable that holds the key [default: CELLBLOCK_API_KEY, then the provider's own]
    #[arg(long, value_name = "NAME")]
    key_variable: Option<String>,
    /// Tokens of a request and its reply together [default: by the model's name]
    #[arg(long, value_name = "N")]
    context_tokens: Option<u64>,
    /// Tokens of one reply at most
    #[arg(long, value_name = "N")]
    reply_tokens: Option<u32>,
    /// How freely the model chooses its words, 0 to 2
    #[arg(long, value_name = "N")]
    temperature: Option<f64>,
    /// Record every exchange with the model in this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// How it goes about it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Agent")]
pub(crate) struct AgentArgs {
    /// How the model acts: tools, json, xml, markdown or next_step [default: by its abilities]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The words it begins with: minimal or deep-research
    #[arg(long, value_name = "PROMPT", default_value = "minimal")]
    prompt: Prompt,
    /// The language for the model: en or zh
    #[arg(long, value_name = "LANGUAGE", default_value = "en")]
    locale: Locale,
    /// Do not offer the tool compute
    #[arg(long)]
    no_compute: bool,
    /// At each step, ask for N replies, try each in a fork, and go on with the best
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    best_of: usize,
    /// End after so many steps
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_steps: usize,
    /// End after this time, such as 90 or 5min
    #[arg(long, value_name = "SECS", value_parser = parse_duration)]
    max_time: Option<Duration>,
    /// End after so many tokens
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// End at this cost, where prices are known
    #[arg(long, value_name = "N")]
    max_cost: Option<f64>,
}

/// Everything that an agent is made of.
#[derive(Clone, Debug, Args)]
pub(crate) struct Equipment {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    approval: ApprovalArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    python: PythonArgs,
}

impl ModelArgs {
    /// The model that the flags and the environment name.
    pub(crate) fn open(&self) -> anyhow::Result<Arc<dyn Model>> {
        let variable = |name: &str| std::env::var(name).ok();
        let choice = Choice {
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            key_variable: self.key_variable.clone(),
            record: self.record.clone(),
            ..Choice::default()
        };
        let choice = choice.or_from(variable);
        if choice.model.is_none() {
            return Err(Usage::hinted(
                "no model is chosen",
                "name one with --model or CELLBLOCK_MODEL; docs/models.md has the settings of the usual providers",
            ));
        }
        choice
            .open(variable)
            .map_err(|error| Usage::plain(error.to_string()))
    }
}

impl Equipment {
    /// An agent with this model, and the servers that tools of it come from. Nothing else is started yet, except tools that are
    /// written in Python.
    pub(crate) async fn agent(
        &self,
        model: Arc<dyn Model>,
        files: Vec<GivenFile>,
        console: &Console,
    ) -> anyhow::Result<(AgentBuilder, Connected)> {
        let config = self.config.load()?;
        let (tools, servers) = self
            .toolbox
            .gathered(&self.python, &config, console)
            .await?;
        let host = self.python.host(Preload::None)?;
        let executor = executor(host, self.session.options()?, files);
        let limits = RunLimits {
            steps: self.agent.max_steps,
            time: self.agent.max_time,
            tokens: self.agent.max_tokens,
            cost: self.agent.max_cost,
            ..RunLimits::default()
        };
        let offer = if self.agent.no_compute {
            Offer::No
        } else {
            Offer::Yes
        };
        let mut builder = Agent::builder()
            .shared_model(model)
            .executor(executor)
            .tools(tools)
            .approval(self.asking(&config, console))
            .prompt(self.agent.prompt.clone())
            .locale(self.agent.locale)
            .compute(offer)
            .best_of(self.agent.best_of)
            .limits(limits);
        if let Some(format) = self.agent.format {
            builder = builder.format(format);
        }
        if let Some(tokens) = self.model.context_tokens {
            builder = builder.context_tokens(tokens);
        }
        if let Some(tokens) = self.model.reply_tokens {
            builder = builder.max_tokens(tokens);
        }
        if let Some(temperature) = self.model.temperature {
            builder = builder.temperature(temperature);
        }
        Ok((builder, servers))
    }

    /// Whoever is asked must see the question and be able to type.
    fn asking(&self, config: &Config, console: &Console) -> Approval {
        let is_someone_there = io::stdin().is_terminal() && console.err_is_terminal();
        let asker = is_someone_there
            .then(|| Arc::new(TerminalAsker::new(console.clone())) as Arc<dyn Asker>);
        Approval::new(self.approval.policy(config), asker)
    }
}
