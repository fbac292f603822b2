//! Setting up an agent.

use super::{Agent, AgentBuilder, AgentError, CodeUse, DEEPEST, Offer, Parts, Setup};
use crate::executor::{Executor, NothingExecutor};
use crate::format::Format;
use crate::nest::Nest;
use crate::prompt::Prompt;
use crate::run::answer::AnswerShape;
use crate::run::{RunLimits, Scorer};
use crate::template::{Template, TemplateTool};
use cellblock_model::Model;
use cellblock_protocol::Locale;
use cellblock_tools::{
    AnyTool, Approval, CheckpointsTool, ComputeTool, ExecutePythonCodeTool, FileReaderTool,
    ListFilesTool, RecursivePlanTreeTodoTool, Registry, RegistryBuilder, Tool, UndoTool,
};
use schemars::JsonSchema;
use serde_json::Value;
use std::sync::Arc;

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
