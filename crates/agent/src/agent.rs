//! An agent: a model, where its code runs, its tools, and how it shall go about it.

use crate::executor::{Executor, NothingExecutor, RUN_CODE};
use crate::format::Format;
use crate::nest::Nest;
use crate::prompt::Prompt;
use crate::run::answer::AnswerShape;
use crate::run::{Conversation, Observer, Outcome, RunLimits, Scorer};
use crate::template::{Template, TemplateError, TemplateTool};
use cellblock_model::Model;
use cellblock_protocol::{Locale, Seed};
use cellblock_tools::{
    AnyTool, Approval, CheckpointsTool, ComputeTool, ExecutePythonCodeTool, FileReaderTool,
    ListFilesTool, RecursivePlanTreeTodoTool, Registry, RegistryBuilder, RegistryError, Tool,
    UndoTool,
};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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

/// Why an agent cannot be made or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No model was given.
    #[error("an agent needs a model: call `model` on its builder")]
    NoModel,
    /// Nobody runs its code.
    #[error(
        "an agent that runs code needs an executor: call `executor` on its builder, or `code(CodeUse::Off)`"
    )]
    NoExecutor,
    /// A format without tools, and no code to run.
    #[error(
        "the format `{0}` acts through code alone, and code is off; use `tools` or `next_step`"
    )]
    FormatNeedsCode(Format),
    /// Its tools do not go together.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The schema of the answer is none.
    #[error("the schema of the answer cannot be used: {0}")]
    Schema(String),
    /// There is nothing to answer.
    #[error("the question is empty")]
    EmptyQuestion,
    /// A template, or what it was given, cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
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
        Conversation::new(Arc::clone(&self.setup))
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

impl AgentBuilder {
    /// Who thinks.
    pub fn model(self, model: impl Model + 'static) -> AgentBuilder {
        self.shared_model(Arc::new(model))
    }

    /// The same, of a kind that is only known at run time.
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> AgentBuilder {
        self.model = Some(model);
        self
    }

    /// Where code runs.
    pub fn executor(mut self, executor: impl Executor) -> AgentBuilder {
        self.executor = Some(Arc::new(executor));
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool + Clone) -> AgentBuilder {
        self.tools
            .push(Arc::new(move |builder| builder.tool(tool.clone())));
        self
    }

