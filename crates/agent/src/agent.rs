//! An agent: a model, an executor for its code, tools, and the settings of its runs.

use crate::builder::{AgentBuilder, CodeExecution, Verify};
use crate::executor::Executor;
use crate::format::Format;
use crate::prompt::Prompt;
use crate::run::{AnswerSchema, Conversation, Observer, Outcome, RunEvent, RunLimits};
use crate::run::{Scorer, UnfinishedRun};
use crate::template::{Template, TemplateError};
use cellblock_model::{Model, Usage};
use cellblock_protocol::{Locale, Seed};
use cellblock_tools::names::EXECUTE_PYTHON_CODE;
use cellblock_tools::{Approval, Approver, DynamicTool, Registry, RegistryError};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Answers questions by code that really runs. A handle: clones are the same agent.
///
/// Each run has its own session, which is started when the first code runs.
///
/// ```
/// use cellblock_agent::{Agent, Format, NoopExecutor, RunStatus};
/// use cellblock_model::{Reply, ScriptedModel};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), cellblock_agent::AgentError> {
/// let agent = Agent::builder()
///     .model(ScriptedModel::new([Reply::text("```python\n6 * 7\n```"), Reply::text("42")]))
///     .executor(NoopExecutor)
///     .format(Format::Markdown)
///     .build()?;
/// let outcome = agent.run("What is 6 times 7?").await?;
/// assert_eq!(outcome.status, RunStatus::Answered);
/// assert_eq!(outcome.answer_text(), "42");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Agent {
    config: Arc<AgentConfig>,
}

/// A template with its arguments, ready to be asked.
#[derive(Clone, Debug)]
pub struct TemplateRun {
    /// The agent that runs the template: its variables, its answer's schema, its permission to run code.
    pub agent: Agent,
    /// The question, with the arguments filled in.
    pub question: String,
}

/// Why an agent cannot be built or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The builder has no model.
    #[error("an agent needs a model: call `model` on its builder")]
    NoModel,
    /// The agent runs code, and the builder has no executor.
    #[error(
        "an agent that runs code needs an executor: call `executor` on its builder, or `code_execution(CodeExecution::Disabled)`"
    )]
    NoExecutor,
    /// The format acts through code alone, and the agent runs none.
    #[error(
        "the format `{0}` acts through code alone, and code is off; use `tools` or `next_step`"
    )]
    FormatNeedsCode(Format),
    /// The tools cannot be registered together.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The schema of the answer is not a JSON schema.
    #[error("the schema of the answer cannot be used: {0}")]
    Schema(String),
    /// The question is empty.
    #[error("the question is empty")]
    EmptyQuestion,
    /// The conversation has no unfinished run.
    #[error("there is no run to go on with")]
    NothingToResume,
    /// A template, or one of its arguments, cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// Everything that a run needs to know of its agent.
pub(crate) struct AgentConfig {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) registry: Registry,
    pub(crate) format: Format,
    pub(crate) prompt: Prompt,
    pub(crate) locale: Locale,
    pub(crate) limits: RunLimits,
    pub(crate) approval: Approval,
    pub(crate) answer_schema: Option<AnswerSchema>,
    pub(crate) code_execution: CodeExecution,
    pub(crate) temperature: Option<f64>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) context_tokens: Option<u64>,
    pub(crate) best_of: usize,
    pub(crate) scorer: Option<Scorer>,
    pub(crate) verify: Verify,
    pub(crate) seed: Seed,
    pub(crate) nested_runs: NestedRuns,
    /// For agents that run templates with these settings.
    pub(crate) builder: AgentBuilder,
}

