//! Setting up an agent.

use crate::agent::{Agent, AgentConfig, AgentError, NestedRuns};
use crate::executor::{Executor, NoopExecutor};
use crate::format::Format;
use crate::prompt::Prompt;
use crate::run::{AnswerSchema, RunBudget, RunLimits, Scorer};
use crate::template::{Template, TemplateTool};
use cellblock_model::Model;
use cellblock_protocol::{Locale, Seed};
use cellblock_tools::names::{FINAL_ANSWER, RECURSIVE_PLAN_TREE_TODO};
use cellblock_tools::{
    Approval, Approver, ComputeTool, DynamicTool, ExecutePythonCodeTool, FileReaderTool,
    FinalAnswerTool, ListFilesTool, RecursivePlanTreeTodoTool, Registry, RegistryBuilder, Tool,
    UndoTool,
};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// How deep templates may call each other.
const MAX_TEMPLATE_DEPTH: usize = 4;

/// The largest number of replies that [`AgentBuilder::best_of`] asks for.
const MAX_BEST_OF: usize = 16;

/// Sets up an [`Agent`]. A model is required, and an executor unless code is disabled; everything else has a default.
#[derive(Clone, Default)]
pub struct AgentBuilder {
    settings: Settings,
    model: Option<Arc<dyn Model>>,
    executor: Option<Arc<dyn Executor>>,
    tools: Vec<AddTool>,
    answer_schema: Option<Value>,
    seed: Seed,
}

/// Adds a tool to a registry.
type AddTool = Arc<dyn Fn(RegistryBuilder) -> RegistryBuilder + Send + Sync>;

/// The settings that agents for templates share with this one.
#[derive(Clone, Default)]
struct Settings {
    format: Option<Format>,
    prompt: Prompt,
    locale: Locale,
    limits: RunLimits,
    approval: Approval,
    code_execution: CodeExecution,
    compute: ToolOffer,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    context_tokens: Option<u64>,
    best_of: Option<usize>,
    scorer: Option<Scorer>,
    verify: Verify,
    templates: Arc<Vec<Template>>,
    /// How many templates are around this agent.
    template_depth: usize,
}

/// Whether an agent may run code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeExecution {
    /// The agent runs code.
    #[default]
    Enabled,
    /// The agent runs no code. It can only call tools.
    Disabled,
}

/// Whether a tool is offered to the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolOffer {
    /// The tool is offered.
    #[default]
    Offered,
    /// The tool is not offered.
    Withheld,
}

/// Whether an answer is verified: see [`Verification`](crate::Verification).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Answers are not verified.
    #[default]
    Off,
    /// The cells that led to an answer run again in a clean session, and differences are reported. That takes as long as the cells did.
    On,
}

impl AgentBuilder {
    /// Sets the model.
    pub fn model(self, model: impl Model + 'static) -> AgentBuilder {
        self.shared_model(Arc::new(model))
    }

    /// Sets a model whose type is only known at run time.
    pub fn shared_model(mut self, model: Arc<dyn Model>) -> AgentBuilder {
        self.model = Some(model);
        self
    }

    /// Sets the executor, which runs code and tools.
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