    /// Adds tools of any kind.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn AnyTool>>) -> AgentBuilder {
        for tool in tools {
            self.tools
                .push(Arc::new(move |builder| builder.any(Arc::clone(&tool))));
        }
        self
    }

    /// Offers a template as a tool, to the agent and to the other templates.
    pub fn template(mut self, template: Template) -> AgentBuilder {
        Arc::make_mut(&mut self.parts.templates).push(template);
        self
    }

    /// How the model acts; by default what suits it.
    pub fn format(mut self, format: Format) -> AgentBuilder {
        self.parts.format = Some(format);
        self
    }

    /// What the system prompt begins with.
    pub fn prompt(mut self, prompt: Prompt) -> AgentBuilder {
        self.parts.prompt = prompt;
        self
    }

    /// The language for the model.
    pub fn locale(mut self, locale: Locale) -> AgentBuilder {
        self.parts.locale = locale;
        self
    }

    /// What a run may use.
    pub fn limits(mut self, limits: RunLimits) -> AgentBuilder {
        self.parts.limits = limits;
        self
    }

    /// When a person is asked, and who that is.
    pub fn approval(mut self, approval: Approval) -> AgentBuilder {
        self.parts.approval = approval;
        self
    }

    /// Whether it may run code.
    pub fn code(mut self, code: CodeUse) -> AgentBuilder {
        self.parts.code = code;
        self
    }

    /// Whether the tool `compute` is offered.
    pub fn compute(mut self, offer: Offer) -> AgentBuilder {
        self.parts.compute = offer;
        self
    }

    /// The answer must fit this JSON schema.
    pub fn answer_schema(mut self, schema: Value) -> AgentBuilder {
        self.schema = Some(schema);
        self
    }

    /// The answer must be of this type: see [`Outcome::answer_as`].
    pub fn answers<T: JsonSchema>(self) -> AgentBuilder {
        self.answer_schema(schemars::schema_for!(T).to_value())
    }

    /// A variable that the first code sees.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<Value>) -> AgentBuilder {
        self.seed.insert(name.into(), value.into());
        self
    }

    /// How freely the model chooses its words.
    pub fn temperature(mut self, temperature: f64) -> AgentBuilder {
        self.parts.temperature = Some(temperature);
        self
    }

    /// The longest reply, in tokens.
    pub fn max_tokens(mut self, tokens: u32) -> AgentBuilder {
        self.parts.max_tokens = Some(tokens);
        self
    }

    /// The tokens of a request and its reply together, where it is not what the model says of itself.
    pub fn context_tokens(mut self, tokens: u64) -> AgentBuilder {
        self.parts.context_tokens = Some(tokens);
        self
    }

    /// Asks for so many replies at each step, tries each in a fork of the session, and goes on with the best.
    pub fn best_of(mut self, replies: usize) -> AgentBuilder {
        self.parts.best_of = replies.clamp(1, 16);
        self
    }

    /// Who decides between replies whose code succeeded.
    pub fn scorer(mut self, scorer: Scorer) -> AgentBuilder {
        self.parts.scorer = Some(scorer);
        self
    }

    /// Runs the cells that led to an answer again in a clean session, and reports what differs.
    pub fn verify(mut self, verify: bool) -> AgentBuilder {
        self.parts.verify = verify;
        self
    }

    /// The agent, when everything goes together.
    pub fn build(self) -> Result<Agent, AgentError> {
        let builder = self.clone();
        let model = self.model.ok_or(AgentError::NoModel)?;
        let parts = self.parts;
        let runs_code = parts.code == CodeUse::On;
        let executor = match self.executor {
            Some(executor) => executor,
            None if runs_code => return Err(AgentError::NoExecutor),
            None => Arc::new(NothingExecutor),
        };
        let format =
            parts
                .format
                .unwrap_or_else(|| match Format::suited_to(model.capabilities()) {
                    Format::Markdown if !runs_code => Format::NextStep,
                    format => format,
                });
        if !runs_code && !matches!(format, Format::Tools | Format::NextStep) {
            return Err(AgentError::FormatNeedsCode(format));
        }
        let nest = Nest::default();
        let mut registry = self
            .tools
            .iter()
            .fold(built_in(&parts), |registry, add| add(registry));
        if parts.depth < DEEPEST {
            for template in parts.templates.iter() {
                let tool = TemplateTool::new(template.clone(), builder.clone(), nest.clone());
                registry = registry.any(Arc::new(tool));
            }
        }
        let answer = self
            .schema
            .map(AnswerShape::new)
            .transpose()
            .map_err(AgentError::Schema)?;
        Ok(Agent {
            setup: Arc::new(Setup {
                model,
                executor,
                registry: registry.build()?,
                format,
                prompt: parts.prompt,
                locale: parts.locale,
                limits: parts.limits,
                approval: parts.approval,
                answer,
                runs_code,
                temperature: parts.temperature,
                max_tokens: parts.max_tokens,
                context_tokens: parts.context_tokens,
                best_of: parts.best_of,
                scorer: parts.scorer,
                verify: parts.verify,
                seed: self.seed,
                nest,
                builder,
            }),
        })
    }
}

/// The tools that every agent has: fewer, where it runs no code.
fn built_in(parts: &Parts) -> RegistryBuilder {
    let registry = Registry::builder();
    if parts.code == CodeUse::Off {
        return match parts.prompt {
            Prompt::DeepResearch => registry.tool(RecursivePlanTreeTodoTool),
            _ => registry,
        };
    }
    let registry = registry.tool(ExecutePythonCodeTool);
    let registry = match parts.compute {
        Offer::Yes => registry.tool(ComputeTool),
        Offer::No => registry,
    };
    registry
        .tool(RecursivePlanTreeTodoTool)
        .tool(FileReaderTool)
        .tool(ListFilesTool)
        .tool(UndoTool)
        .tool(CheckpointsTool)
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