impl Agent {
    /// A builder with the default settings.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    pub(crate) fn new(config: AgentConfig) -> Agent {
        Agent {
            config: Arc::new(config),
        }
    }

    /// Answers a question. A run that fails returns an [`Outcome`] too: its status says how the run ended.
    pub async fn run(&self, question: &str) -> Result<Outcome, AgentError> {
        self.run_observed(question, Arc::new(|_| {}), CancellationToken::new())
            .await
    }

    /// Answers a question. `observer` gets every event, and `cancel` ends the run.
    pub async fn run_observed(
        &self,
        question: &str,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let mut conversation = self.conversation();
        let outcome = conversation.ask(question, observer, cancel).await;
        conversation.executor().close().await;
        outcome
    }

    /// Starts a conversation: several questions over one session.
    pub fn conversation(&self) -> Conversation {
        Conversation::new(Arc::clone(&self.config), None)
    }

    /// Opens a conversation for a run that was cut off. [`Conversation::resume`] then goes on with it.
    ///
    /// The session is what the executor opens. Its variables and files must be those that the run left.
    pub fn resume(&self, run: UnfinishedRun) -> Conversation {
        Conversation::new(Arc::clone(&self.config), Some(run))
    }

    /// The agent of a fork: the same settings, these tools in the places of those with the same names, and this approver, if there is one.
    /// [`Conversation::fork_for`] takes it. What the person of this agent always allows is allowed there, too.
    pub fn for_fork(
        &self,
        tools: impl IntoIterator<Item = Arc<dyn DynamicTool>>,
        approver: Option<Arc<dyn Approver>>,
    ) -> Result<Agent, AgentError> {
        let builder = self.config.builder.clone();
        builder.for_fork(tools, approver).build()
    }

    /// Runs a template with these arguments. The variables of its session are the arguments and the template's scope, and nothing of
    /// another run.
    pub async fn run_template(
        &self,
        template: &Template,
        arguments: Map<String, Value>,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let TemplateRun { agent, question } = self.prepare_template(template, arguments)?;
        agent.run_observed(&question, observer, cancel).await
    }

    /// Checks the arguments of a template, and prepares the agent and the question of its run.
    pub fn prepare_template(
        &self,
        template: &Template,
        arguments: Map<String, Value>,
    ) -> Result<TemplateRun, AgentError> {
        let builder = self.config.builder.clone();
        let (agent, question) = builder.for_template(template, arguments, self.config.format)?;
        Ok(TemplateRun { agent, question })
    }

    /// The name of the model.
    pub fn model_name(&self) -> &str {
        self.config.model.name()
    }

    /// The action format.
    pub fn format(&self) -> Format {
        self.config.format
    }

    /// The tools.
    pub fn registry(&self) -> &Registry {
        &self.config.registry
    }

    pub(crate) fn config(&self) -> Arc<AgentConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs_code = self.config.registry.get(EXECUTE_PYTHON_CODE).is_some();
        out.debug_struct("Agent")
            .field("model", &self.config.model.name())
            .field("format", &self.config.format)
            .field("runs_code", &runs_code)
            .finish_non_exhaustive()
    }
}

/// What a run shares with the runs of templates that it calls: its observer, and the tokens they used.
#[derive(Clone, Default)]
pub(crate) struct NestedRuns(Arc<Mutex<NestedState>>);

#[derive(Default)]
struct NestedState {
    observer: Option<Observer>,
    usage: Usage,
}

impl NestedRuns {
    /// Sets the observer of the outer run. It gets the events of nested runs too.
    pub(crate) fn set_observer(&self, observer: &Observer) {
        self.lock().observer = Some(Arc::clone(observer));
    }

    /// The observer for a nested run of the template with this name.
    pub(crate) fn observer_for(&self, name: &str) -> Observer {
        let outer = self.lock().observer.clone();
        let name = name.to_owned();
        Arc::new(move |event| {
            if let Some(outer) = &outer {
                outer(&RunEvent::Nested {
                    name: name.clone(),
                    inner: Box::new(event.clone()),
                });
            }
        })
    }

    /// Adds the tokens of a nested run.
    pub(crate) fn add_usage(&self, usage: Usage) {
        self.lock().usage += usage;
    }

    /// Takes the tokens of nested runs since the last call.
    pub(crate) fn take_usage(&self) -> Usage {
        std::mem::take(&mut self.lock().usage)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NestedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
