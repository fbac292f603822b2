//! An agent: a model, where its code runs, its tools, and how it shall go about it.

mod builder;
mod error;

use crate::executor::{Executor, RUN_CODE};
use crate::format::Format;
use crate::nest::Nest;
use crate::prompt::Prompt;
use crate::run::answer::AnswerShape;
use crate::run::{Conversation, Observer, Outcome, Past, RunLimits, Scorer};
use crate::template::Template;
use cellblock_model::Model;
use cellblock_protocol::{Locale, Seed};
use cellblock_tools::{Approval, Registry, RegistryBuilder};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub use error::AgentError;

/// Answers questions by code that really runs. A handle: clones are the same agent.
///
/// Each run has a session of its own, which is made when the first code runs.
#[derive(Clone)]
pub struct Agent {
    setup: Arc<Setup>,
}

/// How an agent is set up.
#[derive(Clone)]
pub struct AgentBuilder {
    parts: Parts,
    model: Option<Arc<dyn Model>>,
    executor: Option<Arc<dyn Executor>>,
    tools: Vec<Adding>,
    schema: Option<Value>,
    seed: Seed,
}

/// Adds a tool to a registry.
type Adding = Arc<dyn Fn(RegistryBuilder) -> RegistryBuilder + Send + Sync>;

/// What is taken over as it is.
#[derive(Clone)]
struct Parts {
    format: Option<Format>,
    prompt: Prompt,
    locale: Locale,
    limits: RunLimits,
    approval: Approval,
    code: CodeUse,
    compute: Offer,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    context_tokens: Option<u64>,
    best_of: usize,
    scorer: Option<Scorer>,
    verify: bool,
    templates: Arc<Vec<Template>>,
    depth: usize,
}

/// Whether an agent may run code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeUse {
    /// It may.
    #[default]
    On,
    /// It has its tools alone.
    Off,
}

/// Whether something is offered to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// It is.
    #[default]
    Yes,
    /// It is not.
    No,
}

/// Templates call each other no deeper than this.
const DEEPEST: usize = 4;

/// Everything that a run needs to know.
pub(crate) struct Setup {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) registry: Registry,
    pub(crate) format: Format,
    pub(crate) prompt: Prompt,
    pub(crate) locale: Locale,
    pub(crate) limits: RunLimits,
    pub(crate) approval: Approval,
    pub(crate) answer: Option<AnswerShape>,
    pub(crate) runs_code: bool,
    pub(crate) temperature: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) context_tokens: Option<u64>,
    pub(crate) best_of: usize,
    pub(crate) scorer: Option<Scorer>,
    pub(crate) verify: bool,
    pub(crate) seed: Seed,
    pub(crate) nest: Nest,
    builder: AgentBuilder,
}

impl Agent {
    /// An agent to set up.
    pub fn builder() -> AgentBuilder {
        AgentBuilder {
            parts: Parts {
                format: None,
                prompt: Prompt::default(),
                locale: Locale::default(),
                limits: RunLimits::default(),
                approval: Approval::default(),
                code: CodeUse::default(),
                compute: Offer::default(),
                temperature: None,
                max_tokens: None,
                context_tokens: None,
                best_of: 1,
                scorer: None,
                verify: false,
                templates: Arc::default(),
                depth: 0,
            },
            model: None,
            executor: None,
            tools: Vec::new(),
            schema: None,
            seed: Seed::new(),
        }
    }

    /// Answers a question. There is always an outcome; its status says how far it came.
    pub async fn run(&self, question: &str) -> Result<Outcome, AgentError> {
        self.run_watched(question, Arc::new(|_| {}), CancellationToken::new())
            .await
    }

    /// The same, with someone who watches and a token that ends it.
    pub async fn run_watched(
        &self,
        question: &str,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let mut conversation = self.conversation();
        let outcome = conversation.ask(question, observer, cancel).await;
        conversation.room().close().await;
        outcome
    }

    /// A conversation over one session, for several questions.
    pub fn conversation(&self) -> Conversation {
        Conversation::new(Arc::clone(&self.setup), None)
    }

    /// A conversation that goes on with a run which was cut off: see [`Conversation::go_on`]. Its session is what the executor opens,
    /// and must stand where the run left it.
    pub fn take_up(&self, past: Past) -> Conversation {
        Conversation::new(Arc::clone(&self.setup), Some(past))
    }

    /// Runs a template with arguments. They and the template's scope are the variables of its session; nothing of another run is.
    pub async fn run_template(
        &self,
        template: &Template,
        arguments: Map<String, Value>,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let (agent, question) = self.for_template(template, arguments)?;
        agent.run_watched(&question, observer, cancel).await
    }

    /// The agent that runs a template, and its question.
    pub fn for_template(
        &self,
        template: &Template,
        arguments: Map<String, Value>,
    ) -> Result<(Agent, String), AgentError> {
        let mut builder = self.setup.builder.clone();
        builder.parts.code = template.code_use();
        builder.parts.depth += 1;
        if builder.parts.code == CodeUse::Off
            && !matches!(self.setup.format, Format::Tools | Format::NextStep)
        {
            builder.parts.format = Some(Format::Tools);
        }
        builder.schema = template.answer_schema().cloned();
        let (seed, question) = template.bind(arguments, builder.parts.code)?;
        builder.seed = seed;
        Ok((builder.build()?, question))
    }

    /// The name of its model.
    pub fn model_name(&self) -> &str {
        self.setup.model.name()
    }

    /// How the model acts.
    pub fn format(&self) -> Format {
        self.setup.format
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.setup.registry
    }

    pub(crate) fn shared_setup(&self) -> Arc<Setup> {
        Arc::clone(&self.setup)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Agent")
            .field("model", &self.setup.model.name())
            .field("format", &self.setup.format)
            .field("runs_code", &self.setup.registry.get(RUN_CODE).is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AgentBuilder").finish_non_exhaustive()
    }
}