    /// Adds tools whose types are only known at run time.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn DynamicTool>>) -> AgentBuilder {
        for tool in tools {
            self.tools
                .push(Arc::new(move |builder| builder.dynamic(Arc::clone(&tool))));
        }
        self
    }

    /// The builder for the agent of a fork: see [`Agent::for_fork`].
    pub(crate) fn for_fork(
        mut self,
        tools: impl IntoIterator<Item = Arc<dyn DynamicTool>>,
        approver: Option<Arc<dyn Approver>>,
    ) -> AgentBuilder {
        for tool in tools {
            self.tools
                .push(Arc::new(move |builder| builder.replace(Arc::clone(&tool))));
        }
        self.settings.approval = self.settings.approval.for_fork(approver);
        self
    }

    /// Offers a template as a tool, to the agent and to the other templates.
    pub fn template(mut self, template: Template) -> AgentBuilder {
        Arc::make_mut(&mut self.settings.templates).push(template);
        self
    }

    /// Sets the action format. The default depends on the model: see [`Format::for_capabilities`].
    pub fn format(mut self, format: Format) -> AgentBuilder {
        self.settings.format = Some(format);
        self
    }

    /// Sets the beginning of the system prompt.
    pub fn prompt(mut self, prompt: Prompt) -> AgentBuilder {
        self.settings.prompt = prompt;
        self
    }

    /// Sets the language of the texts for the model.
    pub fn locale(mut self, locale: Locale) -> AgentBuilder {
        self.settings.locale = locale;
        self
    }

    /// Sets the limits of a run.
    pub fn limits(mut self, limits: RunLimits) -> AgentBuilder {
        self.settings.limits = limits;
        self
    }

    /// Lowers the limits of a run to what its caller allows.
    pub fn budget(mut self, budget: RunBudget) -> AgentBuilder {
        self.settings.limits = self.settings.limits.within(budget);
        self
    }

    /// Sets when a person is asked for approval, and how.
    pub fn approval(mut self, approval: Approval) -> AgentBuilder {
        self.settings.approval = approval;
        self
    }

    /// Sets whether the agent may run code.
    pub fn code_execution(mut self, code_execution: CodeExecution) -> AgentBuilder {
        self.settings.code_execution = code_execution;
        self
    }

    /// Sets whether the tool `compute` is offered.
    pub fn compute(mut self, offer: ToolOffer) -> AgentBuilder {
        self.settings.compute = offer;
        self
    }

    /// Requires an answer that fits this JSON schema. The model is asked again if it does not: see [`RunLimits::invalid_answers`].
    pub fn answer_schema(mut self, schema: Value) -> AgentBuilder {
        self.answer_schema = Some(schema);
        self
    }

    /// Requires an answer of this type. [`Outcome::answer_as`](crate::Outcome::answer_as) returns it.
    pub fn answers<T: JsonSchema>(self) -> AgentBuilder {
        self.answer_schema(schemars::schema_for!(T).to_value())
    }

    /// Adds a variable that the first code sees.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<Value>) -> AgentBuilder {
        self.seed.insert(name.into(), value.into());
        self
    }

    /// Sets the sampling temperature.
    pub fn temperature(mut self, temperature: f64) -> AgentBuilder {
        self.settings.temperature = Some(temperature);
        self
    }

    /// Sets the longest reply, in tokens.
    pub fn max_tokens(mut self, tokens: u32) -> AgentBuilder {
        self.settings.max_tokens = Some(tokens);
        self
    }

    /// Sets the tokens of a request and its reply together. The default is what the model's capabilities say.
    pub fn context_tokens(mut self, tokens: u64) -> AgentBuilder {
        self.settings.context_tokens = Some(tokens);
        self
    }

    /// Asks for this many replies at each step, 16 at most, tries each in a fork of the session, and goes on with the best.
    ///
    /// Every reply costs its own tokens.
    pub fn best_of(mut self, replies: usize) -> AgentBuilder {
        self.settings.best_of = Some(replies.clamp(1, MAX_BEST_OF));
        self
    }

    /// Sets how [`best_of`](Self::best_of) decides between replies whose code succeeded.
    pub fn scorer(mut self, scorer: Scorer) -> AgentBuilder {
        self.settings.scorer = Some(scorer);
        self
    }

    /// Sets whether answers are verified.
    pub fn verify(mut self, verify: Verify) -> AgentBuilder {
        self.settings.verify = verify;
        self
    }

    /// Builds the agent. Fails where the settings do not go together.
    pub fn build(self) -> Result<Agent, AgentError> {
        let builder = self.clone();
        let model = self.model.ok_or(AgentError::NoModel)?;
        let settings = self.settings;
        let runs_code = settings.code_execution == CodeExecution::Enabled;
        let executor = match self.executor {
            Some(executor) => executor,
            None if runs_code => return Err(AgentError::NoExecutor),
            None => Arc::new(NoopExecutor),
        };
        let default_format = || match Format::for_capabilities(model.capabilities()) {
            Format::Markdown | Format::Json if !runs_code => Format::NextStep,
            format => format,
        };
        let format = settings.format.unwrap_or_else(default_format);
        if !runs_code && !format.calls_tools() {
            return Err(AgentError::FormatNeedsCode(format));
        }
        let nested_runs = NestedRuns::default();
        let mut registry = self
            .tools
            .iter()
            .fold(built_in_tools(&settings), |registry, add| add(registry));
        // A tool of the caller with that name is used instead.
        if runs_code && !registry.contains(FINAL_ANSWER) {
            registry = registry.tool(FinalAnswerTool);
        }
        if settings.template_depth < MAX_TEMPLATE_DEPTH {
            for template in settings.templates.iter() {
                let tool =
                    TemplateTool::new(template.clone(), builder.clone(), nested_runs.clone());
                registry = registry.dynamic(Arc::new(tool));
            }
        }
        let answer_schema = self.answer_schema.map(AnswerSchema::new).transpose();
        Ok(Agent::new(AgentConfig {
            model,
            executor,
            registry: registry.locale(settings.locale).build()?,
            format,
            prompt: settings.prompt,
            locale: settings.locale,
            limits: settings.limits,
            approval: settings.approval,
            answer_schema: answer_schema.map_err(AgentError::Schema)?,
            code_execution: settings.code_execution,
            temperature: settings.temperature,
            max_tokens: settings.max_tokens,
            context_tokens: settings.context_tokens,
            best_of: settings.best_of.unwrap_or(1),
            scorer: settings.scorer,
            verify: settings.verify,
            seed: self.seed,
            nested_runs,
            builder,
        }))
    }

    /// The agent for a template, and its question. `format` is the format of the agent that the template belongs to.
    pub(crate) fn for_template(
        mut self,
        template: &Template,
        arguments: Map<String, Value>,
        format: Format,
    ) -> Result<(Agent, String), AgentError> {
        let code_execution = template.code_execution();
        self.settings.code_execution = code_execution;
        self.settings.template_depth += 1;
        if code_execution == CodeExecution::Disabled && !format.calls_tools() {
            self.settings.format = Some(Format::Tools);
        }
        self.answer_schema = template.answer_schema().cloned();
        let (seed, question) = template.bind(arguments, code_execution)?;
        self.seed = seed;
        Ok((self.build()?, question))
    }
}

/// The tools that every agent has. An agent that runs no code has fewer.
fn built_in_tools(settings: &Settings) -> RegistryBuilder {
    // The plan tree takes a thousand tokens of every request. A prompt that does not speak of it does not need it.
    let wants_plan = match &settings.prompt {
        Prompt::DeepResearch => true,
        Prompt::Custom(text) => text.contains(RECURSIVE_PLAN_TREE_TODO),
        Prompt::Minimal => false,
    };
    let mut registry = Registry::builder();
    if wants_plan {
        registry = registry.tool(RecursivePlanTreeTodoTool);
    }
    if settings.code_execution == CodeExecution::Disabled {
        return registry;
    }
    let registry = registry.tool(ExecutePythonCodeTool);
    let registry = match settings.compute {
        ToolOffer::Offered => registry.tool(ComputeTool),
        ToolOffer::Withheld => registry,
    };
    registry
        .tool(FileReaderTool)
        .tool(ListFilesTool)
        .tool(UndoTool)
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AgentBuilder").finish_non_exhaustive()
    }
}
